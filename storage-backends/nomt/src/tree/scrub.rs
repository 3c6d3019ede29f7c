//! The search for damage: the rows are compared with the root, and the crate's pages and values with the rows.

use super::{Session, Tree};
use crate::{ACCOUNTS, FLAT, SLOTS, proof::holds, root::Root};
use alloy_primitives::{B256, hex};
use nomt::hasher::{Blake3Hasher, ValueHasher};
use polytrie_kv::{KeyRange, Sorter, Store};
use polytrie_state::{
    CheckReport, Result, Trail,
    foreign::{Row, key_of},
    scan,
};
use std::ops::ControlFlow;

impl Tree {
    /// Computes the root from the rows, without the crate's trie, and looks up each row in the crate's trie.
    pub(super) fn scrubbed(
        &self,
        trail: &Trail<B256>,
        store: &Store,
        mut rows: Sorter<Row>,
        report: &mut CheckReport,
    ) -> Result<()> {
        let mut root = Root::default();
        for row in rows.drain()? {
            let Row(key, row) = row?;
            root.add(key, Blake3Hasher::hash_value(&row));
        }
        let (found, expected) = (B256::new(root.end()), trail.mark());
        if found != expected {
            report.problem(format!("the rows have the root {found}, expected {expected}"));
            return Ok(());
        }
        rows_are_there(store, &self.session(trail, store)?, expected, report)
    }
}

/// Checks that every row is in the crate's trie and among its values.
fn rows_are_there(
    store: &Store,
    session: &Session,
    root: B256,
    report: &mut CheckReport,
) -> Result<()> {
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
