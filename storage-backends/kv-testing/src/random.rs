//! A reproducible random number generator.

/// The environment variable that sets the seed of random tests.
pub const SEED: &str = "POLYTRIE_TEST_SEED";

/// Returns the number that an environment variable is set to; `None` if it is not set.
///
/// # Panics
///
/// If it is set to something that is not a number.
pub fn env_number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is `{text}`, expected a number")))
}

/// A small random number generator (SplitMix64). The same seed gives the same numbers everywhere.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Creates a generator with this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the seed in `POLYTRIE_TEST_SEED`, or one that is different every time.
    ///
    /// # Panics
    ///
    /// If the variable is set to something that is not a number.
    pub fn seed() -> u64 {
        let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        env_number(SEED).unwrap_or(since.as_nanos() as u64)
    }

    /// Returns the next 64 random bits.
    #[expect(clippy::should_implement_trait, reason = "an endless iterator invites endless loops")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`, which must not be 0. Large ends are slightly uneven, which no test minds.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Returns true with a probability of one in `n`.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Returns `len` random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}
