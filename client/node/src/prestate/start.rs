//! The block before a range of blocks, which is mostly unknown.

use alloy_consensus::{Header, Sealed};
use alloy_primitives::{B256, U256};
use polytrie_chain::{Chain, ChainError, ChainOptions, Head, Start, StartAncestor};
use polytrie_chainspec::ChainSpec;
use polytrie_kv::Store;
use polytrie_state::StateLayer;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// The block before the first one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartialStart {
    /// Number of the block.
    pub number: u64,
    /// Hash of the block.
    pub hash: B256,
    /// Header of the block. Without it the rules that compare the first header with its parent are not
    /// checked.
    pub header: Option<Header>,
    /// Total difficulty that puts the merge at the right block.
    pub total_difficulty: U256,
    /// Hashes of earlier blocks, by number.
    pub ancestors: BTreeMap<u64, B256>,
}

impl PartialStart {
    /// Opens the chain that begins with this block, in a store with the part of its state that the
    /// blocks touch.
    ///
    /// # Errors
    ///
    /// Fails as [`Chain::open_partial`] does.
    pub fn open(
        &self,
        spec: Arc<ChainSpec>,
        store: Store,
        layer: Arc<dyn StateLayer>,
        options: ChainOptions,
    ) -> Result<Chain, ChainError> {
        let unknown = || Header { number: self.number, ..Header::default() };
        let header = self.header.clone().unwrap_or_else(unknown);
        let head = Head {
            header: Sealed::new_unchecked(header, self.hash),
            total_difficulty: self.total_difficulty,
        };
        let ancestor = |(number, hash): (&u64, &B256)| {
            (*number, StartAncestor { hash: *hash, header: None, block: None })
        };
        let start =
            Start { head, block: None, ancestors: self.ancestors.iter().map(ancestor).collect() };
        Chain::open_partial(spec, store, layer, options, &start, self.header.is_some())
    }
}
