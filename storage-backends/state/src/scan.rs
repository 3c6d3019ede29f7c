//! Scans of a table with the errors of a layer.

use crate::{SlotVisit, StateError};
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
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, StateError>,
) -> Result<(), StateError> {
    let mut failed = None;
    store.scan(table, range, &mut |key, value| {
        Ok(visit(key, value).unwrap_or_else(|error| {
            failed = Some(error);
            ControlFlow::Break(())
        }))
    })?;
    failed.map_or(Ok(()), Err)
}

/// Whether a walk through the slots of an account finds one.
///
/// # Errors
///
/// Those of the walk.
pub fn any_slot(
    walk: impl FnOnce(&mut SlotVisit<'_>) -> Result<(), StateError>,
) -> Result<bool, StateError> {
    let mut found = false;
    walk(&mut |_, _| {
        found = true;
        Ok(ControlFlow::Break(()))
    })?;
    Ok(found)
}
