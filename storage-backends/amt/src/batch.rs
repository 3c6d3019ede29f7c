//! Batched affine additions: many of them at the price of one inversion.
//!
//! An addition of affine points needs one division. If it is done for many pairs at once, one inversion and three
//! multiplications a pair serve them all. So an addition costs about six multiplications instead of the eleven of a
//! mixed one, and the result needs no normalisation. This file has the patterns that deriving the tables needs; the
//! sums of a block are in `sums.rs`.

use crate::point::identity;
use ark_bn254::{Fq, G1Affine};
use ark_ec::AffineRepr;
use ark_ff::{AdditiveGroup, Field, Zero, fields::batch_inversion};

/// Returns the number that must be inverted to add two points; zero if the sum needs no division.
#[inline]
fn denominator(a: &G1Affine, b: &G1Affine) -> Fq {
    if a.is_zero() || b.is_zero() {
        return Fq::ZERO;
    }
    if a.x != b.x {
        return b.x - a.x;
    }
    // Equal points are doubled; the sum of opposite ones is the identity.
    if a.y == b.y { a.y.double() } else { Fq::ZERO }
}

/// Returns the sum, given the inverse of [`denominator`].
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

/// Adds `points[k]` to `sums[positions[k]]`; no position may occur twice.
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

/// Replaces `a[k]` and `b[k]` by their sum and difference, which share the division.
pub(crate) fn butterflies(a: &mut [G1Affine], b: &mut [G1Affine]) {
    let mut inverses: Vec<Fq> = a.iter().zip(b.iter()).map(|(a, b)| b.x - a.x).collect();
    batch_inversion(&mut inverses);
    for ((a, b), inverse) in a.iter_mut().zip(b.iter_mut()).zip(&inverses) {
        if inverse.is_zero() || a.is_zero() || b.is_zero() {
            // Equal or opposite points, and identities, are too rare to be worth a shared division.
            let (sum, difference) = (*a + *b, *a - *b);
            (*a, *b) = (sum.into(), difference.into());
        } else {
            let sum = finish(a, b, inverse);
            let difference = finish(a, &-*b, inverse);
            (*a, *b) = (sum, difference);
        }
    }
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
