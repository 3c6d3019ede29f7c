//! Small multiples of points, from which each lane takes its own.

use super::{
    field::{Field, LANES, LIMBS, lanes_of, to_limbs},
    point::{Affine, Coordinates, Jacobian},
    power,
    scalars::{FIXED_BITS, OWN_BITS},
};
use k256::{
    AffinePoint, ProjectivePoint,
    elliptic_curve::{BatchNormalize, sec1::ToEncodedPoint},
};
use std::arch::x86_64::{
    __m512i, __mmask8, _mm512_abs_epi64, _mm512_add_epi64, _mm512_and_si512,
    _mm512_cmplt_epi64_mask, _mm512_i64gather_epi64, _mm512_mullo_epi64, _mm512_set1_epi64,
    _mm512_setzero_si512, _mm512_sub_epi64, _mm512_test_epi64_mask,
};

/// Number of multiples of a point that is known only when a signature comes: as many as a digit can ask for.
const OWN: usize = 1 << (OWN_BITS - 1);
/// Number of multiples of a point that does not depend on the signature.
const FIXED: usize = 1 << (FIXED_BITS - 1);

/// A factor with the third power 1: (βx, y) is λ times the point (x, y).
const BETA: [u8; 32] =
    alloy_primitives::hex!("7ae96a2b657c07106e64479eac3434e99cf0497512f58995c1396c28719501ee");

/// Which multiple each lane takes: a number in absolute value, and its sign.
#[derive(Debug, Clone, Copy)]
struct Choice {
    /// Number of the multiple less one, and less than the number of multiples.
    index: __m512i,
    negative: __mmask8,
    /// Lanes that take none.
    none: __mmask8,
}

/// Chooses from `count` multiples, a power of two: the mask keeps the index of a digit that is zero among them.
#[target_feature(enable = "avx512f")]
#[inline]
fn choice(digits: &[i64; LANES], count: usize) -> Choice {
    let digits = lanes_of(digits);
    let before = _mm512_sub_epi64(_mm512_abs_epi64(digits), _mm512_set1_epi64(1));
    Choice {
        index: _mm512_and_si512(before, _mm512_set1_epi64(count as i64 - 1)),
        negative: _mm512_cmplt_epi64_mask(digits, _mm512_setzero_si512()),
        none: !_mm512_test_epi64_mask(digits, digits),
    }
}

/// Adds the points `taken`, with the signs of `choice`, to the lanes of `sum` that take one.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn add(sum: Jacobian, choice: Choice, taken: Affine) -> Jacobian {
    sum.plus(taken.negated_where(choice.negative)).or_where(choice.none, sum)
}

/// The first multiples of eight points, which differ from lane to lane.
#[derive(Debug)]
pub(super) struct OwnMultiples {
    x: [Field; OWN],
    y: [Field; OWN],
    /// x of λ times the points; their y is that of the points.
    turned_x: [Field; OWN],
}

/// Returns the multiples of each of `points`.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn own_multiples(points: &[Affine]) -> Vec<OwnMultiples> {
    let mut multiples: Vec<Jacobian> = Vec::with_capacity(points.len() * OWN);
    for point in points {
        let first = multiples.len();
        multiples.push(point.jacobian());
        for number in 2..=OWN {
            multiples.push(if number % 2 == 0 {
                multiples[first + number / 2 - 1].doubled()
            } else {
                multiples[first + number - 2].plus(*point)
            });
        }
    }
    let beta = Field::splat(to_limbs(BETA));
    let mut inverses: Vec<_> = multiples.iter().map(|multiple| multiple.z).collect();
    power::invert(&mut inverses);
    let mut out = Vec::with_capacity(points.len());
    for (multiples, inverses) in multiples.chunks(OWN).zip(inverses.chunks(OWN)) {
        let zero = Field::splat([0; LIMBS]);
        let mut own = OwnMultiples { x: [zero; OWN], y: [zero; OWN], turned_x: [zero; OWN] };
        for number in 0..OWN {
            let Affine { x, y } = multiples[number].affine(inverses[number]);
            (own.x[number], own.y[number], own.turned_x[number]) = (x, y, x.times(beta));
        }
        out.push(own);
    }
    out
}

impl OwnMultiples {
    /// Adds to each lane of `sum` as many times its point as `digits` say, which are from -[`OWN`] to [`OWN`].
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    pub(super) fn add(&self, sum: Jacobian, digits: &[i64; LANES]) -> Jacobian {
        self.add_with(&self.x, sum, digits)
    }

    /// Adds as many times λ times its point.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    pub(super) fn add_turned(&self, sum: Jacobian, digits: &[i64; LANES]) -> Jacobian {
        self.add_with(&self.turned_x, sum, digits)
    }

    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    fn add_with(&self, x: &[Field; OWN], sum: Jacobian, digits: &[i64; LANES]) -> Jacobian {
        let choice = choice(digits, OWN);
        add(sum, choice, Affine { x: pick(x, choice), y: pick(&self.y, choice) })
    }
}

/// Returns the element of each lane from the entry that it has chosen.
#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
fn pick(from: &[Field; OWN], choice: Choice) -> Field {
    const { assert!(size_of::<[Field; OWN]>() == OWN * LIMBS * LANES * 8) };
    let lanes = lanes_of(&[0_i64, 1, 2, 3, 4, 5, 6, 7]);
    let entry = _mm512_mullo_epi64(choice.index, _mm512_set1_epi64((LIMBS * LANES) as i64));
    let index = _mm512_add_epi64(entry, lanes);
    let base = from.as_ptr().cast::<i64>();
    let mut out = [_mm512_setzero_si512(); LIMBS];
    for (limb, out) in out.iter_mut().enumerate() {
        // SAFETY: an index is below OWN entries of LIMBS registers of LANES lanes each, which is what `from` is.
        *out = unsafe { _mm512_i64gather_epi64::<8>(index, base.add(limb * LANES).cast()) };
    }
    Field::from_registers(out)
}

/// The first multiples of one point, for all lanes: limbs of x, then those of y.
#[derive(Debug)]
pub(super) struct FixedMultiples(Vec<[u64; 2 * LIMBS]>);

impl FixedMultiples {
    pub(super) fn of(point: ProjectivePoint) -> Self {
        let multiples = std::iter::successors(Some(point), |multiple| Some(*multiple + point));
        let multiples: Vec<_> = multiples.take(FIXED).collect();
        let entries =
            ProjectivePoint::batch_normalize(&multiples[..]).into_iter().map(|multiple| {
                let (x, y) = coordinates(multiple);
                std::array::from_fn(|limb| if limb < LIMBS { x[limb] } else { y[limb - LIMBS] })
            });
        Self(entries.collect())
    }

    /// Adds to each lane of `sum` as many times the point as `digits` say, which are from -[`FIXED`] to [`FIXED`].
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    pub(super) fn add(&self, sum: Jacobian, digits: &[i64; LANES]) -> Jacobian {
        let choice = choice(digits, FIXED);
        let index = _mm512_mullo_epi64(choice.index, _mm512_set1_epi64(2 * LIMBS as i64));
        assert_eq!(self.0.len(), FIXED, "the index has an entry");
        let base = self.0.as_ptr().cast::<i64>();
        let (mut x, mut y) = ([_mm512_setzero_si512(); LIMBS], [_mm512_setzero_si512(); LIMBS]);
        for limb in 0..LIMBS {
            // SAFETY: an index is below FIXED entries of two times LIMBS numbers each, which is what the multiples are.
            unsafe {
                x[limb] = _mm512_i64gather_epi64::<8>(index, base.add(limb).cast());
                y[limb] = _mm512_i64gather_epi64::<8>(index, base.add(LIMBS + limb).cast());
            }
        }
        let taken = Affine { x: Field::from_registers(x), y: Field::from_registers(y) };
        add(sum, choice, taken)
    }
}

/// Returns the coordinates of a point, which are zero for the point at infinity.
pub(super) fn coordinates(point: AffinePoint) -> Coordinates {
    let encoded = point.to_encoded_point(false);
    let limbs =
        |bytes: Option<&k256::FieldBytes>| to_limbs(bytes.copied().unwrap_or_default().into());
    (limbs(encoded.x()), limbs(encoded.y()))
}
