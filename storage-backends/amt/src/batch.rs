//! Many affine additions at the price of one inversion.
//!
//! An addition of affine points needs one division. Done for many pairs at once, one inversion and three
//! multiplications a pair serve them all, so that an addition costs about six multiplications instead of the
//! eleven of a mixed one, and the result needs no normalisation.

use crate::point::identity;
use ark_bn254::{Fq, G1Affine};
use ark_ec::AffineRepr;
use ark_ff::{AdditiveGroup, Field, Zero, fields::batch_inversion};
use rayon::prelude::*;

/// Pairs that share an inversion: an inversion costs about 400 multiplications, and what belongs to this many
/// pairs stays in the second-level cache.
const SHARED: usize = 1024;

/// What has to be inverted to add two points; zero where the sum takes no division.
#[inline]
fn denominator(a: &G1Affine, b: &G1Affine) -> Fq {
    if a.is_zero() || b.is_zero() {
        return Fq::ZERO;
    }
    if a.x != b.x {
        return b.x - a.x;
    }
    // The same point, which is doubled, or its negative, and the sum is the identity.
    if a.y == b.y { a.y.double() } else { Fq::ZERO }
}

/// The sum, given the inverse of [`denominator`].
#[inline]
fn finish(a: &G1Affine, b: &G1Affine, inverse: &Fq) -> G1Affine {
    if inverse.is_zero() {
        return match (a.is_zero(), b.is_zero()) {
            (true, _) => *b,
            (false, true) => *a,
            (false, false) => identity(),
        };
    }
    let slope = if a.x == b.x {
        let square = a.x.square();
        (square.double() + square) * inverse
    } else {
        (b.y - a.y) * inverse
    };
    let x = slope.square() - a.x - b.x;
    let y = slope * (a.x - x) - a.y;
    G1Affine::new_unchecked(x, y)
}

/// Adds `points[k]` to `sums[positions[k]]`, no position twice.
pub(crate) fn add_at(sums: &mut [G1Affine], positions: &[u32], points: &[G1Affine]) {
    let mut inverses: Vec<Fq> = positions
        .iter()
        .zip(points)
        .map(|(at, point)| denominator(&sums[*at as usize], point))
        .collect();
    batch_inversion(&mut inverses);
    for ((at, point), inverse) in positions.iter().zip(points).zip(&inverses) {
        let sum = &mut sums[*at as usize];
        *sum = finish(sum, point, inverse);
    }
}

/// Adds `others[k]` to `sums[k]`.
pub(crate) fn add_all(sums: &mut [G1Affine], others: &[G1Affine]) {
    let mut inverses: Vec<Fq> = sums.iter().zip(others).map(|(a, b)| denominator(a, b)).collect();
    batch_inversion(&mut inverses);
    for ((sum, other), inverse) in sums.iter_mut().zip(others).zip(&inverses) {
        *sum = finish(sum, other, inverse);
    }
}

/// Doubles every point.
pub(crate) fn double_all(points: &mut [G1Affine]) {
    // The identity has y = 0, which the inversion leaves alone and `finish` understands.
    let mut inverses: Vec<Fq> = points.iter().map(|point| point.y.double()).collect();
    batch_inversion(&mut inverses);
    for (point, inverse) in points.iter_mut().zip(&inverses) {
        let old = *point;
        *point = finish(&old, &old, inverse);
    }
}

/// Sum and difference of `a[k]` and `b[k]`, in their places: they share the division.
pub(crate) fn butterflies(a: &mut [G1Affine], b: &mut [G1Affine]) {
    let mut inverses: Vec<Fq> = a.iter().zip(b.iter()).map(|(a, b)| b.x - a.x).collect();
    batch_inversion(&mut inverses);
    for ((a, b), inverse) in a.iter_mut().zip(b.iter_mut()).zip(&inverses) {
        if inverse.is_zero() || a.is_zero() || b.is_zero() {
            // Equal or opposite points, or none: too rare to be worth a shared division.
            let (sum, difference) = (*a + *b, *a - *b);
            (*a, *b) = (sum.into(), difference.into());
        } else {
            let sum = finish(a, b, inverse);
            let difference = finish(a, &-*b, inverse);
            (*a, *b) = (sum, difference);
        }
    }
}

/// Sums groups of points: `ends[g]` is where group `g` ends in `points`, and the next one begins.
///
/// In rounds over all groups: each round adds neighbours within a group, so that one inversion serves hundreds
/// of additions however small the groups are. The result is the same whatever the number of threads.
pub fn sum_groups(points: Vec<G1Affine>, ends: &[u32]) -> Vec<G1Affine> {
    let mut points = points;
    let mut ends = ends.to_vec();
    loop {
        let mut pairs: Vec<(u32, Option<u32>)> = Vec::with_capacity(points.len() / 2 + ends.len());
        let mut start = 0;
        let mut longest = 0;
        for end in &mut ends {
            longest = longest.max(*end - start);
            let mut at = start;
            while at + 1 < *end {
                pairs.push((at, Some(at + 1)));
                at += 2;
            }
            if at < *end {
                pairs.push((at, None));
            }
            start = *end;
            // A group of points is far below 2^32.
            *end = pairs.len() as u32;
        }
        if longest <= 1 {
            break;
        }
        points = add_pairs(&points, &pairs);
    }
    let mut start = 0;
    ends.iter()
        .map(|end| {
            let sum = if *end > start { points[start as usize] } else { identity() };
            start = *end;
            sum
        })
        .collect()
}

/// Adds each pair; what has no partner stays as it is.
fn add_pairs(points: &[G1Affine], pairs: &[(u32, Option<u32>)]) -> Vec<G1Affine> {
    let mut sums = vec![identity(); pairs.len()];
    let add = |(sums, pairs): (&mut [G1Affine], &[(u32, Option<u32>)])| {
        let mut inverses: Vec<Fq> = pairs
            .iter()
            .map(|(a, b)| {
                b.map_or(Fq::ZERO, |b| denominator(&points[*a as usize], &points[b as usize]))
            })
            .collect();
        batch_inversion(&mut inverses);
        for ((sum, (a, b)), inverse) in sums.iter_mut().zip(pairs).zip(&inverses) {
            let a = &points[*a as usize];
            *sum = b.map_or(*a, |b| finish(a, &points[b as usize], inverse));
        }
    };
    if pairs.len() <= SHARED {
        add((&mut sums, pairs));
    } else {
        sums.par_chunks_mut(SHARED).zip(pairs.par_chunks(SHARED)).for_each(add);
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use ark_bn254::{Fr, G1Projective};
    use ark_ec::CurveGroup;

    fn multiple(n: i64) -> G1Affine {
        let point = (G1Affine::generator() * Fr::from(n.unsigned_abs())).into_affine();
        if n < 0 { -point } else { point }
    }

    #[test]
    fn sums_are_those_of_the_group() {
        // Equal points, opposite points, identities and empty groups among them.
        let groups: [&[i64]; 8] = [
            &[1, 2, 3, 4, 5],
            &[],
            &[7],
            &[3, 3],
            &[4, -4],
            &[0, 9, 0],
            &[5, 5, -10, 2, 2, -4, 8],
            &[0, 0],
        ];
        let points = groups.iter().flat_map(|group| group.iter().map(|n| multiple(*n))).collect();
        let mut end = 0;
        let ends: Vec<u32> = groups
            .iter()
            .map(|group| {
                end += group.len() as u32;
                end
            })
            .collect();
        let expected: Vec<_> = groups.iter().map(|group| multiple(group.iter().sum())).collect();
        assert_eq!(sum_groups(points, &ends), expected);
        assert!(sum_groups(Vec::new(), &[]).is_empty());
    }

    #[test]
    fn a_group_of_thousands_is_summed_in_parallel() {
        let points: Vec<_> = (1..=5_000).map(multiple).collect();
        let expected = multiple(5_000 * 5_001 / 2);
        assert_eq!(sum_groups(points, &[5_000]), vec![expected]);
    }

    #[test]
    fn butterflies_and_doublings() {
        let numbers = [(1, 2), (3, 3), (4, -4), (0, 5), (6, 0), (0, 0)];
        let mut a: Vec<_> = numbers.map(|(a, _)| multiple(a)).to_vec();
        let mut b: Vec<_> = numbers.map(|(_, b)| multiple(b)).to_vec();
        butterflies(&mut a, &mut b);
        assert_eq!(a, numbers.map(|(a, b)| multiple(a + b)));
        assert_eq!(b, numbers.map(|(a, b)| multiple(a - b)));
        double_all(&mut a);
        assert_eq!(a, numbers.map(|(a, b)| multiple(2 * (a + b))));
        let mut sums = vec![multiple(1), multiple(2), G1Projective::zero().into_affine()];
        add_at(&mut sums, &[2, 0], &[multiple(5), multiple(-1)]);
        assert_eq!(sums, [multiple(0), multiple(2), multiple(5)]);
        let others = sums.clone();
        add_all(&mut sums, &others);
        assert_eq!(sums, [multiple(0), multiple(4), multiple(10)]);
    }
}
