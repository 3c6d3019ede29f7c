//! Filling an empty store from sorted accounts, in one pass.

use crate::{ACCOUNT_TRIE, STORAGE_TRIE, tries::leaf_of};
use alloy_primitives::B256;
use polytrie_kv::{Batch, Store};
use polytrie_state::{CODE_TABLE, GenesisAccount, StateError, in_order_of_hash, write_codes};
use polytrie_trie::{AccountLeaf, Rows, SlotValue, SortedBuilder};

/// Rows are written in portions of this many bytes, so that a genesis of any size takes bounded memory.
const PORTION: usize = 32 << 20;

/// The account's leaf holds the root of its storage, so it is made when its slots are through; both tries are built side
/// by side, and each keeps only the branches on the way to where it is.
pub(crate) fn load(
    store: &Store,
    accounts: &mut dyn Iterator<Item = Result<GenesisAccount<'_>, StateError>>,
) -> Result<B256, StateError> {
    let mut batch = Batch::new();
    // An earlier attempt may have been stopped in the middle.
    for table in [ACCOUNT_TRIE, STORAGE_TRIE, CODE_TABLE] {
        batch.delete_range(table, &[], None);
    }
    store.engine_write(&batch)?;
    let mut builder = SortedBuilder::new(Rows::new(Batch::new(), ACCOUNT_TRIE));
    let mut others = Batch::new();
    for account in in_order_of_hash(accounts) {
        let GenesisAccount { hash, account, code, slots } = account?;
        let mut storage = SortedBuilder::new(Rows::owned(others, STORAGE_TRIE, hash));
        for slot in slots {
            let (slot, value) = slot?;
            storage.add(slot, SlotValue(value));
            if storage.rows().inner().byte_len() >= PORTION {
                store.engine_write(&std::mem::take(storage.rows().inner()))?;
            }
        }
        let (storage_root, rows) = storage.finish();
        others = rows.into_inner();
        if let Some(code) = code {
            write_codes(&mut others, &[(account.code_hash, code)]);
        }
        builder.add(hash, leaf_of(&account, storage_root));
        if builder.rows().inner().byte_len() + others.byte_len() >= PORTION {
            let mut portion = std::mem::take(builder.rows().inner());
            portion.append(&others);
            others = Batch::new();
            store.engine_write(&portion)?;
        }
    }
    let (root, rows): (B256, Rows<Batch>) = SortedBuilder::<AccountLeaf, _>::finish(builder);
    let mut portion = rows.into_inner();
    portion.append(&others);
    store.engine_write(&portion)?;
    Ok(root)
}
