//! The schedule of blocks, and the threads that make blocks and make them durable.
//!
//! The thread `miner` makes a block after an arrival in the pool or at an interval, as the mode says. The thread
//! `durable` flushes the store every [`FLUSH`], so that a block is durable soon even if no other follows, and notices a
//! layer that has failed. Both end when they are stopped, or when nothing can be stored any more.

use super::{MineOptions, Node};
use parking_lot::{Condvar, Mutex};
use polytrie_chain::BlockStats;
use polytrie_kv::{KvError, Worker, caught};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Pause after a failure to make a block, before the next attempt.
const PAUSE: Duration = Duration::from_secs(1);

/// Interval at which written blocks are made durable and the layer is looked at.
const FLUSH: Duration = Duration::from_millis(250);

/// The trigger of new blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MiningMode {
    /// A block is made as soon as a transaction arrives.
    #[default]
    OnArrival,
    /// A block is made at each interval, empty or not.
    Every(Duration),
    /// A block is made only when a request asks for one.
    Manual,
}

/// The schedule of blocks, and counters of the blocks that were made.
#[derive(Debug)]
pub struct Miner {
    state: Mutex<State>,
    changed: Condvar,
    stopping: Condvar,
}

#[derive(Debug)]
struct State {
    mode: MiningMode,
    /// Time at which the mode was set.
    since: Instant,
    /// Number of times that the mode was set.
    changes: u64,
    /// Whether a transaction has arrived since the miner thread last checked.
    arrived: bool,
    stopped: bool,
    totals: BlockStats,
    blocks: u64,
    /// Number of failed attempts of the miner thread.
    failures: u64,
}

/// The threads of a miner. Dropping this stops them and waits until they have ended.
#[derive(Debug)]
pub struct MinerThreads {
    node: Arc<Node>,
    threads: Vec<Worker>,
}

impl MinerThreads {
    /// Whether all threads have ended.
    pub fn are_finished(&self) -> bool {
        self.threads.iter().all(Worker::is_finished)
    }
}

impl Drop for MinerThreads {
    fn drop(&mut self) {
        self.node.miner().stop();
        self.threads.clear();
    }
}

/// The next action of the miner thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Mine(MineOptions),
    Stop,
}

/// The time of the next action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Now(Turn),
    /// At this time, unless the state changes before.
    At(Instant),
    /// After the next change of the state.
    Later,
}

impl State {
    /// Returns the time of the next action, where the last block was made at `last`. Resets `arrived` if that
    /// causes a block.
    fn when(&mut self, last: Instant, now: Instant) -> When {
        if self.stopped {
            return When::Now(Turn::Stop);
        }
        match self.mode {
            MiningMode::OnArrival if self.arrived => {
                self.arrived = false;
                When::Now(Turn::Mine(MineOptions::default()))
            }
            MiningMode::OnArrival | MiningMode::Manual => When::Later,
            // As in anvil and hardhat, the first block comes one period after the mode was set.
            MiningMode::Every(period) => match last.max(self.since).checked_add(period) {
                Some(due) if now >= due => When::Now(Turn::Mine(MineOptions::EVEN_EMPTY)),
                Some(due) => When::At(due),
                // A period beyond the range of `Instant` never ends.
                None => When::Later,
            },
        }
    }
}

impl Miner {
    pub(super) fn new(mode: MiningMode) -> Self {
        let state = State {
            mode,
            since: Instant::now(),
            changes: 0,
            arrived: false,
            stopped: false,
            totals: BlockStats::default(),
            blocks: 0,
            failures: 0,
        };
        Self { state: Mutex::new(state), changed: Condvar::new(), stopping: Condvar::new() }
    }

    /// Returns the current mode.
    pub fn mode(&self) -> MiningMode {
        self.state.lock().mode
    }

    /// Sets the mode, and wakes the miner thread. The caller has locked the chain: the miner thread begins no block of
    /// the earlier mode afterwards.
    pub(super) fn set_mode(&self, mode: MiningMode) {
        let mut state = self.state.lock();
        state.mode = mode;
        state.since = Instant::now();
        state.changes += 1;
        state.arrived = true;
        self.changed.notify_all();
    }

    /// Notifies the miner thread that the pool has a transaction.
    pub fn wake(&self) {
        let mut state = self.state.lock();
        if !state.arrived {
            state.arrived = true;
            self.changed.notify_all();
        }
    }

    /// Stops the threads; no further block is made.
    pub fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_all();
        self.stopping.notify_all();
    }

    /// Whether the threads were stopped.
    pub(super) fn is_stopped(&self) -> bool {
        self.state.lock().stopped
    }

    /// Returns the number of blocks made so far, and the sums of their statistics.
    pub fn totals(&self) -> (u64, BlockStats) {
        let state = self.state.lock();
        (state.blocks, state.totals)
    }

    /// Returns the number of failed attempts of the miner thread.
    pub fn failures(&self) -> u64 {
        self.state.lock().failures
    }

    pub(super) fn count(&self, stats: &BlockStats) {
        let mut state = self.state.lock();
        state.blocks += 1;
        let totals = &mut state.totals;
        totals.txs += stats.txs;
        totals.gas += stats.gas;
        totals.check += stats.check;
        totals.execute += stats.execute;
        totals.state_read += stats.state_read;
        totals.state_commit += stats.state_commit;
        totals.write += stats.write;
    }

    /// Starts the miner thread, and the thread that makes blocks durable.
    ///
    /// # Errors
    ///
    /// If the system cannot start a thread.
    pub fn start(node: &Arc<Node>) -> Result<MinerThreads, KvError> {
        let mut threads = MinerThreads { node: Arc::clone(node), threads: Vec::new() };
        for (name, work) in [("miner", mine as fn(&Node)), ("durable", keep_durable)] {
            let node = Arc::clone(node);
            let work = move || {
                if let Err(said) = caught(|| work(&node)) {
                    node.fail(&format!("the thread `{name}` panicked: {said}"));
                }
            };
            threads.threads.push(Worker::start(name, work)?);
        }
        Ok(threads)
    }

    /// Waits until there is an action, and returns it with the number of changes of the mode so far.
    fn turn(&self, last: Instant) -> (Turn, u64) {
        let mut state = self.state.lock();
        loop {
            match state.when(last, Instant::now()) {
                When::Now(turn) => return (turn, state.changes),
                When::At(due) => {
                    self.changed.wait_until(&mut state, due);
                }
                When::Later => self.changed.wait(&mut state),
            }
        }
    }

    /// Waits for a time; returns `false` if the threads are to stop.
    fn pause(&self, time: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.stopped {
            self.stopping.wait_for(&mut state, time);
        }
        !state.stopped
    }
}

/// Runs the miner thread until it is stopped, or nothing can be stored any more.
fn mine(node: &Node) {
    let miner = node.miner();
    let mut last = Instant::now();
    let mut said = String::new();
    while let (Turn::Mine(options), changes) = miner.turn(last) {
        last = Instant::now();
        // The mode may change until the chain is locked, and then no block is wanted any more.
        match node.mine_if(options, || miner.state.lock().changes == changes) {
            Ok(made) => {
                said.clear();
                // The pool may hold more transactions than fit into one block.
                if made.is_some() && !options.allow_empty {
                    miner.wake();
                }
            }
            Err(_) if miner.is_stopped() => return,
            Err(error) => {
                miner.state.lock().failures += 1;
                let error = error.to_string();
                // The log has an error once, not for each attempt that it lasts.
                if error != said {
                    tracing::error!("no block could be made: {error}");
                }
                said = error;
                if node.failure().is_some() || !miner.pause(PAUSE) {
                    return;
                }
                // The pool still has the transactions, so the next attempt needs no new arrival.
                miner.wake();
            }
        }
    }
}

/// Runs the thread that flushes the store, so that a block is durable soon even if no other follows. It ends
/// when [`mine`] does.
fn keep_durable(node: &Node) {
    let mut go_on = true;
    while go_on {
        go_on = node.miner().pause(FLUSH);
        node.check_layer();
        if node.db().store().pending().batches > 0
            && let Err(error) = node.flush()
        {
            tracing::error!("blocks could not be made durable: {error}");
            if node.failure().is_some() {
                go_on = false;
                // No new transaction will wake the miner thread, which must see the failure and end.
                node.miner().wake();
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::tests::{node, transfer};

    fn state(mode: MiningMode) -> State {
        let Miner { state, .. } = Miner::new(mode);
        state.into_inner()
    }

    #[test]
    fn one_block_for_what_arrived() {
        let mut state = state(MiningMode::OnArrival);
        let now = Instant::now();
        assert_eq!(state.when(now, now), When::Later);
        state.arrived = true;
        let mine = When::Now(Turn::Mine(MineOptions::default()));
        assert_eq!([state.when(now, now), state.when(now, now)], [mine, When::Later]);
        state.stopped = true;
        assert_eq!(state.when(now, now), When::Now(Turn::Stop));
    }

    #[test]
    fn a_block_is_due_when_its_time_has_come() {
        let period = Duration::from_secs(5);
        let mut state = state(MiningMode::Every(period));
        let last = Instant::now();
        let due = last + period;
        assert_eq!(state.when(last, last), When::At(due));
        assert_eq!(state.when(last, due), When::Now(Turn::Mine(MineOptions::EVEN_EMPTY)));
        // A period that never ends.
        state.mode = MiningMode::Every(Duration::MAX);
        assert_eq!(state.when(last, due), When::Later);
    }

    #[test]
    fn a_period_begins_when_it_is_asked_for() {
        let period = Duration::from_secs(5);
        let miner = Miner::new(MiningMode::Manual);
        let before = Instant::now();
        miner.set_mode(MiningMode::Every(period));
        let mut state = miner.state.into_inner();
        assert!(state.since >= before);
        // The time of the last block does not matter.
        let last = state.since;
        state.since = last + 10 * period;
        let now = state.since;
        assert_eq!(state.when(last, now), When::At(now + period));
        let mine = When::Now(Turn::Mine(MineOptions::EVEN_EMPTY));
        assert_eq!(state.when(last, now + period), mine);
    }

    /// The miner thread waits for the chain with a block of the first mode when the second one is set.
    #[test]
    fn a_block_of_an_earlier_mode_is_not_made() {
        let node = node("raw");
        let threads = Miner::start(&node).unwrap();
        let busy = node.chain();
        node.submit(transfer(&node, 0, 0, 5)).unwrap();
        node.miner().set_mode(MiningMode::OnArrival);
        let until = Instant::now() + Duration::from_secs(120);
        while node.miner().state.lock().arrived {
            assert!(Instant::now() < until, "the miner thread does not wake up");
            std::thread::sleep(Duration::from_millis(1));
        }
        node.miner().set_mode(MiningMode::Manual);
        drop(busy);
        drop(threads);
        assert_eq!((node.view().head.number(), node.pool().len()), (0, 1));
    }
}
