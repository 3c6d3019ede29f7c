//! The oracle's rows: fixed widths, one row for each account and slot.

use super::{Oracle, OracleAccount};
use alloy_primitives::{B256, U256};
use polytrie_kv::{Batch, KeyRange, Read, Table, prefix_end};
use polytrie_state::{Account, CODE_TABLE, StateError, WriteSet, each_row, write_codes};
use std::sync::Arc;

/// Account hash → nonce (8 bytes) ‖ balance (32) ‖ code hash (32).
pub(super) const ACCOUNTS: Table = Table::new(30, "OracleAccounts", 32);
/// Account hash ‖ slot hash → value (32 bytes).
pub(super) const SLOTS: Table = Table::new(31, "OracleSlots", 64);
/// `root` → the state root.
pub(super) const ROOT: Table = Table::new(32, "OracleRoot", 4);
const ROOT_KEY: &[u8] = b"root";

pub(super) fn write(batch: &mut Batch, writes: &WriteSet, root: B256) {
    for account in writes.accounts() {
        match &account.after {
            Some(after) => batch.put(ACCOUNTS, account.hash.as_slice(), &encode(after)),
            None => batch.delete(ACCOUNTS, account.hash.as_slice()),
        }
        if account.wipe {
            let to = prefix_end(account.hash.as_slice());
            batch.delete_range(SLOTS, account.hash.as_slice(), to.as_deref());
        }
        for slot in &account.slots {
            let key = [account.hash, slot.hash].concat();
            if slot.after.is_zero() {
                batch.delete(SLOTS, &key);
            } else {
                batch.put(SLOTS, &key, &slot.after.to_be_bytes::<32>());
            }
        }
    }
    write_codes(batch, writes.codes());
    batch.put(ROOT, ROOT_KEY, root.as_slice());
}

/// Writes all rows anew.
pub(super) fn write_all(batch: &mut Batch, state: &Oracle, root: B256) {
    batch.delete_range(ACCOUNTS, &[], None);
    batch.delete_range(SLOTS, &[], None);
    for (hash, entry) in &state.accounts {
        batch.put(ACCOUNTS, hash.as_slice(), &encode(&entry.account));
        for (slot, value) in entry.slots.iter() {
            batch.put(SLOTS, &[*hash, *slot].concat(), &value.to_be_bytes::<32>());
        }
    }
    for (hash, code) in &state.codes {
        batch.put(CODE_TABLE, hash.as_slice(), code);
    }
    batch.put(ROOT, ROOT_KEY, root.as_slice());
}

/// Returns the root row; `None` in an empty store.
pub(super) fn read_root(store: &dyn Read) -> Result<Option<B256>, StateError> {
    let root = store.get(ROOT, ROOT_KEY)?;
    root.map(|root| B256::try_from(&*root).map_err(|_| damage("the root row"))).transpose()
}

/// Reads the whole state.
pub(super) fn read(store: &dyn Read) -> Result<Oracle, StateError> {
    let mut state = Oracle::default();
    each_row(store, CODE_TABLE, KeyRange::ALL, |key, code| {
        let hash = B256::try_from(key).map_err(|_| damage("the key of a code"))?;
        state.codes.insert(hash, code.to_vec().into());
        Ok(())
    })?;
    each_row(store, ACCOUNTS, KeyRange::ALL, |key, value| {
        let hash = B256::try_from(key).map_err(|_| damage("the key of an account"))?;
        let account = decode(value).ok_or_else(|| damage("the row of an account"))?;
        state.accounts.insert(hash, OracleAccount { account, slots: Arc::default() });
        Ok(())
    })?;
    each_row(store, SLOTS, KeyRange::ALL, |key, value| {
        let (hash, slot) = key.split_at_checked(32).ok_or_else(|| damage("the key of a slot"))?;
        let slot = B256::try_from(slot).map_err(|_| damage("the key of a slot"))?;
        let value = <[u8; 32]>::try_from(value).map_err(|_| damage("the row of a slot"))?;
        let account = state.accounts.get_mut(hash);
        let entry = account.ok_or_else(|| damage("a slot without an account"))?;
        Arc::make_mut(&mut entry.slots).insert(slot, U256::from_be_bytes(value));
        Ok(())
    })?;
    Ok(state)
}

fn damage(what: &str) -> StateError {
    StateError::Corrupt(format!("{what} is not as it was written"))
}

fn encode(account: &Account) -> Vec<u8> {
    let mut out = account.nonce.to_be_bytes().to_vec();
    out.extend_from_slice(&account.balance.to_be_bytes::<32>());
    out.extend_from_slice(account.code_hash.as_slice());
    out
}

fn decode(bytes: &[u8]) -> Option<Account> {
    let (nonce, rest) = bytes.split_first_chunk::<8>()?;
    let (balance, rest) = rest.split_first_chunk::<32>()?;
    Some(Account {
        nonce: u64::from_be_bytes(*nonce),
        balance: U256::from_be_bytes(*balance),
        code_hash: B256::try_from(rest).ok()?,
    })
}
