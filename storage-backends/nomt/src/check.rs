//! Looking for damage: the rows against the root, and the crate's pages and values against the rows.

use crate::{ACCOUNTS, FLAT, SLOTS, proof::holds, root::Root, step::Parts, tree::Session};
use alloy_primitives::{B256, hex};
use nomt::{
    hasher::{Blake3Hasher, ValueHasher},
    trie::{KeyPath, ValueHash},
};
use polytrie_kv::{KeyRange, KvError, Sortable, Sorter, Store};
use polytrie_state::{CheckReport, StateError, Trail, foreign::key_of, scan};
use std::{io::ErrorKind, ops::ControlFlow};

/// Leaves that are sorted in memory.
const IN_MEMORY: usize = 1 << 20;

/// A leaf, sorted by its key.
#[derive(Debug)]
struct Leaf(KeyPath, ValueHash);

impl Sortable for Leaf {
    type Key = KeyPath;

    fn key(&self) -> KeyPath {
        self.0
    }

    fn value(&self) -> Vec<u8> {
        self.1.to_vec()
    }

    fn from_row(key: &[u8], value: &[u8]) -> Option<Self> {
        Some(Self(key.try_into().ok()?, value.try_into().ok()?))
    }
}

/// Computes the root from the rows, without the crate's trie, and asks that for each of them.
pub(crate) fn check(
    parts: &Parts,
    progress: &mut dyn FnMut(u64),
) -> Result<CheckReport, StateError> {
    let Parts { store, tree, head } = parts;
    let trail = *head.lock();
    let mut report = CheckReport::default();
    report.check_codes(store)?;
    trail.check(store, &mut report)?;
    let mut leaves = Sorter::new(store.scratch().clone(), IN_MEMORY);
    FLAT.check(&store.snapshot(), &mut report, progress, &mut |table, key, row| {
        Ok(leaves.add(Leaf(key_of(&FLAT, table, key), Blake3Hasher::hash_value(row)))?)
    })?;
    if Trail::read(store)?.is_none() && report.accounts + report.slots > 0 {
        report.problem("there is a state, and its trail is missing".to_owned());
    }
    let mut root = Root::default();
    for leaf in leaves.drain()? {
        let Leaf(key, value_hash) = leaf?;
        root.add(key, value_hash);
    }
    let (found, expected) = (B256::new(root.end()), trail.digest());
    if found != expected {
        report.problem(format!("the rows have the root {found}, expected {expected}"));
    }
    if report.problems.is_empty() {
        match tree.session(&trail, store) {
            // The crate has no way to open files that it may not change.
            Err(StateError::Store(KvError::Io { path, source, .. }))
                if source.kind() == ErrorKind::ReadOnlyFilesystem =>
            {
                let path = path.display();
                tracing::warn!("the disk of {path} is read-only: what is there was not looked at");
            }
            session => {
                let scrubbed =
                    session.and_then(|session| scrub(store, &session, expected, &mut report));
                report.part(scrubbed)?;
            }
        }
    }
    if let Some((_, pages)) = tree.figures().iter().find(|(name, _)| *name == "pages") {
        report.nodes = *pages;
    }
    Ok(report)
}

/// Every row is in the crate's trie and among its values.
fn scrub(
    store: &Store,
    session: &Session,
    root: B256,
    report: &mut CheckReport,
) -> Result<(), StateError> {
    for table in [ACCOUNTS, SLOTS] {
        scan(&store.snapshot(), table, KeyRange::ALL, |key, row| {
            if !holds(session, root, key_of(&FLAT, table, key), row)? {
                let (name, key) = (table.name, hex::encode_prefixed(key));
                report.problem(format!("the files of nomt do not hold the row {key} of {name}; remove their directory, and they are made anew"));
            }
            Ok(ControlFlow::Continue(()))
        })?;
    }
    Ok(())
}
