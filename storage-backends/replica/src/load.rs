//! Filling an empty store from sorted accounts, in one pass.

use crate::{
    flat::FLAT,
    journal::Flat,
    side::{ACCOUNT_TRIE, STORAGE_TRIE},
};
use alloy_primitives::B256;
use polytrie_kv::{Batch, Store};
use polytrie_state::{CODE_TABLE, GenesisAccount, StateError, in_order_of_hash, write_codes};
use polytrie_trie::{AccountLeaf, Rows, SlotValue, SortedBuilder};

/// Rows are written in portions of this many bytes, so that a genesis of any size takes bounded memory.
const PORTION: usize = 32 << 20;

/// The flat record of an account goes before its slots. Its leaf holds the root of its storage, so it is made when they
/// are through; both tries are built side by side, and each keeps only the branches on the way to where it is.
pub(crate) fn load(
    store: &Store,
    flat: &Flat,
    accounts: &mut dyn Iterator<Item = Result<GenesisAccount<'_>, StateError>>,
) -> Result<B256, StateError> {
    let mut batch = Batch::new();
    // An earlier attempt may have been stopped in the middle.
    for table in [ACCOUNT_TRIE, STORAGE_TRIE, CODE_TABLE] {
        batch.delete_range(table, &[], None);
    }
    store.engine_write(&batch)?;
    flat.clear()?;
    let mut builder = SortedBuilder::new(Rows::new(Batch::new(), ACCOUNT_TRIE));
    let mut others = Batch::new();
    let mut flat_rows = Batch::new();
    let mut value = Vec::new();
    for account in in_order_of_hash(accounts) {
        let GenesisAccount { hash, account, code, slots } = account?;
        FLAT.put_account(&mut flat_rows, &hash, &account, &mut value);
        let mut storage = SortedBuilder::new(Rows::owned(others, STORAGE_TRIE, hash));
        for slot in slots {
            let (slot, number) = slot?;
            storage.add(slot, SlotValue(number));
            FLAT.put_slot(&mut flat_rows, (&hash, &slot), &number, &mut value);
            let rows = storage.rows().inner();
            if rows.byte_len() + flat_rows.byte_len() >= PORTION {
                write(store, flat, std::mem::take(rows), std::mem::take(&mut flat_rows))?;
            }
        }
        let (storage_root, rows) = storage.finish();
        others = rows.into_inner();
        if let Some(code) = code {
            write_codes(&mut others, &[(account.code_hash, code)]);
        }
        let leaf = AccountLeaf {
            nonce: account.nonce,
            balance: account.balance,
            storage_root,
            code_hash: account.code_hash,
        };
        builder.add(hash, leaf);
        let trie_rows = builder.rows().inner();
        if trie_rows.byte_len() + others.byte_len() + flat_rows.byte_len() >= PORTION {
            let mut portion = std::mem::take(trie_rows);
            portion.append(&std::mem::take(&mut others));
            write(store, flat, portion, std::mem::take(&mut flat_rows))?;
        }
    }
    let (root, rows): (B256, Rows<Batch>) = SortedBuilder::<AccountLeaf, _>::finish(builder);
    let mut portion = rows.into_inner();
    portion.append(&others);
    write(store, flat, portion, flat_rows)?;
    flat.loaded()?;
    Ok(root)
}

fn write(store: &Store, flat: &Flat, mut rows: Batch, flat_rows: Batch) -> Result<(), StateError> {
    if flat.is_apart() {
        flat.store().engine_write(&flat_rows)?;
    } else {
        rows.append(&flat_rows);
    }
    Ok(store.engine_write(&rows)?)
}
