//! When blocks are made.

use super::{MineOptions, Node};
use parking_lot::{Condvar, Mutex};
use polytrie_chain::BlockStats;
use polytrie_kv::{KvError, Worker, caught};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// After a failure to make a block, wait so long before the next attempt.
const PAUSE: Duration = Duration::from_secs(1);

/// How often what was written is made durable.
const FLUSH: Duration = Duration::from_millis(250);

/// When blocks are made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MiningMode {
    /// As soon as there is a transaction.
    #[default]
    OnArrival,
    /// At regular times, empty or not.
    Every(Duration),
    /// When a request asks for one.
    Manual,
}

/// Decides when blocks are made, and counts them.
#[derive(Debug)]
pub struct Miner {
    state: Mutex<State>,
    changed: Condvar,
    stopping: Condvar,
}

#[derive(Debug)]
struct State {
    mode: MiningMode,
    /// When that was chosen.
    since: Instant,
    /// Something arrived since the last look.
    arrived: bool,
    stopped: bool,
    totals: BlockStats,
    blocks: u64,
    /// Attempts of the miner thread that failed.
    failures: u64,
}

/// The threads of a miner. Dropping this stops them and waits for their ends.
#[derive(Debug)]
pub struct MinerThreads {
    node: Arc<Node>,
    threads: Vec<Worker>,
}

impl MinerThreads {
    /// Whether all of them have ended.
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

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Mine(MineOptions),
    Stop,
}

/// When there is something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Now(Turn),
    /// At this time, unless something changes before.
    At(Instant),
    /// When something changes.
    Later,
}

impl State {
    /// When there is something to do, where the last block was made at `last`.
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
            // As with anvil and hardhat the first block comes a period after it was asked for.
            MiningMode::Every(period) => match last.max(self.since).checked_add(period) {
                Some(due) if now >= due => When::Now(Turn::Mine(MineOptions::EVEN_EMPTY)),
                Some(due) => When::At(due),
                // So long that it never ends.
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
            arrived: false,
            stopped: false,
            totals: BlockStats::default(),
            blocks: 0,
            failures: 0,
        };
        Self { state: Mutex::new(state), changed: Condvar::new(), stopping: Condvar::new() }
    }

    /// When blocks are made.
    pub fn mode(&self) -> MiningMode {
        self.state.lock().mode
    }

    /// Changes when blocks are made.
    pub fn set_mode(&self, mode: MiningMode) {
        let mut state = self.state.lock();
        state.mode = mode;
        state.since = Instant::now();
        state.arrived = true;
        self.changed.notify_all();
    }

    /// Something waits in the pool.
    pub fn wake(&self) {
        let mut state = self.state.lock();
        if !state.arrived {
            state.arrived = true;
            self.changed.notify_all();
        }
    }

    /// No more blocks; the threads end.
    pub fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_all();
        self.stopping.notify_all();
    }

    /// Blocks made so far, and the sums over them.
    pub fn totals(&self) -> (u64, BlockStats) {
        let state = self.state.lock();
        (state.blocks, state.totals)
    }

    /// Attempts to make a block by itself that failed.
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

    /// Starts the threads that make blocks and make them durable.
    ///
    /// # Errors
    ///
    /// If the system gives no threads.
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

    /// Waits until there is something to do.
    fn turn(&self, last: Instant) -> Turn {
        let mut state = self.state.lock();
        loop {
            match state.when(last, Instant::now()) {
                When::Now(turn) => return turn,
                When::At(due) => {
                    self.changed.wait_until(&mut state, due);
                }
                When::Later => self.changed.wait(&mut state),
            }
        }
    }

    /// Waits for a time; returns `false` if it is time to stop.
    fn pause(&self, time: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.stopped {
            self.stopping.wait_for(&mut state, time);
        }
        !state.stopped
    }
}

/// Ends on request, or when nothing can be stored any more.
fn mine(node: &Node) {
    let miner = node.miner();
    let mut last = Instant::now();
    let mut said = String::new();
    while let Turn::Mine(options) = miner.turn(last) {
        last = Instant::now();
        match node.mine(options) {
            Ok(made) => {
                said.clear();
                // More may wait than went into one block.
                if made.is_some() && !options.allow_empty {
                    miner.wake();
                }
            }
            Err(error) => {
                miner.state.lock().failures += 1;
                let error = error.to_string();
                // What lasts is said once.
                if error != said {
                    tracing::error!("no block could be made: {error}");
                }
                said = error;
                if node.failure().is_some() || !miner.pause(PAUSE) {
                    return;
                }
                // What waits still does, and need not wait for something else to arrive.
                miner.wake();
            }
        }
    }
}

/// What the store gathers becomes durable soon also if nothing more comes. Ends as [`mine`] does.
fn keep_durable(node: &Node) {
    let mut go_on = true;
    while go_on {
        go_on = node.miner().pause(FLUSH);
        if node.db().store().pending().batches > 0
            && let Err(error) = node.flush()
        {
            tracing::error!("blocks could not be made durable: {error}");
            if node.failure().is_some() {
                go_on = false;
                // Nothing arrives any more that would.
                node.miner().wake();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // One that never comes.
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
        // However long ago the last block was made.
        let last = state.since;
        state.since = last + 10 * period;
        let now = state.since;
        assert_eq!(state.when(last, now), When::At(now + period));
        let mine = When::Now(Turn::Mine(MineOptions::EVEN_EMPTY));
        assert_eq!(state.when(last, now + period), mine);
    }
}
