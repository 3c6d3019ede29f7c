//! Filling an empty store from sorted accounts, in one pass.

use crate::TRIE;
use alloy_primitives::B256;
use polytrie_kv::Store;
use polytrie_state::{GenesisAccount, StateError};

/// Loads the accounts; returns the state root.
pub(crate) fn load(
    store: &Store,
    accounts: &mut dyn Iterator<Item = Result<GenesisAccount<'_>, StateError>>,
) -> Result<B256, StateError> {
    TRIE.clear(store)?;
    TRIE.load(store, accounts)
}
