//! A loss of power takes nothing confirmed from a store with a journal.

#![expect(clippy::print_stderr, reason = "shown by the test harness with --nocapture")]
#![expect(clippy::unwrap_used, reason = "tests")]

use polytrie_kv::{
    Batch, Durability, Engine, KvError, MemoryEngine, Read as _, Store, StoreOptions, Table,
};
use polytrie_kv_testing::{
    Failure, ForgetfulDisk, Lived, OnDisk, STORE_SYNCS, disk_seeds, first_caught, power_loss,
};
use std::sync::Arc;

/// `POLYTRIE_DISK_SEEDS=10000` runs that many seeds; `POLYTRIE_TEST_SEED` repeats one.
#[test]
fn nothing_confirmed_is_lost() {
    let (seeds, mut lived) = (disk_seeds(300), Lived::default());
    for seed in seeds.clone() {
        lived += power_loss(seed, None).unwrap_or_else(|error| panic!("{error}"));
    }
    eprintln!("seeds {seeds:?}: {lived:?}");
}

/// If the suite does not notice that a sync is left out, the sync is not needed, or not tested.
#[test]
fn each_sync_is_needed() {
    for place in STORE_SYNCS {
        let caught = first_caught(0..1_000, place, power_loss);
        let (_, error) = caught.unwrap_or_else(|| panic!("without {place} nothing is lost"));
        eprintln!("without {place}: {error}");
    }
}

/// A refused write is not made by a later flush: its caller may have written the data in another way since.
#[test]
fn what_the_journal_did_not_take_is_not_flushed() {
    const A: Table = Table::new(0, "a", 8);
    let mut refused = 0;
    for call in 1..8 {
        let (disk, engine) = (ForgetfulDisk::new(call), Arc::new(MemoryEngine::new()));
        let on_disk = OnDisk::new(engine.clone() as Arc<dyn Engine>, &disk, disk.dir());
        let (durability, flush_every) = (Durability::EveryWrite, 1);
        let options =
            StoreOptions { durability, flush_every, background: false, ..StoreOptions::default() };
        let store = Store::open(Arc::new(on_disk), &[A], options).unwrap();
        let mut batch = Batch::new();
        batch.put(A, b"key", b"value");
        disk.fail_at(call, Failure::Io);
        if store.write(batch).is_err() && store.is_full() {
            refused += 1;
            let error = store.begin_flush().unwrap_err();
            assert!(matches!(error, KvError::Poisoned(_)), "call {call}: {error}");
            let found = engine.view().unwrap().get_into(A, b"key", &mut Vec::new()).unwrap();
            assert!(!found, "call {call}");
        }
    }
    assert!(refused > 0);
}

/// The system forgets the bytes that it could not write, and the next sync succeeds. A record that is read back after
/// that is not on the disk.
#[test]
fn what_a_failed_sync_left_is_written_again() {
    const A: Table = Table::new(0, "a", 8);
    for (seed, call) in (0..20).flat_map(|seed| (1..8).map(move |call| (seed, call))) {
        let (disk, engine) = (ForgetfulDisk::new(seed), Arc::new(MemoryEngine::new()));
        let open = || {
            let engine = OnDisk::new(engine.clone() as Arc<dyn Engine>, &disk, disk.dir());
            let durability = Durability::EveryWrite;
            let options = StoreOptions { durability, background: false, ..StoreOptions::default() };
            Store::open(Arc::new(engine), &[A], options)
        };
        let write = |store: &Store, key: &[u8]| {
            let mut batch = Batch::new();
            batch.put(A, key, b"value");
            store.write(batch)
        };
        let store = open().unwrap();
        disk.fail_at(call, Failure::Io);
        let confirmed = write(&store, b"1").is_ok();
        drop(store);
        // The system is the same, so the read bytes may be those that it forgot to write.
        disk.revive();
        let store = open().unwrap();
        let found = store.get(A, b"1").unwrap().is_some();
        assert!(found || !confirmed);
        write(&store, b"2").unwrap();
        drop(store);
        disk.restart();
        let store = open().unwrap_or_else(|error| panic!("seed {seed}, call {call}: {error}"));
        assert_eq!(store.get(A, b"1").unwrap().is_some(), found, "seed {seed}, call {call}");
        assert!(store.get(A, b"2").unwrap().is_some(), "seed {seed}, call {call}");
    }
}
