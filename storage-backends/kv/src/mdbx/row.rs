//! A row as it is stored: the value, and behind it the checksum of table, key and value.
//!
//! MDBX does not look whether a page is as it was written: a disk that changes a byte of a value changes the value.

use super::{PAGE_BYTES, error::Context};
use crate::{KvError, Table, checksum::Checksum};
use signet_libmdbx::{Database, ReadResult, TableObject, TransactionKind, ffi};
use std::{borrow::Cow, slice};

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

    /// The value of a row that was read in a transaction which writes.
    ///
    /// # Errors
    ///
    /// As [`Self::value`].
    pub(super) fn stored_value<'r>(
        &self,
        context: &Context,
        key: &[u8],
        row: &'r StoredRow,
    ) -> Result<&'r [u8], KvError> {
        self.copied_value(context, key, row.as_slice())
    }

    /// The value of a row that lies elsewhere.
    #[inline]
    fn copied_value<'r>(
        &self,
        context: &Context,
        key: &[u8],
        row: &'r [u8],
    ) -> Result<&'r [u8], KvError> {
        self.checksum.strip(key, row).ok_or_else(|| context.damaged_row(self.table, key))
    }
}

/// A copy of a row that is read in a transaction which writes: its page may lie in memory of MDBX's own, and not in the
/// file. Which of them it is MDBX cannot be asked: it takes some pages in memory for pages of the file, as it compares
/// numbers of pages that it has cut to 32 bits.
#[derive(Debug)]
pub(super) struct StoredRow(Vec<u8>);

impl StoredRow {
    /// Its bytes; none if its length is damaged, and no row is as short as that.
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

impl TableObject<'_> for StoredRow {
    fn decode_borrow(row: Cow<'_, [u8]>) -> ReadResult<Self> {
        Ok(Self(row.into_owned()))
    }

    unsafe fn decode_val<K: TransactionKind>(
        _: *const ffi::MDBX_txn,
        row: ffi::MDBX_val,
    ) -> ReadResult<Self> {
        let (start, len) = (row.iov_base.cast::<u8>().cast_const(), row.iov_len);
        // A row that is longer than a page has pages of its own, which lie in the file until a later transaction.
        if len > PAGE_BYTES && start.addr() % PAGE_BYTES != PAGE_HEAD {
            return Ok(Self(Vec::new()));
        }
        // SAFETY: MDBX says that the row begins at `start`, and the transaction goes on meanwhile. It has compared the length
        // of a row with pages of its own with the end of these; any other one is shorter than a page, and so begins in a page
        // that has others, or the memory of MDBX, behind it.
        let row = unsafe { slice::from_raw_parts(start, len) };
        Ok(Self(row.to_vec()))
    }
}

/// Whether a row in the file ends where it can. Its length is among what may be damaged: MDBX compares it with the end of the
/// page only where the row has pages of its own, and behind the last page there is no memory to read.
fn has_its_length(row: &[u8]) -> bool {
    let start = row.as_ptr().addr() % PAGE_BYTES;
    start == PAGE_HEAD || start + row.len() <= PAGE_BYTES
}
