//! The undo record shared by layers whose content is a function of the state alone.

use crate::{Account, AccountWrite, SlotWrite, StateError, WriteSet};
use alloy_primitives::{B256, U256};
use alloy_rlp::{Decodable, RlpDecodable, RlpEncodable};

/// What a block overwrote, by hashed key: enough to take it back in a layer that keeps nothing but the state
/// (flat maps, canonical tries). Layers with a history in their commitment bring a record of their own.
#[derive(Debug, Clone, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct UndoRecord {
    accounts: Vec<AccountUndo>,
}

#[derive(Debug, Clone, PartialEq, Eq, RlpEncodable, RlpDecodable)]
struct AccountUndo {
    hash: B256,
    /// Nothing, or one entry.
    before: Vec<Account>,
    after: Vec<Account>,
    /// Whether the storage after the block is to be dropped as a whole before `slots` are set.
    wipe: bool,
    slots: Vec<SlotUndo>,
}

#[derive(Debug, Clone, PartialEq, Eq, RlpEncodable, RlpDecodable)]
struct SlotUndo {
    hash: B256,
    before: U256,
    after: U256,
}

impl UndoRecord {
    /// The record of a block. `wiped` is asked, by hash, for the slots that each account had before the block that it
    /// wiped, in the order of their hashes.
    ///
    /// # Errors
    ///
    /// As `wiped`.
    pub fn of(
        writes: &WriteSet,
        mut wiped: impl FnMut(&B256) -> Result<Vec<(B256, U256)>, StateError>,
    ) -> Result<Self, StateError> {
        let undo = |write: &AccountWrite| {
            let slots = if write.wipe {
                wiped(&write.hash)?
                    .into_iter()
                    .map(|(hash, before)| SlotUndo { hash, before, after: U256::ZERO })
                    .collect()
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
            })
        };
        Ok(Self {
            accounts: writes.accounts().iter().map(undo).collect::<Result<_, StateError>>()?,
        })
    }

    /// The record's bytes: RLP of `[[hash, [before?], [after?], wipe, [[slot hash, before, after]…]]…]`.
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
            })
    }

    /// The write set that takes the block back.
    pub fn into_writes(self) -> WriteSet {
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
        WriteSet { accounts, codes: Vec::new() }
    }
}
