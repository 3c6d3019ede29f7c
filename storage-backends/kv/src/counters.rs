//! Counters of the seam: reads and writes requested of the store, and those that reached the engine.

use crate::{Batch, Changes, KeyRange, Op, Table, own_reads::EngineReads, shard::thread_number};
use crossbeam_utils::CachePadded;
use serde::{Deserialize, Serialize};
use std::{
    cell::Cell,
    ops::Sub,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// Number of counter groups that reading threads are spread over, so that they do not fight for a cache line.
const SHARDS: usize = 8;
/// One of this many engine reads is timed: reading the clock twice costs a good part of what a cached read costs. The
/// number is a prime, so that it keeps no step with reads that repeat in the same order.
const SAMPLE: u64 = 61;
/// Time above which an engine read counts as slow: it has waited for a disk. From memory it takes a few microseconds
/// at most.
const SLOW: Duration = Duration::from_micros(20);

/// The counters of one store. They are relaxed atomics: a snapshot taken while other threads work may be off by the
/// work in progress.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    reads: [CachePadded<Reads>; SHARDS],
    writes: Writes,
}

/// Generates, from one list of counters, the structs that count reads and writes and the snapshot of both.
macro_rules! counters {
    (
        reads { $($(#[$of_read:meta])* $read:ident,)* }
        writes { $($(#[$of_write:meta])* $write:ident,)* }
    ) => {
        #[derive(Debug, Default)]
        struct Reads {
            $($read: AtomicU64,)*
        }

        #[derive(Debug, Default)]
        struct Writes {
            $($write: AtomicU64,)*
        }

        impl Counters {
            pub(crate) fn snapshot(&self) -> CountersSnapshot {
                let sum = |field: fn(&Reads) -> &AtomicU64| -> u64 {
                    self.reads.iter().map(|reads| field(reads).load(Relaxed)).sum()
                };
                CountersSnapshot {
                    $($read: sum(|reads| &reads.$read),)*
                    $($write: self.writes.$write.load(Relaxed),)*
                }
            }
        }

        /// The counters of a store at one moment; zeros if the store does not count. Subtract an earlier snapshot to
        /// get the counts of the time between.
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        pub struct CountersSnapshot {
            $(
                $(#[$of_read])*
                pub $read: u64,
            )*
            $(
                $(#[$of_write])*
                pub $write: u64,
            )*
        }

        impl Sub for CountersSnapshot {
            type Output = Self;

            /// Returns the counts between `earlier` and `self`.
            fn sub(self, earlier: Self) -> Self {
                Self {
                    $($read: self.$read.saturating_sub(earlier.$read),)*
                    $($write: self.$write.saturating_sub(earlier.$write),)*
                }
            }
        }
    };
}

counters! {
    reads {
        /// Single keys requested of the store and its snapshots.
        gets,
        /// Of these gets, those that the overlay of unflushed changes answered, with a value or with the key's
        /// absence.
        overlay_gets,
        /// Of these gets, those that the cache of recent engine answers answered.
        #[serde(default)]
        recent_gets,
        /// Of these gets, those that went to the engine.
        engine_gets,
        /// Nanoseconds of all threads in these engine reads, estimated from one in 61.
        engine_get_ns,
        /// Of these engine reads, those that took longer than 20 microseconds, estimated from one in 61; and all that other
        /// machines answered together.
        #[serde(default)]
        slow_engine_gets,
        /// Scans requested of the store and its snapshots.
        scans,
        /// Entries these scans visited.
        scanned,
        /// Bytes of the values that the engine returned to gets, and of the keys and values that scans visited.
        read_bytes,
    }
    writes {
        /// Batches written to the store.
        batches,
        /// Puts in these batches.
        puts,
        /// Single deletions in these batches.
        deletes,
        /// Range deletions in these batches.
        ranges,
        /// Bytes of keys and values in these batches.
        write_bytes,
        /// Puts that reached the engine.
        engine_puts,
        /// Single deletions that reached the engine.
        engine_deletes,
        /// Range deletions that reached the engine.
        engine_ranges,
        /// Bytes of keys and values that reached the engine, plus those that reached its journal.
        engine_write_bytes,
        /// Writes to the engine.
        flushes,
        /// Nanoseconds in these writes, preparing them included.
        flush_ns,
        /// Batches appended to the journal.
        journal_batches,
        /// Nanoseconds of appending them.
        journal_ns,
        /// Number of times that a write to the store had to wait for a flush of earlier writes.
        stalls,
        /// Nanoseconds of this waiting.
        stall_ns,
    }
}

fn add(counter: &AtomicU64, n: usize) {
    counter.fetch_add(n as u64, Relaxed);
}

fn add_time(counter: &AtomicU64, time: Duration) {
    // 2^64 nanoseconds are 584 years.
    counter.fetch_add(time.as_nanos() as u64, Relaxed);
}

impl Counters {
    fn reads(&self) -> &Reads {
        &self.reads[thread_number() % SHARDS]
    }

    /// Counts a get that the overlay answered.
    pub(crate) fn overlay_get(&self) {
        let reads = self.reads();
        add(&reads.gets, 1);
        add(&reads.overlay_gets, 1);
    }

    /// Counts a get that the cache of recent engine answers answered.
    pub(crate) fn recent_get(&self) {
        let reads = self.reads();
        add(&reads.gets, 1);
        add(&reads.recent_gets, 1);
    }

    /// Counts a get that goes to the engine. Returns the current time if this get is to be timed.
    pub(crate) fn engine_get(&self) -> Option<Instant> {
        EngineReads::count(1);
        let reads = self.reads();
        add(&reads.gets, 1);
        let number = reads.engine_gets.fetch_add(1, Relaxed);
        number.is_multiple_of(SAMPLE).then(Instant::now)
    }

    /// Counts the bytes that the get brought which began with [`Self::engine_get`], and its time if it was timed.
    pub(crate) fn engine_got(&self, started: Option<Instant>, bytes: usize) {
        let reads = self.reads();
        add(&reads.read_bytes, bytes);
        if let Some(started) = started {
            let time = started.elapsed();
            let estimate = time * SAMPLE as u32;
            EngineReads::took(estimate);
            add_time(&reads.engine_get_ns, estimate);
            if time > SLOW {
                reads.slow_engine_gets.fetch_add(SAMPLE, Relaxed);
            }
        }
    }

    /// Counts `gets` gets that went to the engine in one call and brought `bytes` bytes.
    pub(crate) fn engine_got_many(
        &self,
        gets: usize,
        time: Duration,
        bytes: usize,
        is_remote: bool,
    ) {
        EngineReads::count(gets);
        EngineReads::took(time);
        let reads = self.reads();
        add(&reads.gets, gets);
        add(&reads.engine_gets, gets);
        add(&reads.read_bytes, bytes);
        add_time(&reads.engine_get_ns, time);
        // However many rows other machines send together, they are waited for.
        if is_remote || time > SLOW * gets as u32 {
            add(&reads.slow_engine_gets, gets);
        }
    }

    /// Counts a scan that visited `entries` entries with `bytes` bytes of keys and values.
    pub(crate) fn scan(&self, entries: usize, bytes: usize) {
        EngineReads::count(entries);
        let reads = self.reads();
        add(&reads.scans, 1);
        add(&reads.scanned, entries);
        add(&reads.read_bytes, bytes);
    }

    /// Counts a batch that was written to the store.
    pub(crate) fn batch(&self, batch: &Batch) {
        let writes = &self.writes;
        let Sizes { puts, deletes, ranges, bytes } = Sizes::of(batch);
        add(&writes.batches, 1);
        add(&writes.puts, puts);
        add(&writes.deletes, deletes);
        add(&writes.ranges, ranges);
        add(&writes.write_bytes, bytes);
    }

    /// Counts changes that were written to the engine, and the time that this took.
    pub(crate) fn flush(&self, changes: &Counted<'_>, time: Duration) {
        let writes = &self.writes;
        let Sizes { puts, deletes, ranges, bytes } = changes.sizes.get();
        add(&writes.engine_puts, puts);
        add(&writes.engine_deletes, deletes);
        add(&writes.engine_ranges, ranges);
        add(&writes.engine_write_bytes, bytes);
        add(&writes.flushes, 1);
        add_time(&writes.flush_ns, time);
    }

    /// Counts a batch that was appended to the journal, and the time that this took.
    pub(crate) fn journal(&self, batch: &Batch, time: Duration) {
        add(&self.writes.engine_write_bytes, batch.byte_len());
        add(&self.writes.journal_batches, 1);
        add_time(&self.writes.journal_ns, time);
    }

    /// Counts a write that has to wait for a flush.
    pub(crate) fn stall(&self) {
        add(&self.writes.stalls, 1);
    }

    /// Counts the time that a write waited for a flush.
    pub(crate) fn stalled(&self, time: Duration) {
        add_time(&self.writes.stall_ns, time);
    }
}

/// Changes that are counted while an engine goes through them. Counting the changes of a generation beforehand would
/// cost a lookup of each row.
pub(crate) struct Counted<'a> {
    changes: &'a dyn Changes,
    /// The largest totals of the passes that the engine has made.
    sizes: Cell<Sizes>,
}

impl<'a> Counted<'a> {
    pub(crate) fn new(changes: &'a dyn Changes) -> Self {
        Self { changes, sizes: Cell::default() }
    }
}

impl Changes for Counted<'_> {
    fn ops(&self) -> Box<dyn Iterator<Item = (Table, Op<'_>)> + '_> {
        let mut seen = Sizes::default();
        Box::new(self.changes.ops().inspect(move |(_, op)| {
            seen.add(op);
            self.sizes.set(self.sizes.get().max(seen));
        }))
    }

    fn deleted_ranges(&self) -> Box<dyn Iterator<Item = (Table, KeyRange<'_>)> + '_> {
        self.changes.deleted_ranges()
    }

    fn size_hint(&self) -> (usize, usize) {
        self.changes.size_hint()
    }
}

/// Totals of a set of changes. In the order of the fields, those of a pass that has come further are not less.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Sizes {
    puts: usize,
    deletes: usize,
    ranges: usize,
    /// Bytes of keys and values.
    bytes: usize,
}

impl Sizes {
    fn of(batch: &Batch) -> Self {
        let mut sizes = Self::default();
        batch.ops().for_each(|(_, op)| sizes.add(&op));
        sizes
    }

    fn add(&mut self, op: &Op<'_>) {
        let number = match op {
            Op::Put { .. } => &mut self.puts,
            Op::Delete { .. } => &mut self.deletes,
            Op::DeleteRange { .. } => &mut self.ranges,
        };
        *number += 1;
        self.bytes += op.byte_len();
    }
}
