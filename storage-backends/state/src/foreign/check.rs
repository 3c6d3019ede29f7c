//! The search for damage in the flat rows and the trail, and the comparison of the other store with them.

use super::{Foreign, Row, keys::key_of, sorter, step::Parts};
use crate::{CheckReport, Mark, Result, StateError};
use polytrie_kv::KvError;
use std::io::ErrorKind;

pub(super) fn check<T: Foreign>(
    parts: &Parts<T>,
    progress: &mut dyn FnMut(u64),
) -> Result<CheckReport> {
    let Parts { store, tree, head } = parts;
    let trail = *head.lock();
    let mut report = CheckReport::default();
    report.check_codes(store)?;
    trail.check::<T::Step>(store, &mut report)?;
    let mut rows = sorter(store);
    T::FLAT.check(&store.snapshot(), &mut report, progress, &mut |table, key, row| {
        Ok(rows.add(Row(key_of(&T::FLAT, table, key), row.to_vec()))?)
    })?;
    if !trail.mark().is_filled() {
        if report.accounts + report.slots > 0 {
            report.problem("there is a state, and its trail is missing".to_owned());
        }
        return Ok(report);
    }
    if report.problems.is_empty() {
        match tree.scrub(&trail, store, rows, &mut report) {
            // The published crates cannot open files that they may not change.
            Err(StateError::Store(KvError::Io { path, source, .. }))
                if source.kind() == ErrorKind::ReadOnlyFilesystem =>
            {
                let path = path.display();
                tracing::warn!("the disk of {path} is read-only: what is there was not looked at");
            }
            scrubbed => report.part(|_| scrubbed)?,
        }
    }
    if let Some((_, nodes)) = tree.figures().iter().find(|(name, _)| *name == T::NODES) {
        report.nodes = *nodes;
    }
    Ok(report)
}
