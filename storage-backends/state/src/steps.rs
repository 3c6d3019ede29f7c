//! Undo in steps, so that no step grows with the contracts that the block wiped.
//!
//! A step is a change of the state like a block, durable by itself. The first steps give wiped accounts back with
//! their slots, a piece at a time, and the last one undoes everything else. In between, the state is that of no
//! block, so the caller notes in the batch of each step how many are done. After a crash the remaining steps are done
//! before anything else.

use crate::{
    Outcome, Result, StateLayer, UndoRecord,
    undo::{AccountUndo, SlotUndo},
    wiped::{damaged, visit_pieces},
};
use alloy_primitives::{B256, U256};
use polytrie_kv::{Batch, Read, Store};
use std::{collections::VecDeque, ops::ControlFlow};

/// The steps in which a block is undone, each with its own undo record. There is always a last one.
#[derive(Debug)]
pub struct UndoSteps {
    /// Accounts with slots that are still to be given back, in pieces.
    wiped: VecDeque<AccountUndo>,
    /// The slot from which the first account's remaining slots begin, if some were already given back.
    from: Option<B256>,
    /// The record of the last step, until it was returned.
    rest: Option<Vec<u8>>,
}

impl UndoSteps {
    /// Returns one step, for a record that holds everything.
    pub fn one(record: &[u8]) -> Self {
        Self { wiped: VecDeque::new(), from: None, rest: Some(record.to_vec()) }
    }

    /// Replaces the last step's record, for layers with a record that must also name the state before.
    #[must_use]
    pub fn with_last(mut self, record: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Self {
        self.rest = self.rest.map(record);
        self
    }

    /// Returns the steps of an [`UndoRecord`]. `rows` is the store that holds the record. The pieces beside the
    /// record are read through, so that nothing begins that could not be completed.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](crate::StateError::Corrupt) if the record or a piece is damaged; or if the store fails.
    pub fn of(record: &[u8], rows: &dyn Read) -> Result<Self> {
        let decoded = UndoRecord::decode(record)?;
        if decoded.is_whole() {
            return Ok(Self::one(record));
        }
        let (wiped, rest): (Vec<_>, _) =
            decoded.accounts.into_iter().partition(|account| account.apart.is_some());
        for account in &wiped {
            let Some(apart) = account.apart else { continue };
            let mut found = 0;
            visit_pieces(rows, (apart.number, &account.hash), &B256::ZERO, |piece| {
                found += piece.len() as u64;
                Ok(ControlFlow::Continue(()))
            })?;
            if found != apart.slots {
                return Err(damaged());
            }
        }
        let rest = UndoRecord { accounts: rest }.encode();
        Ok(Self { wiped: wiped.into(), from: None, rest: Some(rest) })
    }

    /// Returns the record of the next step; `None` after the last.
    ///
    /// # Errors
    ///
    /// Those of [`Self::of`].
    pub fn next(&mut self, rows: &dyn Read) -> Result<Option<Vec<u8>>> {
        while let Some(account) = self.wiped.front() {
            let Some(apart) = account.apart else { break };
            let from = self.from.unwrap_or_default();
            let mut slots: Vec<(B256, U256)> = Vec::new();
            visit_pieces(rows, (apart.number, &account.hash), &from, |piece| {
                slots.extend(piece.iter().filter(|(slot, _)| *slot >= from));
                let is_found = !slots.is_empty();
                Ok(if is_found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
            let after_last = slots.last().and_then(|(slot, _)| {
                U256::from_be_bytes(slot.0).checked_add(U256::ONE).map(B256::from)
            });
            let is_first = self.from.is_none();
            let undo = |(hash, before)| SlotUndo { hash, before, after: U256::ZERO };
            let step = AccountUndo {
                hash: account.hash,
                before: account.before,
                after: if is_first { account.after } else { account.before },
                wipe: is_first && account.wipe,
                slots: slots.into_iter().map(undo).collect(),
                apart: None,
            };
            self.from = after_last;
            if after_last.is_none() {
                self.wiped.pop_front();
            }
            if !step.slots.is_empty() {
                return Ok(Some(UndoRecord { accounts: vec![step] }.encode()));
            }
        }
        Ok(self.rest.take())
    }
}

/// Takes a block back except for the last step, whose outcome is returned as by [`StateLayer::undo`], so that the
/// caller can write it with everything else. The other steps are written here. The first `done` of them are done
/// already; `note` adds to the batch of each step how many are done with it.
///
/// # Errors
///
/// Those of [`StateLayer::undo`].
pub fn undo_in_steps(
    layer: &dyn StateLayer,
    store: &Store,
    record: &[u8],
    done: u64,
    note: &mut dyn FnMut(&mut Batch, u64),
) -> Result<Outcome> {
    let mut steps = layer.undo_records().steps(record, store)?;
    for _ in 0..done {
        steps.next(store)?;
    }
    let mut done = done;
    let mut step = steps.next(store)?.ok_or_else(damaged)?;
    while let Some(next) = steps.next(store)? {
        let mut outcome = layer.undo(&step)?;
        done += 1;
        note(&mut outcome.batch, done);
        outcome.write(store)?;
        step = next;
    }
    layer.undo(&step)
}
