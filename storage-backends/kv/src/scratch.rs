//! Scratch data: one store on disk for all that does not fit into memory and is deleted when the process ends.
//!
//! ```text
//! ENGINE/scratch-…/      beside the files of an engine that is written to disk; the next opening removes what a crash left
//! TMPDIR/polytrie-…/     where there is no such directory: an engine in memory, or one that takes no changes
//!   Scratch0 … Scratch7  number of the part ‖ number of the table ‖ key ► value
//! ```
//!
//! A caller that needs space gets a [`Part`]: a separate set of rows, which are deleted when it is dropped. All parts
//! share one store with one memory map, because a map takes terabytes of address space, enough for only a few dozen
//! maps.

use crate::{
    AtPath, Batch, Entry, KeyRange, KvError, MdbxEngine, MdbxOptions, Op, Read, Result, Store,
    StoreOptions, Table, Visit, disk::remove_dir, prefix_end,
};
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    env, fs, iter,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
};
use tempfile::TempDir;

/// The tables of the store. A part mostly has a table for itself, which is emptied at once. Where there are more
/// parts, they share tables.
const TABLES: [Table; 8] = [
    Table::new(0, "Scratch0", Table::KEY_LIMIT),
    Table::new(1, "Scratch1", Table::KEY_LIMIT),
    Table::new(2, "Scratch2", Table::KEY_LIMIT),
    Table::new(3, "Scratch3", Table::KEY_LIMIT),
    Table::new(4, "Scratch4", Table::KEY_LIMIT),
    Table::new(5, "Scratch5", Table::KEY_LIMIT),
    Table::new(6, "Scratch6", Table::KEY_LIMIT),
    Table::new(7, "Scratch7", Table::KEY_LIMIT),
];

/// The prefix of the directory names beside an engine's files.
const PREFIX: &str = "scratch-";
/// Bytes before each key: the numbers of part and table.
const HEAD: usize = 9;
/// Bytes of rows that are written in one batch.
const PORTION: usize = 8 << 20;
/// Number of rows that are read at once, and bytes of their values after which fewer are.
const PAGE: usize = 256;
const PAGE_BYTES: usize = 32 << 10;
/// Largest size of the store in bytes: much less address space than a store of blocks takes.
const MOST_BYTES: u64 = 1 << 40;

/// A source of parts. Nothing is on disk as long as there is no part.
#[derive(Debug, Clone, Default)]
pub struct Scratch(Arc<Place>);

#[derive(Debug, Default)]
struct Place {
    /// The directory in which the store's directory is created; the system's directory for temporary files if `None`.
    within: Option<PathBuf>,
    /// The open store, which is closed with the last part.
    opened: Mutex<Weak<Opened>>,
}

#[derive(Debug)]
struct Opened {
    // Fields drop in this order: the store before its directory.
    store: Store,
    _dir: TempDir,
    parts: Mutex<Parts>,
    /// The lock that the one running write holds.
    writing: Mutex<()>,
}

#[derive(Debug, Default)]
struct Parts {
    /// Number of the next part.
    next: u64,
    /// Number of parts that have rows in each table.
    sharing: [usize; TABLES.len()],
    /// Numbers of dropped parts with rows that are still in the store, with their tables.
    dropped: Vec<(u64, usize)>,
}

impl Scratch {
    /// Returns scratch space in `within`, and removes what a crash left there; in the directory for temporary files
    /// if `None`.
    pub(crate) fn new(within: Option<PathBuf>) -> Result<Self> {
        if let Some(dir) = &within {
            remove_left_over(dir)?;
        }
        Ok(Self(Arc::new(Place { within, opened: Mutex::default() })))
    }

    /// Creates an empty part.
    ///
    /// # Errors
    ///
    /// If there is no store yet and none can be created.
    pub fn part(&self) -> Result<Part> {
        let mut known = self.0.opened.lock();
        let opened = match known.upgrade() {
            Some(opened) => opened,
            None => {
                let opened = Arc::new(Opened::new(self.0.within.as_deref())?);
                *known = Arc::downgrade(&opened);
                opened
            }
        };
        drop(known);
        let mut parts = opened.parts.lock();
        let number = parts.next;
        parts.next += 1;
        let table = (0..TABLES.len()).min_by_key(|table| parts.sharing[*table]).unwrap_or_default();
        parts.sharing[table] += 1;
        drop(parts);
        Ok(Part(Arc::new(Owned { opened, number, table })))
    }
}

impl Opened {
    fn new(within: Option<&Path>) -> Result<Self> {
        let made = match within {
            Some(within) => TempDir::with_prefix_in(PREFIX, within),
            None => TempDir::with_prefix("polytrie-"),
        };
        let dir = made.map_err(|error| {
            let within = within.map_or_else(env::temp_dir, Path::to_owned);
            KvError::io("create a scratch directory in", &within, error)
        })?;
        let engine = MdbxOptions {
            durable: false,
            max_bytes: Some(MOST_BYTES),
            ..MdbxOptions::new(dir.path(), &TABLES)
        };
        // Scratch data goes directly to the engine, to free memory, so no thread has to flush.
        let options =
            StoreOptions { background: false, counters: false, ..StoreOptions::default() };
        let store = Store::open(Arc::new(MdbxEngine::open(engine)?), &TABLES, options)?;
        let (parts, writing) = (Mutex::default(), Mutex::new(()));
        Ok(Self { store, _dir: dir, parts, writing })
    }

    /// Returns a batch that removes the rows of dropped parts.
    fn remove_dropped(&self) -> Batch {
        let mut batch = Batch::new();
        let mut parts = self.parts.lock();
        let dropped = std::mem::take(&mut parts.dropped);
        for (_, table) in &dropped {
            parts.sharing[*table] -= 1;
        }
        for (number, table) in dropped {
            if parts.sharing[table] == 0 {
                batch.delete_range(TABLES[table], &[], None);
            } else {
                let from = number.to_be_bytes();
                batch.delete_range(TABLES[table], &from, prefix_end(&from).as_deref());
            }
        }
        batch
    }
}

/// A separate set of rows in a store that it shares with other parts. Handles are cheap to clone; the rows are
/// deleted with the last one. A part may be used with any tables, which need not be declared.
#[derive(Debug, Clone)]
pub struct Part(Arc<Owned>);

#[derive(Debug)]
struct Owned {
    opened: Arc<Opened>,
    number: u64,
    /// The index in [`TABLES`] of the part's table.
    table: usize,
}

impl Part {
    /// Writes a batch; not durably, and in portions, so that after a failure a part of the batch may be there.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn write(&self, batch: &Batch) -> Result<()> {
        let Owned { opened, table, .. } = &*self.0;
        let _writing = opened.writing.lock();
        let (mut rows, into) = (opened.remove_dropped(), TABLES[*table]);
        for (table, op) in batch.ops() {
            if let Op::DeleteRange { from, to } = op {
                let to = self.end(table, to);
                rows.delete_range(into, &self.key(table, from), to.as_deref());
            }
        }
        for (table, op) in batch.ops() {
            match op {
                Op::Put { key, value } => rows.put(into, &self.key(table, key), value),
                Op::Delete { key } => rows.delete(into, &self.key(table, key)),
                Op::DeleteRange { .. } => continue,
            }
            opened.store.engine_write_portion(&mut rows, PORTION)?;
        }
        opened.store.engine_write(&rows)
    }

    /// Returns the rows of a range in order; one page of them is in memory at a time.
    pub fn rows(
        &self,
        table: Table,
        from: Vec<u8>,
        to: Option<Vec<u8>>,
    ) -> impl Iterator<Item = Result<Entry>> + use<> {
        let part = self.clone();
        let mut next = Some(from);
        let mut page = VecDeque::new();
        iter::from_fn(move || {
            if page.is_empty() {
                let from = next.take()?;
                let range = KeyRange { from: &from, to: to.as_deref(), reverse: false };
                let (mut bytes, mut is_full) = (0, false);
                let found = part.scan(table, range, &mut |key, value| {
                    page.push_back((key.to_vec(), value.to_vec()));
                    is_full = page.len() > PAGE || bytes > PAGE_BYTES;
                    bytes += value.len();
                    Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
                });
                if let Err(error) = found {
                    page.clear();
                    return Some(Err(error));
                }
                // One row beyond the page shows where the next page begins.
                if is_full {
                    next = page.pop_back().map(|(key, _)| key);
                }
            }
            page.pop_front().map(Ok)
        })
    }

    /// Returns the error for rows that do not decode. Only scratch data is affected; nothing that is kept is damaged.
    pub fn unreadable(what: &str) -> KvError {
        KvError::Engine {
            engine: "scratch",
            action: "reading",
            reason: format!("{what} is not what was written; run the same command again"),
        }
    }

    fn key(&self, table: Table, key: &[u8]) -> Vec<u8> {
        let mut whole = Vec::with_capacity(HEAD + key.len());
        whole.extend_from_slice(&self.0.number.to_be_bytes());
        whole.push(table.id);
        whole.extend_from_slice(key);
        whole
    }

    fn end(&self, table: Table, to: Option<&[u8]>) -> Option<Vec<u8>> {
        match to {
            Some(to) => Some(self.key(table, to)),
            None => prefix_end(&self.key(table, &[])),
        }
    }
}

impl Read for Part {
    fn get_into(&self, table: Table, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        self.0.opened.store.get_into(TABLES[self.0.table], &self.key(table, key), out)
    }

    fn scan(&self, table: Table, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<()> {
        let (from, to) = (self.key(table, range.from), self.end(table, range.to));
        let range = KeyRange { from: &from, to: to.as_deref(), ..range };
        let mut visit = |key: &[u8], value: &[u8]| visit(&key[HEAD..], value);
        self.0.opened.store.scan(TABLES[self.0.table], range, &mut visit)
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // The next write removes the rows: any thread may drop the part last.
        self.opened.parts.lock().dropped.push((self.number, self.table));
    }
}

fn remove_left_over(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir).at("read", dir)? {
        let path = entry.at("read", dir)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(PREFIX) {
            remove_dir(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn entries(reader: &impl Read, table: Table, range: KeyRange<'_>) -> Vec<Entry> {
        let mut entries = Vec::new();
        let mut visit = |key: &[u8], value: &[u8]| {
            entries.push((key.to_vec(), value.to_vec()));
            Ok(ControlFlow::Continue(()))
        };
        reader.scan(table, range, &mut visit).unwrap();
        entries
    }

    const ROWS: Table = Table::new(7, "Rows", 8);
    const OTHERS: Table = Table::new(8, "Others", 8);

    fn put(part: &Part, table: Table, rows: &[(&[u8], &[u8])]) {
        let mut batch = Batch::new();
        rows.iter().for_each(|(key, value)| batch.put(table, key, value));
        part.write(&batch).unwrap();
    }

    /// Counts the entries in the store of a part, including those of other parts.
    fn stored(part: &Part) -> usize {
        let store = &part.0.opened.store;
        TABLES.iter().map(|table| entries(store, *table, KeyRange::ALL).len()).sum()
    }

    #[test]
    fn parts_do_not_see_each_other() {
        let scratch = Scratch::default();
        // There are more parts than tables.
        let parts: Vec<Part> = (0..20).map(|_| scratch.part().unwrap()).collect();
        for (n, part) in (0u8..).zip(&parts) {
            put(part, ROWS, &[(b"a", &[n]), (b"b", &[n, n]), (&[0xff; 8], b"last")]);
            put(part, OTHERS, &[(b"a", b"other")]);
        }
        for (n, part) in (0u8..).zip(&parts) {
            assert_eq!(part.get(ROWS, b"a").unwrap(), Some(vec![n]));
            assert_eq!(part.get(OTHERS, b"b").unwrap(), None);
            let keys = |range| entries(part, ROWS, range).into_iter().map(|(key, _)| key);
            let all = [b"a".to_vec(), b"b".to_vec(), vec![0xff; 8]];
            assert_eq!(Vec::from_iter(keys(KeyRange::ALL)), all);
            assert_eq!(
                Vec::from_iter(keys(KeyRange::ALL.rev())),
                [&all[2], &all[1], &all[0]].map(Clone::clone)
            );
            assert_eq!(Vec::from_iter(keys(KeyRange::between(b"aa", b"c"))), [b"b"]);
        }
        let mut batch = Batch::new();
        batch.put(ROWS, b"c", b"stays");
        batch.delete(OTHERS, b"a");
        batch.delete_range(ROWS, b"b", None);
        parts[3].write(&batch).unwrap();
        let expected = [(b"a".to_vec(), vec![3]), (b"c".to_vec(), b"stays".to_vec())];
        assert_eq!(entries(&parts[3], ROWS, KeyRange::ALL), expected);
        assert_eq!(entries(&parts[3], OTHERS, KeyRange::ALL), []);
        assert_eq!(stored(&parts[3]), 19 * 4 + 2);
    }

    #[test]
    fn rows_go_with_their_part_and_the_directory_with_the_last() {
        let dir = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(Some(dir.path().to_owned())).unwrap();
        let names = || fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(names(), 0);
        let mut parts: Vec<Part> = (0..20).map(|_| scratch.part().unwrap()).collect();
        assert_eq!(names(), 1);
        for part in &parts {
            put(part, ROWS, &[(b"a", b"1"), (b"b", b"2")]);
        }
        let last = parts.pop().unwrap();
        assert_eq!(stored(&last), 40);
        // Half of the parts of one table are dropped, and all parts of another.
        parts.retain(|part| part.0.number % 3 == 0 || part.0.table == 0);
        let left = parts.len() + 1;
        put(&last, ROWS, &[]);
        assert_eq!(stored(&last), 2 * left);
        let clone = last.clone();
        drop((parts, last));
        let again = scratch.part().unwrap();
        put(&again, ROWS, &[(b"a", b"1")]);
        assert_eq!(stored(&again), 3);
        drop((again, clone));
        assert_eq!(names(), 0);
        put(&scratch.part().unwrap(), ROWS, &[(b"a", b"1")]);
    }

    #[test]
    fn rows_are_read_in_pages() {
        let part = Scratch::default().part().unwrap();
        for count in [0, 1, PAGE, PAGE + 1, 2 * PAGE + 5] {
            let keys: Vec<_> = (0..count as u64).map(u64::to_be_bytes).collect();
            let rows: Vec<_> = keys.iter().map(|key| (&key[..], &key[..])).collect();
            put(&part, ROWS, &rows);
            let found: Vec<_> = part.rows(ROWS, Vec::new(), None).map(Result::unwrap).collect();
            assert!(found.iter().map(|(key, _)| &key[..]).eq(keys.iter().map(|key| &key[..])));
        }
    }

    #[test]
    fn what_a_crash_left_is_removed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let left = dir.path().join("scratch-abc");
        fs::create_dir(&left).unwrap();
        fs::write(left.join("mdbx.dat"), b"rows").unwrap();
        fs::write(dir.path().join("journal.1"), b"a block").unwrap();
        let engine = || {
            Arc::new(MdbxEngine::open(MdbxOptions::new(dir.path().join("db"), &[ROWS])).unwrap())
        };
        Scratch::new(Some(dir.path().to_owned())).unwrap();
        assert!(!left.exists() && dir.path().join("journal.1").exists());
        // The part comes through a store, and lies beside the files of its engine.
        let store = Store::open(engine(), &[ROWS], StoreOptions::default()).unwrap();
        let part = store.fork().unwrap().scratch().part().unwrap();
        put(&part, ROWS, &[(b"a", b"1")]);
        let lies_in = || {
            fs::read_dir(dir.path().join("db"))
                .unwrap()
                .filter(|entry| {
                    entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(PREFIX)
                })
                .count()
        };
        assert_eq!(lies_in(), 1);
        drop((part, store));
        assert_eq!(lies_in(), 0);
        fs::create_dir(dir.path().join("db/scratch-xyz")).unwrap();
        let read_only =
            MdbxOptions { read_only: true, ..MdbxOptions::new(dir.path().join("db"), &[ROWS]) };
        let store = Store::open(
            Arc::new(MdbxEngine::open(read_only).unwrap()),
            &[ROWS],
            StoreOptions::default(),
        )
        .unwrap();
        put(&store.scratch().part().unwrap(), ROWS, &[(b"a", b"1")]);
        assert_eq!(lies_in(), 1, "a process that only reads leaves it to the one that writes");
        drop(store);
        drop(Store::open(engine(), &[ROWS], StoreOptions::default()).unwrap());
        assert_eq!(lies_in(), 0);
    }
}
