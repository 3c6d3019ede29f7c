//! The search for damage: the crate's pages and values are compared with the rows.

use super::Session;
use crate::{ACCOUNTS, FLAT, SLOTS, proof::holds};
use alloy_primitives::{B256, hex};
use polytrie_kv::{KeyRange, Store};
use polytrie_state::{CheckReport, Result, each_row, foreign::key_of};

/// Checks that every row is in the crate's trie and among its values.
pub(super) fn rows_are_there(
    store: &Store,
    session: &Session,
    root: B256,
    report: &mut CheckReport,
) -> Result<()> {
    for table in [ACCOUNTS, SLOTS] {
        each_row(&store.snapshot(), table, KeyRange::ALL, |key, row| {
            if !holds(session, root, key_of(&FLAT, table, key), row)? {
                let (name, key) = (table.name, hex::encode_prefixed(key));
                report.problem(format!("the files of nomt do not hold the row {key} of {name}; remove their directory, and they are made anew"));
            }
            Ok(())
        })?;
    }
    Ok(())
}
