//! A row as it is stored: the value, and behind it the checksum of table, key and value.
//!
//! MDBX does not look whether a page is as it was written: a disk that changes a byte of a value changes the value.

use super::{PAGE_BYTES, cursor::Found, error::Context};
use crate::{KvError, Table, checksum::Checksum};
use signet_libmdbx::Database;

/// Bytes of a page before what it holds: where the value of a row begins that has pages of its own.
const PAGE_HEAD: usize = 20;
/// A row that is longer has pages of its own: two rows at least fit into any other page.
const LONGEST_IN_PAGE: usize = PAGE_BYTES / 2;

/// The rows of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows {
    pub(super) table: Table,
    pub(super) database: Database,
    /// The checksum of the table's name; that of each row continues it.
    checksum: Checksum,
}

impl Rows {
    pub(super) fn new(table: Table, database: Database) -> Self {
        Self { table, database, checksum: Checksum::of(table.name.as_bytes()) }
    }

    /// What the checksum of a row with this key continues.
    #[inline]
    pub(super) fn keyed(&self, key: &[u8]) -> Checksum {
        self.checksum.and(key)
    }

    /// Makes `row` the row that is stored.
    pub(super) fn encode(keyed: Checksum, value: &[u8], row: &mut Vec<u8>) {
        row.clear();
        row.extend_from_slice(value);
        keyed.seal(row);
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
        let whole = Some(row).filter(|row| has_its_length(row));
        let value = whole.and_then(|row| self.keyed(key).open(row));
        value.ok_or_else(|| context.damaged_row(self.table, key))
    }

    /// Checks that a key in the file can be one of the table, and ends in its page: nothing else says so of a key that was
    /// not asked for.
    ///
    /// # Errors
    ///
    /// [`KvError::Corrupt`] if not.
    #[inline]
    pub(super) fn check_key(&self, context: &Context, key: &[u8]) -> Result<(), KvError> {
        let room = PAGE_BYTES - key.as_ptr().addr() % PAGE_BYTES;
        let longest = room.min(self.table.max_key.into());
        match key.len() <= longest {
            true => Ok(()),
            false => Err(context.damaged_row(self.table, &key[..longest])),
        }
    }

    /// A key that was found in a transaction which writes, from `from` on.
    ///
    /// # Errors
    ///
    /// [`KvError::Corrupt`] if its length cannot be that of a key of the table.
    pub(super) fn known_key<'k>(
        &self,
        context: &Context,
        key: Found<'k>,
        from: &[u8],
    ) -> Result<&'k [u8], KvError> {
        let known = key.filter(|key| key.len() <= usize::from(self.table.max_key));
        known.ok_or_else(|| context.damaged_row(self.table, from))
    }
}

/// Whether a row in the file ends where it can. Its length is among what may be damaged: MDBX compares it with the end of the
/// page only where the row has pages of its own, and behind the last page there is no memory to read.
fn has_its_length(row: &[u8]) -> bool {
    let start = row.as_ptr().addr() % PAGE_BYTES;
    start == PAGE_HEAD || start + row.len() <= PAGE_BYTES
}

/// Whether a row or a key can be read that was found in a transaction which writes, by where it begins and its length, which
/// may be damaged. Its page may lie in memory of MDBX's own, at any address, and not in the file; `mdbx_is_dirty` cannot
/// tell: it cuts page numbers to 32 bits, so memory far from the map looks like the file.
///
/// MDBX has compared the length of a row that has pages of its own with their end. They lie in the file, unless the
/// transaction itself has written that row: with one change of a key none does so and finds it again. Any other row is
/// shorter than half a page. A damaged length may lead so far behind the page: it is assumed that there are other pages, as
/// the file grows in steps and is seldom full, or other memory of the process. Then the checksum is wrong.
pub(super) fn can_be_read(start: *const u8, len: usize) -> bool {
    len <= LONGEST_IN_PAGE || start.addr() % PAGE_BYTES == PAGE_HEAD
}
