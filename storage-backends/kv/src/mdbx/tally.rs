//! The tally of each table: the number of its rows, and the sum of their checksums.
//!
//! A row has a checksum, so a changed row is found. A missing row is not: where the disk has damaged a page of the
//! tree, or never wrote one, other pages are read in its place, and their rows are whole. So each commit writes the
//! tally of each table that it changes, and a search for damage counts the rows again.
//!
//! ```text
//! "Tallies"   name of a table ──► number of its rows (8), sum (8)      integers big-endian; a table without a row is empty
//! ```
//!
//! Each checksum is spread over 64 bits before it is added. So the sum does not depend on the order of rows, and the
//! part of a removed row can be subtracted.

use super::{Databases, row::Rows};
use crate::{KvError, Result, Table, codec::take_array};
use signet_libmdbx::{
    ReadResult, TableObject, TransactionKind, WriteFlags, ffi,
    tx::{Tx, aliases::RwTxUnsync},
};
use std::borrow::Cow;

/// The table of tallies. An environment has it besides the tables that it is opened with.
pub(super) const TALLY_TABLE: Table = Table::new(253, "Tallies", 255);

/// Bytes of a row of the table: number, sum and checksum.
const BYTES: usize = 20;

/// The factor that spreads a checksum: an odd number with bits that look random.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The number of rows of a table, and the sum of their spread checksums.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) rows: u64,
    sum: u64,
}

impl Tally {
    /// Adds a row, in its stored form.
    pub(super) fn add(&mut self, row: &[u8]) {
        self.rows = self.rows.wrapping_add(1);
        self.sum = self.sum.wrapping_add(weight(row));
    }

    /// Subtracts a row that [`Self::add`] has added.
    pub(super) fn remove(&mut self, row: &[u8]) {
        self.rows = self.rows.wrapping_sub(1);
        self.sum = self.sum.wrapping_sub(weight(row));
    }

    /// Reads a table's tally as of the transaction's commit.
    ///
    /// # Errors
    ///
    /// If the tally cannot be read, or is damaged.
    pub(super) fn read<K: TransactionKind>(
        tx: &Tx<K>,
        tables: &Databases,
        table: Table,
    ) -> Result<Self> {
        let Some(tallies) = tables.rows(TALLY_TABLE)? else { return Ok(Self::default()) };
        let key = table.name.as_bytes();
        let found: Option<TallyRow> =
            tx.get(tallies.database.dbi(), key).map_err(|e| tables.context.read(e))?;
        let Some(TallyRow(row)) = found else { return Ok(Self::default()) };
        let mut value = row.as_ref().and_then(|row| tallies.keyed(key).open(row)).unwrap_or(&[]);
        let mut long = || take_array(&mut value).map(u64::from_be_bytes);
        let tally = long().zip(long()).map(|(rows, sum)| Self { rows, sum });
        tally.ok_or_else(|| tables.context.damaged_row(TALLY_TABLE, key))
    }

    /// Writes the tally of a table.
    ///
    /// # Errors
    ///
    /// If the tally cannot be written.
    pub(super) fn write(self, tx: &RwTxUnsync, tables: &Databases, table: Table) -> Result<()> {
        let tallies = tables.rows(TALLY_TABLE)?.ok_or(KvError::UnknownTable(TALLY_TABLE.name))?;
        let (key, mut row) = (table.name.as_bytes(), Vec::new());
        let value = [self.rows, self.sum].map(u64::to_be_bytes).concat();
        Rows::encode(tallies.keyed(key), &value, &mut row);
        tx.put(tallies.database, key, &row, WriteFlags::UPSERT)
            .map_err(|e| tables.context.error("writing", e))
    }
}

/// A copy of a stored tally; `None` if its length is not that of one.
#[derive(Debug)]
struct TallyRow(Option<[u8; BYTES]>);

impl TableObject<'_> for TallyRow {
    fn decode_borrow(row: Cow<'_, [u8]>) -> ReadResult<Self> {
        Ok(Self(row.as_ref().try_into().ok()))
    }

    unsafe fn decode_val<K: TransactionKind>(
        _: *const ffi::MDBX_txn,
        row: ffi::MDBX_val,
    ) -> ReadResult<Self> {
        // SAFETY: MDBX promises that the row begins there, and the transaction lives on meanwhile. Nothing is read
        // before the length is checked.
        let read = || unsafe { row.iov_base.cast::<[u8; BYTES]>().read_unaligned() };
        Ok(Self((row.iov_len == BYTES).then(read)))
    }
}

/// The number that a row adds to the sum: its checksum, spread so that equal changes of two rows do not cancel each
/// other.
fn weight(row: &[u8]) -> u64 {
    let checksum = row.last_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
    let spread = (u64::from(checksum) + 1).wrapping_mul(SPREAD);
    (spread ^ (spread >> 32)).wrapping_mul(SPREAD)
}

/// Checks that each table has as many rows as its tally says. The number comes from the header of the table's tree;
/// no row is read.
///
/// # Errors
///
/// [`KvError::Corrupt`] for the first table with another number of rows.
pub(super) fn expect_counts<K: TransactionKind>(tx: &Tx<K>, tables: &Databases) -> Result<()> {
    for table in tables.counted() {
        let expected = Tally::read(tx, tables, table)?.rows;
        let found = match tables.rows(table)? {
            Some(Rows { database, .. }) => {
                let stat = tx
                    .db_stat(database)
                    .map_err(|e| tables.context.error("reading the size of a table", e))?;
                stat.entries() as u64
            }
            None => 0,
        };
        if found != expected {
            return Err(tables.context.lost_rows(table, found, expected));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_change_places_or_change_alike_are_not_the_same() {
        let of = |rows: &[[u8; 4]]| {
            let mut tally = Tally::default();
            rows.iter().for_each(|row| tally.add(row));
            tally
        };
        assert_eq!(of(&[[1; 4], [2; 4]]), of(&[[2; 4], [1; 4]]));
        assert_ne!(of(&[[0; 4]]), of(&[]));
        // One checksum is one larger, and another one is one smaller.
        assert_ne!(of(&[[0, 0, 0, 4], [0, 0, 0, 9]]), of(&[[0, 0, 0, 5], [0, 0, 0, 8]]));
        let mut tally = of(&[[1; 4], [2; 4]]);
        tally.remove(&[1; 4]);
        assert_eq!(tally, of(&[[2; 4]]));
    }
}
