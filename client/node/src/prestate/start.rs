//! The block that a range of blocks stands on, of which mostly little is known.

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
    /// Its number.
    pub number: u64,
    /// Its hash.
    pub hash: B256,
    /// Its header; without it the rules that compare the first header with that are not checked.
    pub header: Option<Header>,
    /// A total difficulty up to it, as far as it matters: the merge comes where it does.
    pub total_difficulty: U256,
    /// Hashes of blocks before it, by number.
    pub ancestors: BTreeMap<u64, B256>,
}

impl PartialStart {
    /// The chain that begins with it, in a store that holds the part of its state that the blocks touch.
    ///
    /// # Errors
    ///
    /// As [`Chain::open_partial`].
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
