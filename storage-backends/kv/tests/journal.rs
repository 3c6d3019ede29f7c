//! Stores with a journal: what is durable, and what a crash leaves.

#![expect(clippy::unwrap_used, reason = "tests")]

use polytrie_kv::{
    Batch, Changes, Engine, Entry, KeyRange, KvError, MemoryEngine, Read, Store, StoreOptions,
    Table, View,
    testing::{Random, Wrapped, entries},
};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

const A: Table = Table::new(0, "a", 8);
const B: Table = Table::new(1, "b", 8);

/// An engine with a journal.
#[derive(Debug)]
struct Journaled {
    inner: Arc<MemoryEngine>,
    dir: PathBuf,
}

impl Wrapped for Journaled {
    fn inner(&self) -> &dyn Engine {
        &*self.inner
    }
    fn journal(&self) -> Option<PathBuf> {
        Some(self.dir.clone())
    }
}

fn open(engine: &Arc<MemoryEngine>, dir: &Path) -> Result<Store, KvError> {
    let engine = Journaled { inner: engine.clone(), dir: dir.to_owned() };
    let options = StoreOptions { flush_every: 7, background: false, ..StoreOptions::default() };
    Store::open(Arc::new(engine), &[A, B], options)
}

fn put(table: Table, key: &str, value: &str) -> Batch {
    let mut batch = Batch::new();
    batch.put(table, key.as_bytes(), value.as_bytes());
    batch
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn content(store: &Store) -> [Vec<Entry>; 2] {
    [A, B].map(|table| entries(store, table, KeyRange::ALL))
}

#[test]
fn durable_batches_outlive_the_store_without_the_engine() {
    let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
    let store = open(&engine, dir.path()).unwrap();
    store.write_durable(put(A, "x", "1")).unwrap();
    let mut second = put(B, "x", "2");
    second.delete_range(A, b"", None);
    second.delete(B, b"y");
    store.write_durable(second).unwrap();
    drop(store);
    let bare = Store::open(engine.clone(), &[A, B], StoreOptions::default()).unwrap();
    assert_eq!(content(&bare), [vec![], vec![]], "the engine has nothing yet");
    drop(bare);
    let store = open(&engine, dir.path()).unwrap();
    assert_eq!(content(&store), [vec![], vec![(b"x".to_vec(), b"2".to_vec())]]);
    assert_eq!(store.pending().batches, 2);
    store.checkpoint().unwrap();
    assert_eq!(files(dir.path()), Vec::<PathBuf>::new(), "what the engine has is removed");
}

#[test]
fn what_the_engine_has_is_not_applied_again() {
    let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
    let store = open(&engine, dir.path()).unwrap();
    store.write_durable(put(A, "x", "1")).unwrap();
    let file = files(dir.path()).pop().unwrap();
    let bytes = fs::read(&file).unwrap();
    store.write(put(A, "x", "2")).unwrap();
    store.checkpoint().unwrap();
    drop(store);
    // As if the crash had come before the file was removed.
    fs::write(&file, bytes).unwrap();
    let store = open(&engine, dir.path()).unwrap();
    assert_eq!(store.get(A, b"x").unwrap(), Some(b"2".to_vec()));
    assert_eq!(files(dir.path()), Vec::<PathBuf>::new());
}

#[test]
fn a_file_that_ends_anywhere_holds_the_batches_before() {
    let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
    let store = open(&engine, dir.path()).unwrap();
    let mut ends = Vec::new();
    let file = || files(dir.path()).pop().unwrap();
    for i in 0..4 {
        store.write_durable(put(A, &format!("{i}"), "value")).unwrap();
        ends.push(fs::read(file()).unwrap().len());
    }
    drop(store);
    let (file, bytes) = (file(), fs::read(file()).unwrap());
    for cut in 0..=bytes.len() {
        fs::write(&file, &bytes[..cut]).unwrap();
        let whole = ends.iter().filter(|end| **end <= cut).count();
        assert_eq!(content(&open(&engine, dir.path()).unwrap())[0].len(), whole, "cut at {cut}");
    }
    // A flipped bit ends it likewise.
    let mut flipped = bytes;
    flipped[ends[2] - 1] ^= 1;
    fs::write(&file, flipped).unwrap();
    assert_eq!(content(&open(&engine, dir.path()).unwrap())[0].len(), 2);
}

#[test]
fn a_gap_between_files_is_damage() {
    let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
    for i in 0..3 {
        let store = open(&engine, dir.path()).unwrap();
        store.write_durable(put(A, &format!("{i}"), "value")).unwrap();
    }
    let all = files(dir.path());
    assert_eq!(all.len(), 3, "every opening begins a file");
    for lost in &all[..2] {
        let bytes = fs::read(lost).unwrap();
        fs::remove_file(lost).unwrap();
        assert!(matches!(open(&engine, dir.path()), Err(KvError::Corrupt(_))), "removed");
        fs::write(lost, &bytes[..5]).unwrap();
        assert!(matches!(open(&engine, dir.path()), Err(KvError::Corrupt(_))), "cut");
        fs::write(lost, bytes).unwrap();
    }
    assert_eq!(content(&open(&engine, dir.path()).unwrap())[0].len(), 3);
}

#[test]
fn a_file_that_was_only_begun_is_begun_again() {
    let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
    for i in 0..3 {
        let store = open(&engine, dir.path()).unwrap();
        store.write_durable(put(A, &format!("{i}"), "value")).unwrap();
        drop(store);
        let all = files(dir.path());
        assert_eq!(all.len(), i + 1);
        let number = all.len() + 1;
        fs::write(dir.path().join(format!("journal.{number:016x}")), "poly").unwrap();
    }
    assert_eq!(content(&open(&engine, dir.path()).unwrap())[0].len(), 3);
}

/// An engine with a journal whose writes wait while `closed` says so.
#[derive(Debug)]
struct Gated {
    inner: Journaled,
    closed: Arc<AtomicBool>,
}

impl Wrapped for Gated {
    fn inner(&self) -> &dyn Engine {
        &self.inner
    }
    fn on_write(&self, changes: &dyn Changes) -> Result<(), KvError> {
        while self.closed.load(Relaxed) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        self.inner.write(changes)
    }
    fn journal(&self) -> Option<PathBuf> {
        self.inner.journal()
    }
}

/// What is recovered may be full at once. It is on its way to the engine then while the journal goes on, and a crash
/// before it has arrived must not find a file missing.
#[test]
fn a_crash_while_what_was_recovered_is_flushed_loses_nothing() {
    let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
    for file in 0..2 {
        let store = open(&engine, dir.path()).unwrap();
        for i in 0..3 {
            store.write_durable(put(A, &format!("{file}{i}"), "value")).unwrap();
        }
    }
    let closed = Arc::new(AtomicBool::new(true));
    let inner = Journaled { inner: engine.clone(), dir: dir.path().to_owned() };
    let gated = Gated { inner, closed: closed.clone() };
    let options = StoreOptions { flush_every: 6, ..StoreOptions::default() };
    let store = Store::open(Arc::new(gated), &[A, B], options).unwrap();
    store.write(put(A, "last", "value")).unwrap();
    store.flush().unwrap();
    let crashed = tempfile::tempdir().unwrap();
    for file in files(dir.path()) {
        fs::copy(&file, crashed.path().join(file.file_name().unwrap())).unwrap();
    }
    let found = open(&engine, crashed.path()).map(|store| content(&store));
    closed.store(false, Relaxed);
    assert_eq!(found.unwrap(), content(&store));
    assert_eq!(content(&store)[0].len(), 7);
}

/// Reads what another store writes, which does something each time when a view of the engine was taken.
#[derive(Debug)]
struct Beside {
    inner: Journaled,
    writer: Store,
    /// How often it still does so.
    left: AtomicU64,
}

impl Wrapped for Beside {
    fn inner(&self) -> &dyn Engine {
        &self.inner
    }
    fn on_view(&self) -> Result<Box<dyn View>, KvError> {
        let view = self.inner.view()?;
        if self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
            self.writer.write_durable(put(B, "moves", "on"))?;
            self.writer.checkpoint()?;
            self.writer.write_durable(put(A, "x", "later"))?;
        }
        Ok(view)
    }
    fn takes_nothing(&self) -> bool {
        true
    }
    fn journal(&self) -> Option<PathBuf> {
        self.inner.journal()
    }
}

/// The state that is read is one that the writer had, however often it flushes meanwhile; and its files stay.
#[test]
fn reading_beside_a_writer_mixes_no_states() {
    for flushes in 0..12 {
        let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
        let writer = open(&engine, dir.path()).unwrap();
        writer.write_durable(put(A, "x", "first")).unwrap();
        writer.write_durable(put(B, "y", "second")).unwrap();
        let inner = Journaled { inner: engine.clone(), dir: dir.path().to_owned() };
        let left = AtomicU64::new(flushes);
        let beside = Beside { inner, writer: writer.clone(), left };
        let store = Store::open(Arc::new(beside), &[A, B], StoreOptions::default()).unwrap();
        let row = |table, key: &[u8]| store.get(table, key).unwrap();
        assert_eq!(row(B, b"y"), Some(b"second".to_vec()), "{flushes}");
        let (moved, x) = (row(B, b"moves").is_some(), row(A, b"x").unwrap());
        assert!(x == b"first" || (moved && x == b"later"), "{flushes}");
        assert_eq!(moved, flushes > 0, "{flushes}");
        drop(store);
        drop(writer);
        let again = open(&engine, dir.path()).unwrap();
        assert_eq!(again.get(B, b"y").unwrap(), Some(b"second".to_vec()), "{flushes}");
    }
}

#[test]
fn any_history_with_crashes_ends_at_a_write_not_before_the_last_durable_one() {
    let seed = Random::seed();
    let mut random = Random::new(seed);
    for _ in 0..40 {
        let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
        let mut store = open(&engine, dir.path()).unwrap();
        // Content after each write since the last durable one, that one first.
        let mut history = vec![content(&store)];
        for _ in 0..60 {
            let mut batch = Batch::new();
            for _ in 0..random.below(6) {
                let table = [A, B][random.below(2)];
                let key = [random.below(9) as u8];
                match random.below(6) {
                    0 => batch.delete(table, &key),
                    1 => batch.delete_range(table, &key, Some(&[key[0] + 3])),
                    _ => {
                        let len = random.below(40);
                        batch.put(table, &key, &random.bytes(len));
                    }
                }
            }
            match random.below(11) {
                0..4 => {
                    store.write(batch).unwrap();
                    history.push(content(&store));
                }
                4..8 => {
                    store.write_durable(batch).unwrap();
                    history = vec![content(&store)];
                }
                8 | 9 => {
                    let flush = [Store::flush, Store::checkpoint][random.below(2)];
                    flush(&store).unwrap();
                    history = vec![content(&store)];
                }
                _ => {
                    drop(store);
                    store = open(&engine, dir.path()).unwrap();
                    let found = content(&store);
                    let at = history.iter().rposition(|known| *known == found);
                    assert!(at.is_some(), "the seed is {seed}");
                    history = vec![found];
                }
            }
        }
    }
}
