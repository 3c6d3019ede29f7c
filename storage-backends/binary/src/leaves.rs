//! The conversion of a write set to changes of leaves.

use crate::{
    FLAT, Stem,
    account::{LeafChange, balance_rest, basic_data, leaves_of, rest_change},
    code::{chunk_count, chunks},
    key::{AccountKeys, BALANCE_REST, BASIC_DATA, CODE_HASH, TreeKey},
    update::StemChanges,
};
use alloy_primitives::{
    Address, B256, Bytes, U256,
    map::{B256Map, HashMap},
};
use polytrie_kv::Read;
use polytrie_state::{
    Account, AccountWrite, Result, StateError, WriteSet, corrupt, hash_address, hash_slot,
    read_address, read_code, read_slot,
};
use std::ops::ControlFlow;

/// Changes of leaves, by stem, in the order in which they apply.
#[derive(Debug, Default)]
pub(crate) struct LeafChanges {
    stems: HashMap<Stem, Vec<(u8, LeafChange)>>,
    count: usize,
}

impl LeafChanges {
    /// Returns the changes that a write set makes. `rows` are those of the state before it, which list the slots of a
    /// wiped account.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged.
    pub(crate) fn of(rows: &dyn Read, writes: &WriteSet) -> Result<Self> {
        let new: B256Map<&Bytes> =
            writes.codes().iter().map(|(hash, code)| (*hash, code)).collect();
        let code_of = |hash: &B256| match new.get(hash) {
            Some(code) => Ok((*code).clone()),
            None => stored_code(rows, hash),
        };
        let mut changes = Self::default();
        for write in writes.accounts() {
            let address = match write.address {
                Some(address) => address,
                None => address_of(rows, &write.hash)?,
            };
            let keys = AccountKeys::new(address);
            changes.account(&keys, write, code_of)?;
            changes.slots(&keys, write, rows)?;
        }
        Ok(changes)
    }

    fn account(
        &mut self,
        keys: &AccountKeys,
        write: &AccountWrite,
        code_of: impl Fn(&B256) -> Result<Bytes>,
    ) -> Result<()> {
        let (before, after) = (write.before, write.after);
        let code_hash = |account: Option<Account>| account.map(|account| account.code_hash);
        if before == after {
            return Ok(());
        }
        if code_hash(before) != code_hash(after)
            && let Some(before) = before.filter(Account::has_code)
        {
            let count = chunk_count(code_of(&before.code_hash)?.len());
            keys.chunks(count).for_each(|key| self.push(key, LeafChange::Remove));
        }
        let Some(account) = after else {
            for sub in [BASIC_DATA, CODE_HASH, BALANCE_REST] {
                self.push(keys.in_header(sub), LeafChange::Remove);
            }
            return Ok(());
        };
        if code_hash(before) != code_hash(after) {
            let code = match account.has_code() {
                true => code_of(&account.code_hash)?,
                false => Bytes::new(),
            };
            return self.set_account(keys, &account, &code);
        }
        self.push(keys.in_header(BASIC_DATA), LeafChange::KeepCodeSize(basic_data(&account, 0)));
        let rest = |account: Option<Account>| account.map(|account| balance_rest(&account.balance));
        if rest(before) != rest(after) {
            self.push(keys.in_header(BALANCE_REST), rest_change(&account.balance));
        }
        Ok(())
    }

    /// Adds an account that is new or has new code, with its code.
    ///
    /// # Errors
    ///
    /// [`StateError::Unsupported`] if the code is too long for the leaf with its size.
    pub(crate) fn set_account(
        &mut self,
        keys: &AccountKeys,
        account: &Account,
        code: &[u8],
    ) -> Result<()> {
        let size = u32::try_from(code.len()).map_err(|_| StateError::Unsupported {
            layer: crate::layer::NAME,
            reason: format!("takes code of at most 4 GiB, found {} bytes", code.len()),
        })?;
        for (sub, change) in leaves_of(account, size) {
            self.push(keys.in_header(sub), change);
        }
        for (key, chunk) in keys.chunks(chunk_count(code.len())).zip(chunks(code)) {
            self.push(key, LeafChange::Set(chunk));
        }
        Ok(())
    }

    fn slots(&mut self, keys: &AccountKeys, write: &AccountWrite, rows: &dyn Read) -> Result<()> {
        if write.wipe {
            FLAT.visit_slots(rows, &write.hash, &B256::ZERO, |hash, _| {
                self.push(keys.slot(&slot_of(rows, &hash)?), LeafChange::Remove);
                Ok(ControlFlow::Continue(()))
            })?;
        }
        for write in &write.slots {
            let slot = match write.slot {
                Some(slot) => slot,
                None => slot_of(rows, &write.hash)?,
            };
            self.set_slot(keys, &slot, &write.after);
        }
        Ok(())
    }

    /// Adds a slot and its value; zero removes its leaf.
    pub(crate) fn set_slot(&mut self, keys: &AccountKeys, slot: &U256, value: &U256) {
        let change = match value.is_zero() {
            true => LeafChange::Remove,
            false => LeafChange::Set(B256::from(*value)),
        };
        self.push(keys.slot(slot), change);
    }

    fn push(&mut self, key: TreeKey, change: LeafChange) {
        self.stems.entry(key.stem).or_default().push((key.sub, change));
        self.count += 1;
    }

    /// Returns the number of changes.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// Returns the changes sorted by stem.
    pub(crate) fn into_sorted(self) -> StemChanges {
        let mut stems: StemChanges = self.stems.into_iter().collect();
        stems.sort_unstable_by_key(|(stem, _)| *stem);
        stems
    }
}

/// Reads the code of an existing account.
pub(crate) fn stored_code(rows: &dyn Read, hash: &B256) -> Result<Bytes> {
    let missing = || corrupt!("the code {hash} is not there");
    read_code(rows, hash)?.ok_or_else(missing)
}

/// Reads the address of an existing account.
pub(crate) fn address_of(rows: &dyn Read, hash: &B256) -> Result<Address> {
    let address = read_address(rows, hash)?.ok_or_else(|| missing(hash))?;
    let found = hash_address(&address);
    if found == *hash { Ok(address) } else { Err(wrong(hash, &found)) }
}

/// Reads the slot with this hash, which must exist.
pub(crate) fn slot_of(rows: &dyn Read, hash: &B256) -> Result<U256> {
    let slot = read_slot(rows, hash)?.ok_or_else(|| missing(hash))?;
    let found = hash_slot(&slot);
    if found == *hash { Ok(slot) } else { Err(wrong(hash, &found)) }
}

fn missing(hash: &B256) -> StateError {
    corrupt!("the preimage of {hash} is not there, and the state needs it")
}

fn wrong(hash: &B256, found: &B256) -> StateError {
    corrupt!("what is kept as the preimage of {hash} has the hash {found}")
}
