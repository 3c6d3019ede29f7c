//! Filling the flat rows from sorted accounts.

use crate::{ACCOUNTS, FLAT, SLOTS};
use polytrie_kv::{Batch, Store};
use polytrie_state::{GenesisAccount, StateError, Trail, in_order_of_hash, write_codes};

/// Bytes of rows written at once.
const CHUNK: usize = 4 << 20;

/// Streams the accounts into the store. The first write empties the tables and ends the trail, so that a load that was
/// stopped in the middle can be started again, and nothing of the trie is taken for its state.
pub(crate) fn load(
    store: &Store,
    accounts: &mut dyn Iterator<Item = Result<GenesisAccount<'_>, StateError>>,
) -> Result<(), StateError> {
    let mut batch = Batch::new();
    batch.delete_range(ACCOUNTS, &[], None);
    batch.delete_range(SLOTS, &[], None);
    Trail::remove(&mut batch);
    let mut value = Vec::new();
    for account in in_order_of_hash(accounts) {
        let GenesisAccount { hash, account, code, slots } = account?;
        FLAT.put_account(&mut batch, &hash, &account, &mut value);
        if let Some(code) = code {
            write_codes(&mut batch, &[(account.code_hash, code)]);
        }
        for slot in slots {
            let (slot, number) = slot?;
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
