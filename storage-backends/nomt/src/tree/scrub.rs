//! The search for damage: the crate's pages and values are compared with the rows.

use super::Session;
use crate::{FLAT, proof::holds};
use alloy_primitives::{B256, hex};
use polytrie_kv::Store;
use polytrie_state::{
    CheckReport, Result,
    foreign::{Row, rows_by_key},
};

/// Checks that every row is in the crate's trie and among its values.
pub(super) fn rows_are_there(
    store: &Store,
    session: &Session,
    root: B256,
    report: &mut CheckReport,
) -> Result<()> {
    let mut rows = rows_by_key(&FLAT, store)?;
    for row in rows.drain()? {
        let Row(key, row) = row?;
        if !holds(session, root, key, &row)? {
            let key = hex::encode_prefixed(key);
            report.problem(format!("the files of nomt do not hold the row with key {key}; remove their directory, and they are made anew"));
        }
    }
    Ok(())
}
