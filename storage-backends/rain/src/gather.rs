//! Reading many paths at a time: a store on other machines takes as long for one row as for many.

use crate::{TRIE, touches::Noted, version::Part};
use alloy_primitives::B256;
use polytrie_state::{Result, Touched};
use polytrie_trie::{
    SlotValue,
    cow::{CowTrie, Way},
};

/// Reads the nodes on the paths to accounts and slots into memory, touched by the change `now`. `part_of` returns the
/// shard of an account.
pub(crate) fn gather<'a>(
    part_of: impl Fn(&B256) -> &'a Part,
    store: &Noted<'_>,
    touched: &Touched,
    now: u64,
) -> Result<()> {
    let accounts = touched.keys().map(|key| Way { owner: None, trie: part_of(key), key: *key });
    TRIE.load_paths(store, accounts, |owner| store.rows_of(owner), now)?;
    let mut slots = Vec::new();
    for (account, wanted) in touched.iter().filter(|(_, wanted)| !wanted.is_empty()) {
        // The path to the account is in memory by now.
        let entry = part_of(account).get(account, &store.rows_of(None), now)?;
        let Some(entry) = entry else { continue };
        let trie: &'a CowTrie<SlotValue> = &entry.storage;
        slots.extend(wanted.iter().map(|key| Way { owner: Some(*account), trie, key: *key }));
    }
    Ok(TRIE.load_paths(store, slots, |owner| store.rows_of(owner), now)?)
}
