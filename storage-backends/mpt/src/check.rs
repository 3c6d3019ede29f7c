//! `db check`: everything stored against the trie that the leaves make.

use crate::TRIE;
use alloy_primitives::B256;
use polytrie_kv::Store;
use polytrie_state::{CheckReport, StateError};

pub(crate) fn check(
    store: &Store,
    root: B256,
    progress: &mut dyn FnMut(u64),
) -> Result<CheckReport, StateError> {
    TRIE.check(&store.snapshot(), root, &mut (), progress)
}
