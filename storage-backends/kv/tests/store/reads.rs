//! What is counted, and what is kept of the engine's answers.

use super::{A, batch, by_hand, every_write, open};
use polytrie_kv::{
    CountersSnapshot, Engine, EngineReads, KeyRange, KvError, MemoryEngine, Read, Store,
    StoreOptions, Table, Values, View, Visit,
};
use polytrie_kv_testing::{BeforeReads, KeepsRows, Remote, Wrapped, entries};
use std::sync::{Arc, Mutex};

#[test]
fn counts_what_is_asked_and_what_reaches_the_engine() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine, by_hand());
    for i in 0..10_u8 {
        let mut batch = batch(b"same", &[i; 10]);
        batch.put(A, &[i], b"row");
        batch.delete(A, b"absent");
        store.write(batch).unwrap();
    }
    store.get(A, b"same").unwrap();
    store.get(A, b"absent").unwrap();
    store.get(A, b"never").unwrap();
    store.flush().unwrap();
    store.get(A, b"same").unwrap();
    store.snapshot().get(A, b"same").unwrap();
    entries(&store, A, KeyRange::between(&[2], &[5]));
    let counters = store.counters();
    let expected = CountersSnapshot {
        gets: 5,
        overlay_gets: 2,
        recent_gets: 0,
        engine_gets: 3,
        engine_get_ns: counters.engine_get_ns,
        slow_engine_gets: counters.slow_engine_gets,
        scans: 1,
        scanned: 3,
        read_bytes: 2 * 10 + 3 * 4,
        batches: 10,
        puts: 20,
        deletes: 10,
        ranges: 0,
        write_bytes: 10 * (14 + 4 + 6),
        engine_puts: 11,
        engine_deletes: 1,
        engine_ranges: 0,
        engine_write_bytes: 14 + 10 * 4 + 6,
        flushes: 1,
        flush_ns: counters.flush_ns,
        journal_batches: 0,
        journal_ns: 0,
        stalls: 0,
        stall_ns: 0,
    };
    assert_eq!(counters, expected);
    assert!(counters.engine_get_ns > 0 && counters.flush_ns > 0);
    assert_eq!(counters - counters, CountersSnapshot::default());

    let store = open(&engine, StoreOptions { counters: false, ..every_write() });
    store.write(batch(b"same", b"")).unwrap();
    store.get(A, b"same").unwrap();
    entries(&store, A, KeyRange::ALL);
    assert_eq!(store.counters(), CountersSnapshot::default());
}

#[test]
fn rows_that_the_engine_answered_are_kept_until_the_next_flush() {
    let engine = Arc::new(KeepsRows(MemoryEngine::new(), 1 << 20));
    let store = open(&engine, every_write());
    store.write(batch(b"row", b"first")).unwrap();
    store.write(batch(b"long", &[7; 9_000])).unwrap();
    let asked = |read: &dyn Fn(&[u8]) -> Option<Vec<u8>>| {
        let before = store.counters();
        let rows = [read(b"row"), read(b"long").map(|row| vec![row[0]]), read(b"never")];
        let counters = store.counters() - before;
        assert_eq!(counters.gets, counters.engine_gets + counters.recent_gets);
        (rows.map(Option::unwrap_or_default), counters.engine_gets)
    };
    let head = |key: &[u8]| store.get(A, key).unwrap();
    let first = [b"first".to_vec(), vec![7], vec![]];
    let before = store.snapshot();
    assert_eq!(asked(&head), (first.clone(), 3));
    assert_eq!(asked(&head), (first.clone(), 1), "all but the long one");
    assert_eq!(asked(&|key| before.get(A, key).unwrap()), (first.clone(), 1), "snapshots share it");

    store.write(batch(b"row", b"second")).unwrap();
    let second = [b"second".to_vec(), vec![7], vec![]];
    assert_eq!(asked(&head), (second.clone(), 3));
    assert_eq!(asked(&|key| before.get(A, key).unwrap()), (first, 1), "as it was");
    assert_eq!(asked(&head), (second, 1));
}

/// An engine that has lost all rows where its answers are doubted.
#[derive(Debug)]
struct Forgetful<T>(T);

polytrie_kv_testing::wrapped!(Forgetful<MemoryEngine>);

impl Wrapped for Forgetful<MemoryEngine> {
    fn inner(&self) -> &dyn Engine {
        &self.0
    }

    fn on_view(&self) -> Result<Box<dyn View>, KvError> {
        Ok(Box::new(Forgetful(self.0.view()?)))
    }
}

impl Read for Forgetful<Box<dyn View>> {
    fn get_into(&self, table: Table, key: &[u8], out: &mut Vec<u8>) -> Result<bool, KvError> {
        self.0.get_into(table, key, out)
    }

    fn read_many(&self, table: Table, keys: &[&[u8]], is_doubted: bool) -> Result<Values, KvError> {
        if is_doubted { Ok(vec![None; keys.len()]) } else { self.0.get_many(table, keys) }
    }

    fn scan(
        &self,
        table: Table,
        range: KeyRange<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<(), KvError> {
        self.0.scan(table, range, visit)
    }
}

#[test]
fn answers_that_are_doubted_are_not_kept() {
    let engine = Arc::new(KeepsRows(Forgetful(MemoryEngine::new()), 1 << 20));
    let store = open(&engine, every_write());
    store.write(batch(b"row", b"value")).unwrap();
    let keys: [&[u8]; 1] = [b"row"];
    let row = vec![Some(b"value".to_vec())];
    assert_eq!(store.read_many(A, &keys, true).unwrap(), vec![None]);
    assert_eq!(store.get_many(A, &keys).unwrap(), row);
    // What was sure is kept, and answers both.
    assert_eq!(store.read_many(A, &keys, true).unwrap(), row);
}

#[test]
fn of_many_keys_the_engine_is_asked_for_what_only_it_knows() {
    let engine = Arc::new(KeepsRows(MemoryEngine::new(), 1 << 20));
    let store = open(&engine, by_hand());
    store.write(batch(b"old", b"flushed")).unwrap();
    store.write(batch(b"gone", b"flushed")).unwrap();
    store.flush().unwrap();
    let before = store.snapshot();
    let mut changes = batch(b"new", b"not flushed");
    changes.delete(A, b"gone");
    store.write(changes).unwrap();
    let keys: [&[u8]; 5] = [b"new", b"old", b"never", b"gone", b"old"];
    let asked = |reader: &dyn Read| {
        let before = store.counters();
        let rows = reader.get_many(A, &keys).unwrap();
        let singles: Vec<_> = keys.iter().map(|key| reader.get(A, key).unwrap()).collect();
        assert_eq!(rows, singles);
        let counters = store.counters() - before;
        assert_eq!(counters.gets, 10);
        let rows = rows.into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>();
        (rows, [counters.overlay_gets, counters.engine_gets, counters.recent_gets])
    };
    let row = |text: &str| text.as_bytes().to_vec();
    let now = ["not flushed", "flushed", "", "", "flushed"].map(row).to_vec();
    // None of the single reads afterwards reaches the engine.
    assert_eq!(asked(&store), (now.clone(), [4, 3, 3]));
    assert_eq!(asked(&store.snapshot()), (now, [4, 0, 6]));
    let then = ["", "flushed", "", "flushed", "flushed"].map(row).to_vec();
    assert_eq!(asked(&before), (then, [0, 2, 8]));
    let result = store.get_many(A, &[b"old", &[0; 9]]);
    assert!(matches!(result, Err(KvError::KeyTooLong { .. })));
}

#[test]
fn slow_reads_are_counted() {
    let store = open(&Arc::new(BeforeReads::slow(MemoryEngine::new())), every_write());
    store.write(batch(b"row", b"")).unwrap();
    for _ in 0..1_000 {
        store.get(A, b"row").unwrap();
    }
    let counters = store.counters();
    assert_eq!(counters.engine_gets, 1_000);
    // All reads are slow, as far as a sample can show.
    assert!(counters.slow_engine_gets.abs_diff(1_000) < 61, "{}", counters.slow_engine_gets);
}

#[test]
fn a_thread_knows_its_own_reads_of_the_engine() {
    let store = open(&Arc::new(KeepsRows(MemoryEngine::new(), 1 << 20)), by_hand());
    store.write(batch(b"flushed", b"")).unwrap();
    store.flush().unwrap();
    store.write(batch(b"new", b"")).unwrap();
    let before = EngineReads::of_this_thread();
    let made = || EngineReads::of_this_thread() - before;
    std::thread::scope(|scope| {
        scope.spawn(|| store.get(A, b"flushed").unwrap());
    });
    // The answer to the other thread is cached, and another row is not flushed.
    store.get_many(A, &[b"flushed", b"new"]).unwrap();
    assert_eq!(made(), EngineReads::default());
    store.get_many(A, &[b"flushed", b"one", b"two"]).unwrap();
    store.get(A, b"three").unwrap();
    assert_eq!(made(), EngineReads { requests: 2, rows: 3 });
    entries(&store, A, KeyRange::ALL);
    assert_eq!(made(), EngineReads { requests: 3, rows: 5 });
}

#[test]
fn a_thread_waits_for_its_own_reads_and_for_those_that_it_waits_for() {
    let store = open(&Arc::new(MemoryEngine::new()), by_hand());
    store.write(batch(b"row", b"")).unwrap();
    store.flush().unwrap();
    let read = || {
        for _ in 0..100 {
            store.get(A, b"row").unwrap();
        }
    };
    let elsewhere = || std::thread::scope(|scope| scope.spawn(read).join().unwrap());
    let start = EngineReads::time_of_this_thread();
    elsewhere();
    assert!(store.counters().engine_get_ns > 0);
    assert_eq!(EngineReads::time_of_this_thread(), start);
    read();
    let own = EngineReads::time_of_this_thread();
    assert!(own > start);
    EngineReads::waiting(elsewhere);
    assert!(EngineReads::time_of_this_thread() > own);
}

/// The engine of a fork is another store, which reads for it.
#[test]
fn a_read_of_a_fork_counts_once() {
    let store = open(&Arc::new(MemoryEngine::new()), by_hand());
    store.write(batch(b"flushed", b"")).unwrap();
    store.flush().unwrap();
    let fork = store.fork().unwrap();
    fork.write(batch(b"own", b"")).unwrap();
    fork.flush().unwrap();
    let before = EngineReads::of_this_thread();
    fork.get(A, b"own").unwrap();
    fork.get(A, b"flushed").unwrap();
    fork.get_many(A, &[b"flushed", b"other"]).unwrap();
    let made = EngineReads::of_this_thread() - before;
    assert_eq!(made, EngineReads { requests: 2, rows: 3 });
}

/// Thousands of them in one answer take a few microseconds each, and the time is counted nevertheless.
#[test]
fn rows_of_other_machines_count_as_slow_however_many_come_together() {
    let keys: Vec<[u8; 2]> = (0..1_000_u16).map(u16::to_be_bytes).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let store = open(&Arc::new(Remote(MemoryEngine::new())), by_hand());
    assert!(store.snapshot().is_remote());
    store.get_many(A, &keys).unwrap();
    assert_eq!(store.counters().slow_engine_gets, 1_000);
}

/// A node may keep silent for a minute: flushes and other reads go on meanwhile.
#[test]
fn a_flush_ends_while_a_read_waits_for_other_machines() {
    let during: Arc<Mutex<Option<Store>>> = Arc::default();
    let waiting = Arc::clone(&during);
    let engine = BeforeReads::new(MemoryEngine::new(), move || {
        let store = waiting.lock().unwrap().take();
        store.map_or(Ok(()), |store| store.flush())
    });
    let store = open(&Arc::new(Remote(engine)), by_hand());
    store.write(batch(b"flushed", b"1")).unwrap();
    store.flush().unwrap();
    store.write(batch(b"new", b"2")).unwrap();
    *during.lock().unwrap() = Some(store.clone());
    assert_eq!(store.get(A, b"flushed").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(store.pending().batches, 0);
    assert_eq!(store.get(A, b"new").unwrap().as_deref(), Some(&b"2"[..]));
}
