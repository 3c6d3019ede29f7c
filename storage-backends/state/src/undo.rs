//! The undo record shared by layers whose content is a function of the state alone.

use crate::{
    Account, AccountWrite, SlotWrite, StateError, StateLayer, WriteSet, layer::SlotVisit,
    wiped::Wiped,
};
use alloy_primitives::{B256, U256};
use alloy_rlp::{Decodable, RlpDecodable, RlpEncodable};
use polytrie_kv::{Read, Store};
use std::ops::ControlFlow;

/// What a block overwrote, by hashed key: enough to take it back in a layer that keeps nothing but the state
/// (flat maps, canonical tries). Layers with a history in their commitment bring a record of their own.
///
/// The slots of a wiped account are in it if they are few, else in rows of their own beside it
/// ([`WIPED_TABLE`](crate::WIPED_TABLE)), so that no record grows with the contracts that a block wipes. Such a record
/// is taken back in steps ([`UndoSteps`](crate::UndoSteps)).
#[derive(Debug, Clone, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct UndoRecord {
    pub(crate) accounts: Vec<AccountUndo>,
}

#[derive(Debug, Clone, PartialEq, Eq, RlpEncodable, RlpDecodable)]
#[rlp(trailing)]
pub(crate) struct AccountUndo {
    pub(crate) hash: B256,
    /// Nothing, or one entry.
    pub(crate) before: Vec<Account>,
    pub(crate) after: Vec<Account>,
    /// Whether the storage after the block is to be dropped as a whole before `slots` are set.
    pub(crate) wipe: bool,
    pub(crate) slots: Vec<SlotUndo>,
    /// The slots that the block wiped, if they are not in `slots`.
    pub(crate) apart: Option<Apart>,
}

/// Where the slots of a wiped account are.
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
    /// The record of the block `number`. `slots` visits, by the hash of an account that the block wiped, the slots that
    /// it had before, in the order of their hashes. If they are many, they are written to `store`, which need not be
    /// durable before the block.
    ///
    /// # Errors
    ///
    /// As `slots`, or if the store fails.
    pub fn of(
        writes: &WriteSet,
        (store, number): (&Store, u64),
        mut slots: impl FnMut(&B256, &mut SlotVisit<'_>) -> Result<(), StateError>,
    ) -> Result<Self, StateError> {
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
                // What stands there now is what was set after the wipe, if anything was.
                wipe: write.wipe && !write.slots.is_empty(),
                slots,
                apart,
            })
        };
        Ok(Self {
            accounts: writes.accounts().iter().map(undo).collect::<Result<_, StateError>>()?,
        })
    }

    /// Whether everything that the block overwrote is in the record itself.
    pub fn is_whole(&self) -> bool {
        self.accounts.iter().all(|account| account.apart.is_none())
    }

    /// The record's bytes: RLP of
    /// `[[hash, [before?], [after?], wipe, [[slot hash, before, after]…], [number, slots]?]…]`.
    pub fn encode(&self) -> Vec<u8> {
        alloy_rlp::encode(self)
    }

    /// Reads a record back.
    ///
    /// # Errors
    ///
    /// [`StateError::Corrupt`] if they are no record, or one that breaks what a [`WriteSet`] promises.
    pub fn decode(bytes: &[u8]) -> Result<Self, StateError> {
        let mut rest = bytes;
        <Self as Decodable>::decode(&mut rest)
            .ok()
            .filter(|record| rest.is_empty() && record.is_well_formed())
            .ok_or_else(|| StateError::Corrupt("an undo record does not decode".into()))
    }

    /// Whether the promises of a [`WriteSet`] hold, so that a damaged record is refused here and not found out
    /// by a layer that relies on them.
    fn is_well_formed(&self) -> bool {
        self.accounts.is_sorted_by(|a, b| a.hash < b.hash)
            && self.accounts.iter().all(|account| {
                account.before.len() <= 1
                    && account.after.len() <= 1
                    && account.slots.is_sorted_by(|a, b| a.hash < b.hash)
                    && account.slots.iter().all(|slot| slot.before != slot.after)
                    // Only an account that was there can have been wiped.
                    && account
                        .apart
                        .is_none_or(|a| a.slots > 0 && account.before.len() == 1 && account.slots.is_empty())
            })
    }

    /// The write set that takes the block back, without the slots that are beside the record.
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
                    .map(|s| SlotWrite {
                        hash: s.hash,
                        slot: None,
                        before: s.after,
                        after: s.before,
                    })
                    .collect(),
            })
            .collect();
        WriteSet { accounts, codes: Vec::new(), apart }
    }
}

/// What [`UndoRecords::writes`](crate::UndoRecords::writes) says with every slot listed, however many there are: for who needs a wiped
/// account's whole storage in memory, as a witness does.
///
/// # Errors
///
/// As there, and as [`UndoRecords::slots_apart`](crate::UndoRecords::slots_apart).
pub fn undo_writes_in_full(
    layer: &dyn StateLayer,
    record: &[u8],
    rows: &dyn Read,
) -> Result<WriteSet, StateError> {
    let records = layer.undo_records();
    let mut writes = records.writes(record, rows)?;
    for (account, number) in std::mem::take(&mut writes.apart) {
        let position = writes.accounts.binary_search_by(|write| write.hash.cmp(&account));
        let Ok(position) = position else { continue };
        let slots = &mut writes.accounts[position].slots;
        records.slots_apart(rows, (number, &account), &B256::ZERO, &mut |hash, after| {
            slots.push(SlotWrite { hash, slot: None, before: U256::ZERO, after });
            Ok(ControlFlow::Continue(()))
        })?;
        if !slots.is_sorted_by(|a, b| a.hash < b.hash) {
            return Err(StateError::Corrupt("an undo record is not in order".into()));
        }
    }
    Ok(writes)
}
