//! Tests with late threads, lost hints and failing workers.

use super::suites::Replica;
use crate::{ReplicaLayer, ReplicaOptions};
use alloy_primitives::{Address, B256};
use parking_lot::Mutex;
use polytrie_kv::{KvError, MemoryEngine, Store, StoreOptions};
use polytrie_kv_testing::BeforeReads;
use polytrie_state::{Access, BlockRef, StateError, StateLayer};
use polytrie_testing::{
    History, Seed,
    suite::{Driver, LayerFactory},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// The injected failures. A worker checks them before each piece of work.
#[derive(Debug)]
pub(crate) struct Trouble {
    random: Mutex<StdRng>,
    /// Largest delay of a worker in microseconds.
    delay: u64,
    /// Percentage of hints that are lost.
    lost: u32,
    /// Whether readers read everything, as if the store were slow.
    pub(crate) slow_store: bool,
    /// Number of changes from which on a block is streamed; `None` for the usual number.
    pub(crate) streams_from: Option<usize>,
    /// The step at which a worker fails; 0 for never.
    fails_at: u64,
    /// Whether the worker panics instead of returning an error.
    panics: bool,
    steps: AtomicU64,
}

impl Trouble {
    pub(crate) fn new(seed: u64, delay: u64, lost: u32, slow_store: bool) -> Arc<Self> {
        Arc::new(Self {
            random: Mutex::new(StdRng::seed_from_u64(seed)),
            delay,
            lost,
            slow_store,
            streams_from: None,
            fails_at: 0,
            panics: false,
            steps: AtomicU64::new(0),
        })
    }

    /// Injects no failure, but makes streaming begin in the middle of small blocks.
    pub(crate) fn streaming_from(changes: usize) -> Arc<Self> {
        let mut trouble = Self::new(1, 0, 0, false);
        let inner = Arc::get_mut(&mut trouble).expect("nobody else has it yet");
        inner.streams_from = Some(changes);
        trouble
    }

    fn failing(fails_at: u64, panics: bool) -> Arc<Self> {
        let mut trouble = Self::new(1, 0, 0, false);
        let inner = Arc::get_mut(&mut trouble).expect("nobody else has it yet");
        (inner.fails_at, inner.panics) = (fails_at, panics);
        trouble
    }

    pub(crate) fn strike(&self) -> Result<(), StateError> {
        let step = self.steps.fetch_add(1, Ordering::SeqCst) + 1;
        if self.delay > 0 && self.random.lock().random_bool(0.2) {
            let late = self.random.lock().random_range(0..self.delay);
            thread::sleep(Duration::from_micros(late));
        }
        if self.fails_at != 0 && step >= self.fails_at {
            assert!(!self.panics, "trouble at step {step}");
            return Err(StateError::Corrupt(format!("trouble at step {step}")));
        }
        Ok(())
    }

    pub(crate) fn drops_hint(&self) -> bool {
        self.lost > 0 && self.random.lock().random_ratio(self.lost, 100)
    }
}

/// A worker may fail at any step: the block in progress reports it, and so does every later call.
#[test]
fn a_worker_that_fails_poisons_with_its_reason() {
    let seed = Seed::or(31);
    let history = History::random(seed.value(), 8);
    for workers in [0, 1, 3] {
        for panics in [false, true] {
            for at in [1, 2, 5, 11] {
                let context = format!("{workers} workers, step {at}, panics: {panics}");
                let options = ReplicaOptions {
                    workers,
                    trouble: Some(Trouble::failing(at, panics)),
                    ..Replica::default().0
                };
                let factory = Replica(options);
                let mut driver = Driver::in_memory(&factory, history.genesis());
                let failed = history.blocks.iter().find_map(|block| driver.run(block).err());
                let Some(failed) = failed else { panic!("{context}: nothing was reported") };
                assert!(failed.to_string().contains("trouble at step"), "{context}: {failed}");
                let layer = driver.layer();
                let begun = driver.begin().map(drop);
                let read = layer.reader().map(drop);
                for result in [begun, read, layer.undo(&[]).map(drop)] {
                    let Err(error) = result else { panic!("{context}: it went on") };
                    assert!(matches!(error, StateError::Poisoned(_)), "{context}: {error:?}");
                    assert!(error.to_string().contains("trouble at step"), "{context}: {error}");
                }
            }
        }
    }
}

/// A full queue drops hints and counts them; no thread waits for it.
#[test]
fn a_full_queue_drops_hints_and_counts_them() {
    let options = ReplicaOptions {
        queue: 1,
        trouble: Some(Trouble::new(1, 2_000, 0, false)),
        ..Replica::default().0
    };
    let store = polytrie_kv::Store::memory(&Replica::default().tables()).expect("a store");
    let layer = ReplicaLayer::open(store, options).expect("the layer opens");
    let parent = polytrie_state::BlockRef { number: 0, hash: Default::default() };
    let mut session = layer.begin(parent).expect("a block begins");
    for n in 0u64..10_000 {
        let address = alloy_primitives::Address::left_padding_from(&n.to_be_bytes());
        for _ in 0..3 {
            session.hint(polytrie_state::Access::Account(address));
        }
    }
    drop(session.finish(&Default::default()).expect("the block ends"));
    let [given, queued, dropped] = layer.hint_counts();
    assert_eq!(given, 30_000);
    assert!(dropped > 0, "{queued} queued");
    // Repeated hints are neither queued nor dropped; a last bundle that is not full need not be sent.
    assert!(queued + dropped <= 10_000 && queued + dropped > 9_960, "{queued} {dropped}");
}

/// A row that cannot be read for a hint fails neither the block, which does not need it, nor the layer.
#[test]
fn a_hint_that_cannot_be_read_fails_nothing() {
    let asked = Arc::new(AtomicU64::new(0));
    let count = asked.clone();
    let engine = BeforeReads::new(MemoryEngine::new(), move || {
        if thread::current().name() != Some("replica-trie") {
            return Ok(());
        }
        count.fetch_add(1, Ordering::SeqCst);
        let reason = "on purpose".to_owned();
        Err(KvError::Engine { engine: "fault", action: "reading", reason })
    });
    let factory = Replica::default();
    let store = Store::open(Arc::new(engine), &factory.tables(), StoreOptions::default());
    let store = store.expect("a store");
    let history = History::random(1, 1);
    let layer = factory.open(store.clone()).expect("the layer opens");
    let root = layer.load(&mut history.genesis().genesis().map(Ok)).expect("a genesis loads");
    // A layer that was just opened has no path in memory.
    drop(layer);
    let layer = factory.open(store.clone()).expect("the layer opens again");
    for number in 0..2 {
        let parent = BlockRef { number, hash: B256::ZERO };
        let mut session = layer.begin(parent).expect("a block begins");
        let before = asked.load(Ordering::SeqCst);
        for n in 0u64..32 {
            session.hint(Access::Account(Address::left_padding_from(&n.to_be_bytes())));
        }
        while asked.load(Ordering::SeqCst) == before {
            thread::yield_now();
        }
        let outcome = session.finish(&Default::default()).expect("the block ends");
        assert_eq!(outcome.commitment, root);
        outcome.write(&store).expect("accepted");
    }
}
