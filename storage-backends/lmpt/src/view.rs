//! Reads through the layers: delta, intermediate, flat map; the first that has a key decides.

use crate::{
    flat,
    generation::{Generation, over},
    keys::SlotKey,
    value::Record,
};
use alloy_primitives::{B256, U256};
use polytrie_kv::Read;
use polytrie_state::{StateError, any_slot};
use std::{ops::ControlFlow, sync::Arc};

type Visit<'a, V> = dyn FnMut(B256, V) -> Result<ControlFlow<()>, StateError> + 'a;

/// The state after change `seq`, over the flat map in a store or a snapshot.
#[derive(Debug, Clone)]
pub(crate) struct View<R> {
    pub(crate) delta: Arc<Generation>,
    pub(crate) intermediate: Arc<Generation>,
    pub(crate) flat: R,
    pub(crate) seq: u64,
}

impl<R: Read> View<R> {
    /// Reads the record of an account.
    pub(crate) fn account(&self, hash: &B256) -> Result<Option<Record>, StateError> {
        for generation in [&self.delta, &self.intermediate] {
            if let Some(found) = generation.account(hash, self.seq)? {
                return Ok(found);
            }
        }
        flat::account(&self.flat, hash)
    }

    /// Reads the value of a slot; zero if it is not set.
    pub(crate) fn slot(&self, key: &SlotKey) -> Result<U256, StateError> {
        for generation in [&self.delta, &self.intermediate] {
            if let Some(found) = generation.slot(key, self.seq)? {
                return Ok(found);
            }
        }
        flat::slot(&self.flat, key)
    }

    /// Reads the records of many accounts.
    pub(crate) fn accounts_of(&self, hashes: &[B256]) -> Result<Vec<Option<Record>>, StateError> {
        let mut records = vec![None; hashes.len()];
        let mut rest = Vec::new();
        'next: for (place, hash) in hashes.iter().enumerate() {
            for generation in [&self.delta, &self.intermediate] {
                if let Some(found) = generation.account(hash, self.seq)? {
                    records[place] = found;
                    continue 'next;
                }
            }
            rest.push(place);
        }
        let below: Vec<&B256> = rest.iter().map(|place| &hashes[*place]).collect();
        for (place, record) in rest.into_iter().zip(flat::accounts_of(&self.flat, &below)?) {
            records[place] = record;
        }
        Ok(records)
    }

    /// Whether an account has any slot.
    pub(crate) fn has_slots(&self, account: B256, incarnation: u64) -> Result<bool, StateError> {
        any_slot(|visit| self.slots((account, incarnation), &B256::ZERO, visit))
    }

    /// Visits the accounts in order of their hash.
    pub(crate) fn accounts(
        &self,
        from: &B256,
        visit: &mut Visit<'_, Record>,
    ) -> Result<(), StateError> {
        let above = over(
            self.delta.accounts_from(from, self.seq),
            self.intermediate.accounts_from(from, self.seq),
        );
        merged(above, |below| flat::scan_accounts(&self.flat, from, below), visit)
    }

    /// Visits the slots of one incarnation of an account in order of their hash.
    pub(crate) fn slots(
        &self,
        storage: (B256, u64),
        from: &B256,
        visit: &mut Visit<'_, U256>,
    ) -> Result<(), StateError> {
        let above = over(
            self.delta.slots_from(storage, from, self.seq),
            self.intermediate.slots_from(storage, from, self.seq),
        );
        merged(above, |below| flat::scan_slots(&self.flat, storage, from, below), visit)
    }
}

/// Visits two sequences in one order of keys. If both have a key, `above` decides; its `None` hides the key.
fn merged<V: Copy>(
    above: impl Iterator<Item = Result<(B256, Option<V>), StateError>>,
    below: impl FnOnce(&mut Visit<'_, V>) -> Result<(), StateError>,
    visit: &mut Visit<'_, V>,
) -> Result<(), StateError> {
    let mut above = above.peekable();
    let mut ended = false;
    below(&mut |key, value| {
        while let Some(next) =
            above.next_if(|next| next.as_ref().map_or(true, |(first, _)| *first < key))
        {
            let (first, shown) = next?;
            if let Some(shown) = shown
                && visit(first, shown)?.is_break()
            {
                ended = true;
                return Ok(ControlFlow::Break(()));
            }
        }
        let same = above.next_if(|next| matches!(next, Ok((first, _)) if *first == key));
        let shown = same.transpose()?.map_or(Some(value), |(_, shown)| shown);
        let Some(shown) = shown else { return Ok(ControlFlow::Continue(())) };
        let flow = visit(key, shown)?;
        ended |= flow.is_break();
        Ok(flow)
    })?;
    while !ended && let Some((key, shown)) = above.next().transpose()? {
        ended = shown.map_or(Ok(ControlFlow::Continue(())), |shown| visit(key, shown))?.is_break();
    }
    Ok(())
}
