//! One atomic write.

use super::{
    Databases,
    row::{Rows, StoredRow},
    tally::Tally,
};
use crate::{Changes, KvError, Op, Table};
use signet_libmdbx::{
    Environment, WriteFlags,
    tx::aliases::{RwCursorUnsync, RwTxUnsync},
};
use std::borrow::Cow;

pub(super) fn write(
    env: &Environment,
    tables: &Databases,
    changes: &dyn Changes,
) -> Result<(), KvError> {
    let failed = |e| tables.context.error("writing", e);
    let tx = env.begin_rw_unsync().map_err(failed)?;
    let mut tallies = Tallies { tx: &tx, tables, changed: Vec::new() };

    // A dropped transaction is rolled back, so every early return leaves nothing behind.
    for (table, op) in changes.ops() {
        if let Op::DeleteRange { from, to } = op {
            table.check_range(from, to)?;
            let mut writer = TableWriter::new(&tx, tables, table, tallies.of(table)?)?;
            writer.delete_range(from, to)?;
            tallies.set(table, writer.tally);
        }
    }

    let mut open: Option<TableWriter<'_, '_>> = None;
    for (table, op) in changes.ops() {
        let (Op::Put { key, .. } | Op::Delete { key }) = op else { continue };
        table.check_key(key)?;
        let writer = match &mut open {
            Some(writer) if writer.rows.table == table => writer,
            other => {
                if let Some(done) = other.take() {
                    tallies.set(done.rows.table, done.tally);
                }
                let mut writer = TableWriter::new(&tx, tables, table, tallies.of(table)?)?;
                writer.find_last()?;
                other.insert(writer)
            }
        };
        match op {
            Op::Put { value, .. } => writer.put(key, value)?,
            _ => writer.delete(key)?,
        }
    }
    if let Some(done) = &open {
        tallies.set(done.rows.table, done.tally);
    }
    drop(open);
    tallies.write()?;
    tx.commit().map_err(|e| tables.context.error("committing", e))
}

/// What the rows amount to of the tables that are written to.
struct Tallies<'tx> {
    tx: &'tx RwTxUnsync,
    tables: &'tx Databases,
    changed: Vec<(Table, Tally)>,
}

impl Tallies<'_> {
    fn of(&self, table: Table) -> Result<Tally, KvError> {
        match self.changed.iter().find(|(changed, _)| *changed == table) {
            Some((_, tally)) => Ok(*tally),
            None => Tally::read(self.tx, self.tables, table),
        }
    }

    fn set(&mut self, table: Table, tally: Tally) {
        match self.changed.iter_mut().find(|(changed, _)| *changed == table) {
            Some((_, changed)) => *changed = tally,
            None => self.changed.push((table, tally)),
        }
    }

    fn write(self) -> Result<(), KvError> {
        self.changed.iter().try_for_each(|(table, tally)| tally.write(self.tx, self.tables, *table))
    }
}

/// Writes to one table. Changes come sorted, so that one cursor mostly stays where it is.
struct TableWriter<'tx, 'key> {
    rows: &'tx Rows,
    tables: &'tx Databases,
    tx: &'tx RwTxUnsync,
    cursor: RwCursorUnsync<'tx>,
    tally: Tally,
    /// No key of the table is greater; `None` if the table was empty and nothing was written yet.
    last: Option<Cow<'key, [u8]>>,
    /// Memory for one row.
    row: Vec<u8>,
}

impl<'tx, 'key> TableWriter<'tx, 'key> {
    fn new(
        tx: &'tx RwTxUnsync,
        tables: &'tx Databases,
        table: Table,
        tally: Tally,
    ) -> Result<Self, KvError> {
        let rows = tables.rows(table)?.ok_or(KvError::UnknownTable(table.name))?;
        let cursor = tx.cursor(rows.database).map_err(|e| tables.context.error("writing", e))?;
        Ok(Self { rows, tables, tx, cursor, tally, last: None, row: Vec::new() })
    }

    fn find_last(&mut self) -> Result<(), KvError> {
        let last = self.cursor.last::<Vec<u8>, ()>().map_err(|e| self.tables.context.read(e))?;
        self.last = last.map(|(key, ())| Cow::Owned(key));
        Ok(())
    }

    fn put(&mut self, key: &'key [u8], value: &[u8]) -> Result<(), KvError> {
        let tables = self.tables;
        let failed = |e| tables.context.error("writing", e);
        self.rows.encode(key, value, &mut self.row);
        if self.last.as_ref().is_none_or(|last| key > last.as_ref()) {
            // Appending fills pages completely and needs no search.
            self.last = Some(Cow::Borrowed(key));
            self.cursor.append(key, &self.row).map_err(failed)?;
        } else {
            // The page is found at once the second time. What a cursor says of the row it is at, without a search, is that
            // of the next one after it has deleted something.
            if let Some(old) = self.find(key)? {
                self.forget(key, &old)?;
            }
            self.cursor.put(key, &self.row, WriteFlags::UPSERT).map_err(failed)?;
        }
        self.tally.add(&self.row);
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), KvError> {
        match self.find(key)? {
            Some(row) => self.remove(key, &row),
            None => Ok(()),
        }
    }

    /// The row with this key, to which the cursor goes.
    fn find(&mut self, key: &[u8]) -> Result<Option<StoredRow>, KvError> {
        self.cursor.set(key).map_err(|e| self.tables.context.read(e))
    }

    /// Removes the row that the cursor is at.
    fn remove(&mut self, key: &[u8], row: &StoredRow) -> Result<(), KvError> {
        self.forget(key, row)?;
        self.cursor.del().map_err(|e| self.tables.context.error("writing", e))
    }

    /// Takes a row out of what the rows amount to. One that is damaged was counted with another checksum.
    fn forget(&mut self, key: &[u8], row: &StoredRow) -> Result<(), KvError> {
        let context = &self.tables.context;
        self.rows.stored_value(context, key, row)?;
        self.tally.remove(row.as_slice());
        Ok(())
    }

    fn delete_range(&mut self, from: &[u8], to: Option<&[u8]>) -> Result<(), KvError> {
        if from.is_empty() && to.is_none() {
            self.tally = Tally::default();
            let cleared = self.tx.clear_db(self.rows.database);
            return cleared.map_err(|e| self.tables.context.error("writing", e));
        }
        // What is left of the range always begins at `from`, so nothing depends on where a deletion leaves the
        // cursor.
        loop {
            let first = match from.is_empty() {
                true => self.cursor.first::<Vec<u8>, StoredRow>(),
                false => self.cursor.set_range::<Vec<u8>, StoredRow>(from),
            };
            match first.map_err(|e| self.tables.context.read(e))? {
                Some((key, row)) if to.is_none_or(|to| key.as_slice() < to) => {
                    self.remove(&key, &row)?;
                }
                _ => return Ok(()),
            }
        }
    }
}
