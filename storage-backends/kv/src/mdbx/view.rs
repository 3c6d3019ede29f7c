//! A consistent view of the environment, shared between threads.

use super::Databases;
use crate::{
    KeyRange, Read, Result, Table, Values, Visit, chunk::scan_in_chunks, shard::thread_number,
};
use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, MutexGuard};
use signet_libmdbx::{Environment, MdbxError, MdbxResult, tx::aliases::RoTxUnsync};
use std::{borrow::Cow, sync::Arc};

/// Number of keys that are read before the reader is released.
const KEYS_AT_ONCE: usize = 16;

/// Several read transactions on the same state of the environment.
///
/// A read transaction serves one thread at a time. One for each of a few threads keeps them from waiting for each
/// other, which matters most when a read goes to the disk.
#[derive(Debug)]
pub(super) struct MdbxView {
    readers: Box<[CachePadded<Mutex<RoTxUnsync>>]>,
    tables: Arc<Databases>,
}

impl MdbxView {
    pub(super) fn new(
        env: &Environment,
        tables: &Arc<Databases>,
        writing: &Mutex<()>,
    ) -> Result<Self> {
        let transactions =
            begin(env, writing).map_err(|e| tables.context.error("opening a view", e))?;
        let readers = transactions.into_iter().map(|tx| CachePadded::new(Mutex::new(tx))).collect();
        Ok(Self { readers, tables: tables.clone() })
    }

    /// Locks a reader that no other thread uses; if there is none, waits for the one that this thread prefers.
    fn reader(&self) -> MutexGuard<'_, RoTxUnsync> {
        let count = self.readers.len();
        let first = thread_number() % count;
        let free = (0..count).find_map(|i| self.readers[(first + i) % count].try_lock());
        free.unwrap_or_else(|| self.readers[first].lock())
    }
}

impl Read for MdbxView {
    fn get_into(&self, table: Table, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let position = self.tables.set.key_position(table, key)?;
        let Some(rows) = &self.tables.rows[position] else { return Ok(false) };
        let context = &self.tables.context;
        let reader = self.reader();
        let row: Option<Cow<'_, [u8]>> =
            reader.get(rows.database.dbi(), key).map_err(|e| context.read(e))?;
        let Some(row) = row else { return Ok(false) };
        out.extend_from_slice(rows.value(context, key, &row)?);
        Ok(true)
    }

    /// Reads the keys with one cursor, which does not begin at the root if the next key is in the same page.
    fn read_many(&self, table: Table, keys: &[&[u8]], _: bool) -> Result<Values> {
        keys.iter().try_for_each(|key| table.check_key(key))?;
        let Some(rows) = self.tables.rows(table)? else { return Ok(vec![None; keys.len()]) };
        let context = &self.tables.context;
        let mut values = Vec::with_capacity(keys.len());
        // Other threads get the reader in between, because each key may wait for a disk.
        for keys in keys.chunks(KEYS_AT_ONCE) {
            let reader = self.reader();
            let mut cursor =
                reader.cursor(rows.database).map_err(|e| context.error("reading", e))?;
            for key in keys {
                let row: Option<Cow<'_, [u8]>> = cursor.set(key).map_err(|e| context.read(e))?;
                let value = row.map(|row| Ok(rows.value(context, key, &row)?.to_vec()));
                values.push(value.transpose()?);
            }
        }
        Ok(values)
    }

    fn scan(&self, table: Table, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<()> {
        let position = self.tables.set.range_position(table, range)?;
        let Some(rows) = &self.tables.rows[position] else { return Ok(()) };
        let context = &self.tables.context;
        scan_in_chunks(range, visit, |range, chunk| {
            let reader = self.reader();
            let mut cursor =
                reader.cursor(rows.database).map_err(|e| context.error("reading", e))?;
            let mut entry = first(&mut cursor, range).map_err(|e| context.read(e))?;
            while let Some((key, row)) = entry {
                rows.check_key(context, &key)?;
                let is_in_range = range.contains(&key);
                if !is_in_range || !chunk.push(&key, rows.value(context, &key, &row)?) {
                    break;
                }
                let next = if range.reverse { cursor.prev() } else { cursor.next() };
                entry = next.map_err(|e| context.read(e))?;
            }
            Ok(())
        })
    }
}

type Cursor<'tx> = signet_libmdbx::tx::aliases::RoCursorUnsync<'tx>;
pub(super) type Entry<'tx> = (Cow<'tx, [u8]>, Cow<'tx, [u8]>);

/// Returns the entry that a range begins with, or an entry behind the range.
fn first<'tx>(
    cursor: &mut Cursor<'tx>,
    range: KeyRange<'_>,
) -> signet_libmdbx::ReadResult<Option<Entry<'tx>>> {
    if !range.reverse {
        return match range.from {
            [] => cursor.first(),
            from => cursor.set_range(from),
        };
    }
    match range.to {
        None => cursor.last(),
        // The cursor goes to the first entry after the range, and one back.
        Some(to) => match cursor.set_range::<(), ()>(to)? {
            Some(_) => cursor.prev(),
            None => cursor.last(),
        },
    }
}

/// Begins to read with `begin`. `MDBX_PROBLEM` means damage, or that commits follow each other too fast for MDBX. If the
/// newest commit has changed since the last attempt, this is no damage, and the next attempt follows.
pub(super) fn steadily<T>(env: &Environment, begin: impl Fn() -> MdbxResult<T>) -> MdbxResult<T> {
    let mut failed_at = None;
    loop {
        let begun = begin();
        if !matches!(begun, Err(MdbxError::Problem)) {
            return begun;
        }
        let newest = env.info().ok().map(|info| info.last_txnid());
        if failed_at == Some(newest) {
            return begun;
        }
        failed_at = Some(newest);
    }
}

/// Begins read transactions that all see the same state.
fn begin(env: &Environment, writing: &Mutex<()>) -> MdbxResult<Vec<RoTxUnsync>> {
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get());
    let mut count = (threads * 2).clamp(4, 32);
    loop {
        match steadily(env, || env.begin_ro_unsync_multi(count)) {
            // Many live views have used up the reader table; fewer readers serve as well, only slower.
            Err(MdbxError::ReadersFull) if count > 1 => count /= 2,
            // Commits followed each other too fast. No commit runs while this thread holds the lock.
            Err(MdbxError::SnapshotDivergence) => {
                let _writing = writing.lock();
                return steadily(env, || env.begin_ro_unsync_multi(count));
            }
            other => return other,
        }
    }
}
