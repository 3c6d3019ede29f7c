//! The keys and draws of `polytrie bench store`; its README defines them.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

pub(crate) type Key = [u8; 32];
pub(crate) type Value = [u8; 32];

#[derive(Debug, Clone, Copy)]
pub(crate) struct Workload {
    pub(crate) seed: u64,
    pub(crate) keys: u64,
}

impl Workload {
    /// A key by its number: four words of 64 bits, the most significant last in the sequence.
    pub(crate) fn key(self, number: u64) -> Key {
        let mut key = [0; 32];
        for part in 0..4u64 {
            let word = mix(self.seed ^ mix(number.wrapping_mul(4).wrapping_add(part)));
            let at = 24 - 8 * part as usize;
            key[at..at + 8].copy_from_slice(&word.to_be_bytes());
        }
        key
    }

    pub(crate) fn first_value(self, number: u64) -> Value {
        let mut value = self.key(!number);
        value[31] |= 1;
        value
    }
}

/// The finaliser of SplitMix64.
const fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Draws the operations of one block after the other.
#[derive(Debug)]
pub(crate) struct Draw {
    workload: Workload,
    ops: u64,
    random: ChaCha8Rng,
}

impl Draw {
    pub(crate) fn new(workload: Workload, ops: u64) -> Self {
        /// Tells this stream of random numbers from others of the same seed.
        const PURPOSE: u64 = 5;
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&workload.seed.to_be_bytes());
        seed[8..16].copy_from_slice(&PURPOSE.to_be_bytes());
        Self { workload, ops, random: ChaCha8Rng::from_seed(seed) }
    }

    pub(crate) fn block(&mut self) -> Vec<(Key, Value)> {
        (0..self.ops)
            .map(|_| {
                let word = u128::from(self.random.next_u64());
                let number = ((word * u128::from(self.workload.keys)) >> 64) as u64;
                let mut value = [0; 32];
                self.random.fill_bytes(&mut value);
                value[31] |= 1;
                (self.workload.key(number), value)
            })
            .collect()
    }
}
