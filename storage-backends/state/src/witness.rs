//! Witnesses: the part of the state before a block that the block needs.

use alloy_primitives::{B256, Bytes};
use alloy_rlp::{RlpDecodable, RlpEncodable};
use std::collections::{BTreeMap, BTreeSet};

/// Accounts, and the slots of each, by hash.
pub type Touched = BTreeMap<B256, BTreeSet<B256>>;

/// The part of the state before a block that the block needs, so that a verifier without a state can execute it and
/// compute the root after it. Every node and code is found by its hash: only the root has to be trusted.
#[derive(Debug, Clone, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Witness {
    /// The state root before the block.
    pub root: B256,
    /// Number of levels of the account trie that are left out, because the receiver holds them; 0 if none are.
    pub levels: u8,
    /// Nodes of the account trie and of storage tries as RLP, each once, sorted by hash. Nodes that their parent embeds
    /// are not among them.
    pub nodes: Vec<Bytes>,
    /// The code that was executed or read, each once, sorted by hash.
    pub codes: Vec<Bytes>,
}

impl Witness {
    /// Bytes of nodes and code.
    pub fn byte_len(&self) -> usize {
        self.nodes.iter().chain(&self.codes).map(|bytes| bytes.len()).sum()
    }
}
