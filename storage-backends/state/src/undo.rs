//! The undo record shared by layers whose content is a function of the state alone.

use crate::{
    Account, AccountWrite, Result, SlotWrite, StateLayer, WriteSet, corrupt, layer::SlotVisit,
    wiped::Wiped,
};
use alloy_primitives::{B256, U256};
use alloy_rlp::{RlpDecodable, RlpEncodable};
use polytrie_kv::{Read, Store};
use std::ops::ControlFlow;

/// The values that a block overwrote, by hashed key: enough to take it back in a layer that keeps nothing but the
/// state (flat maps, canonical tries). Layers whose commitment depends on the history have their own records.
///
/// The slots of a wiped account are in the record if they are few, else in separate rows beside it
/// ([`WIPED_TABLE`](crate::WIPED_TABLE)), so that no record grows with the contracts that a block wipes. Such a
/// record is undone in steps ([`UndoSteps`](crate::UndoSteps)).
#[derive(Debug, Clone, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct UndoRecord {
    pub(crate) accounts: Vec<AccountUndo>,
}

#[derive(Debug, Clone, PartialEq, Eq, RlpEncodable, RlpDecodable)]
#[rlp(trailing)]
pub(crate) struct AccountUndo {
    pub(crate) hash: B256,
    /// The account before the block: no entry if it did not exist, else one.
    pub(crate) before: Vec<Account>,
    pub(crate) after: Vec<Account>,
    /// Whether undoing the block drops the account's whole storage before `slots` are set.
    pub(crate) wipe: bool,
    pub(crate) slots: Vec<SlotUndo>,
    /// The pieces with the slots that the block wiped, if they are not in `slots`.
    pub(crate) apart: Option<Apart>,
}

/// The reference to the pieces of a wiped account's slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub(crate) struct Apart {
    /// Number of the block that wiped them.
    pub(crate) number: u64,
    pub(crate) slots: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub(crate) struct SlotUndo {
    pub(crate) hash: B256,
    pub(crate) before: U256,
    pub(crate) after: U256,
}

impl UndoRecord {
    /// Builds the record of the block `number`. `slots` visits, by the hash of an account that the block wiped, the
    /// slots that it had before, in the order of their hashes. If they are many, they are written to `store`, which
    /// need not be durable before the block.
    ///
    /// # Errors
    ///
    /// Any error of `slots`, or an error if the store fails.
    pub fn of(
        writes: &WriteSet,
        (store, number): (&Store, u64),
        mut slots: impl FnMut(&B256, &mut SlotVisit<'_>) -> Result<()>,
    ) -> Result<Self> {
        let undo = |write: &AccountWrite| {
            let mut apart = None;
            let slots = if write.wipe {
                match Wiped::of(store, number, &write.hash, |visit| slots(&write.hash, visit))? {
                    Wiped::Listed(slots) => slots
                        .into_iter()
                        .map(|(hash, before)| SlotUndo { hash, before, after: U256::ZERO })
                        .collect(),
                    Wiped::Apart(slots) => {
                        apart = Some(Apart { number, slots });
                        Vec::new()
                    }
                }
            } else {
                write
                    .slots
                    .iter()
                    .map(|s| SlotUndo { hash: s.hash, before: s.before, after: s.after })
                    .collect()
            };
            Ok(AccountUndo {
                hash: write.hash,
                before: write.before.into_iter().collect(),
                after: write.after.into_iter().collect(),
                // The present storage consists of the slots that were set after the wipe, if any.
                wipe: write.wipe && !write.slots.is_empty(),
                slots,
                apart,
            })
        };
        Ok(Self { accounts: writes.accounts().iter().map(undo).collect::<Result<_>>()? })
    }

    /// Whether everything that the block overwrote is in the record itself.
    pub fn is_whole(&self) -> bool {
        self.accounts.iter().all(|account| account.apart.is_none())
    }

    /// Encodes the record as RLP of
    /// `[[hash, [before?], [after?], wipe, [[slot hash, before, after]…], [number, slots]?]…]`.
    pub fn encode(&self) -> Vec<u8> {
        alloy_rlp::encode(self)
    }

    /// Decodes a record.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](crate::StateError::Corrupt) if the bytes are not a record, or one that breaks the promises of a
    /// [`WriteSet`].
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        alloy_rlp::decode_exact(bytes)
            .ok()
            .filter(Self::is_well_formed)
            .ok_or_else(|| corrupt!("an undo record does not decode"))
    }

    /// Whether the promises of a [`WriteSet`] hold, so that a damaged record is refused here and not by a layer that
    /// relies on them.
    fn is_well_formed(&self) -> bool {
        self.accounts.is_sorted_by(|a, b| a.hash < b.hash)
            && self.accounts.iter().all(|account| {
                account.before.len() <= 1
                    && account.after.len() <= 1
                    && account.slots.is_sorted_by(|a, b| a.hash < b.hash)
                    && account.slots.iter().all(|slot| slot.before != slot.after)
                    // Only an account that existed can have been wiped.
                    && account
                        .apart
                        .is_none_or(|a| a.slots > 0 && account.before.len() == 1 && account.slots.is_empty())
            })
    }

    /// Returns the write set that undoes the block, without the slots in pieces beside the record.
    pub fn into_writes(self) -> WriteSet {
        let apart = self.accounts.iter().filter_map(|a| Some((a.hash, a.apart?.number))).collect();
        let accounts = self
            .accounts
            .into_iter()
            .map(|a| AccountWrite {
                hash: a.hash,
                address: None,
                before: a.after.first().copied(),
                after: a.before.first().copied(),
                wipe: a.wipe,
                slots: a
                    .slots
                    .into_iter()
                    .map(|s| SlotWrite::hashed(s.hash, s.after, s.before))
                    .collect(),
            })
            .collect();
        WriteSet { accounts, codes: Vec::new(), apart }
    }
}

/// Returns [`UndoRecords::writes`](crate::UndoRecords::writes) with every slot listed, however many there are: for
/// callers that need a wiped account's whole storage in memory, such as a witness.
///
/// # Errors
///
/// Those of [`UndoRecords::writes`](crate::UndoRecords::writes) and
/// [`UndoRecords::slots_apart`](crate::UndoRecords::slots_apart).
pub fn undo_writes_in_full(
    layer: &dyn StateLayer,
    record: &[u8],
    rows: &dyn Read,
) -> Result<WriteSet> {
    let records = layer.undo_records();
    let mut writes = records.writes(record, rows)?;
    for (account, number) in std::mem::take(&mut writes.apart) {
        let position = writes.accounts.binary_search_by(|write| write.hash.cmp(&account));
        let Ok(position) = position else { continue };
        let slots = &mut writes.accounts[position].slots;
        records.slots_apart(rows, (number, &account), &B256::ZERO, &mut |hash, after| {
            slots.push(SlotWrite::hashed(hash, U256::ZERO, after));
            Ok(ControlFlow::Continue(()))
        })?;
        if !slots.is_sorted_by(|a, b| a.hash < b.hash) {
            return Err(corrupt!("an undo record is not in order"));
        }
    }
    Ok(writes)
}
