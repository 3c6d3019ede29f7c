//! Reading through the layers: delta, intermediate, flat map; the first that knows a key decides.

use crate::{flat, generation::Generation, keys::SlotKey, value::Record};
use alloy_primitives::{B256, U256};
use polytrie_kv::Read;
use polytrie_state::StateError;
use std::{collections::BTreeMap, ops::ControlFlow};

type Visit<'a, V> = dyn FnMut(B256, V) -> Result<ControlFlow<()>, StateError> + 'a;

/// The state after change `seq`.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) delta: &'a Generation,
    pub(crate) intermediate: &'a Generation,
    pub(crate) flat: &'a dyn Read,
    pub(crate) seq: u64,
}

impl View<'_> {
    /// The record of an account.
    pub(crate) fn account(&self, hash: &B256) -> Result<Option<Record>, StateError> {
        for generation in [self.delta, self.intermediate] {
            if let Some(found) = generation.account(hash, self.seq)? {
                return Ok(found);
            }
        }
        flat::account(self.flat, hash)
    }

    /// The value of a slot; zero where there is none.
    pub(crate) fn slot(&self, key: &SlotKey) -> Result<U256, StateError> {
        for generation in [self.delta, self.intermediate] {
            if let Some(found) = generation.slot(key, self.seq)? {
                return Ok(found);
            }
        }
        flat::slot(self.flat, key)
    }

    /// Whether an account has any slot.
    pub(crate) fn has_slots(&self, account: B256, incarnation: u64) -> Result<bool, StateError> {
        let mut found = false;
        self.slots((account, incarnation), &B256::ZERO, &mut |_, _| {
            found = true;
            Ok(ControlFlow::Break(()))
        })?;
        Ok(found)
    }

    /// Visits the accounts in order of their hash.
    pub(crate) fn accounts(
        &self,
        from: &B256,
        visit: &mut Visit<'_, Record>,
    ) -> Result<(), StateError> {
        let mut above = BTreeMap::new();
        for generation in [self.intermediate, self.delta] {
            generation.accounts_from(from, self.seq, &mut above)?;
        }
        merged(above, |below| flat::scan_accounts(self.flat, from, below), visit)
    }

    /// Visits the slots of one incarnation of an account in order of their hash.
    pub(crate) fn slots(
        &self,
        storage: (B256, u64),
        from: &B256,
        visit: &mut Visit<'_, U256>,
    ) -> Result<(), StateError> {
        let mut above = BTreeMap::new();
        for generation in [self.intermediate, self.delta] {
            generation.slots_from(storage, from, self.seq, &mut above)?;
        }
        merged(above, |below| flat::scan_slots(self.flat, storage, from, below), visit)
    }
}

/// Visits what is above and what is below in one order; what is above decides, and `None` hides.
fn merged<V: Copy>(
    above: BTreeMap<B256, Option<V>>,
    below: impl FnOnce(&mut Visit<'_, V>) -> Result<(), StateError>,
    visit: &mut Visit<'_, V>,
) -> Result<(), StateError> {
    let mut above = above.into_iter().peekable();
    let mut ended = false;
    below(&mut |key, value| {
        while let Some((first, shown)) = above.next_if(|(first, _)| *first < key) {
            if let Some(shown) = shown
                && visit(first, shown)?.is_break()
            {
                ended = true;
                return Ok(ControlFlow::Break(()));
            }
        }
        let shown = match above.next_if(|(first, _)| *first == key) {
            Some((_, shown)) => shown,
            None => Some(value),
        };
        let Some(shown) = shown else { return Ok(ControlFlow::Continue(())) };
        let flow = visit(key, shown)?;
        ended |= flow.is_break();
        Ok(flow)
    })?;
    for (key, shown) in above {
        if let Some(shown) = shown.filter(|_| !ended) {
            ended = visit(key, shown)?.is_break();
        }
    }
    Ok(())
}
