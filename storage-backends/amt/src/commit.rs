//! Commitments computed from scratch: the oracle of every incremental one.

use crate::{SLOTS, Setup, Versions, sums::sum_groups};
use ark_bn254::{G1Affine, G1Projective};
use ark_ec::{CurveGroup, VariableBaseMSM};
use ark_ff::AdditiveGroup;
use rayon::prelude::*;

/// Number of terms that one thread sums at a time.
const CHUNK: usize = 4096;

/// An entry of a vector; entries that are not listed are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The index of the entry.
    pub index: u32,
    /// The version numbers of the entry.
    pub versions: Versions,
}

/// Computes the commitment to a vector from its entries that are not zero.
pub fn commit(setup: &Setup, entries: &[Entry]) -> G1Affine {
    let mut ones = Vec::new();
    let mut terms = Terms::default();
    for entry in entries {
        for slot in 0..SLOTS {
            match entry.versions[slot] {
                0 => {}
                1 => ones.push(setup.point(slot, entry.index)),
                version => terms.push(setup.point(slot, entry.index), version),
            }
        }
    }
    let ends = [ones.len() as u32];
    let ones = sum_groups(&ones, &ends)[0];
    (terms.sum() + ones).into_affine()
}

/// A sum of points times numbers of at most 64 bits.
#[derive(Debug, Default)]
pub(crate) struct Terms {
    points: Vec<G1Affine>,
    scalars: Vec<u64>,
}

impl Terms {
    pub(crate) fn push(&mut self, point: G1Affine, scalar: u64) {
        self.points.push(point);
        self.scalars.push(scalar);
    }

    pub(crate) fn sum(&self) -> G1Projective {
        let chunk = |(points, scalars): (&[G1Affine], &[u64])| {
            if points.len() < 8 {
                // Preparing windows for a handful of terms costs more than it saves.
                points.iter().zip(scalars).map(|(p, s)| times(p, *s)).sum()
            } else {
                G1Projective::msm_u64(points, scalars)
            }
        };
        self.points.par_chunks(CHUNK).zip(self.scalars.par_chunks(CHUNK)).map(chunk).sum()
    }
}

/// Computes `scalar · point` by doubling and adding, for small scalars.
fn times(point: &G1Affine, scalar: u64) -> G1Projective {
    let mut product = G1Projective::ZERO;
    for bit in (0..u64::BITS - scalar.leading_zeros()).rev() {
        product.double_in_place();
        if scalar >> bit & 1 == 1 {
            product += point;
        }
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PowersOfTau, SLOT_BITS};
    use ark_bn254::Fr;
    use ark_ff::Field;

    #[test]
    fn a_commitment_is_the_sum_of_its_terms() {
        let (powers, _) = PowersOfTau::from_seed(4, "commit");
        let setup = Setup::derive(&powers, false, &mut |_| {});
        let entries: Vec<Entry> = (0..16u32)
            .map(|index| Entry {
                index,
                versions: std::array::from_fn(|s| u64::from(index * 7 + 1).pow(s as u32) % 90_000),
            })
            .collect();
        let mut expected = G1Projective::ZERO;
        for entry in &entries {
            for (slot, version) in entry.versions.iter().enumerate() {
                let shift = Fr::from(2u64).pow([u64::from(SLOT_BITS) * slot as u64]);
                expected += setup.point(0, entry.index) * (shift * Fr::from(*version));
            }
        }
        assert_eq!(commit(&setup, &entries), expected.into_affine());
        assert_eq!(commit(&setup, &[]), crate::identity());
    }
}
