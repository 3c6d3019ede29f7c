//! Looking for damage: the crate's operations against the rows and the root.

use crate::{
    FLAT,
    proof::{holds, is_of_nothing},
    step::Parts,
    trail::Trail,
};
use alloy_primitives::hex;
use polytrie_kv::{KvError, Sorter};
use polytrie_state::{
    CheckReport, StateError,
    foreign::{Key, Row, key_of, sorter},
};
use std::{io::ErrorKind, mem};

/// Rows of which proofs are made at once.
const AT_ONCE: usize = 1_024;

/// Has the crate prove each row, and that there are no others.
pub(crate) fn check(
    parts: &Parts,
    progress: &mut dyn FnMut(u64),
) -> Result<CheckReport, StateError> {
    let Parts { store, tree, head } = parts;
    let trail = *head.lock();
    let mut report = CheckReport::default();
    report.check_codes(store)?;
    trail.check(store, &mut report)?;
    let mut rows = sorter(store);
    FLAT.check(&store.snapshot(), &mut report, progress, &mut |table, key, row| {
        Ok(rows.add(Row(key_of(&FLAT, table, key), row.to_vec()))?)
    })?;
    if !trail.is_filled() {
        if report.accounts + report.slots > 0 {
            report.problem("there is a state, and its trail is missing".to_owned());
        }
        return Ok(report);
    }
    if report.problems.is_empty() {
        match tree.prove(&trail, store, Vec::new()) {
            // The crate has no way to open files that it may not change.
            Err(StateError::Store(KvError::Io { path, source, .. }))
                if source.kind() == ErrorKind::ReadOnlyFilesystem =>
            {
                let path = path.display();
                tracing::warn!("the disk of {path} is read-only: what is there was not looked at");
            }
            opened => {
                let scrubbed = opened.and_then(|_| scrub(parts, &trail, rows, &mut report));
                report.part(scrubbed)?;
            }
        }
    }
    if let Some((_, operations)) = tree.figures().iter().find(|(name, _)| *name == "operations") {
        report.nodes = *operations;
    }
    Ok(report)
}

/// Every row is in the database, and each says that the next one comes after it.
fn scrub(
    parts: &Parts,
    trail: &Trail,
    mut rows: Sorter<Row>,
    report: &mut CheckReport,
) -> Result<(), StateError> {
    let (mut at_once, mut ends) = (Vec::new(), None);
    for row in rows.drain()? {
        at_once.push(row?);
        if at_once.len() >= AT_ONCE {
            scrub_some(parts, trail, mem::take(&mut at_once), &mut ends, report)?;
        }
    }
    scrub_some(parts, trail, at_once, &mut ends, report)?;
    match ends {
        // The last one says that the first comes next.
        Some((first, next)) if next != first => report.problem(wrong(&next)),
        Some(_) => {}
        None => {
            let proofs = prove(parts, trail, vec![Key::default()])?;
            if !proofs.iter().all(|proof| is_of_nothing(trail.mark.root, proof)) {
                report.problem("the files of qmdb hold rows, and there are none".to_owned());
            }
        }
    }
    Ok(())
}

/// `ends` are the first key of all, and the one that is to come next.
fn scrub_some(
    parts: &Parts,
    trail: &Trail,
    rows: Vec<Row>,
    ends: &mut Option<(Key, Key)>,
    report: &mut CheckReport,
) -> Result<(), StateError> {
    let keys = rows.iter().map(|Row(key, _)| *key).collect();
    for (Row(key, row), proof) in rows.into_iter().zip(prove(parts, trail, keys)?) {
        let (first, expected) = ends.unwrap_or((key, key));
        match holds(trail.mark.root, key, Some(row), &proof) {
            Ok(Some(next)) => {
                if expected != key {
                    report.problem(wrong(&expected));
                }
                *ends = Some((first, next));
            }
            _ => {
                report.problem(wrong(&key));
                return Ok(());
            }
        }
    }
    Ok(())
}

fn prove(parts: &Parts, trail: &Trail, keys: Vec<Key>) -> Result<Vec<Vec<u8>>, StateError> {
    let proofs = parts.tree.prove(trail, &parts.store, keys)?;
    proofs.ok_or(StateError::Protocol("a block was accepted while a check was under way"))
}

fn wrong(key: &Key) -> String {
    let key = hex::encode_prefixed(key);
    format!("the files of qmdb and the rows do not say the same of key {key}")
}
