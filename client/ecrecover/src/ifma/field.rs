//! Elements of the field of secp256k1, one in each lane of five 512-bit registers.
//!
//! A register holds 52 bits of each of the eight elements, since the instructions multiply that much at a time.

use alloy_primitives::U256;
use std::arch::x86_64::{
    __m512i, __mmask8, _mm512_add_epi64, _mm512_and_si512, _mm512_loadu_si512,
    _mm512_madd52hi_epu64, _mm512_madd52lo_epu64, _mm512_mask_blend_epi64, _mm512_set1_epi64,
    _mm512_setzero_si512, _mm512_slli_epi64, _mm512_srli_epi64, _mm512_storeu_si512,
    _mm512_sub_epi64, _mm512_test_epi64_mask,
};

/// Number of elements in a [`Field`].
pub(super) const LANES: usize = 8;
/// Number of registers of an element.
pub(super) const LIMBS: usize = 5;

const LIMB: u64 = (1 << 52) - 1;
/// Bits of a 256-bit number in its last limb.
const LAST_LIMB: u64 = (1 << 48) - 1;
/// 2^256 modulo the prime of the field, which is 2^256 less this.
const FOLD: u64 = 0x1_0000_03d1;
/// 2^260 modulo the prime.
const FOLD_260: u64 = FOLD << 4;
const PRIME: [u64; LIMBS] = [LIMB + 1 - FOLD, LIMB, LIMB, LIMB, LAST_LIMB];

/// Eight elements of the field, which may be above the prime: four limbs have 52 bits, and the last one is at most 2^48.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(super) struct Field([__m512i; LIMBS]);

/// Eight sums of elements that are not reduced yet. A limb has 57 bits at most.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sum([__m512i; LIMBS]);

/// Eight sums of two products at most, and of a [`Sum`], that are not reduced yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Products([__m512i; 2 * LIMBS]);

/// Returns a register with these lanes.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn lanes_of<T: Copy>(lanes: &[T; LANES]) -> __m512i {
    const { assert!(size_of::<[T; LANES]>() == 64, "an integer of 64 bits for each lane") };
    // SAFETY: the array has 64 bytes, and the load needs no alignment.
    unsafe { _mm512_loadu_si512(lanes.as_ptr().cast()) }
}

/// Returns a big-endian number in limbs, the lowest first.
pub(super) fn to_limbs(bytes: [u8; 32]) -> [u64; LIMBS] {
    let number = U256::from_be_bytes(bytes);
    std::array::from_fn(|limb| (number >> (52 * limb)).as_limbs()[0] & LIMB)
}

/// Returns the big-endian number with these limbs.
pub(super) fn from_limbs(limbs: [u64; LIMBS]) -> [u8; 32] {
    let add = |number, limb| (number << 52) | U256::from(limb);
    limbs.into_iter().rev().fold(U256::ZERO, add).to_be_bytes()
}

#[target_feature(enable = "avx512f")]
#[inline]
fn all(value: u64) -> __m512i {
    _mm512_set1_epi64(value.cast_signed())
}

impl Field {
    /// Returns the elements with these limbs; the n-th array holds the n-th limb of each.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn new(limbs: &[[u64; LANES]; LIMBS]) -> Self {
        let mut field = [_mm512_setzero_si512(); LIMBS];
        for (field, limb) in field.iter_mut().zip(limbs) {
            *field = lanes_of(limb);
        }
        Self(field)
    }

    /// Returns elements from registers that hold their limbs.
    pub(super) const fn from_registers(limbs: [__m512i; LIMBS]) -> Self {
        Self(limbs)
    }

    /// Returns one element in all lanes.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn splat(limbs: [u64; LIMBS]) -> Self {
        let mut field = [_mm512_setzero_si512(); LIMBS];
        for (field, limb) in field.iter_mut().zip(limbs) {
            *field = all(limb);
        }
        Self(field)
    }

    /// Returns 1 in all lanes.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn one() -> Self {
        Self::splat([1, 0, 0, 0, 0])
    }

    /// Returns the limbs of the elements: the n-th array holds the n-th limb of each.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn limbs(self) -> [[u64; LANES]; LIMBS] {
        let mut limbs = [[0; LANES]; LIMBS];
        for (limb, field) in limbs.iter_mut().zip(self.0) {
            // SAFETY: the array has 64 bytes, and the store needs no alignment.
            unsafe { _mm512_storeu_si512(limb.as_mut_ptr().cast(), field) };
        }
        limbs
    }

    /// Returns the elements of `other` where `mask` has a bit, and these elsewhere.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn or_where(self, mask: __mmask8, other: Self) -> Self {
        let mut out = self.0;
        for (out, other) in out.iter_mut().zip(other.0) {
            *out = _mm512_mask_blend_epi64(mask, *out, other);
        }
        Self(out)
    }

    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    pub(super) fn times(self, other: Self) -> Self {
        Products::of(self, other).reduced()
    }

    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    pub(super) fn squared(self) -> Self {
        Products::square_of(self).reduced()
    }

    /// Returns the elements as a sum, to add something to them.
    pub(super) const fn sum(self) -> Sum {
        Sum(self.0)
    }

    /// Returns twice the prime less the elements: their negatives, with no limb below zero.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn negated(self) -> Sum {
        let mut out = self.0;
        for (out, prime) in out.iter_mut().zip(PRIME) {
            *out = _mm512_sub_epi64(all(2 * prime), *out);
        }
        Sum(out)
    }

    /// Returns the elements as numbers below the prime.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    pub(super) fn canonical(self) -> Self {
        // A number of at least the prime, which is below twice the prime, reaches 2^256 with the difference of the two.
        let mut more = self.0;
        more[0] = _mm512_add_epi64(more[0], all(FOLD));
        carry(&mut more);
        let reaches = _mm512_test_epi64_mask(more[4], all(!LAST_LIMB));
        more[4] = _mm512_and_si512(more[4], all(LAST_LIMB));
        self.or_where(reaches, Self(more))
    }

    /// Returns a bit for each lane with an odd canonical element.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn odd(self) -> __mmask8 {
        _mm512_test_epi64_mask(self.0[0], all(1))
    }

    /// Returns a bit for each lane with a canonical element other than zero.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn not_zero(self) -> __mmask8 {
        let mut mask = 0;
        for limb in self.0 {
            mask |= _mm512_test_epi64_mask(limb, limb);
        }
        mask
    }
}

impl Sum {
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn plus(self, other: Self) -> Self {
        let mut out = self.0;
        for (out, other) in out.iter_mut().zip(other.0) {
            *out = _mm512_add_epi64(*out, other);
        }
        Self(out)
    }

    /// Returns 2^`BITS` times the sums.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn shifted<const BITS: u32>(self) -> Self {
        let mut out = self.0;
        for out in &mut out {
            *out = _mm512_slli_epi64::<BITS>(*out);
        }
        Self(out)
    }

    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    pub(super) fn reduced(self) -> Field {
        let mut out = self.0;
        fold(&mut out, _mm512_setzero_si512());
        Field(out)
    }
}

impl Products {
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    pub(super) fn of(a: Field, b: Field) -> Self {
        Self([_mm512_setzero_si512(); 2 * LIMBS]).plus_product(a, b)
    }

    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    pub(super) fn plus_product(mut self, Field(a): Field, Field(b): Field) -> Self {
        for (i, a) in a.into_iter().enumerate() {
            for (place, b) in (i..).zip(b) {
                self.0[place] = _mm512_madd52lo_epu64(self.0[place], a, b);
                self.0[place + 1] = _mm512_madd52hi_epu64(self.0[place + 1], a, b);
            }
        }
        self
    }

    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    pub(super) fn square_of(Field(a): Field) -> Self {
        let mut out = [_mm512_setzero_si512(); 2 * LIMBS];
        for i in 0..LIMBS {
            for j in i + 1..LIMBS {
                out[i + j] = _mm512_madd52lo_epu64(out[i + j], a[i], a[j]);
                out[i + j + 1] = _mm512_madd52hi_epu64(out[i + j + 1], a[i], a[j]);
            }
        }
        for out in &mut out {
            *out = _mm512_add_epi64(*out, *out);
        }
        for i in 0..LIMBS {
            out[2 * i] = _mm512_madd52lo_epu64(out[2 * i], a[i], a[i]);
            out[2 * i + 1] = _mm512_madd52hi_epu64(out[2 * i + 1], a[i], a[i]);
        }
        Self(out)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn plus(mut self, Sum(sum): Sum) -> Self {
        for (out, sum) in self.0.iter_mut().zip(sum) {
            *out = _mm512_add_epi64(*out, sum);
        }
        self
    }

    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    pub(super) fn reduced(self) -> Field {
        let [c0, c1, c2, c3, c4, c5, c6, c7, c8, c9] = self.0;
        let (mut low, mut high) = ([c0, c1, c2, c3, c4], [c5, c6, c7, c8, c9]);
        // Two products of numbers below 2^257 leave less than 2^256 above 2^260, so the last limb has no more than 52 bits now.
        carry(&mut high);
        // From 2^260 on, each limb is worth so much more five limbs further down.
        let (factor, mut over) = (all(FOLD_260), _mm512_setzero_si512());
        for i in 0..LIMBS {
            low[i] = _mm512_madd52lo_epu64(low[i], high[i], factor);
            let above = low.get_mut(i + 1).unwrap_or(&mut over);
            *above = _mm512_madd52hi_epu64(*above, high[i], factor);
        }
        fold(&mut low, over);
        Field(low)
    }
}

/// Moves what exceeds 52 bits of each limb but the last to the next one.
#[target_feature(enable = "avx512f")]
#[inline]
fn carry(limbs: &mut [__m512i; LIMBS]) {
    for i in 0..LIMBS - 1 {
        limbs[i + 1] = _mm512_add_epi64(limbs[i + 1], _mm512_srli_epi64::<52>(limbs[i]));
        limbs[i] = _mm512_and_si512(limbs[i], all(LIMB));
    }
}

/// Reduces `limbs`, and `over` times 2^260, modulo the prime. A limb may have 60 bits, and `over` 47.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn fold(limbs: &mut [__m512i; LIMBS], over: __m512i) {
    limbs[4] = _mm512_add_epi64(limbs[4], _mm512_srli_epi64::<52>(limbs[3]));
    limbs[3] = _mm512_and_si512(limbs[3], all(LIMB));
    let (from_last, from_over) = (_mm512_srli_epi64::<48>(limbs[4]), _mm512_slli_epi64::<4>(over));
    limbs[4] = _mm512_and_si512(limbs[4], all(LAST_LIMB));
    let (above, factor) = (_mm512_add_epi64(from_last, from_over), all(FOLD));
    limbs[0] = _mm512_madd52lo_epu64(limbs[0], above, factor);
    limbs[1] = _mm512_madd52hi_epu64(limbs[1], above, factor);
    carry(limbs);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ifma::{is_available, power};
    use alloy_primitives::U512;
    use polytrie_kv_testing::skipped;
    use polytrie_testing::Seed;
    use rand::RngExt;
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    /// Returns eight elements with limbs that are often at their bounds.
    fn elements(random: &mut ChaCha8Rng) -> [[u64; LANES]; LIMBS] {
        let mut limbs = [[0; LANES]; LIMBS];
        for (limb, lanes) in limbs.iter_mut().enumerate() {
            let most = if limb == LIMBS - 1 { LAST_LIMB + 1 } else { LIMB };
            for lane in lanes {
                *lane = match random.random_range(0..6) {
                    0 => 0,
                    1 => most,
                    2 => PRIME[limb],
                    3 => random.random_range(0..4),
                    4 => most - random.random_range(0..4),
                    _ => random.random_range(0..=most),
                };
            }
        }
        limbs
    }

    fn prime() -> U512 {
        U512::from(U256::from_be_bytes(from_limbs(PRIME)))
    }

    fn lane(limbs: &[[u64; LANES]; LIMBS], lane: usize) -> U512 {
        limbs.iter().rev().fold(U512::ZERO, |number, limb| (number << 52) + U512::from(limb[lane]))
    }

    #[target_feature(enable = "avx512f,avx512ifma")]
    fn check(found: Field, expected: impl Fn(usize) -> U512) {
        let (found, canonical) = (found.limbs(), found.canonical());
        for n in 0..LANES {
            let expected = expected(n) % prime();
            assert!(found[..4].iter().all(|limb| limb[n] <= LIMB) && found[4][n] <= LAST_LIMB + 1);
            assert_eq!(lane(&found, n) % prime(), expected);
            assert_eq!(lane(&canonical.limbs(), n), expected);
            assert_eq!(canonical.odd() >> n & 1 == 1, expected.bit(0));
            assert_eq!(canonical.not_zero() >> n & 1 == 1, !expected.is_zero());
        }
    }

    #[target_feature(enable = "avx512f,avx512ifma")]
    fn check_operations(random: &mut ChaCha8Rng) {
        let limbs = [(); 4].map(|()| elements(random));
        let [a, b, c, d] = limbs.map(|limbs| Field::new(&limbs));
        let of = |number: usize, n: usize| lane(&limbs[number], n) % prime();
        let product = |x: usize, y: usize, n: usize| of(x, n) * of(y, n) % prime();
        let zero = U512::ZERO;
        check(a, |n| of(0, n));
        check(a.times(b), |n| product(0, 1, n));
        check(a.squared(), |n| product(0, 0, n));
        check(a.negated().reduced(), |n| prime() - of(0, n));
        check(a.sum().plus(b.sum().shifted::<3>()).reduced(), |n| {
            of(0, n) + of(1, n) * U512::from(8)
        });
        check(
            Products::of(a, b).plus_product(c, d).plus(a.negated().shifted::<3>()).reduced(),
            |n| product(0, 1, n) + product(2, 3, n) + U512::from(8) * (prime() - of(0, n)),
        );
        let of_a_doubling =
            Products::square_of(a).plus(b.negated().plus(c.negated().shifted::<1>()));
        check(of_a_doubling.reduced(), |n| {
            product(0, 0, n) + U512::from(3) * prime() - of(1, n) - U512::from(2) * of(2, n)
        });
        check(a.sum().plus(a.sum().shifted::<1>()).reduced(), |n| U512::from(3) * of(0, n));
        check(a.or_where(0b1010_0110, b), |n| of(0b1010_0110 >> n & 1, n));
        let mut inverses = [a, b];
        power::invert(&mut inverses);
        let lost = |n| of(0, n).is_zero() || of(1, n).is_zero();
        for (inverse, own) in inverses.into_iter().zip([a, b]) {
            check(inverse.times(own), |n| if lost(n) { zero } else { U512::ONE });
        }
        let root = power::roots(&[a.squared()])[0];
        check(root.squared(), |n| product(0, 0, n));
    }

    #[test]
    fn operations_give_what_big_integers_give() {
        if !is_available() {
            return skipped("the processor has no AVX-512 IFMA");
        }
        let seed = Seed::or(1);
        let mut random = ChaCha8Rng::seed_from_u64(seed.value());
        for _ in 0..2_000 {
            // SAFETY: the processor has the instructions.
            unsafe { check_operations(&mut random) };
        }
    }
}
