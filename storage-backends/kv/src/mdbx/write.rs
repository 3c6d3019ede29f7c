//! The code of one atomic write.

use super::{
    Databases,
    cursor::{Found, WriteCursor},
    row::Rows,
    tally::Tally,
};
use crate::{Changes, KeyRange, KvError, Op, Result, Table, checksum::Checksum};
use signet_libmdbx::{Environment, MdbxError, tx::aliases::RwTxUnsync};
use std::{borrow::Cow, collections::BTreeMap};

pub(super) fn write(env: &Environment, tables: &Databases, changes: &dyn Changes) -> Result<()> {
    let failed = |e| tables.context.error("writing", e);
    let tx = env.begin_rw_unsync().map_err(failed)?;
    let mut tallies = Tallies { tx: &tx, tables, changed: BTreeMap::new() };

    // A dropped transaction is rolled back, so every early return leaves nothing behind.
    for (table, KeyRange { from, to, .. }) in changes.deleted_ranges() {
        table.check_range(from, to)?;
        let mut writer = TableWriter::new(&tx, tables, table, tallies.of(table)?)?;
        writer.delete_range(from, to)?;
        tallies.keep(&writer);
    }

    let mut open: Option<TableWriter<'_, '_>> = None;
    for (table, op) in changes.ops() {
        let (Op::Put { key, .. } | Op::Delete { key }) = op else { continue };
        table.check_key(key)?;
        let writer = match &mut open {
            Some(writer) if writer.rows.table == table => writer,
            other => {
                if let Some(done) = other.take() {
                    tallies.keep(&done);
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
        tallies.keep(done);
    }
    drop(open);
    tallies.write()?;
    tx.commit().map_err(|e| tables.context.error("committing", e))
}

/// The tallies of the tables that a transaction writes to.
struct Tallies<'tx> {
    tx: &'tx RwTxUnsync,
    tables: &'tx Databases,
    /// The tallies that have changed, with their tables, by the number of the table.
    changed: BTreeMap<u8, (Table, Tally)>,
}

impl Tallies<'_> {
    /// Returns the tally of a table as this transaction has it.
    fn of(&self, table: Table) -> Result<Tally> {
        match self.changed.get(&table.id) {
            Some((_, tally)) => Ok(*tally),
            None => Tally::read(self.tx, self.tables, table),
        }
    }

    /// Keeps the tally of a table as its writer has it.
    fn keep(&mut self, writer: &TableWriter<'_, '_>) {
        let table = writer.rows.table;
        self.changed.insert(table.id, (table, writer.tally));
    }

    fn write(self) -> Result<()> {
        let Self { tx, tables, changed } = self;
        changed.into_values().try_for_each(|(table, tally)| tally.write(tx, tables, table))
    }
}

/// A writer to one table. Changes come sorted, so that its one cursor mostly stays where it is.
struct TableWriter<'tx, 'key> {
    rows: &'tx Rows,
    tables: &'tx Databases,
    tx: &'tx RwTxUnsync,
    cursor: WriteCursor<'tx>,
    tally: Tally,
    /// A bound on the table's keys: none is greater. `None` if the table was empty and nothing was written yet.
    last: Option<Cow<'key, [u8]>>,
    /// A buffer for one row.
    row: Vec<u8>,
}

impl<'tx, 'key> TableWriter<'tx, 'key> {
    fn new(
        tx: &'tx RwTxUnsync,
        tables: &'tx Databases,
        table: Table,
        tally: Tally,
    ) -> Result<Self> {
        let rows = tables.rows(table)?.ok_or(KvError::UnknownTable(table.name))?;
        let cursor =
            WriteCursor::new(tx, rows.database).map_err(|e| tables.context.error("writing", e))?;
        Ok(Self { rows, tables, tx, cursor, tally, last: None, row: Vec::new() })
    }

    fn find_last(&mut self) -> Result<()> {
        let context = &self.tables.context;
        if let Some(key) = self.cursor.last_key().map_err(|e| context.error("writing", e))? {
            let key = self.rows.known_key(context, key, &[])?;
            self.last = Some(Cow::Owned(key.to_vec()));
        }
        Ok(())
    }

    fn failed(&self, error: MdbxError) -> KvError {
        self.tables.context.error("writing", error)
    }

    fn put(&mut self, key: &'key [u8], value: &[u8]) -> Result<()> {
        let keyed = self.rows.keyed(key);
        Rows::encode(keyed, value, &mut self.row);
        let is_last = self.last.as_ref().is_none_or(|last| key > last.as_ref());
        let written = if is_last {
            self.last = Some(Cow::Borrowed(key));
            self.cursor.append(key, &self.row)
        } else {
            match self.cursor.insert(key, &self.row) {
                Ok(None) => Ok(()),
                Ok(Some(old)) => {
                    forget(&mut self.tally, keyed, old)
                        .ok_or_else(|| self.tables.context.damaged_row(self.rows.table, key))?;
                    self.cursor.replace(key, &self.row)
                }
                Err(error) => Err(error),
            }
        };
        written.map_err(|e| self.failed(e))?;
        self.tally.add(&self.row);
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        let Self { rows, tables, cursor, tally, .. } = self;
        match cursor.find(key) {
            Ok(None) => Ok(()),
            Ok(Some(row)) => {
                forget(tally, rows.keyed(key), row)
                    .ok_or_else(|| tables.context.damaged_row(rows.table, key))?;
                cursor.remove().map_err(|e| self.failed(e))
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    fn delete_range(&mut self, from: &[u8], to: Option<&[u8]>) -> Result<()> {
        let Self { rows, tables, cursor, tally, .. } = self;
        let context = &tables.context;
        let failed = |e| context.error("writing", e);
        if from.is_empty() && to.is_none() {
            *tally = Tally::default();
            return self.tx.clear_db(rows.database).map_err(failed);
        }
        // The rest of the range always begins at `from`, so nothing depends on where a deletion leaves the cursor.
        while let Some((key, row)) = cursor.first(from).map_err(failed)? {
            let key = rows.known_key(context, key, from)?;
            if to.is_some_and(|to| key >= to) {
                break;
            }
            forget(tally, rows.keyed(key), row)
                .ok_or_else(|| context.damaged_row(rows.table, key))?;
            cursor.remove().map_err(failed)?;
        }
        Ok(())
    }
}

/// Subtracts a row that will be removed or replaced from the tally. Returns `None` if the row is damaged: the tally
/// has the checksum that the row was written with.
fn forget(tally: &mut Tally, keyed: Checksum, row: Found<'_>) -> Option<()> {
    let row = row?;
    keyed.open(row)?;
    tally.remove(row);
    Some(())
}
