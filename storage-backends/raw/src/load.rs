//! Filling an empty layer from sorted accounts.

use crate::flat::{ACCOUNTS, FLAT, SLOTS};
use alloy_primitives::B256;
use polytrie_kv::{Batch, Store};
use polytrie_state::{GenesisAccount, StateError, write_codes};

/// Bytes of rows written at once.
const CHUNK: usize = 4 << 20;

/// Streams the accounts into the store. The first write empties the tables, so that a load that was stopped
/// in the middle can be started again.
pub(crate) fn load(
    store: &Store,
    accounts: &mut dyn Iterator<Item = Result<GenesisAccount, StateError>>,
) -> Result<(), StateError> {
    let mut batch = Batch::new();
    batch.delete_range(ACCOUNTS, &[], None);
    batch.delete_range(SLOTS, &[], None);
    let mut last = None;
    let mut value = Vec::new();
    for account in accounts {
        let GenesisAccount { hash, account, code, slots } = account?;
        in_order(&mut last, hash)?;
        FLAT.put_account(&mut batch, &hash, &account, &mut value);
        if let Some(code) = code {
            write_codes(&mut batch, &[(account.code_hash, code)]);
        }
        let mut last_slot = None;
        for (slot, number) in slots {
            in_order(&mut last_slot, slot)?;
            if number.is_zero() {
                return Err(StateError::Protocol("a slot to load must not be zero"));
            }
            FLAT.put_slot(&mut batch, (&hash, &slot), &number, &mut value);
            if batch.byte_len() >= CHUNK {
                store.engine_write(&std::mem::take(&mut batch))?;
            }
        }
        if batch.byte_len() >= CHUNK {
            store.engine_write(&std::mem::take(&mut batch))?;
        }
    }
    Ok(store.engine_write(&batch)?)
}

fn in_order(last: &mut Option<B256>, hash: B256) -> Result<(), StateError> {
    if last.replace(hash).is_some_and(|last| last >= hash) {
        return Err(StateError::Protocol(
            "accounts and slots to load must be sorted by hash, each of them once",
        ));
    }
    Ok(())
}
