//! Tests of stores on the engine in memory.
//!
//! - here: what the suites cannot see, which is durability, waiting and failing,
//! - `memory.rs`: the engine passes the suites,
//! - `reads.rs`: counting, and what is kept of the engine's answers,
//! - `fork.rs`: forks of a store,
//! - `journal/`: stores with a journal.

#![expect(clippy::unwrap_used, reason = "tests")]

mod fork;
mod journal;
mod memory;
mod reads;

use polytrie_kv::{
    Batch, Changes, Durability, Engine, Entry, KeyRange, KvError, MemoryEngine, Pending, Progress,
    Read, Store, StoreOptions, Table,
};
use polytrie_kv_testing::{Fault, FaultEngine, Wrapped, entries};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const A: Table = Table::new(3, "a", 8);
const B: Table = Table::new(4, "b", 32);

fn batch(key: &[u8], value: &[u8]) -> Batch {
    let mut batch = Batch::new();
    batch.put(A, key, value);
    batch
}

fn open(engine: &Arc<impl Engine>, options: StoreOptions) -> Store {
    Store::open(engine.clone(), &[A, B], options).unwrap()
}

/// Returns options with which flushes run before the call returns, and begin only when called for.
fn by_hand() -> StoreOptions {
    StoreOptions { background: false, ..StoreOptions::default() }
}

/// Returns options with which each write is durable when it returns.
fn every_write() -> StoreOptions {
    StoreOptions { durability: Durability::EveryWrite, ..by_hand() }
}

/// Returns the durable rows of a table.
fn durable(engine: &Arc<impl Engine>) -> Vec<Entry> {
    entries(&open(engine, by_hand()), A, KeyRange::ALL)
}

/// An engine with writes that wait while a gate is closed.
#[derive(Debug)]
struct Gate {
    inner: MemoryEngine,
    closed: AtomicBool,
}

impl Gate {
    fn new() -> Arc<Self> {
        Arc::new(Self { inner: MemoryEngine::new(), closed: AtomicBool::new(true) })
    }

    fn open(&self) {
        self.closed.store(false, Ordering::SeqCst);
    }
}

polytrie_kv_testing::wrapped!(Gate);

impl Wrapped for Gate {
    fn inner(&self) -> &dyn Engine {
        &self.inner
    }

    fn on_write(&self, changes: &dyn Changes) -> Result<(), KvError> {
        while self.closed.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.inner.write(changes)
    }
}

#[test]
fn a_write_is_seen_at_once_and_durable_after_a_flush() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine, by_hand());
    store.write(batch(b"1", b"one")).unwrap();
    store.write(batch(b"2", b"two")).unwrap();
    assert_eq!(store.get(A, b"1").unwrap().as_deref(), Some(&b"one"[..]));
    assert_eq!(store.pending().batches, 2);
    assert_eq!(store.progress(), Progress { written: 2, durable: 0 });
    assert!(store.pending().bytes > 8);
    assert_eq!(durable(&engine), []);
    store.flush().unwrap();
    assert_eq!(store.progress(), Progress { written: 2, durable: 2 });
    assert_eq!(store.pending(), Pending::default());
    assert_eq!(durable(&engine).len(), 2);
    assert_eq!(store.table_stats(A).unwrap().entries, 2);
    store.flush().unwrap();
    assert_eq!(store.counters().flushes, 1, "nothing to flush is no flush");
    assert_eq!((store.engine_name(), store.tables()), ("memory", &[A, B][..]));
}

#[test]
fn every_write_is_durable_when_it_returns_if_the_store_says_so() {
    for background in [false, true] {
        let engine = Arc::new(MemoryEngine::new());
        let store = open(&engine, StoreOptions { background, ..every_write() });
        for number in 1..5_u8 {
            store.write(batch(&[number], b"row")).unwrap();
            let written = u64::from(number);
            assert_eq!(store.progress(), Progress { written, durable: written });
            assert_eq!(durable(&engine).len(), usize::from(number));
            // The engine takes the batch at once, without the overlay.
            assert_eq!(store.pending(), Pending::default());
            assert_eq!(store.counters().flushes, written);
        }
        store.flush().unwrap();
        assert_eq!(store.counters().flushes, 4);
    }
}

#[test]
fn the_memory_of_a_written_batch_comes_back_without_its_changes() {
    let store = open(&Arc::new(MemoryEngine::default()), by_hand());
    assert_eq!(store.batch().memory_bytes(), 0);
    for _ in 0..3 {
        let mut batch = store.batch();
        assert!(batch.is_empty());
        batch.put(A, b"key", b"value");
        batch.delete_range(B, b"a", None);
        store.write(batch).unwrap();
    }
    assert!(store.batch().memory_bytes() > 0);
    // A batch that is larger than an ordinary block's is not kept.
    let mut large = store.batch();
    large.put(A, b"large", &vec![0; 16 << 20]);
    store.write(large).unwrap();
    assert_eq!(store.batch().memory_bytes(), 0);
}

#[test]
fn printing_a_store_is_short() {
    let store = Store::memory(&[A, B]).unwrap();
    for i in 0..100 {
        store.write(batch(&[i], &[i; 100])).unwrap();
    }
    let text = format!("{store:?} {:?}", store.snapshot());
    assert!(text.contains("MemoryEngine") && text.len() < 1_000, "{text}");
}

#[test]
fn dropping_does_not_flush() {
    let engine = Arc::new(MemoryEngine::new());
    for background in [false, true] {
        let store = open(&engine, StoreOptions { background, ..StoreOptions::default() });
        store.write(batch(b"1", b"one")).unwrap();
        let snapshot = store.snapshot();
        drop(store);
        assert_eq!(durable(&engine), []);
        assert_eq!(snapshot.get(A, b"1").unwrap().as_deref(), Some(&b"one"[..]), "it still reads");
    }
}

#[test]
fn flushes_by_number_and_by_size() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine, StoreOptions { flush_every: 3, ..by_hand() });
    for i in 0..7_u8 {
        assert_eq!(store.pending().batches, u64::from(i % 3));
        store.write(batch(&[i], &[i])).unwrap();
    }
    assert_eq!(durable(&engine).len(), 6);
    drop(store);

    let options = StoreOptions { flush_every: 1_000_000, overlay_bytes: 100_000, ..by_hand() };
    let store = open(&engine, options);
    for i in 0..100_000_u32 {
        let mut batch = Batch::new();
        batch.put(B, &i.to_be_bytes(), &[1; 100]);
        store.write(batch).unwrap();
        assert!(store.pending().bytes < 100_000);
        if store.pending().batches == 0 {
            assert!((200..900).contains(&i), "{i} rows of about 200 bytes filled 100,000");
            return;
        }
    }
    panic!("it never flushed");
}

#[test]
fn a_full_overlay_waits_for_the_flush_before() {
    let engine = Gate::new();
    let store = open(&engine, StoreOptions { flush_every: 2, ..StoreOptions::default() });
    // Two batches are being flushed, two fill the next generation; the fifth has to wait.
    for i in 0..4 {
        store.write(batch(&[i], b"")).unwrap();
    }
    assert_eq!(store.pending().batches, 4);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| store.write(batch(&[4], b"")));
        while store.counters().stalls == 0 && !writer.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(20));
        assert!(!writer.is_finished());
        assert_eq!(store.get(A, &[3]).unwrap().as_deref(), Some(&b""[..]), "reads do not wait");
        assert_eq!(entries(&store.snapshot(), A, KeyRange::ALL).len(), 4);
        engine.open();
        writer.join().unwrap().unwrap();
    });
    store.flush().unwrap();
    let counters = store.counters();
    assert_eq!(counters.stalls, 1);
    assert!(counters.stall_ns > 0);
    assert_eq!(durable(&engine).len(), 5);
}

#[test]
fn dropping_completes_the_flush_that_runs() {
    let engine = Gate::new();
    let store = open(&engine, StoreOptions { flush_every: 2, ..StoreOptions::default() });
    for i in 0..3 {
        store.write(batch(&[i], b"")).unwrap();
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            engine.open();
        });
        drop(store);
        assert_eq!(durable(&engine).len(), 2, "the two whose flush had begun");
    });
}

#[test]
fn a_failed_flush_poisons() {
    for background in [false, true] {
        for fault in [Fault::Before, Fault::After, Fault::Panic] {
            let engine = Arc::new(FaultEngine::new(Arc::new(MemoryEngine::new()), fault, 2));
            let store = open(&engine, StoreOptions { background, ..StoreOptions::default() });
            store.write(batch(b"1", b"one")).unwrap();
            store.flush().unwrap();
            assert!(store.poisoned().is_none());
            let snapshot = store.snapshot();
            store.write(batch(b"2", b"two")).unwrap();
            let error = store.flush().unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, KvError::Engine { .. }), "{text}");
            assert!(text.contains("a fault was injected at write 2"), "{text}");
            assert_eq!(store.poisoned().map(|e| e.to_string()), Some(text.clone()));
            let refused = [
                store.write(batch(b"3", b"")),
                store.flush(),
                store.begin_flush().and_then(|()| store.checkpoint()),
                store.engine_write(&batch(b"3", b"")),
            ];
            for error in refused.map(Result::unwrap_err) {
                assert!(matches!(&error, KvError::Poisoned(first) if first.to_string() == text));
            }
            assert_eq!(entries(&store, A, KeyRange::ALL).len(), 2, "it can still be read");
            assert_eq!(entries(&store.flushed(), A, KeyRange::ALL).len(), 1, "that is not there");
            assert_eq!(store.pending().batches, 1);
            assert_eq!(entries(&snapshot, A, KeyRange::ALL).len(), 1);
        }
    }
}

#[test]
fn a_failed_engine_write_poisons() {
    for fault in [Fault::Before, Fault::Panic] {
        let engine = Arc::new(FaultEngine::new(Arc::new(MemoryEngine::new()), fault, 1));
        let store = open(&engine, StoreOptions::default());
        assert!(matches!(store.engine_write(&batch(b"1", b"")), Err(KvError::Engine { .. })));
        assert!(matches!(store.write(batch(b"1", b"")), Err(KvError::Poisoned(_))));

        let engine = Arc::new(FaultEngine::new(Arc::new(MemoryEngine::new()), fault, 1));
        let store = open(&engine, every_write());
        assert!(matches!(store.write(batch(b"1", b"")), Err(KvError::Engine { .. })));
        assert!(matches!(store.write(batch(b"1", b"")), Err(KvError::Poisoned(_))));
        assert_eq!(entries(&store, A, KeyRange::ALL), [], "what failed is not seen");
    }
}

#[test]
fn engine_writes_come_after_what_was_pending() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine, StoreOptions::default());
    let before = store.snapshot();
    store.write(batch(b"k", b"first")).unwrap();
    store.engine_write(&batch(b"k", b"second")).unwrap();
    assert_eq!(store.pending(), Pending::default());
    assert_eq!(store.get(A, b"k").unwrap().as_deref(), Some(&b"second"[..]));
    assert_eq!(before.get(A, b"k").unwrap(), None);
    store.write(batch(b"k", b"third")).unwrap();
    assert_eq!(store.get(A, b"k").unwrap().as_deref(), Some(&b"third"[..]));
    store.flush().unwrap();
    assert_eq!(durable(&engine), [(b"k".to_vec(), b"third".to_vec())]);
}

#[test]
fn refuses_what_the_engine_could_not_take() {
    let store = Store::memory(&[A]).unwrap();
    let long = [0; 9];
    let too_long =
        |error| matches!(error, KvError::KeyTooLong { table: "a", found: 9, expected: 8 });
    assert!(too_long(store.get(A, &long).unwrap_err()));
    assert!(too_long(store.snapshot().get(A, &long).unwrap_err()));
    let mut bad = batch(b"good", b"");
    bad.delete(A, &long);
    assert!(too_long(store.write(bad.clone()).unwrap_err()));
    assert!(too_long(store.engine_write(&bad).unwrap_err()));
    let endless = [0; 9_999];
    let range = KeyRange::between(&[], &endless);
    let result = store.scan(A, range, &mut |_, _| Ok(std::ops::ControlFlow::Continue(())));
    assert!(matches!(result, Err(KvError::KeyTooLong { found: 9_999, .. })));
    let mut bad = Batch::new();
    bad.delete_range(A, &endless, None);
    assert!(matches!(store.write(bad), Err(KvError::KeyTooLong { found: 9_999, .. })));

    let unknown = |error| matches!(error, KvError::UnknownTable("b"));
    assert!(unknown(store.get(B, b"").unwrap_err()));
    assert!(unknown(store.table_stats(B).unwrap_err()));
    let mut bad = batch(b"good", b"");
    bad.put(B, b"", b"");
    assert!(unknown(store.write(bad).unwrap_err()));
    let same_number = Table::new(A.id, "other", 8);
    assert!(matches!(store.get(same_number, b""), Err(KvError::UnknownTable("other"))));

    assert_eq!(store.get(A, b"good").unwrap(), None, "nothing of a refused batch is seen");
    assert!(store.poisoned().is_none());
    for tables in [[A, same_number], [A, Table::new(9, "a", 8)]] {
        assert!(matches!(Store::memory(&tables), Err(KvError::DuplicateTable("a", _))));
    }
}

#[test]
fn a_wiped_and_recreated_range_reaches_the_engine_as_such() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine, by_hand());
    for i in 0..100 {
        store.write(batch(&[1, i], b"old")).unwrap();
    }
    store.flush().unwrap();
    let before = store.counters();
    store.write(batch(&[1, 5], b"overwritten, then wiped")).unwrap();
    let mut wipe = Batch::new();
    wipe.put(A, &[1, 7], b"new");
    wipe.delete(A, &[1, 8]);
    wipe.delete(A, &[2]);
    wipe.delete_range(A, &[1], Some(&[2]));
    store.write(wipe).unwrap();
    assert_eq!(entries(&store, A, KeyRange::ALL), [(vec![1, 7], b"new".to_vec())]);
    store.flush().unwrap();
    let counters = store.counters() - before;
    let engine_writes =
        (counters.engine_ranges, counters.engine_puts, counters.engine_deletes, counters.flushes);
    assert_eq!(engine_writes, (1, 1, 1, 1));
    assert_eq!(durable(&engine), [(vec![1, 7], b"new".to_vec())]);
}

/// Readers of the head and of snapshots, one writer, flushes in the background.
#[test]
fn readers_see_whole_batches_while_flushes_run() {
    const KEYS: u8 = 20;
    const BATCHES: u32 = 3_000;
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine, StoreOptions { flush_every: 7, ..StoreOptions::default() });
    let write = |number: u32| {
        let mut batch = Batch::new();
        // Every other batch begins with a range deletion.
        if number % 2 == 1 {
            batch.delete_range(A, &[], None);
        }
        for key in 0..KEYS {
            batch.put(A, &[key], &number.to_be_bytes());
        }
        store.write(batch).unwrap();
    };
    let number = |value: &[u8]| u32::from_be_bytes(value.try_into().unwrap());
    write(0);
    std::thread::scope(|scope| {
        scope.spawn(|| (1..=BATCHES).for_each(write));
        for _ in 0..2 {
            scope.spawn(|| {
                let mut newest = 0;
                while newest < BATCHES {
                    for key in 0..KEYS {
                        let value = store.get(A, &[key]).unwrap().unwrap();
                        assert!(number(&value) >= newest, "never back in time");
                        newest = number(&value);
                    }
                    let snapshot = store.snapshot();
                    let found = entries(&snapshot, A, KeyRange::ALL);
                    assert_eq!(found.len(), usize::from(KEYS));
                    let first = number(&found[0].1);
                    assert!(first >= newest);
                    newest = first;
                    assert!(found.iter().all(|(_, value)| number(value) == first));
                    for key in 0..KEYS {
                        assert_eq!(number(&snapshot.get(A, &[key]).unwrap().unwrap()), first);
                    }
                }
            });
        }
    });
    store.flush().unwrap();
    assert_eq!(store.pending(), Pending::default());
    assert_eq!(durable(&engine).len(), usize::from(KEYS));
}

#[test]
fn by_hand_no_write_begins_a_flush() {
    for background in [false, true] {
        let engine = Arc::new(MemoryEngine::new());
        let durability = Durability::ByHand;
        let options = StoreOptions { flush_every: 2, background, durability, ..by_hand() };
        let store = open(&engine, options);
        for key in 1..=5u8 {
            assert_eq!(store.is_full(), key > 2);
            store.write(batch(&[key], b"held")).unwrap();
        }
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(durable(&engine), []);
        assert_eq!(store.pending().batches, 5);
        store.begin_flush().unwrap();
        // Nothing more is unflushed, so the call waits for the running flush only.
        assert!(!store.is_full());
        store.checkpoint().unwrap();
        assert_eq!(durable(&engine).len(), 5);
        store.write(batch(&[6], b"held")).unwrap();
        store.begin_flush().unwrap();
        assert_eq!(store.pending().batches, 1, "too little has gathered");
        store.flush().unwrap();
        assert_eq!(durable(&engine).len(), 6);
    }
}

/// A layer that needs its writes durable requests a flush; the caller that flushes then waits until it has ended.
#[test]
fn by_hand_a_flush_can_be_asked_for() {
    for background in [false, true] {
        let engine = Arc::new(MemoryEngine::new());
        let durability = Durability::ByHand;
        let store = open(&engine, StoreOptions { background, durability, ..by_hand() });
        assert!(store.is_flushed_by_hand());
        for key in 1..=3u8 {
            store.write(batch(&[key], b"held")).unwrap();
            assert!(!store.is_full());
            store.ask_flush();
            assert!(store.is_full());
            assert_eq!(durable(&engine).len(), usize::from(key) - 1);
            match key {
                3 => store.flush().unwrap(),
                _ => store.begin_flush().unwrap(),
            }
            assert!(!store.is_full());
            assert_eq!(durable(&engine).len(), usize::from(key));
        }
    }
    assert!(!open(&Arc::new(MemoryEngine::new()), by_hand()).is_flushed_by_hand());
}

/// Some writes flush on the store's thread, and others go directly to the engine. They may end in any order. The
/// number of the last durable write never decreases.
#[test]
fn flushes_of_several_threads_end_in_any_order() {
    let options = StoreOptions { flush_every: 1, ..StoreOptions::default() };
    let store = open(&Arc::new(MemoryEngine::new()), options);
    let (done, ended) = std::sync::mpsc::channel();
    for thread in 0..8_u8 {
        let (store, done) = (store.clone(), done.clone());
        std::thread::spawn(move || {
            for i in 0..4_000_u32 {
                let batch = batch(&[thread, i as u8], &i.to_be_bytes());
                match thread % 2 {
                    0 => store.write(batch).unwrap(),
                    _ => store.engine_write(&batch).unwrap(),
                }
            }
            store.checkpoint().unwrap();
            done.send(()).unwrap();
        });
    }
    for _ in 0..8 {
        ended.recv_timeout(Duration::from_secs(600)).expect("a checkpoint waits for ever");
    }
}
