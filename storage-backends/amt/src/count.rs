//! Incrementing versions in many vectors at once.

use crate::{
    SLOTS, Setup,
    sums::{Part, sum_parts},
};
use ark_bn254::G1Affine;
use ark_ec::{AffineRepr, CurveGroup};

/// The bit of a term with a point that is subtracted.
const NEGATIVE: u32 = 1 << 31;

/// A batch of version increments in any number of vectors. Their new commitments are computed together.
#[derive(Debug)]
pub struct Counting<'a> {
    setup: &'a Setup,
    commitments: Vec<G1Affine>,
    /// The points to be added, by their index in the table.
    terms: Vec<u32>,
    /// The index behind the last term of each vector.
    ends: Vec<u32>,
}

impl<'a> Counting<'a> {
    /// Creates an empty batch with room for this many vectors and versions.
    pub fn new(setup: &'a Setup, vectors: usize, versions: usize) -> Self {
        Self {
            setup,
            commitments: Vec::with_capacity(vectors),
            terms: Vec::with_capacity(versions),
            ends: Vec::with_capacity(vectors),
        }
    }

    /// Adds the next vector, given by its present commitment: each of these versions, given by slot and index, is
    /// incremented.
    ///
    /// # Panics
    ///
    /// If there is no such slot or entry.
    pub fn vector(
        &mut self,
        commitment: G1Affine,
        versions: impl IntoIterator<Item = (usize, u32)>,
    ) {
        let height = self.setup.height();
        let from = self.terms.len();
        self.terms.extend(versions.into_iter().map(|(slot, index)| {
            assert!(slot < SLOTS && index >> height == 0, "no such slot or entry");
            // The index is at most 6 · 2^20.
            (slot as u32) << height | index
        }));
        self.commitments.push(commitment);
        self.take_the_shorter_way(from);
        // A block changes far fewer than 2^32 keys.
        self.ends.push(self.terms.len() as u32);
    }

    /// Shortens the sum if most entries increment slot 0: all entries together are the polynomial 1, whose point is
    /// the generator, so it takes fewer additions to subtract those that do not.
    fn take_the_shorter_way(&mut self, from: usize) {
        let n = 1usize << self.setup.height();
        let terms = &self.terms[from..];
        if terms.len() <= n / 2 || terms.iter().any(|term| *term as usize >= n) {
            return;
        }
        let mut counted = vec![false; n];
        for term in terms {
            // An entry that is counted twice rules this out.
            if std::mem::replace(&mut counted[*term as usize], true) {
                return;
            }
        }
        self.terms.truncate(from);
        let others = (0u32..).zip(&counted).filter(|(_, counted)| !**counted);
        self.terms.extend(others.map(|(index, _)| index | NEGATIVE));
        if let Some(last) = self.commitments.last_mut() {
            *last = (*last + G1Affine::generator()).into_affine();
        }
    }

    /// Returns the new commitments, in the order of the vectors. The work is shared between threads; the result is
    /// equal for any number of them.
    pub fn finish(self) -> Vec<G1Affine> {
        let Self { setup, commitments, terms, ends } = &self;
        sum_parts(ends, |part: &Part, points| {
            if part.first && !commitments[part.group as usize].is_zero() {
                points.push(commitments[part.group as usize]);
            }
            points.extend(terms[part.range()].iter().map(|term| {
                let point = setup.row((term & !NEGATIVE) as usize);
                if term & NEGATIVE == 0 { point } else { -point }
            }));
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Entry, PowersOfTau, Versions, commit};

    #[test]
    fn counted_commitments_are_those_from_nothing() {
        let height = 5;
        let (powers, _) = PowersOfTau::from_seed(height, "count");
        let setup = Setup::derive(&powers, false, &mut |_| {});
        let mut vectors: Vec<Vec<Versions>> = vec![vec![[0; SLOTS]; 32]; 9];
        let mut commitments = vec![crate::identity(); vectors.len()];
        for round in 0..12usize {
            let mut counting = Counting::new(&setup, 0, 0);
            for (v, vector) in vectors.iter_mut().enumerate() {
                // The counts cover few entries, half, most and all of them; one slot or several; some twice.
                let count = [0, 1, 5, 16, 17, 31, 32, 40, 70][(v + round) % 9];
                let versions: Vec<(usize, u32)> = (0..count)
                    .map(|k| {
                        let slot = if v % 2 == 0 { 0 } else { (k + v) % SLOTS };
                        (slot, ((k * 7 + round) % 32) as u32)
                    })
                    .collect();
                for (slot, index) in &versions {
                    vector[*index as usize][*slot] += 1;
                }
                counting.vector(commitments[v], versions);
            }
            commitments = counting.finish();
            for (commitment, vector) in commitments.iter().zip(&vectors) {
                let entries: Vec<Entry> = (0u32..)
                    .zip(vector)
                    .map(|(index, versions)| Entry { index, versions: *versions })
                    .collect();
                assert_eq!(*commitment, commit(&setup, &entries), "round {round}");
            }
        }
    }
}
