//! Fetching: a bounded queue of paths, and threads that read them so that their nodes are in the cache.

use crate::error::panicked;
use alloy_primitives::{Address, U256};
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use parking_lot::Mutex;
use polytrie_kv::{Worker, caught};
use polytrie_state::{Result, StateError, StateReader};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

/// A request for the path of a slot, in the state before a block.
#[derive(Debug)]
struct Path {
    /// Number of the block, counted over the blocks that this layer began.
    block: u64,
    before: Arc<dyn StateReader>,
    address: Address,
    slot: U256,
}

/// The state that the threads and the sessions share.
#[derive(Debug, Default)]
struct FetchState {
    /// Number of the block in progress: paths of earlier blocks are no longer needed.
    block: AtomicU64,
    failure: Mutex<Option<StateError>>,
    /// Number of paths that were requested, and number of those that were read.
    asked: AtomicU64,
    fetched: AtomicU64,
    /// Number of times that the queue was full, and the nanoseconds that the EVM waited for it.
    waits: AtomicU64,
    wait_ns: AtomicU64,
}

/// The fetching threads. They end when this is dropped.
#[derive(Debug)]
pub(super) struct Fetchers {
    queue: Option<Sender<Path>>,
    threads: Vec<Worker>,
    shared: Arc<FetchState>,
}

impl Fetchers {
    /// Starts this many threads, or as many as the system allows, behind a queue of this many paths.
    pub(super) fn start(threads: usize, queue: usize) -> Self {
        let shared = Arc::<FetchState>::default();
        let (sender, receiver) = bounded::<Path>(queue.max(1));
        let start = |number| {
            let (receiver, shared) = (receiver.clone(), Arc::clone(&shared));
            Worker::start(format!("paper-fetch-{number}"), move || fetch(&receiver, &shared)).ok()
        };
        let threads: Vec<_> = (0..threads).map_while(start).collect();
        let queue = (!threads.is_empty()).then_some(sender);
        Self { queue, threads, shared }
    }

    /// Begins a block on this state; `None` without threads.
    pub(super) fn begin(self: &Arc<Self>, before: Arc<dyn StateReader>) -> Option<Fetching> {
        self.queue.as_ref()?;
        let block = self.shared.block.fetch_add(1, Relaxed) + 1;
        Some(Fetching { fetchers: Arc::clone(self), before, block })
    }

    pub(super) fn figures(&self) -> [(&'static str, u64); 4] {
        let FetchState { asked, fetched, waits, wait_ns, .. } = &*self.shared;
        [
            ("paths_asked", asked.load(Relaxed)),
            ("paths_fetched", fetched.load(Relaxed)),
            ("queue_waits", waits.load(Relaxed)),
            ("queue_wait_ns", wait_ns.load(Relaxed)),
        ]
    }
}

impl Drop for Fetchers {
    fn drop(&mut self) {
        self.queue = None;
        // The remaining paths are skipped.
        self.shared.block.fetch_add(1, Relaxed);
        self.threads.clear();
    }
}

/// The requests of a block. It keeps the threads alive: they end with the layer, or with a block that outlives it.
#[derive(Debug)]
pub(super) struct Fetching {
    fetchers: Arc<Fetchers>,
    before: Arc<dyn StateReader>,
    block: u64,
}

impl Fetching {
    /// Requests the path of a slot. Waits while the queue is full.
    pub(super) fn ask(&self, address: Address, slot: U256) {
        let path = Path { block: self.block, before: Arc::clone(&self.before), address, slot };
        let Fetchers { queue: Some(queue), shared, .. } = &*self.fetchers else { return };
        shared.asked.fetch_add(1, Relaxed);
        if let Err(TrySendError::Full(path)) = queue.try_send(path) {
            let began = Instant::now();
            shared.waits.fetch_add(1, Relaxed);
            // Sending fails only if there are no threads, and then nothing is fetched.
            let _ = queue.send(path);
            let waited = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            shared.wait_ns.fetch_add(waited, Relaxed);
        }
    }

    /// Checks that the threads have not failed in a way that stops the layer.
    ///
    /// # Errors
    ///
    /// If a thread panicked.
    pub(super) fn check(&self) -> Result<()> {
        self.fetchers.shared.failure.lock().clone().map_or(Ok(()), Err)
    }
}

fn fetch(queue: &Receiver<Path>, shared: &FetchState) {
    for Path { block, before, address, slot } in queue {
        if block != shared.block.load(Relaxed) {
            continue;
        }
        // The block meets any error of the store, too, where it reads the node itself.
        match caught(|| before.slot(&address, &slot)) {
            Ok(_) => {
                shared.fetched.fetch_add(1, Relaxed);
            }
            Err(said) => {
                shared.failure.lock().get_or_insert_with(|| panicked(said));
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloy_primitives::{B256, Bytes};
    use polytrie_state::Account;
    use std::thread;

    /// A reader that reads a slot when the test allows it; slot 13 panics.
    #[derive(Debug)]
    struct Slow(Receiver<()>);

    impl StateReader for Slow {
        fn account(&self, _: &Address) -> Result<Option<Account>> {
            Ok(None)
        }

        fn slot(&self, _: &Address, slot: &U256) -> Result<U256> {
            let _ = self.0.recv();
            assert_ne!(*slot, U256::from(13), "bad luck");
            Ok(U256::ZERO)
        }

        fn code(&self, _: &B256) -> Result<Option<Bytes>> {
            Ok(None)
        }

        fn has_storage(&self, _: &Address) -> Result<bool> {
            Ok(false)
        }
    }

    fn figure(fetchers: &Fetchers, name: &str) -> u64 {
        fetchers.figures().into_iter().find(|(found, _)| *found == name).unwrap().1
    }

    #[test]
    fn a_full_queue_makes_the_block_wait_and_repeated_paths_are_walked_again() {
        let fetchers = Arc::new(Fetchers::start(1, 2));
        let (allow, allowed) = bounded(0);
        let block = fetchers.begin(Arc::new(Slow(allowed))).unwrap();
        thread::scope(|scope| {
            let asking =
                scope.spawn(|| (0..6).for_each(|_| block.ask(Address::ZERO, U256::from(7))));
            // One path is with the thread, which waits, and two are in the queue: there is no room for the fourth.
            while figure(&fetchers, "queue_waits") == 0 && !asking.is_finished() {
                thread::yield_now();
            }
            (0..6).for_each(|_| allow.send(()).unwrap());
            asking.join().unwrap();
        });
        assert_eq!(figure(&fetchers, "paths_asked"), 6);
        assert!(figure(&fetchers, "queue_waits") > 0);
        block.check().unwrap();
    }

    #[test]
    fn a_panic_is_reported_by_the_block_and_the_thread_goes_on() {
        let fetchers = Arc::new(Fetchers::start(1, 4));
        let (allow, allowed) = bounded(0);
        let block = fetchers.begin(Arc::new(Slow(allowed))).unwrap();
        block.ask(Address::ZERO, U256::from(13));
        block.ask(Address::ZERO, U256::from(14));
        allow.send(()).unwrap();
        allow.send(()).unwrap();
        let error = block.check().unwrap_err().to_string();
        assert!(error.contains("`replica` panicked") && error.contains("bad luck"), "{error}");
    }

    #[test]
    fn a_block_that_outlives_the_layer_does_not_hold_it_up() {
        let fetchers = Arc::new(Fetchers::start(1, 4));
        let (allow, allowed) = bounded(1);
        let block = fetchers.begin(Arc::new(Slow(allowed))).unwrap();
        drop(fetchers);
        block.ask(Address::ZERO, U256::from(7));
        allow.send(()).unwrap();
        block.check().unwrap();
    }

    #[test]
    fn without_threads_nothing_is_asked_for() {
        let fetchers = Arc::new(Fetchers::start(0, 4));
        assert!(fetchers.begin(Arc::new(Slow(bounded(0).1))).is_none());
    }

    /// The remaining paths of a block that ended are skipped.
    #[test]
    fn what_is_left_of_a_block_is_not_fetched() {
        let fetchers = Arc::new(Fetchers::start(1, 8));
        let (allow, allowed) = bounded(0);
        let reader: Arc<dyn StateReader> = Arc::new(Slow(allowed));
        let first = fetchers.begin(Arc::clone(&reader)).unwrap();
        (0..4).for_each(|slot| first.ask(Address::ZERO, U256::from(slot)));
        allow.send(()).unwrap();
        let second = fetchers.begin(reader).unwrap();
        // The last path shows when all others are done with.
        second.ask(Address::ZERO, U256::from(13));
        while second.check().is_ok() {
            let _ = allow.try_send(());
            thread::yield_now();
        }
        assert_eq!(figure(&fetchers, "paths_asked"), 5);
        // At most one more path of the first block was in progress.
        let fetched = figure(&fetchers, "paths_fetched");
        assert!((1..=2).contains(&fetched), "{fetched}");
    }
}
