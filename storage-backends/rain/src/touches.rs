//! How much may have come into memory since somebody looked.

use crate::{SHARD_COUNT, version::shard_of};
use alloy_primitives::B256;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of nodes that one key can bring into memory: its path in the account trie and in a storage trie, about a dozen
/// branches, most of them far from full.
const KEY_BYTES: u64 = 8 << 10;

/// Keys read or written in each shard since its memory was measured. Measuring visits every node in memory, so it is
/// done only when they could have filled it.
#[derive(Debug, Default)]
pub(crate) struct Touches([AtomicU64; SHARD_COUNT]);

impl Touches {
    /// Notes a key of an account.
    pub(crate) fn add(&self, account: &B256) {
        self.add_many(shard_of(account), 1);
    }

    /// Notes some keys of a shard.
    pub(crate) fn add_many(&self, shard: usize, keys: u64) {
        // A number to go by, no more.
        self.0[shard].fetch_add(keys, Ordering::Relaxed);
    }

    /// The most bytes that may have come into a shard's memory.
    pub(crate) fn bytes(&self, shard: usize) -> u64 {
        self.0[shard].load(Ordering::Relaxed).saturating_mul(KEY_BYTES)
    }

    /// The shard's memory has been measured.
    pub(crate) fn reset(&self, shard: usize) {
        self.0[shard].store(0, Ordering::Relaxed);
    }
}
