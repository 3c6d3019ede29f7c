//! Sums of many groups of points: the elliptic-curve work of a block.
//!
//! All groups are summed together, in rounds that halve each of them: one inversion serves a round of thousands of
//! groups, however small they are. Within a round the work is done in four independent lanes, since a chain of
//! multiplications takes twice as long as the same number that a processor can overlap.

use crate::point::identity;
use ark_bn254::{Fq, G1Affine};
use ark_ec::{AffineRepr, CurveGroup};
use ark_ff::{Field, Zero};
use rayon::prelude::*;
use std::ops::Range;

/// Number of independent chains of multiplications.
const LANES: usize = 4;

/// Largest number of points that one thread sums at once: 256 kB, which stay in the second-level cache.
const BATCH: usize = 4096;

/// Number of points below which one thread does all of the work.
const SMALL: usize = 512;

/// Sums groups of points: `ends[g]` is the index in `points` behind group `g`, where the next one begins. The sum of
/// an empty group is the identity. The number of threads does not change the result.
pub fn sum_groups(points: &[G1Affine], ends: &[u32]) -> Vec<G1Affine> {
    sum_parts(ends, |part, out| out.extend_from_slice(&points[part.range()]))
}

/// A group, or a part of one that is too large for a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    /// Number of the group.
    pub(crate) group: u32,
    /// Whether the group begins in this part.
    pub(crate) first: bool,
    from: u32,
    to: u32,
}

impl Part {
    /// Returns the terms of the part.
    pub(crate) const fn range(&self) -> Range<usize> {
        self.from as usize..self.to as usize
    }
}

/// Sums groups of points. `gather` appends the points of a part.
pub(crate) fn sum_parts(
    ends: &[u32],
    gather: impl Fn(&Part, &mut Vec<G1Affine>) + Sync,
) -> Vec<G1Affine> {
    let terms = ends.last().map_or(0, |end| *end as usize) + ends.len();
    // There are at least two batches a thread, so that no thread waits long for another.
    let limit = (terms / (2 * rayon::current_num_threads())).clamp(SMALL, BATCH);
    let mut parts: Vec<Part> = Vec::with_capacity(ends.len() + terms / limit + 1);
    let (mut batches, mut size) = (vec![0], 0);
    let mut from = 0;
    for (group, end) in (0u32..).zip(ends) {
        let mut first = true;
        loop {
            // A group has far fewer than 2^32 points.
            let to = (*end).min(from + limit as u32);
            let length = (to - from) as usize + 1;
            if size + length > limit && size > 0 {
                batches.push(parts.len());
                size = 0;
            }
            size += length;
            parts.push(Part { group, first, from, to });
            (from, first) = (to, false);
            if from == *end {
                break;
            }
        }
    }
    batches.push(parts.len());
    let batch = |range: &[usize]| sum_batch(&parts[range[0]..range[1]], &gather);
    let sums: Vec<G1Affine> = if batches.len() == 2 {
        batch(&batches)
    } else {
        batches.par_windows(2).flat_map_iter(batch).collect()
    };
    if parts.len() == ends.len() {
        return sums;
    }
    let parts: Vec<(Part, G1Affine)> = parts.into_iter().zip(sums).collect();
    parts
        .chunk_by(|_, next| !next.0.first)
        .map(|group| match group {
            [(_, sum)] => *sum,
            group => {
                let mut points: Vec<G1Affine> = group.iter().map(|(_, sum)| *sum).collect();
                let length = points.len() as u32;
                Rounds::default().sum(&mut points, &[(0, length)]);
                points[0]
            }
        })
        .collect()
}

fn sum_batch(
    parts: &[Part],
    gather: &(impl Fn(&Part, &mut Vec<G1Affine>) + Sync),
) -> Vec<G1Affine> {
    let mut points = Vec::with_capacity(2 * BATCH);
    let mut groups = Vec::with_capacity(parts.len());
    for part in parts {
        let from = points.len();
        gather(part, &mut points);
        if points.len() == from {
            points.push(identity());
        }
        groups.push((from as u32, (points.len() - from) as u32));
    }
    Rounds::default().sum(&mut points, &groups);
    groups.iter().map(|(from, _)| points[*from as usize]).collect()
}

/// The indices of two points to be added; the sum replaces the first.
type Pair = (u32, u32);

/// The buffers for the numbers of a round.
#[derive(Debug, Default)]
struct Rounds {
    pairs: Vec<Pair>,
    /// The differences of the pairs: `x` of the second point less that of the first.
    differences: Vec<Fq>,
    /// The product of the earlier differences of the same lane.
    products: Vec<Fq>,
}

impl Rounds {
    /// Replaces the first point of each group, given by its start and length, by the sum of the group.
    fn sum(&mut self, points: &mut [G1Affine], groups: &[(u32, u32)]) {
        let longest = groups.iter().map(|(_, length)| *length).max().unwrap_or(0);
        let mut step = 1;
        while step < longest {
            self.pairs.clear();
            self.differences.clear();
            for (from, length) in groups.iter().filter(|(_, length)| *length > step) {
                let mut at = 0;
                while at + step < *length {
                    self.pair(points, (from + at, from + at + step));
                    at += 2 * step;
                }
            }
            self.add(points);
            step *= 2;
        }
    }

    fn pair(&mut self, points: &mut [G1Affine], pair: Pair) {
        let (a, b) = (points[pair.0 as usize], points[pair.1 as usize]);
        let difference = b.x - a.x;
        if difference.is_zero() || a.is_zero() || b.is_zero() {
            // Equal or opposite points, and identities, are too rare to be worth a shared division.
            points[pair.0 as usize] = (a + b).into_affine();
        } else {
            self.pairs.push(pair);
            self.differences.push(difference);
        }
    }

    /// Adds the pairs with one inversion.
    fn add(&mut self, points: &mut [G1Affine]) {
        self.differences.resize(self.pairs.len().next_multiple_of(LANES), Fq::ONE);
        let (differences, _) = self.differences.as_chunks::<LANES>();
        self.products.clear();
        let mut product = [Fq::ONE; LANES];
        for differences in differences {
            self.products.extend_from_slice(&product);
            for lane in 0..LANES {
                product[lane] *= differences[lane];
            }
        }
        // No factor is zero.
        let Some(mut inverse) = inverses(product) else { return };
        let (products, _) = self.products.as_chunks::<LANES>();
        let pairs = self.pairs.chunks(LANES);
        for ((differences, products), pairs) in differences.iter().zip(products).zip(pairs).rev() {
            let mut inverted = *products;
            for lane in 0..LANES {
                inverted[lane] *= inverse[lane];
                inverse[lane] *= differences[lane];
            }
            match <&[Pair; LANES]>::try_from(pairs) {
                Ok(pairs) => add_inverted(points, pairs, &inverted),
                Err(_) => pairs
                    .iter()
                    .zip(inverted)
                    .for_each(|(pair, inverted)| add_inverted(points, &[*pair], &[inverted])),
            }
        }
    }
}

/// Returns the inverse of each number, at the price of one inversion; `None` if one is zero.
fn inverses(numbers: [Fq; LANES]) -> Option<[Fq; LANES]> {
    let mut products = [Fq::ONE; LANES];
    let mut product = Fq::ONE;
    for lane in 0..LANES {
        products[lane] = product;
        product *= numbers[lane];
    }
    let mut inverse = product.inverse()?;
    for lane in (0..LANES).rev() {
        products[lane] *= inverse;
        inverse *= numbers[lane];
    }
    Some(products)
}

/// Adds pairs whose differences of `x` were inverted, step by step in all of them.
#[inline]
fn add_inverted<const N: usize>(points: &mut [G1Affine], pairs: &[Pair; N], inverted: &[Fq; N]) {
    let a: [G1Affine; N] = std::array::from_fn(|n| points[pairs[n].0 as usize]);
    let b: [G1Affine; N] = std::array::from_fn(|n| points[pairs[n].1 as usize]);
    let slope: [Fq; N] = std::array::from_fn(|n| (b[n].y - a[n].y) * inverted[n]);
    let x: [Fq; N] = std::array::from_fn(|n| slope[n].square() - a[n].x - b[n].x);
    let y: [Fq; N] = std::array::from_fn(|n| slope[n] * (a[n].x - x[n]) - a[n].y);
    for n in 0..N {
        points[pairs[n].0 as usize] = G1Affine::new_unchecked(x[n], y[n]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ark_bn254::Fr;

    fn multiple(n: i64) -> G1Affine {
        let point = (G1Affine::generator() * Fr::from(n.unsigned_abs())).into_affine();
        if n < 0 { -point } else { point }
    }

    fn check(groups: &[Vec<i64>]) {
        let points: Vec<_> = groups.iter().flatten().map(|n| multiple(*n)).collect();
        let mut end = 0;
        let ends: Vec<u32> = groups
            .iter()
            .map(|group| {
                end += group.len() as u32;
                end
            })
            .collect();
        let expected: Vec<_> = groups.iter().map(|group| multiple(group.iter().sum())).collect();
        assert_eq!(sum_groups(&points, &ends), expected);
        let one = rayon::ThreadPoolBuilder::new().num_threads(1).build();
        let alone = one.map(|pool| pool.install(|| sum_groups(&points, &ends)));
        assert_eq!(alone.ok(), Some(expected));
    }

    #[test]
    fn sums_are_those_of_the_group() {
        // The groups include equal points, opposite points, identities and empty groups.
        check(&[
            vec![1, 2, 3, 4, 5],
            vec![],
            vec![7],
            vec![3, 3],
            vec![4, -4],
            vec![0, 9, 0],
            vec![5, 5, -10, 2, 2, -4, 8],
            vec![0, 0],
        ]);
        check(&[]);
        check(&[vec![], vec![]]);
    }

    #[test]
    fn groups_are_split_between_batches_and_threads() {
        let large: Vec<i64> = (1..=9_000).collect();
        let small = (0..700).map(|n| (n..n + n % 9).collect());
        check(&small.clone().chain([large.clone()]).collect::<Vec<_>>());
        check(&std::iter::once(large).chain(small).collect::<Vec<_>>());
        check(&[(1..=BATCH as i64).collect(), vec![], vec![1; 2 * BATCH], vec![2]]);
    }
}
