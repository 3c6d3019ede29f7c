//! Write sets: the finalised writes of one transaction, and of one block.

use crate::{Account, Result, Touched, corrupt};
use alloy_primitives::{Address, B256, Bytes, U256};

/// The finalised state changes of one transaction (or system call, reward, withdrawal), in no order: an
/// address occurs once.
#[derive(Debug, Default, Clone)]
pub struct TxWrites {
    /// The changed accounts, one entry each.
    pub accounts: Vec<AccountChange>,
}

/// The changes of one account by one transaction.
#[derive(Debug, Clone)]
pub struct AccountChange {
    /// The account's address.
    pub address: Address,
    /// The account afterwards; `None` if it was removed (destroyed, or empty under EIP-161), and its storage with it.
    pub account: Option<Account>,
    /// Whether the storage that it had before was removed first (destroyed, or created anew); `slots` are set after
    /// that.
    pub wiped: bool,
    /// Code that may be new to the store, with its hash.
    pub code: Option<(B256, Bytes)>,
    /// Slots and their values afterwards; zero means removed. A slot occurs once.
    pub slots: Vec<(U256, U256)>,
}

/// All state changes of one block.
///
/// Deduplicated (last writer wins), sorted by hashed key, free of no-ops. Only a [`Session`](crate::Session) and an
/// undo record make one, so a layer can rely on it.
///
/// Write sets that list the changes of an undo ([`Self::of_undo`]) are for reading only.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct WriteSet {
    pub(crate) accounts: Vec<AccountWrite>,
    pub(crate) codes: Vec<(B256, Bytes)>,
    /// In an undo: the hashes of accounts with slots that are not listed, and the number by which to find those
    /// slots.
    pub(crate) apart: Vec<(B256, u64)>,
}

/// The changes of one account by a block.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct AccountWrite {
    /// Keccak-256 of the address.
    pub hash: B256,
    /// The address; `None` in an undo, where only hashes are known.
    pub address: Option<Address>,
    /// The account before the block.
    pub before: Option<Account>,
    /// The account after the block; equal to `before` where only slots changed.
    pub after: Option<Account>,
    /// Whether all slots the account had before the block are removed before `slots` are set. Only ever true
    /// for an account that had slots.
    pub wipe: bool,
    /// Slots that changed, sorted by hash. After a wipe: every slot that is not zero.
    pub slots: Vec<SlotWrite>,
}

impl AccountWrite {
    /// Whether no slot from before stays: the account was wiped, or it was removed and its storage with it.
    pub const fn clears_slots(&self) -> bool {
        self.wipe || self.after.is_none()
    }

    /// Returns the write that does again what this one of an undo takes back. After a wipe, which names no slots to
    /// put back, `wiped` adds those that are wiped.
    ///
    /// # Errors
    ///
    /// Those of `wiped`.
    pub fn redo<E>(
        &self,
        wiped: impl FnOnce(&mut Vec<SlotWrite>) -> Result<(), E>,
    ) -> Result<Self, E> {
        let back = |slot: &SlotWrite| SlotWrite::hashed(slot.hash, slot.after, slot.before);
        let mut slots = Vec::new();
        if self.wipe {
            wiped(&mut slots)?;
        } else {
            slots.extend(self.slots.iter().map(back));
        }
        let (before, after) = (self.after, self.before);
        Ok(Self { hash: self.hash, address: None, before, after, wipe: self.wipe, slots })
    }
}

/// A slot a block changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotWrite {
    /// Keccak-256 of the slot.
    pub hash: B256,
    /// The slot; `None` in an undo, where only hashes are known.
    pub slot: Option<U256>,
    /// The value before the block; after a wipe it is not looked up and zero.
    pub before: U256,
    /// The value after the block; zero removes the slot.
    pub after: U256,
}

impl SlotWrite {
    /// Returns the write of a slot of which only the hash is known.
    pub const fn hashed(hash: B256, before: U256, after: U256) -> Self {
        Self { hash, slot: None, before, after }
    }
}

/// Whether a slot changes from `before` to `after`; after a wipe every slot that is not zero does.
pub(crate) fn is_change(wipe: bool, before: U256, after: U256) -> bool {
    if wipe { !after.is_zero() } else { after != before }
}

impl WriteSet {
    /// Sorts these writes and codes into a write set; unchanged accounts are left out.
    pub(crate) fn of(mut accounts: Vec<AccountWrite>, mut codes: Vec<(B256, Bytes)>) -> Self {
        accounts.retain(|a| a.wipe || !a.slots.is_empty() || a.before != a.after);
        accounts.sort_unstable_by_key(|account| account.hash);
        for account in &mut accounts {
            account.slots.sort_unstable_by_key(|slot| slot.hash);
        }
        codes.sort_unstable_by_key(|(hash, _)| *hash);
        codes.dedup_by_key(|(hash, _)| *hash);
        Self { accounts, codes, apart: Vec::new() }
    }

    /// Creates the changes of an undo from a layer's own undo record: see
    /// [`UndoRecords::writes`](crate::UndoRecords::writes). `apart` lists the hashes of accounts whose slots are not
    /// listed, and the number by which [`UndoRecords::slots_apart`](crate::UndoRecords::slots_apart) finds them.
    ///
    /// # Errors
    ///
    /// If accounts, or the slots of one, are not sorted by hash, each once.
    pub fn of_undo(accounts: Vec<AccountWrite>, apart: Vec<(B256, u64)>) -> Result<Self> {
        let sorted = accounts.is_sorted_by(|a, b| a.hash < b.hash)
            && apart.is_sorted_by(|a, b| a.0 < b.0)
            && accounts.iter().all(|write| write.slots.is_sorted_by(|a, b| a.hash < b.hash));
        if sorted {
            return Ok(Self { accounts, codes: Vec::new(), apart });
        }
        Err(corrupt!("an undo record is not in order"))
    }

    /// Returns the changed accounts, sorted by hash.
    pub fn accounts(&self) -> &[AccountWrite] {
        &self.accounts
    }

    /// Returns the hashes of the accounts and slots that it names.
    pub fn touched(&self) -> Touched {
        let slots = |account: &AccountWrite| account.slots.iter().map(|slot| slot.hash).collect();
        self.accounts.iter().map(|account| (account.hash, slots(account))).collect()
    }

    /// Returns the changes of the accounts with known addresses, with code that may be new to the store.
    pub fn changes(&self) -> impl Iterator<Item = AccountChange> + '_ {
        let codes = &self.codes;
        self.accounts.iter().filter_map(move |write| {
            let slots = write.slots.iter().filter_map(|slot| Some((slot.slot?, slot.after)));
            let code = |after: Account| {
                let at = codes.binary_search_by_key(&after.code_hash, |(hash, _)| *hash).ok()?;
                Some(codes[at].clone())
            };
            Some(AccountChange {
                address: write.address?,
                account: write.after,
                wiped: write.wipe,
                code: write.after.and_then(code),
                slots: slots.collect(),
            })
        })
    }

    /// Returns code that may be new to the store, with its hash.
    pub fn codes(&self) -> &[(B256, Bytes)] {
        &self.codes
    }

    /// Whether the block changed nothing.
    pub fn is_empty(&self) -> bool {
        self.accounts.is_empty() && self.codes.is_empty()
    }

    /// Returns the number by which to find the slots that an undo gives to an account beside the listed ones, if
    /// there are any: see [`UndoRecords::slots_apart`](crate::UndoRecords::slots_apart).
    pub fn apart(&self, account: &B256) -> Option<u64> {
        let at = self.apart.binary_search_by(|(hash, _)| hash.cmp(account)).ok()?;
        Some(self.apart[at].1)
    }

    /// Number of changed slots.
    pub fn slot_count(&self) -> usize {
        self.accounts.iter().map(|a| a.slots.len()).sum()
    }
}
