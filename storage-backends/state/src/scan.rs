//! Scans of a table with the errors of a layer, and other ways of visiting entries in order.

use crate::{HashVisit, Result, SlotVisit};
use alloy_primitives::B256;
use polytrie_kv::{KeyRange, Read, Table};
use std::ops::ControlFlow;

/// Visits the entries of a range in order until `visit` breaks or fails; its error is returned as it is.
///
/// # Errors
///
/// If the store fails, and any error of `visit`.
pub fn scan(
    store: &dyn Read,
    table: Table,
    range: KeyRange<'_>,
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let mut failed = None;
    store.scan(table, range, &mut |key, value| {
        Ok(visit(key, value).unwrap_or_else(|error| {
            failed = Some(error);
            ControlFlow::Break(())
        }))
    })?;
    failed.map_or(Ok(()), Err)
}

/// Visits all entries of a range in order, unless `visit` fails; its error is returned as it is.
///
/// # Errors
///
/// If the store fails, and any error of `visit`.
pub fn each_row(
    store: &dyn Read,
    table: Table,
    range: KeyRange<'_>,
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    scan(store, table, range, |key, value| visit(key, value).map(ControlFlow::Continue))
}

/// Whether a walk through the slots of an account finds one.
///
/// # Errors
///
/// Those of the walk.
pub fn any_slot(walk: impl FnOnce(&mut SlotVisit<'_>) -> Result<()>) -> Result<bool> {
    let mut found = false;
    walk(&mut |_, _| {
        found = true;
        Ok(ControlFlow::Break(()))
    })?;
    Ok(found)
}

/// Visits two sequences in one order of keys. If both have a key, `above` decides; its `None` hides the key.
///
/// # Errors
///
/// Those of the two sequences, and any error of `visit`.
pub fn visit_over<V: Copy>(
    above: impl Iterator<Item = Result<(B256, Option<V>)>>,
    below: impl FnOnce(&mut HashVisit<'_, V>) -> Result<()>,
    visit: &mut HashVisit<'_, V>,
) -> Result<()> {
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
