//! The rows of the journal: the flat rows of changes that the flat store may not have yet.

use crate::{ACCOUNTS, JOURNAL, SLOTS};
use polytrie_kv::{Batch, KeyRange, Read, Table};
use polytrie_state::{CheckReport, Result, each_row};

/// The tables of the flat rows, in the order by which journal rows refer to them.
const TABLES: [Table; 2] = [ACCOUNTS, SLOTS];

/// Encodes flat rows as a journal row.
pub(crate) fn encode(batch: &Batch) -> Vec<u8> {
    let mut out = Vec::new();
    batch.encode(&TABLES, &mut out);
    out
}

/// Decodes the bytes of [`encode`].
pub(crate) fn decode(bytes: &[u8]) -> Option<Batch> {
    Batch::decode(bytes, &TABLES)
}

/// Checks all rows of the journal, for `db check`.
pub(crate) fn check(main: &dyn Read, report: &mut CheckReport) -> Result<()> {
    each_row(main, JOURNAL, KeyRange::ALL, |key, row| {
        if key.len() != 8 || decode(row).is_none() {
            report.problem(format!("a journal row of {} bytes does not decode", row.len()));
        }
        Ok(())
    })
}
