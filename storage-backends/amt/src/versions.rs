//! Entries: six version numbers in one field element.

use ark_bn254::Fr;
use ark_ff::{BigInt, PrimeField};

/// Number of versions in an entry.
pub const SLOTS: usize = 6;

/// Number of bits of a version.
pub const SLOT_BITS: u32 = 40;

/// The first number that is not a version: ten increments a second for three thousand years.
pub const VERSION_LIMIT: u64 = 1 << SLOT_BITS;

/// The version numbers of one entry, slot 0 in the lowest bits. Each is below [`VERSION_LIMIT`].
pub type Versions = [u64; SLOTS];

/// Whether all numbers are versions.
pub fn is_valid(versions: &Versions) -> bool {
    versions.iter().all(|version| *version < VERSION_LIMIT)
}

/// Returns the entry as a field element: 240 bits, so it is always below the modulus.
pub(crate) fn entry_scalar(versions: &Versions) -> Fr {
    let mut words = [0u64; 4];
    for (slot, version) in versions.iter().enumerate() {
        let bit = SLOT_BITS as usize * slot;
        let wide = u128::from(*version) << (bit % 64);
        words[bit / 64] |= wide as u64;
        if bit / 64 < 3 {
            words[bit / 64 + 1] |= (wide >> 64) as u64;
        }
    }
    Fr::from_bigint(BigInt(words)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ark_ff::Field;

    #[test]
    fn slots_are_forty_bits_apart() {
        let versions = [1, 2, 3, VERSION_LIMIT - 1, 5, VERSION_LIMIT - 6];
        let step = Fr::from(VERSION_LIMIT);
        let expected = (0..6).map(|s| step.pow([s as u64]) * Fr::from(versions[s])).sum::<Fr>();
        assert_eq!(entry_scalar(&versions), expected);
        assert!(is_valid(&versions));
        assert!(!is_valid(&[VERSION_LIMIT, 0, 0, 0, 0, 0]));
    }
}
