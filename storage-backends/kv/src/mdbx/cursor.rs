//! A cursor of a write transaction. It returns rows in place, so that a row to be replaced or removed is not copied.

use super::row::can_be_read;
use signet_libmdbx::{
    Database, MdbxError, MdbxResult,
    ffi::{
        MDBX_APPEND, MDBX_CURRENT, MDBX_ENODATA, MDBX_FIRST, MDBX_KEYEXIST, MDBX_LAST,
        MDBX_NOOVERWRITE, MDBX_NOTFOUND, MDBX_SET, MDBX_SET_RANGE, MDBX_SUCCESS, MDBX_cursor_op,
        MDBX_put_flags_t, MDBX_val, mdbx_cursor_get, mdbx_cursor_put,
    },
    tx::aliases::{RwCursorUnsync, RwTxUnsync},
};
use std::slice;

/// The bytes of a row or of a key; `None` where its length is damaged.
pub(super) type Found<'a> = Option<&'a [u8]>;

/// A writing cursor. The rows that it returns are valid until it moves or writes.
#[derive(Debug)]
pub(super) struct WriteCursor<'tx>(RwCursorUnsync<'tx>);

impl<'tx> WriteCursor<'tx> {
    pub(super) fn new(tx: &'tx RwTxUnsync, database: Database) -> MdbxResult<Self> {
        Ok(Self(tx.cursor(database)?))
    }

    /// Returns the last key of the table.
    pub(super) fn last_key(&mut self) -> MdbxResult<Option<Found<'_>>> {
        Ok(self.get(&[], MDBX_LAST)?.map(|(key, _)| self.bytes(key)))
    }

    /// Moves to the first key of the table from `from` on, and returns the key and its row.
    pub(super) fn first(&mut self, from: &[u8]) -> MdbxResult<Option<(Found<'_>, Found<'_>)>> {
        let found = self.get(from, if from.is_empty() { MDBX_FIRST } else { MDBX_SET_RANGE })?;
        Ok(found.map(|(key, row)| (self.bytes(key), self.bytes(row))))
    }

    /// Moves to the row with this key, and returns it.
    pub(super) fn find(&mut self, key: &[u8]) -> MdbxResult<Option<Found<'_>>> {
        Ok(self.get(key, MDBX_SET)?.map(|(_, row)| self.bytes(row)))
    }

    /// Writes a row behind all others; its key must be the largest. There is no search, and pages are filled
    /// completely.
    pub(super) fn append(&mut self, key: &[u8], row: &[u8]) -> MdbxResult<()> {
        done(self.put(key, row, MDBX_APPEND).0)
    }

    /// Writes a row if its key is not in the table. Otherwise moves to the row with that key, and returns it.
    pub(super) fn insert(&mut self, key: &[u8], row: &[u8]) -> MdbxResult<Option<Found<'_>>> {
        match self.put(key, row, MDBX_NOOVERWRITE) {
            (MDBX_KEYEXIST, old) => Ok(Some(self.bytes(old))),
            (code, _) => done(code).map(|()| None),
        }
    }

    /// Writes a row in the place of the row that the cursor is at, which must have the same key. Nothing is searched:
    /// after a successful search MDBX takes the cursor's row, whatever was removed before, and then replaces it like
    /// any other row.
    pub(super) fn replace(&mut self, key: &[u8], row: &[u8]) -> MdbxResult<()> {
        done(self.put(key, row, MDBX_CURRENT).0)
    }

    /// Removes the row that the cursor is at.
    pub(super) fn remove(&mut self) -> MdbxResult<()> {
        self.0.del()
    }

    /// Puts a row; returns the result code of MDBX, and the value that MDBX has set.
    fn put(&mut self, key: &[u8], row: &[u8], flags: MDBX_put_flags_t) -> (i32, MDBX_val) {
        let mut value = val(row);
        // SAFETY: the cursor is open as long as its handle and its transaction, which belongs to this thread. MDBX
        // only reads the bytes that these values point to.
        let code = unsafe { mdbx_cursor_put(self.0.cursor(), &val(key), &mut value, flags) };
        (code, value)
    }

    /// Gets the key and the row of an operation; `None` if MDBX finds no row.
    fn get(
        &mut self,
        key: &[u8],
        operation: MDBX_cursor_op,
    ) -> MdbxResult<Option<(MDBX_val, MDBX_val)>> {
        let (mut key, mut row) = (val(key), val(&[]));
        // SAFETY: as in `put`.
        let code = unsafe { mdbx_cursor_get(self.0.cursor(), &mut key, &mut row, operation) };
        match code {
            MDBX_NOTFOUND | MDBX_ENODATA => Ok(None),
            code => done(code).map(|()| Some((key, row))),
        }
    }

    /// Returns the bytes that an MDBX value points to; they are valid until the cursor is used again.
    fn bytes(&self, found: MDBX_val) -> Found<'_> {
        let (start, len) = (found.iov_base.cast::<u8>().cast_const(), found.iov_len);
        // SAFETY: the bytes begin at `start`. They stay valid until something is written in the transaction: this
        // cursor is borrowed, and its owner has no other that writes meanwhile. `can_be_read` checks their end as
        // well as it can be checked, and says which assumption is left.
        can_be_read(start, len).then(|| unsafe { slice::from_raw_parts(start, len) })
    }
}

fn val(bytes: &[u8]) -> MDBX_val {
    MDBX_val { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}

fn done(code: i32) -> MdbxResult<()> {
    match code {
        MDBX_SUCCESS => Ok(()),
        code => Err(MdbxError::from_err_code(code)),
    }
}
