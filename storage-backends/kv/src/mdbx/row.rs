//! A row as it is stored: the value, and behind it the checksum of table, key and value.
//!
//! MDBX does not look whether a page is as it was written: a disk that changes a byte of a value changes the value.

use super::{PAGE_BYTES, error::Context};
use crate::{KvError, Table, checksum::Checksum};
use signet_libmdbx::Database;

/// Bytes of a page before what it holds: where the value of a row begins that has pages of its own.
const PAGE_HEAD: usize = 20;

/// The rows of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows {
    pub(super) table: Table,
    pub(super) database: Database,
    /// Of the table's name, which each row's goes on from.
    checksum: Checksum,
}

impl Rows {
    pub(super) fn new(table: Table, database: Database) -> Self {
        Self { table, database, checksum: Checksum::of(table.name.as_bytes()) }
    }

    /// Makes `row` the row that is stored.
    pub(super) fn encode(&self, key: &[u8], value: &[u8], row: &mut Vec<u8>) {
        row.clear();
        row.extend_from_slice(value);
        self.checksum.append(key, row);
    }

    /// The value of a row that lies in the file.
    ///
    /// # Errors
    ///
    /// [`KvError::Corrupt`] if the row is not as it was written.
    #[inline]
    pub(super) fn value<'r>(
        &self,
        context: &Context,
        key: &[u8],
        row: &'r [u8],
    ) -> Result<&'r [u8], KvError> {
        match has_its_length(row) {
            true => self.copied_value(context, key, row),
            false => Err(context.damaged_row(self.table, key)),
        }
    }

    /// The value of a row that lies elsewhere.
    ///
    /// # Errors
    ///
    /// As [`Self::value`].
    #[inline]
    pub(super) fn copied_value<'r>(
        &self,
        context: &Context,
        key: &[u8],
        row: &'r [u8],
    ) -> Result<&'r [u8], KvError> {
        self.checksum.strip(key, row).ok_or_else(|| context.damaged_row(self.table, key))
    }
}

/// Whether a row in the file ends where it can. Its length is among what may be damaged: MDBX compares it with the end of the
/// page only where the row has pages of its own, and behind the last page there is no memory to read.
fn has_its_length(row: &[u8]) -> bool {
    let start = row.as_ptr().addr() % PAGE_BYTES;
    start == PAGE_HEAD || start + row.len() <= PAGE_BYTES
}
