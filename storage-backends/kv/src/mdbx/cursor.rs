//! A cursor of a transaction that writes. It shows rows where they lie, so that nothing is copied of a row that goes.

use super::row::can_be_read;
use signet_libmdbx::{
    Database, MdbxError, MdbxResult,
    ffi::{
        MDBX_APPEND, MDBX_CURRENT, MDBX_ENODATA, MDBX_FIRST, MDBX_KEYEXIST, MDBX_LAST,
        MDBX_NOOVERWRITE, MDBX_NOTFOUND, MDBX_SET, MDBX_SET_RANGE, MDBX_SUCCESS, MDBX_UPSERT,
        MDBX_cursor_op, MDBX_put_flags_t, MDBX_val, mdbx_cursor_get, mdbx_cursor_put,
    },
    tx::aliases::{RwCursorUnsync, RwTxUnsync},
};
use std::slice;

/// The bytes of a row or of a key; `None` where its length is damaged.
pub(super) type Found<'a> = Option<&'a [u8]>;

/// A cursor that writes. Rows that it shows are there until it moves or writes.
#[derive(Debug)]
pub(super) struct WriteCursor<'tx>(RwCursorUnsync<'tx>);

impl<'tx> WriteCursor<'tx> {
    pub(super) fn new(tx: &'tx RwTxUnsync, database: Database) -> MdbxResult<Self> {
        Ok(Self(tx.cursor(database)?))
    }

    /// The last key of the table.
    pub(super) fn last_key(&mut self) -> MdbxResult<Option<Found<'_>>> {
        Ok(self.get(&[], MDBX_LAST)?.map(|(key, _)| self.bytes(key)))
    }

    /// The first key of the table from `from` on, and its row, to which the cursor goes.
    pub(super) fn first(&mut self, from: &[u8]) -> MdbxResult<Option<(Found<'_>, Found<'_>)>> {
        let found = self.get(from, if from.is_empty() { MDBX_FIRST } else { MDBX_SET_RANGE })?;
        Ok(found.map(|(key, row)| (self.bytes(key), self.bytes(row))))
    }

    /// The row with this key, to which the cursor goes.
    pub(super) fn find(&mut self, key: &[u8]) -> MdbxResult<Option<Found<'_>>> {
        Ok(self.get(key, MDBX_SET)?.map(|(_, row)| self.bytes(row)))
    }

    /// Writes a row behind all others, by its key: without a search, and so that pages are filled completely.
    pub(super) fn append(&mut self, key: &[u8], row: &[u8]) -> MdbxResult<()> {
        done(self.put(key, row, MDBX_APPEND).0)
    }

    /// Writes a row, whether there is one with this key or not.
    pub(super) fn upsert(&mut self, key: &[u8], row: &[u8]) -> MdbxResult<()> {
        done(self.put(key, row, MDBX_UPSERT).0)
    }

    /// Writes a row if there is none with this key. Else the cursor goes to that one, which is returned.
    pub(super) fn insert(&mut self, key: &[u8], row: &[u8]) -> MdbxResult<Option<Found<'_>>> {
        match self.put(key, row, MDBX_NOOVERWRITE) {
            (MDBX_KEYEXIST, old) => Ok(Some(self.bytes(old))),
            (code, _) => done(code).map(|()| None),
        }
    }

    /// Writes a row in the place of the one that the cursor is at, which must have the same key. Nothing is searched: after a
    /// search that has found its row MDBX takes what the cursor is at, whatever was removed before, and else does as with
    /// any row that it replaces.
    pub(super) fn replace(&mut self, key: &[u8], row: &[u8]) -> MdbxResult<()> {
        done(self.put(key, row, MDBX_CURRENT).0)
    }

    /// Removes the row that the cursor is at.
    pub(super) fn remove(&mut self) -> MdbxResult<()> {
        self.0.del()
    }

    /// What MDBX answers, and what it has made of the row.
    fn put(&mut self, key: &[u8], row: &[u8], flags: MDBX_put_flags_t) -> (i32, MDBX_val) {
        let mut value = val(row);
        // SAFETY: the cursor is open as long as its handle and its transaction, which belongs to this thread. MDBX only reads
        // what these values are of.
        let code = unsafe { mdbx_cursor_put(self.0.cursor(), &val(key), &mut value, flags) };
        (code, value)
    }

    /// The key and the row that MDBX answers with.
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

    /// What MDBX says to be there, for as long as the cursor is not used again.
    fn bytes(&self, found: MDBX_val) -> Found<'_> {
        let (start, len) = (found.iov_base.cast::<u8>().cast_const(), found.iov_len);
        // SAFETY: it begins there. It is there as long as nothing is written in the transaction: this cursor is borrowed, and
        // its owner has no other that writes meanwhile. Where it ends is checked as well as it can be; what is assumed
        // beyond that is said there.
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
