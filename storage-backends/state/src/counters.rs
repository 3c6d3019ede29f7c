//! Counters of the seam: the calls to a layer, and the time they took.

use crate::{AccountWrite, WriteSet};
use derive_more::AddAssign;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// One of this many reads is timed: reading the clock twice costs a good part of what a cached read costs. The number
/// is a prime, so that it keeps no step with the few reads that every transaction makes in the same order.
///
/// Where reads wait for a disk each one is timed. The first read of a block may wait for all that is read ahead, and the
/// others find it: no sample of them stands for all.
const SAMPLE: u64 = 13;

/// Bytes counted for an account: hashed key, nonce, balance, code hash.
pub const ACCOUNT_BYTES: u64 = 32 + 8 + 32 + 32;
/// Bytes counted for a slot: its key within the account, and its value.
pub const SLOT_BYTES: u64 = 32 + 32;

/// The calls that are timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timed {
    /// One of [`SAMPLE`].
    Sample,
    /// Each one: reads wait for a disk, or the call is a part of one that is timed.
    Each,
    /// None: the call is a part of one that is not timed.
    None,
}

/// The counts of one kind of call.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, AddAssign, Serialize, Deserialize)]
pub struct CallCount {
    /// Number of calls.
    pub calls: u64,
    /// Number of these calls that were timed.
    pub timed: u64,
    /// Nanoseconds in the timed calls.
    pub timed_ns: u64,
}

impl CallCount {
    /// Counts a call; returns the current time if this call is to be timed.
    pub(crate) fn begin(&mut self, timed: Timed) -> Option<Instant> {
        self.calls += 1;
        let is_timed = match timed {
            Timed::Sample => self.calls % SAMPLE == 1,
            Timed::Each => true,
            Timed::None => false,
        };
        is_timed.then(Instant::now)
    }

    /// Ends the call that began with [`Self::begin`], and adds its time if it was timed.
    pub(crate) fn done(&mut self, started: Option<Instant>) {
        if let Some(started) = started {
            self.timed += 1;
            self.timed_ns += started.elapsed().as_nanos() as u64;
        }
    }

    /// Makes a call, counts it, and times it as `timed` says.
    pub(crate) fn call<T>(&mut self, timed: Timed, call: impl FnOnce() -> T) -> T {
        let started = self.begin(timed);
        let result = call();
        self.done(started);
        result
    }

    /// Returns the time in all calls of one session, estimated from the timed ones. Sum the times of sessions, not their
    /// counts: the calls of some are all timed, and those of others now and then.
    pub fn time(&self) -> Duration {
        let total = u128::from(self.timed_ns) * u128::from(self.calls);
        Duration::from_nanos((total / u128::from(self.timed.max(1))) as u64)
    }
}

/// The counts of one [`Session`](crate::Session)'s calls to its layer. Add those of several blocks to get their
/// sum.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, AddAssign, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionCounters {
    /// Accounts read from the layer.
    pub accounts_read: CallCount,
    /// Slots read from the layer: SLOAD, and the first SSTORE of a slot.
    pub slots_read: CallCount,
    /// Codes read from the layer, by their hashes.
    pub codes_read: CallCount,
    /// Bytes of these codes.
    pub code_bytes_read: u64,
    /// Reads of accounts that the block had touched before: answered without the layer.
    pub accounts_known: u64,
    /// Reads of slots that the block had touched before.
    pub slots_known: u64,
    /// Codes that the executor kept from earlier blocks: each counts once a block.
    pub codes_known: u64,
    /// Bytes of these codes.
    pub code_bytes_known: u64,
    /// Transactions' finalised writes applied: SSTORE and balances, with the work that the layer does at once. The reads of
    /// what was there before are not in this time.
    pub applied: CallCount,
    /// Hints passed to the layer. Layers with a bounded queue make the caller wait when it is full.
    pub hints: CallCount,
    /// Blocks finished: the commitment and the batch.
    pub finished: CallCount,
    /// Accounts in the write sets, those of which only slots changed included.
    pub accounts_written: u64,
    /// Accounts among these that existed before and no longer do.
    pub accounts_deleted: u64,
    /// Slots in the write sets.
    pub slots_written: u64,
    /// Slots among these that were set to zero.
    pub slots_deleted: u64,
    /// Codes in the write sets.
    pub codes_written: u64,
    /// Bytes of code in the write sets.
    pub code_bytes_written: u64,
}

impl SessionCounters {
    /// Number of accounts and slots read from the layer.
    pub const fn reads(&self) -> u64 {
        self.accounts_read.calls + self.slots_read.calls
    }

    /// Time in those of these reads that were timed.
    pub(crate) const fn timed_reads(&self) -> Duration {
        Duration::from_nanos(self.accounts_read.timed_ns + self.slots_read.timed_ns)
    }

    /// Number of accounts and slots in the write sets.
    pub const fn writes(&self) -> u64 {
        self.accounts_written + self.slots_written
    }

    /// Counts the accounts, slots and codes of a block's write set.
    pub(crate) fn count_writes(&mut self, writes: &WriteSet) {
        self.accounts_written = writes.accounts().len() as u64;
        for AccountWrite { before, after, slots, .. } in writes.accounts() {
            self.accounts_deleted += u64::from(before.is_some() && after.is_none());
            self.slots_written += slots.len() as u64;
            self.slots_deleted += slots.iter().filter(|slot| slot.after.is_zero()).count() as u64;
        }
        self.codes_written = writes.codes().len() as u64;
        self.code_bytes_written = writes.codes().iter().map(|(_, code)| code.len() as u64).sum();
    }

    /// Bytes of the accounts (104 each, key included) and slots (64 each) read from the layer.
    pub const fn read_bytes(&self) -> u64 {
        self.accounts_read.calls * ACCOUNT_BYTES + self.slots_read.calls * SLOT_BYTES
    }

    /// Bytes of the accounts and slots in the write sets, with their code.
    pub const fn write_bytes(&self) -> u64 {
        self.accounts_written * ACCOUNT_BYTES
            + self.slots_written * SLOT_BYTES
            + self.code_bytes_written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_all_is_estimated_from_the_timed() {
        let count = CallCount { calls: 26, timed: 2, timed_ns: 10 };
        assert_eq!(count.time(), Duration::from_nanos(130));
        assert_eq!(CallCount::default().time(), Duration::ZERO);
        let mut calls = CallCount::default();
        let mut timed = |how| (0..26).filter(|_| calls.begin(how).is_some()).count();
        assert_eq!([Timed::Sample, Timed::Each, Timed::None].map(&mut timed), [2, 26, 0]);
        assert_eq!(calls.calls, 78);
    }
}
