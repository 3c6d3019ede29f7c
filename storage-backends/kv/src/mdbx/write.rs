//! One atomic write.

use super::Databases;
use crate::{Changes, KvError, Op, Table};
use signet_libmdbx::{
    Database, Environment, MdbxResult, WriteFlags,
    tx::aliases::{RwCursorUnsync, RwTxUnsync},
};
use std::borrow::Cow;

pub(super) fn write(
    env: &Environment,
    tables: &Databases,
    changes: &dyn Changes,
) -> Result<(), KvError> {
    let failed = |e| tables.context.error("writing", e);
    let read_failed = |e| tables.context.read(e);
    let tx = env.begin_rw_unsync().map_err(failed)?;
    let handle = |table: Table| -> Result<Database, KvError> {
        let position = tables.set.position(table)?;
        tables.handles[position].ok_or(KvError::UnknownTable(table.name))
    };

    // A dropped transaction is rolled back, so every early return leaves nothing behind.
    for (table, op) in changes.ops() {
        if let Op::DeleteRange { from, to } = op {
            table.check_range(from, to)?;
            delete_range(&tx, handle(table)?, from, to).map_err(read_failed)?;
        }
    }

    let mut open: Option<(Table, TableWriter<'_, '_>)> = None;
    for (table, op) in changes.ops() {
        let (Op::Put { key, .. } | Op::Delete { key }) = op else { continue };
        table.check_key(key)?;
        let writer = match &mut open {
            Some((same, writer)) if *same == table => writer,
            other => {
                let writer = TableWriter::new(&tx, handle(table)?).map_err(read_failed)?;
                &mut other.insert((table, writer)).1
            }
        };
        match op {
            Op::Put { value, .. } => writer.put(key, value).map_err(failed)?,
            _ => writer.delete(key).map_err(read_failed)?,
        }
    }
    drop(open);
    tx.commit().map_err(|e| tables.context.error("committing", e))
}

/// Writes to one table. Changes come sorted, so that one cursor mostly stays where it is.
struct TableWriter<'tx, 'key> {
    cursor: RwCursorUnsync<'tx>,
    /// No key of the table is greater; `None` if the table was empty and nothing was written yet.
    last: Option<Cow<'key, [u8]>>,
}

impl<'tx, 'key> TableWriter<'tx, 'key> {
    fn new(tx: &'tx RwTxUnsync, handle: Database) -> signet_libmdbx::ReadResult<Self> {
        let mut cursor = tx.cursor(handle)?;
        let last = cursor.last::<Vec<u8>, ()>()?.map(|(key, ())| Cow::Owned(key));
        Ok(Self { cursor, last })
    }

    fn put(&mut self, key: &'key [u8], value: &[u8]) -> MdbxResult<()> {
        if self.last.as_ref().is_none_or(|last| key > last.as_ref()) {
            // Appending fills pages completely and needs no search.
            self.last = Some(Cow::Borrowed(key));
            self.cursor.append(key, value)
        } else {
            self.cursor.put(key, value, WriteFlags::UPSERT)
        }
    }

    fn delete(&mut self, key: &[u8]) -> signet_libmdbx::ReadResult<()> {
        if self.cursor.set::<()>(key)?.is_some() {
            self.cursor.del()?;
        }
        Ok(())
    }
}

fn delete_range(
    tx: &RwTxUnsync,
    handle: Database,
    from: &[u8],
    to: Option<&[u8]>,
) -> signet_libmdbx::ReadResult<()> {
    if from.is_empty() && to.is_none() {
        return Ok(tx.clear_db(handle)?);
    }
    let mut cursor = tx.cursor(handle)?;
    let first = |cursor: &mut RwCursorUnsync<'_>| -> signet_libmdbx::ReadResult<Option<Vec<u8>>> {
        let entry = if from.is_empty() {
            cursor.first::<Vec<u8>, ()>()?
        } else {
            cursor.set_range::<Vec<u8>, ()>(from)?
        };
        Ok(entry.map(|(key, ())| key))
    };
    // What is left of the range always begins at `from`, so nothing depends on where a deletion leaves the
    // cursor.
    while let Some(key) = first(&mut cursor)? {
        if to.is_some_and(|to| key.as_slice() >= to) {
            break;
        }
        cursor.del()?;
    }
    Ok(())
}
