//! Making witnesses: the nodes and codes of the state before a block with which the block can be executed, and its root
//! computed, without any other state.

use crate::{TRIE, version::Version};
use alloy_primitives::{B256, Bytes};
use polytrie_kv::Read;
use polytrie_state::{CODE_TABLE, Result, Touched, Witness, WriteSet};
use polytrie_trie::cow::StateTries;
use std::collections::BTreeSet;

/// The accounts, slots and codes that a block asked for, by hash.
#[derive(Debug, Default, Clone)]
pub(crate) struct Asked {
    pub(crate) keys: Touched,
    pub(crate) codes: BTreeSet<B256>,
    /// The writes of the block up to each state root that was asked for within it.
    pub(crate) steps: Vec<WriteSet>,
}

/// Makes the witness of a block on top of `parent`. Nodes of the first `levels` levels of the account trie are left
/// out.
pub(crate) fn make(
    parent: &Version,
    store: &dyn Read,
    asked: &Asked,
    writes: &WriteSet,
    levels: u8,
) -> Result<Witness> {
    let rows = |owner| TRIE.rows_of(store, owner);
    let nodes = StateTries::new(parent.whole(store)?, rows, parent.seq).witness(
        &asked.keys,
        &asked.steps,
        writes.accounts(),
        levels,
    )?;
    let mut codes = Vec::new();
    for hash in &asked.codes {
        codes.extend(store.get(CODE_TABLE, hash.as_slice())?.map(Bytes::from));
    }
    Ok(Witness { root: parent.root, levels, nodes, codes })
}
