//! The stored form of a row: the value, followed by the checksum of table, key and value.
//!
//! MDBX does not check that a page is as it was written: a disk that changes a byte of a value changes the value.

use super::{PAGE_BYTES, cursor::Found, error::Context};
use crate::{Result, Table, checksum::Checksum};
use signet_libmdbx::Database;

/// Bytes of a page before its content. The value of a row that has pages for itself begins there.
const PAGE_HEAD: usize = 20;
/// Length above which a row has pages for itself: at least two rows fit into any other page.
const LONGEST_IN_PAGE: usize = PAGE_BYTES / 2;

/// The rows of one table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows {
    pub(super) table: Table,
    pub(super) database: Database,
    /// The checksum of the table's name; the checksum of each row continues it.
    checksum: Checksum,
}

impl Rows {
    pub(super) fn new(table: Table, database: Database) -> Self {
        Self { table, database, checksum: Checksum::of(table.name.as_bytes()) }
    }

    /// Returns the checksum of the table's name and this key, which the checksum of the row continues.
    #[inline]
    pub(super) fn keyed(&self, key: &[u8]) -> Checksum {
        self.checksum.and(key)
    }

    /// Overwrites `row` with the stored form of a value.
    pub(super) fn encode(keyed: Checksum, value: &[u8], row: &mut Vec<u8>) {
        row.clear();
        row.extend_from_slice(value);
        keyed.seal(row);
    }

    /// Returns the value of a row that lies in the file.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](crate::KvError::Corrupt) if the row is not as it was written.
    #[inline]
    pub(super) fn value<'r>(
        &self,
        context: &Context,
        key: &[u8],
        row: &'r [u8],
    ) -> Result<&'r [u8]> {
        let whole = Some(row).filter(|row| has_its_length(row));
        let value = whole.and_then(|row| self.keyed(key).open(row));
        value.ok_or_else(|| context.damaged_row(self.table, key))
    }

    /// Checks that a key in the file can belong to the table, and ends within its page. No other check covers a key
    /// that was found by a scan.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](crate::KvError::Corrupt) if it cannot.
    #[inline]
    pub(super) fn check_key(&self, context: &Context, key: &[u8]) -> Result<()> {
        let room = PAGE_BYTES - key.as_ptr().addr() % PAGE_BYTES;
        let longest = room.min(self.table.max_key.into());
        match key.len() <= longest {
            true => Ok(()),
            false => Err(context.damaged_row(self.table, &key[..longest])),
        }
    }

    /// Returns a key that was found in a write transaction, by a search from `from` on.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](crate::KvError::Corrupt) if its length cannot be that of a key of the table.
    pub(super) fn known_key<'k>(
        &self,
        context: &Context,
        key: Found<'k>,
        from: &[u8],
    ) -> Result<&'k [u8]> {
        let known = key.filter(|key| key.len() <= usize::from(self.table.max_key));
        known.ok_or_else(|| context.damaged_row(self.table, from))
    }
}

/// Whether the end of a row in the file is plausible. The length may be damaged: MDBX compares it with the end of the
/// page only where the row has pages for itself, and there is no memory to read behind the last page.
fn has_its_length(row: &[u8]) -> bool {
    let start = row.as_ptr().addr() % PAGE_BYTES;
    start == PAGE_HEAD || start + row.len() <= PAGE_BYTES
}

/// Whether a row or a key that was found in a write transaction can be read, judged by its start and its length,
/// which may be damaged. Its page may lie in memory of MDBX's own, at any address, instead of in the file.
/// `mdbx_is_dirty` cannot distinguish the two: it cuts page numbers to 32 bits, so memory far from the map looks like
/// the file.
///
/// MDBX has compared the length of a row that has pages for itself with their end. Those pages lie in the file,
/// unless the same transaction has written the row; with one change a key, no transaction reads a row again that it
/// wrote. Any other row is shorter than half a page. A damaged length may lead that far behind the page. It is
/// assumed that other pages follow, as the file grows in steps and is seldom full, or other memory of the process.
/// Then the checksum does not match.
pub(super) fn can_be_read(start: *const u8, len: usize) -> bool {
    len <= LONGEST_IN_PAGE || start.addr() % PAGE_BYTES == PAGE_HEAD
}
