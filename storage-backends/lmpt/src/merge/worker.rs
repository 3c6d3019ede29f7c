//! The thread that merges ahead of the blocks.

use super::{
    MergeStats, Slice,
    schedule::SliceNumber,
    slice::{Merged, Merger, Plan},
};
use crate::{LmptOptions, generation::Generation};
use parking_lot::{Condvar, Mutex};
use polytrie_kv::{Store, Worker, caught};
use polytrie_state::{Result, StateError, ahead::Readers};
use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

/// Length of a wait from which on a warning is logged.
const LONG_WAIT: Duration = Duration::from_millis(100);

/// Largest number of slices that may wait for their blocks: in an interval of many blocks nearly all slices are
/// empty, and no number of empty ones reaches [`LmptOptions::ahead_bytes`].
const MOST_AHEAD: usize = 4_096;

/// A merge in progress.
#[derive(Debug)]
pub(crate) struct Merge {
    handover: Arc<Handover>,
    thread: Option<Worker>,
    /// The first block of the interval.
    start: u64,
    /// See [`MergeStats::slack`].
    slack: Option<u64>,
}

#[derive(Debug)]
struct Handover {
    queue: Mutex<Queue>,
    /// Signals both sides.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    ready: VecDeque<(SliceNumber, Arc<Slice>)>,
    bytes: usize,
    /// Number of slices that were taken and whose block is written.
    settled: u64,
    failure: Option<StateError>,
    cancelled: bool,
    /// The snapshot after the last slice, when the merge has ended.
    merged: Option<Merged>,
}

impl Merge {
    /// Starts to merge the slices of an interval, from block `next` on. `snapshot` is what the store holds.
    pub(crate) fn start(
        (store, readers): (Store, Arc<Readers>),
        intermediate: Arc<Generation>,
        snapshot: Merged,
        next: u64,
        options: LmptOptions,
    ) -> Result<Self> {
        let handover =
            Arc::new(Handover { queue: Mutex::new(Queue::default()), changed: Condvar::new() });
        let mine = handover.clone();
        let work = move || {
            let result =
                caught(|| mine.run((store, readers), &intermediate, snapshot, next, options));
            let failure = match result {
                Ok(Ok(())) => return,
                Ok(Err(error)) => error,
                Err(said) => said.in_thread("the merge of `lmpt`").into(),
            };
            mine.queue.lock().failure = Some(failure);
            mine.changed.notify_all();
        };
        let thread = Worker::start("lmpt-merge", work)?;
        let start = options.schedule().first_block(next);
        Ok(Self { handover, thread: Some(thread), start, slack: None })
    }

    /// Returns the first block of the interval that the merge is for.
    pub(crate) const fn first_block(&self) -> u64 {
        self.start
    }

    /// Returns the slice of a block; waits until it is ready. It stays until [`Self::settle`].
    pub(crate) fn slice(
        &mut self,
        number: SliceNumber,
        stats: &mut MergeStats,
    ) -> Result<Arc<Slice>> {
        let mut queue = self.handover.queue.lock();
        let ready = queue.ready.len() as u64;
        let was_computed = queue.ready.back().is_some_and(|(last, _)| last.next().is_none());
        let started = Instant::now();
        let slice = loop {
            if let Some(failure) = &queue.failure {
                return Err(failure.clone());
            }
            match queue.ready.front() {
                Some((found, slice)) if *found == number => break slice.clone(),
                Some(_) => return Err(StateError::Protocol("the merge is at another slice")),
                None => self.handover.changed.wait(&mut queue),
            }
        };
        let waited = started.elapsed();
        stats.asked(ready, waited);
        // Later the number falls with each block, although nothing is late.
        if !was_computed || self.slack.is_none() {
            self.slack = Some(self.slack.map_or(ready, |slack| slack.min(ready)));
        }
        if waited >= LONG_WAIT {
            tracing::warn!(
                slice = number.index + 1,
                of = number.count,
                ?waited,
                "the merge is late, the block waited for it"
            );
        }
        Ok(slice)
    }

    /// Notes that the block which took the first slice is written.
    pub(crate) fn settle(&mut self) {
        let mut queue = self.handover.queue.lock();
        if let Some((_, slice)) = queue.ready.pop_front() {
            queue.bytes -= slice.bytes();
            queue.settled += 1;
        }
        self.handover.changed.notify_all();
    }

    /// Ends a completed merge; returns the parts of the snapshot in memory, for the next merge.
    pub(crate) fn end(mut self, stats: &mut MergeStats) -> Option<Merged> {
        stats.merges += 1;
        stats.slack = self.slack.unwrap_or_default();
        let (slack, late) = (stats.slack, stats.late);
        tracing::debug!(first_block = self.start, slack, late, "merged an interval");
        drop(self.thread.take());
        self.handover.queue.lock().merged.take()
    }
}

impl Drop for Merge {
    fn drop(&mut self) {
        self.handover.queue.lock().cancelled = true;
        self.handover.changed.notify_all();
        drop(self.thread.take());
    }
}

impl Handover {
    fn run(
        &self,
        (store, readers): (Store, Arc<Readers>),
        intermediate: &Generation,
        snapshot: Merged,
        next: u64,
        options: LmptOptions,
    ) -> Result<()> {
        let schedule = options.schedule();
        let plan = (Plan::new(intermediate)?, schedule.swept_by_slice());
        let mut merger = Merger::new(store, readers, plan, snapshot)?;
        // The merge before kept the nodes of its last slice, which was not written yet. A merge of one slice keeps all.
        merger.evict(options.cache_bytes, 0);
        let mut done = 0;
        for block in schedule.first_with_slice(next).. {
            let Some(number) = schedule.slice_of(block) else { return Ok(()) };
            if !self.may_go_on(&options) {
                return Ok(());
            }
            let waiting = self.queue.lock().ready.len();
            let is_cancelled = || self.queue.lock().cancelled;
            let Some(slice) = merger.slice(number, waiting, &is_cancelled)? else { return Ok(()) };
            let slice = Arc::new(slice);
            done += 1;
            let outstanding = {
                let mut queue = self.queue.lock();
                queue.bytes += slice.bytes();
                queue.ready.push_back((number, slice));
                self.changed.notify_all();
                done - queue.settled
            };
            if number.next().is_none() {
                break;
            }
            // Nodes of slices that are not written must stay.
            merger.evict(options.cache_bytes, outstanding);
        }
        self.queue.lock().merged = Some(merger.into_snapshot());
        Ok(())
    }

    /// Waits until another slice may be computed; returns `false` if the merge was cancelled.
    fn may_go_on(&self, options: &LmptOptions) -> bool {
        let mut queue = self.queue.lock();
        if !options.merge_pause.is_zero() && !queue.cancelled {
            self.changed.wait_for(&mut queue, options.merge_pause);
        }
        let full = |queue: &Queue| {
            queue.ready.len() >= MOST_AHEAD
                || !queue.ready.is_empty() && queue.bytes >= options.ahead_bytes
        };
        while !queue.cancelled && full(&queue) {
            self.changed.wait(&mut queue);
        }
        !queue.cancelled
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{
        LmptLayer,
        generation::Change,
        keys::Key,
        value::{Record, Value},
    };
    use alloy_primitives::B256;
    use polytrie_kv::LiveSet;
    use polytrie_state::Account;
    use polytrie_trie::EMPTY_ROOT;

    /// No slice is late once all are computed, so what is left of them then does not count.
    #[test]
    fn a_merge_that_has_ended_has_all_its_slices_as_slack() {
        let store = Store::memory(LmptLayer::TABLES).unwrap();
        let intermediate = Arc::new(Generation::new(B256::ZERO, store.scratch()));
        let options = LmptOptions { interval: 8, ..LmptOptions::default() };
        let readers = Arc::new(Readers::new(1, false));
        let snapshot = Merged::stored(EMPTY_ROOT);
        let mut merge = Merge::start((store, readers), intermediate, snapshot, 1, options).unwrap();
        while merge.handover.queue.lock().merged.is_none() {
            std::thread::yield_now();
        }
        let mut stats = MergeStats::default();
        for slice in (1..=8).filter_map(|block| options.schedule().slice_of(block)) {
            merge.slice(slice, &mut stats).unwrap();
            merge.settle();
        }
        merge.end(&mut stats);
        assert_eq!((stats.in_time, stats.late, stats.slack), (6, 0, 6));
    }

    /// A merge of one slice ends with all nodes in memory that it has touched. The next one drops what is too much.
    #[test]
    fn what_the_merge_before_has_left_is_dropped() {
        let store = Store::memory(LmptLayer::TABLES).unwrap();
        let readers = Arc::new(Readers::new(1, false));
        let options = LmptOptions { interval: 1, cache_bytes: 0, ..LmptOptions::default() };
        let merged = |snapshot: Merged, accounts: u64, block: u64| {
            let changes: Vec<Change> = (0..accounts)
                .map(|n| {
                    let record = Record { account: Account::default(), incarnation: n };
                    let key = Key::Account(B256::left_padding_from(&n.to_be_bytes()));
                    Change { key, before: None, after: Some(Value::Account(record)) }
                })
                .collect();
            let intermediate = Generation::new(B256::ZERO, store.scratch());
            intermediate.update(&changes).unwrap();
            intermediate.remember(&changes, 1, &LiveSet::default());
            let (from, stats) = ((store.clone(), readers.clone()), &mut MergeStats::default());
            let mut merge =
                Merge::start(from, Arc::new(intermediate), snapshot, block, options).unwrap();
            let number = options.schedule().slice_of(block).unwrap();
            let slice = merge.slice(number, stats).unwrap();
            store.write(slice.batch.clone()).unwrap();
            merge.settle();
            merge.end(stats).unwrap()
        };
        let first = merged(Merged::stored(EMPTY_ROOT), 1_000, 1);
        let (bytes, root) = (first.trie.bytes(), first.trie.last_root());
        let second = merged(first, 0, 2);
        assert_eq!(second.trie.last_root(), root);
        assert!(second.trie.bytes() < bytes / 10, "{} of {bytes}", second.trie.bytes());
    }
}
