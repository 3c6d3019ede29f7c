//! Random numbers that are the same on every machine and with every version of this program.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

/// A stream of numbers that follows from a seed.
///
/// The stream is ChaCha8's, which its definition fixes; how it becomes numbers in a range is fixed here, because a new
/// version of a library may do that differently and a generated chain must not change.
#[derive(Debug, Clone)]
pub struct Random(ChaCha8Rng);

impl Random {
    /// The stream of a seed and a purpose. Streams with different purposes are independent of each other.
    pub fn new(seed: u64, purpose: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_be_bytes());
        bytes[8..16].copy_from_slice(&purpose.to_be_bytes());
        Self(ChaCha8Rng::from_seed(bytes))
    }

    /// The next 64 random bits.
    pub fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        // The error against an even distribution is below end / 2^64.
        ((u128::from(self.word()) * u128::from(end)) >> 64) as u64
    }

    /// An index below `length`; 0 if `length` is 0.
    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// True in `percent` of a hundred cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// `N` random bytes.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.fill_bytes(&mut bytes);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_never_changes() {
        let mut random = Random::new(1, 2);
        let first: Vec<_> = (0..4).map(|_| random.below(1000)).collect();
        assert_eq!(first, [37, 328, 878, 599]);
        assert_eq!(random.bytes::<4>(), [228, 10, 222, 83]);
    }

    #[test]
    fn ranges_hold() {
        let mut random = Random::new(7, 0);
        assert_eq!((random.below(0), random.index(1)), (0, 0));
        let mut seen = [false; 10];
        for _ in 0..1000 {
            seen[random.index(10)] = true;
        }
        assert_eq!(seen, [true; 10]);
        assert!(!random.percent(0));
        assert!(random.percent(100));
    }
}
