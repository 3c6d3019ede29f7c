//! Records the figures of a run.

use super::{Amplification, BlockFigures, Commitment, Measured, Percentiles, Schedule, TimeSplit};
use crate::fixture::OpenStore;
use polytrie_kv::{CountersSnapshot, EngineReads, KvError};
use polytrie_node::process::{DeviceIo, own_rss_bytes, peak_rss_bytes};
use polytrie_state::SessionCounters;
use std::time::{Duration, Instant};

/// Number of parts for the throughput over time.
const PARTS: usize = 50;
/// Name of the layer's figure for the bytes of its files beside the store.
const FILE_BYTES: &str = "file_bytes";

/// Times of one block's phases.
#[derive(Debug, Default, Clone, Copy)]
pub struct BlockTimes {
    /// Time of waiting for senders.
    pub recover: Duration,
    /// Time from the first read to the last write of a transaction.
    pub execute: Duration,
    /// Time of the commitment, and of making it the head.
    pub commit: Duration,
    /// Time of passing the batch to the store.
    pub write: Duration,
    /// Time of waiting until the block is durable.
    pub flush: Duration,
}

impl BlockTimes {
    fn total(&self) -> Duration {
        self.recover + self.execute + self.commit + self.write + self.flush
    }
}

/// Times of the executing thread in the layer, without the commitment.
#[derive(Debug, Default, Clone, Copy)]
struct LayerTimes {
    account_read: Duration,
    sload: Duration,
    sstore: Duration,
}

/// Recorder of a run without its warm-up. It is used on the thread that executes the blocks.
#[derive(Debug)]
pub struct Recorder {
    rss_before: u64,
    disk_before: u64,
    counters_before: CountersSnapshot,
    device_before: Option<DeviceIo>,
    blocks: Vec<(u64, f64)>,
    each_block: Vec<BlockFigures>,
    gas: Option<u64>,
    slowed: f64,
    times: BlockTimes,
    layer: LayerTimes,
    /// Time that the executing thread had waited for reads of the engine before.
    waited_before: Duration,
    session: SessionCounters,
    /// Time of each transaction of the blocks, and the number of threads.
    transactions: (Vec<Vec<Duration>>, usize),
    /// Number of blocks that ran by their access list.
    by_list: u64,
}

impl Recorder {
    /// Starts before the first block that counts. Earlier blocks are written to the engine, so that no work of the warm-up
    /// is left.
    ///
    /// # Errors
    ///
    /// Fails if the store fails.
    pub fn start(open: &OpenStore, rss_before: u64) -> Result<Self, KvError> {
        open.store.checkpoint()?;
        Ok(Self {
            rss_before,
            disk_before: open.store.disk_bytes()? + beside_store(&open.layer.figures()),
            blocks: Vec::new(),
            each_block: Vec::new(),
            gas: None,
            slowed: open.slowed,
            times: BlockTimes::default(),
            layer: LayerTimes::default(),
            waited_before: EngineReads::time_of_this_thread(),
            session: SessionCounters::default(),
            transactions: (Vec::new(), 1),
            by_list: 0,
            counters_before: open.store.counters(),
            device_before: DeviceIo::now(),
        })
    }

    /// Adds a block.
    pub fn block(
        &mut self,
        operations: u64,
        gas: Option<u64>,
        mut times: BlockTimes,
        session: SessionCounters,
    ) {
        times.commit += waste(times.total().mul_f64(self.slowed));
        self.blocks.push((operations, times.total().as_secs_f64()));
        self.each_block.push(BlockFigures {
            number: 0,
            operations,
            gas,
            nanoseconds: u64::try_from(times.total().as_nanos()).unwrap_or(u64::MAX),
        });
        if let Some(gas) = gas {
            *self.gas.get_or_insert(0) += gas;
        }
        let sum = &mut self.times;
        sum.recover += times.recover;
        sum.execute += times.execute;
        sum.commit += times.commit;
        sum.write += times.write;
        sum.flush += times.flush;
        let layer = &mut self.layer;
        layer.account_read += session.accounts_read.time() + session.codes_read.time();
        // A hint that waits for a queue delays the EVM before its SLOAD.
        layer.sload += session.slots_read.time() + session.hints.time();
        layer.sstore += session.applied.time();
        self.session += session;
    }

    /// Counts a block that ran by its access list. `times` are those of its transactions on `threads` threads, if they
    /// ran at the same time.
    pub fn by_list(&mut self, times: Vec<Vec<Duration>>, threads: usize) {
        self.by_list += 1;
        self.transactions.0.extend(times);
        self.transactions.1 = threads;
    }

    /// Ends the run after everything is in the engine; the time of that flush counts. Blocks that are only in a journal
    /// are durable, but the engine has its work with them still to do, and how much that is depends on the layer.
    ///
    /// # Errors
    ///
    /// Fails if the store fails.
    pub fn finish(mut self, open: &OpenStore) -> Result<Measured, KvError> {
        let waited = EngineReads::time_of_this_thread() - self.waited_before;
        let start = Instant::now();
        open.store.checkpoint()?;
        let last_flush = start.elapsed();
        self.times.flush += last_flush + waste(last_flush.mul_f64(self.slowed));
        let device = DeviceIo::now().zip(self.device_before).map(|(now, before)| now - before);
        let counters = open.store.counters() - self.counters_before;
        let seconds = self.times.total().as_secs_f64().max(1e-9);
        let operations = self.blocks.iter().map(|(operations, _)| operations).sum();
        let block_seconds: Vec<f64> = self.blocks.iter().map(|(_, seconds)| *seconds).collect();
        let commitment = open.layer.commitment();
        let layer = open.layer.figures();
        let (times, threads) = &self.transactions;
        let schedule = Schedule::of(times, *threads, operations, seconds);
        Ok(Measured {
            blocks: self.blocks.len() as u64,
            operations,
            gas: self.gas,
            seconds,
            throughput: operations as f64 / seconds,
            mgas_per_second: self.gas.map(|gas| gas as f64 / 1e6 / seconds),
            time: self.split(waited, &counters),
            block_seconds: Percentiles::of(&block_seconds),
            over_time: over_time(&self.blocks),
            session: self.session,
            counters,
            device,
            amplification: Amplification::of(&self.session, &counters),
            disk_bytes_before: self.disk_before,
            disk_bytes: open.store.disk_bytes()? + beside_store(&layer),
            rss_before_bytes: self.rss_before,
            peak_rss_bytes: peak_rss_bytes(),
            own_rss_bytes: own_rss_bytes(),
            layer: layer.into_iter().map(|(name, n)| (name.to_owned(), n)).collect(),
            by_list: self.by_list,
            schedule,
            commitment: Commitment {
                digest: commitment.digest(),
                canonical: commitment.as_state_root().is_some(),
            },
            checksum: None,
            restored: None,
            proofs: None,
            each_block: self.each_block,
        })
    }

    /// Splits the time, of which the executing thread `waited` for reads of the engine. Other threads read at the same time.
    fn split(&self, waited: Duration, counters: &CountersSnapshot) -> TimeSplit {
        let BlockTimes { recover, execute, commit, write, flush } = self.times;
        let LayerTimes { account_read, sload, sstore } = self.layer;
        let [execute, account_read, sload, sstore, commit] =
            [execute, account_read, sload, sstore, commit].map(|time| time.as_secs_f64());
        // The time of reads is an estimate, which may be larger than the time of all.
        let execution = (execute - account_read - sload - sstore).max(0.0);
        let in_layer = execute - execution + commit;
        let nanos = |nanos: u64| Duration::from_nanos(nanos).as_secs_f64();
        let get = nanos(counters.engine_get_ns);
        // Both are estimates, so the first may be the larger one.
        let waited_for_gets = waited.as_secs_f64().min(in_layer);
        let (write, flush_wait) = (write.as_secs_f64(), flush.as_secs_f64());
        TimeSplit {
            execution,
            structure: in_layer - waited_for_gets,
            engine: waited_for_gets + write + flush_wait,
            recover: recover.as_secs_f64(),
            account_read,
            sload,
            sstore,
            commit,
            get,
            write,
            flush_wait,
            flush: nanos(counters.flush_ns),
            stall: nanos(counters.stall_ns),
        }
    }
}

/// Returns the bytes of files that the engine does not count.
fn beside_store(layer: &[(&str, u64)]) -> u64 {
    layer.iter().filter(|(name, _)| *name == FILE_BYTES).map(|(_, bytes)| bytes).sum()
}

/// Waits for this time in a loop, and returns it.
fn waste(time: Duration) -> Duration {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
    time
}

/// Returns the throughput of up to [`PARTS`] equal parts.
fn over_time(blocks: &[(u64, f64)]) -> Vec<f64> {
    let length = blocks.len().div_ceil(PARTS).max(1);
    let throughput = |part: &[(u64, f64)]| {
        let operations: u64 = part.iter().map(|(operations, _)| operations).sum();
        let seconds: f64 = part.iter().map(|(_, seconds)| seconds).sum();
        operations as f64 / seconds.max(1e-9)
    };
    blocks.chunks(length).map(throughput).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use polytrie_state::CallCount;

    const SECOND: Duration = Duration::from_secs(1);

    fn recorder() -> Recorder {
        Recorder {
            rss_before: 0,
            disk_before: 0,
            counters_before: CountersSnapshot::default(),
            device_before: None,
            blocks: Vec::new(),
            each_block: Vec::new(),
            gas: None,
            slowed: 0.0,
            times: BlockTimes::default(),
            layer: LayerTimes::default(),
            waited_before: Duration::ZERO,
            session: SessionCounters::default(),
            transactions: (Vec::new(), 1),
            by_list: 0,
        }
    }

    /// Returns the counts of a block that read accounts so many times, of which so many reads were timed.
    fn accounts_read(calls: u64, timed: u64, seconds: u64) -> SessionCounters {
        let timed_ns = seconds * 1_000_000_000;
        let accounts_read = CallCount { calls, timed, timed_ns };
        SessionCounters { accounts_read, ..SessionCounters::default() }
    }

    /// Sixteen threads that read ahead spend more time in the engine than the block takes.
    #[test]
    fn what_other_threads_read_is_not_waited_for() {
        let mut recorder = recorder();
        let times = BlockTimes {
            execute: 10 * SECOND,
            commit: 2 * SECOND,
            flush: SECOND,
            ..BlockTimes::default()
        };
        recorder.block(1, None, times, accounts_read(10, 10, 4));
        let counters =
            CountersSnapshot { engine_get_ns: 100_000_000_000, ..CountersSnapshot::default() };
        let time = recorder.split(3 * SECOND, &counters);
        assert_eq!((time.execution, time.structure, time.engine), (6.0, 3.0, 4.0));
        assert_eq!((time.account_read, time.get), (4.0, 100.0));
    }

    /// The store may be slow in some blocks only. All reads of these blocks are timed.
    #[test]
    fn reads_that_are_all_timed_do_not_stand_for_others() {
        let mut recorder = recorder();
        let times = BlockTimes { execute: 10 * SECOND, ..BlockTimes::default() };
        recorder.block(1, None, times, accounts_read(13, 13, 8));
        recorder.block(1, None, times, accounts_read(13, 1, 0));
        let time = recorder.split(Duration::ZERO, &CountersSnapshot::default());
        assert_eq!((time.execution, time.account_read), (12.0, 8.0));
    }

    #[test]
    fn reading_code_is_time_in_the_layer() {
        let mut recorder = recorder();
        let times = BlockTimes { execute: 10 * SECOND, ..BlockTimes::default() };
        let codes_read = accounts_read(1, 1, 4).accounts_read;
        recorder.block(1, None, times, SessionCounters { codes_read, ..accounts_read(1, 1, 1) });
        let time = recorder.split(2 * SECOND, &CountersSnapshot::default());
        assert_eq!((time.execution, time.structure, time.engine), (5.0, 3.0, 2.0));
    }

    /// One slow read of the sample stands for thirteen.
    #[test]
    fn parts_add_up_where_reads_are_estimated_too_long() {
        let mut recorder = recorder();
        let times = BlockTimes {
            execute: 2 * SECOND,
            commit: SECOND,
            flush: SECOND,
            ..BlockTimes::default()
        };
        recorder.block(1, None, times, accounts_read(13, 1, 1));
        let time = recorder.split(SECOND, &CountersSnapshot::default());
        assert_eq!((time.execution, time.structure, time.engine), (0.0, 2.0, 2.0));
    }

    #[test]
    fn files_beside_the_store_are_on_disk_too() {
        assert_eq!(beside_store(&[("pages", 7), ("file_bytes", 4096)]), 4096);
        assert_eq!(beside_store(&[("merges", 3)]), 0);
    }

    #[test]
    fn a_slope_shows() {
        let blocks: Vec<_> = (0..120u32).map(|number| (10, f64::from(number + 1))).collect();
        let parts = over_time(&blocks);
        assert_eq!(parts.len(), 40);
        assert!(parts.is_sorted_by(|a, b| a > b));
        assert_eq!(over_time(&[]), Vec::<f64>::new());
    }
}
