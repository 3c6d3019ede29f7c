//! What a write, a flush and a crash leave, and how long the journal gets.

use super::{A, B, Journaled, content, files, in_step, open, open_as, put};
use polytrie_kv::{
    Batch, Changes, Durability, Engine, KvError, MemoryEngine, Read, Store, StoreOptions,
};
use polytrie_kv_testing::{Random, Wrapped};
use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

#[test]
fn durable_batches_outlive_the_store_without_the_engine() {
    let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
    let store = open(&engine, dir.path()).unwrap();
    store.write(put(A, "x", "1")).unwrap();
    let mut second = put(B, "x", "2");
    second.delete_range(A, b"", None);
    second.delete(B, b"y");
    store.write(second).unwrap();
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
fn what_is_settled_is_in_the_engine() {
    let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
    let store = open(&engine, dir.path()).unwrap();
    store.write(put(A, "x", "1")).unwrap();
    store.settle().unwrap();
    assert_eq!((store.pending().batches, files(dir.path())), (0, Vec::new()));
}

#[test]
fn what_the_engine_has_is_not_applied_again() {
    let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
    let store = open(&engine, dir.path()).unwrap();
    store.write(put(A, "x", "1")).unwrap();
    let file = files(dir.path()).pop().unwrap();
    let bytes = fs::read(&file).unwrap();
    store.write(put(A, "x", "2")).unwrap();
    store.checkpoint().unwrap();
    drop(store);
    // The file is put back, as if the crash had come before its removal.
    fs::write(&file, bytes).unwrap();
    let store = open(&engine, dir.path()).unwrap();
    assert_eq!(store.get(A, b"x").unwrap(), Some(b"2".to_vec()));
    assert_eq!(files(dir.path()), Vec::<PathBuf>::new());
}

/// Writes that overwrite each other take no more memory, but all of them are in the journal.
#[test]
fn a_journal_is_bounded_by_its_bytes() {
    let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
    let options = || StoreOptions {
        overlay_bytes: 100_000,
        flush_every: 1_000_000,
        ..in_step(Durability::EveryWrite)
    };
    let journaled = || Arc::new(Journaled { inner: engine.clone(), dir: dir.path().to_owned() });
    let size =
        || files(dir.path()).iter().map(|file| fs::metadata(file).unwrap().len()).sum::<u64>();
    let mut largest = 0;
    for i in 0..200_u8 {
        // The process is killed now and then: recovered records count, too.
        let store = Store::open(journaled(), &[A, B], options()).unwrap();
        for _ in 0..i % 5 {
            store.write(put(A, "x", &"0".repeat(10_000 + usize::from(i)))).unwrap();
            largest = largest.max(size());
        }
    }
    assert!((50_000..120_000).contains(&largest), "{largest}");
    // A batch of that size goes to the engine directly and is not written twice.
    let store = Store::open(journaled(), &[A, B], options()).unwrap();
    store.write(put(B, "large", &"1".repeat(150_000))).unwrap();
    assert_eq!(size(), 0);
    let bare = Store::open(engine.clone(), &[A, B], StoreOptions::default()).unwrap();
    assert_eq!(bare.get(B, b"large").unwrap().unwrap().len(), 150_000);
}

/// A journal at its limit waits for the running flush, so that at most two such files are on disk.
#[test]
fn a_full_journal_waits_for_the_flush_before() {
    let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
    let closed = Arc::new(AtomicBool::new(true));
    let inner = Journaled { inner: engine, dir: dir.path().to_owned() };
    let gated = Gated { inner, closed: closed.clone() };
    let options =
        StoreOptions { overlay_bytes: 50_000, background: true, ..in_step(Durability::EveryWrite) };
    let store = Store::open(Arc::new(gated), &[A, B], options).unwrap();
    let write = || store.write(put(A, "x", &"0".repeat(10_000))).unwrap();
    // Five are flushed, five more fill the next file; the one after them has to wait.
    (0..10).for_each(|_| write());
    let size =
        || files(dir.path()).iter().map(|file| fs::metadata(file).unwrap().len()).sum::<u64>();
    std::thread::scope(|scope| {
        let writer = scope.spawn(write);
        let pause = || std::thread::sleep(std::time::Duration::from_millis(20));
        while store.counters().stalls == 0 && !writer.is_finished() {
            pause();
        }
        pause();
        assert!(!writer.is_finished());
        assert!((100_000..110_000).contains(&size()), "{}", size());
        closed.store(false, Relaxed);
    });
    assert_eq!(store.counters().stalls, 1);
    store.checkpoint().unwrap();
    assert_eq!((size(), store.counters().flushes), (0, 3));
}

/// A deferred write is not in the journal. The records of an earlier process stay there until the engine has them.
#[test]
fn a_deferred_write_is_durable_with_the_flush_and_not_before() {
    let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
    open(&engine, dir.path()).unwrap().write(put(A, "x", "journaled")).unwrap();
    let deferred = || open_as(Durability::Deferred, &engine, dir.path()).unwrap();
    let rows = |store: &Store| content(store)[0].len();
    let store = deferred();
    assert_eq!((rows(&store), files(dir.path()).len()), (1, 1));
    store.write(put(A, "y", "deferred")).unwrap();
    assert_eq!((rows(&store), store.counters().journal_batches), (2, 0));
    drop(store);
    let store = deferred();
    assert_eq!(rows(&store), 1);
    store.flush().unwrap();
    assert_eq!(store.counters().flushes, 0, "the journal has it");
    store.write(put(A, "y", "deferred")).unwrap();
    store.flush().unwrap();
    assert_eq!(files(dir.path()), Vec::<PathBuf>::new());
    drop(store);
    assert_eq!(rows(&deferred()), 2);
}

/// An engine with a journal. Its writes wait while `closed` is set.
#[derive(Debug)]
struct Gated {
    inner: Journaled,
    closed: Arc<AtomicBool>,
}

polytrie_kv_testing::wrapped!(Gated);

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

/// A recovered generation may be full at once. It is then being flushed while the journal goes on, and a crash before
/// the flush ends must not find a file missing.
#[test]
fn a_crash_while_what_was_recovered_is_flushed_loses_nothing() {
    let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
    for file in 0..2 {
        let store = open(&engine, dir.path()).unwrap();
        for i in 0..3 {
            store.write(put(A, &format!("{file}{i}"), "value")).unwrap();
        }
    }
    let closed = Arc::new(AtomicBool::new(true));
    let inner = Journaled { inner: engine.clone(), dir: dir.path().to_owned() };
    let gated = Gated { inner, closed: closed.clone() };
    let options =
        StoreOptions { flush_every: 6, background: true, ..in_step(Durability::EveryWrite) };
    let store = Store::open(Arc::new(gated), &[A, B], options).unwrap();
    store.write(put(A, "last", "value")).unwrap();
    let crashed = tempfile::tempdir().unwrap();
    for file in files(dir.path()) {
        fs::copy(&file, crashed.path().join(file.file_name().unwrap())).unwrap();
    }
    let found = open(&engine, crashed.path()).map(|store| content(&store));
    closed.store(false, Relaxed);
    assert_eq!(found.unwrap(), content(&store));
    assert_eq!(content(&store)[0].len(), 7);
}

#[test]
fn any_history_with_crashes_ends_at_a_write_not_before_the_last_durable_one() {
    let seed = Random::seed();
    let mut random = Random::new(seed);
    for _ in 0..40 {
        let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
        let durabilities = [Durability::EveryWrite, Durability::Deferred];
        let mut durability = durabilities[random.below(2)];
        let mut store = open_as(durability, &engine, dir.path()).unwrap();
        // The content after each write since the last durable one, starting with that one.
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
            match random.below(12) {
                0..8 => {
                    store.write(batch).unwrap();
                    if durability == Durability::EveryWrite {
                        history.clear();
                    }
                    history.push(content(&store));
                }
                8 | 9 => {
                    let flush = [Store::flush, Store::checkpoint][random.below(2)];
                    flush(&store).unwrap();
                    history = vec![content(&store)];
                }
                10 => {
                    store.engine_write(&batch).unwrap();
                    history = vec![content(&store)];
                }
                _ => {
                    drop(store);
                    durability = durabilities[random.below(2)];
                    store = open_as(durability, &engine, dir.path()).unwrap();
                    let found = content(&store);
                    let at = history.iter().rposition(|known| *known == found);
                    assert!(at.is_some(), "the seed is {seed}");
                    history = vec![found];
                }
            }
        }
    }
}
