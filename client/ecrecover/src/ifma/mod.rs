//! Recovery with the AVX-512 instructions that multiply eight numbers of 52 bits at a time.
//!
//! The key of a signature (r, s) of a hash z is -z/r · G + s/r · R, where R is the point whose x is r. The first factor is
//! taken as two halves, with multiples of G and of 2^128 · G that are computed once. The second is taken as a + bλ with a
//! and b of 128 bits, where λ times a point is as good as free. So there are four numbers of 128 bits, whose digits are added
//! from the highest on, with one row of doublings for all four.
//!
//! No lane branches. The sum begins with a fixed point, so that it does not begin at infinity. A signature can be
//! made for which equal or opposite points meet: then Z is zero from there on, and there is no result.

mod field;
mod multiples;
mod point;
mod power;
mod scalars;

use crate::Signed;
use field::{Field, LANES, LIMBS, from_limbs, to_limbs};
use k256::{
    AffinePoint, ProjectivePoint,
    elliptic_curve::{point::DecompressPoint, subtle::Choice},
};
use multiples::{FixedMultiples, OwnMultiples, coordinates, own_multiples};
use point::{Affine, Coordinates, Jacobian};
use scalars::{FIXED_BITS, FIXED_DIGITS, Factors, OWN_BITS, OWN_DIGITS, SignedNumber};
use std::{
    arch::{is_x86_feature_detected, x86_64::__mmask8},
    sync::LazyLock,
};

/// Number of signatures from which on eight lanes take less time than one signature after the other.
pub(crate) const WORTH_LANES: usize = 3;

/// Number of signatures that share an inversion, which is a chain of 255 squarings that wait for each other.
pub(crate) const BATCH: usize = 8 * LANES;

/// Number of signatures that take hardly more time each than [`BATCH`] do.
pub(crate) const FEW: usize = 2 * LANES;

/// Points that do not depend on the signature.
struct Tables {
    /// Multiples of the generator, and of 2^128 times it.
    generator: [FixedMultiples; 2],
    /// Where a sum begins: the point with x = 1 and an even y.
    start: Coordinates,
    /// The negative of what has become of it when a sum ends.
    end: Coordinates,
}

static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let doubled = |point, times| (0..times).fold(point, |point: ProjectivePoint, _| point.double());
    let generator = ProjectivePoint::GENERATOR;
    let mut one = k256::FieldBytes::default();
    one[31] = 1;
    let start = AffinePoint::decompress(&one, Choice::from(0)).expect("x = 1 is on the curve");
    let doublings = OWN_BITS as usize * (OWN_DIGITS - 1);
    Tables {
        generator: [generator, doubled(generator, 128)].map(FixedMultiples::of),
        start: coordinates(start),
        end: coordinates((-doubled(start.into(), doublings)).to_affine()),
    }
});

/// Whether this processor has the instructions.
pub(crate) fn is_available() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512ifma")
}

/// Factors of eight signatures, as digits: those of one place of all of them are side by side.
struct Digits {
    generator: [[[i64; LANES]; FIXED_DIGITS]; 2],
    own: [[[i64; LANES]; OWN_DIGITS]; 2],
}

impl Digits {
    /// Those of at most eight signatures; a lane without factors has zeros.
    fn of(factors: &[Option<Factors>]) -> Self {
        let mut all =
            Self { generator: [[[0; LANES]; FIXED_DIGITS]; 2], own: [[[0; LANES]; OWN_DIGITS]; 2] };
        for (lane, factors) in factors.iter().enumerate() {
            let Some(Factors { generator, own }) = factors else { continue };
            for (all, half) in all.generator.iter_mut().zip(generator) {
                let digits: [_; FIXED_DIGITS] = scalars::digits(*half, FIXED_BITS);
                all.iter_mut().zip(digits).for_each(|(all, digit)| all[lane] = digit);
            }
            for (all, SignedNumber { negative, magnitude }) in all.own.iter_mut().zip(own) {
                let digits: [_; OWN_DIGITS] = scalars::digits(*magnitude, OWN_BITS);
                let signed = |digit: i64| if *negative { -digit } else { digit };
                all.iter_mut().zip(digits).for_each(|(all, digit)| all[lane] = signed(digit));
            }
        }
        all
    }
}

/// Returns the public keys of [`BATCH`] signatures at most, x before y. There is none for a signature that belongs to no key, or
/// for which these formulas do not hold.
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
pub(crate) fn keys(signed: &[Signed]) -> Vec<Option<[u8; 64]>> {
    let tables = &*TABLES;
    let start = Affine::splat(tables.start);
    let end = Affine::splat(tables.end);
    let factors = scalars::factors(signed);
    let digits: Vec<_> = factors.chunks(LANES).map(Digits::of).collect();
    let (points, are_points) = points(signed, start);
    let own: Vec<OwnMultiples> = own_multiples(&points);

    let mut sums: Vec<Jacobian> = Vec::with_capacity(own.len());
    for (own, digits) in own.iter().zip(&digits) {
        let mut sum = start.jacobian();
        for place in (0..OWN_DIGITS).rev() {
            if place + 1 < OWN_DIGITS {
                for _ in 0..OWN_BITS {
                    sum = sum.doubled();
                }
            }
            sum = own.add(sum, &digits.own[0][place]);
            sum = own.add_turned(sum, &digits.own[1][place]);
            if place.is_multiple_of(2) {
                for (multiples, digits) in tables.generator.iter().zip(&digits.generator) {
                    sum = multiples.add(sum, &digits[place / 2]);
                }
            }
        }
        sums.push(sum.plus(end));
    }

    // A lane without a sum would spoil the common inverse of that lane in all rows. The last row may have many.
    let (mut inverses, mut are_sums) = (Vec::with_capacity(sums.len()), Vec::new());
    for sum in &sums {
        let mask = sum.z.canonical().not_zero();
        inverses.push(Field::one().or_where(mask, sum.z));
        are_sums.push(mask);
    }
    power::invert(&mut inverses);
    let mut out = Vec::with_capacity(signed.len());
    for (row, (sum, inverse)) in sums.iter().zip(inverses).enumerate() {
        let key = sum.affine(inverse);
        // An error in the arithmetic of the field does not end on the curve.
        let good = key.on_curve() & are_points[row] & are_sums[row];
        let (x, y) = (key.x.canonical().limbs(), key.y.canonical().limbs());
        for (lane, factors) in factors[row * LANES..].iter().enumerate().take(LANES) {
            let bytes = |limbs: &[[u64; LANES]; LIMBS]| from_limbs(limbs.map(|limb| limb[lane]));
            let key = (factors.is_some() && good >> lane & 1 == 1).then(|| {
                let mut key = [0; 64];
                key[..32].copy_from_slice(&bytes(&x));
                key[32..].copy_from_slice(&bytes(&y));
                key
            });
            out.push(key);
        }
    }
    out
}

/// Returns R of each signature, and a bit for each lane that has one: the others have `instead`.
#[target_feature(enable = "avx512f,avx512ifma")]
fn points(signed: &[Signed], instead: Affine) -> (Vec<Affine>, Vec<__mmask8>) {
    let (mut right_sides, mut points, mut odd) = (Vec::new(), Vec::new(), Vec::new());
    for signed in signed.chunks(LANES) {
        let (mut x, mut mask) = ([[0; LANES]; LIMBS], 0);
        for (lane, Signed { signature, .. }) in signed.iter().enumerate() {
            for (x, limb) in x.iter_mut().zip(to_limbs(signature.r().to_be_bytes())) {
                x[lane] = limb;
            }
            mask |= u8::from(signature.v()) << lane;
        }
        let x = Field::new(&x);
        let point = Affine { x, y: x };
        right_sides.push(point.right_side());
        points.push(point);
        odd.push(mask);
    }
    let mut are_points = Vec::new();
    for ((point, root), odd) in points.iter_mut().zip(power::roots(&right_sides)).zip(odd) {
        let y = root.canonical();
        let root = Affine { x: point.x, y }.negated_where(y.odd() ^ odd);
        let on_curve = root.on_curve();
        point.x = instead.x.or_where(on_curve, root.x);
        point.y = instead.y.or_where(on_curve, root.y);
        are_points.push(on_curve);
    }
    (points, are_points)
}

#[cfg(test)]
mod tests;
