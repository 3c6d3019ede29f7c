//! Scalars of a recovery: by which numbers the points are multiplied, and their digits.

use crate::Signed;
use alloy_primitives::{U256, U512};
use k256::{
    Scalar,
    elliptic_curve::{PrimeField, bigint, ops::Reduce, scalar::IsHigh},
};

/// Bits of a digit for multiples of R, and number of digits.
pub(super) const OWN_BITS: u32 = 5;
pub(super) const OWN_DIGITS: usize = 26;
/// Bits of a digit for multiples of G, and number of digits: one for two of R.
pub(super) const FIXED_BITS: u32 = 2 * OWN_BITS;
pub(super) const FIXED_DIGITS: usize = OWN_DIGITS / 2;
const _: () = assert!(OWN_DIGITS.is_multiple_of(2) && OWN_BITS as usize * OWN_DIGITS > 128);

/// A number with the third power 1 modulo the order: multiplying a point by it changes x alone.
const LAMBDA: bigint::U256 =
    bigint::U256::from_be_hex("5363ad4cc05c30e0a5261c028812645a122e22ea20816678df02967c1b23bd72");
/// The second components of a short basis of the numbers (a, b) with a + bλ = 0, each negated.
const MINUS_B1: bigint::U256 =
    bigint::U256::from_be_hex("00000000000000000000000000000000e4437ed6010e88286f547fa90abfe4c3");
const MINUS_B2: bigint::U256 =
    bigint::U256::from_be_hex("fffffffffffffffffffffffffffffffe8a280ac50774346dd765cda83db1562c");
/// By what a number is multiplied, and divided by 2^384, to find the nearest multiples of that basis.
const G1: U256 = U256::from_limbs([
    0xe893_209a_45db_b031,
    0x3daa_8a14_71e8_ca7f,
    0xe86c_90e4_9284_eb15,
    0x3086_d221_a7d4_6bcd,
]);
const G2: U256 = U256::from_limbs([
    0x1571_b4ae_8ac4_7f71,
    0x2212_08ac_9df5_06c6,
    0x6f54_7fa9_0abf_e4c4,
    0xe443_7ed6_010e_8828,
]);

/// Number with a sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SignedNumber {
    pub(super) negative: bool,
    pub(super) magnitude: u128,
}

/// What the key of a signature is the sum of: so many times the generator, and so many times the point R.
#[derive(Debug, Clone, Copy)]
pub(super) struct Factors {
    /// Factor of the generator, as low and high half.
    pub(super) generator: [u128; 2],
    /// Factor of R, as the two parts of a + bλ.
    pub(super) own: [SignedNumber; 2],
}

/// Returns the factors of each signature, or `None` if its r or s is out of range.
pub(super) fn factors(signed: &[Signed]) -> Vec<Option<Factors>> {
    let parts: Vec<_> = signed
        .iter()
        .map(|signed| Some((in_range(signed.signature.r())?, in_range(signed.signature.s())?)))
        .collect();
    // One inverse for all: the product of all r before each, and then the inverse of what comes up to it.
    let mut product = Scalar::ONE;
    let before: Vec<_> = parts
        .iter()
        .map(|parts| {
            let before = product;
            if let Some((r, _)) = parts {
                product *= r;
            }
            before
        })
        .collect();
    let Some(mut inverse) = Option::<Scalar>::from(product.invert()) else {
        return vec![None; signed.len()];
    };
    let mut out: Vec<_> = signed
        .iter()
        .zip(parts.iter().zip(before))
        .rev()
        .map(|(signed, (parts, before))| {
            let (r, s) = (*parts)?;
            let of_r = inverse * before;
            inverse *= r;
            let hash = <Scalar as Reduce<bigint::U256>>::reduce_bytes(&signed.hash.0.into());
            Some(Factors { generator: halves(-(hash * of_r)), own: split(s * of_r) })
        })
        .collect();
    out.reverse();
    out
}

/// Returns a part of a signature, which has to be above zero and below the order.
fn in_range(part: U256) -> Option<Scalar> {
    let scalar = Scalar::from_repr(part.to_be_bytes().into());
    Option::from(scalar).filter(|_| !part.is_zero())
}

fn number(scalar: Scalar) -> U256 {
    U256::from_be_bytes(scalar.to_bytes().into())
}

/// Returns the halves of a number below 2^256, the low one first.
fn halves(scalar: Scalar) -> [u128; 2] {
    let [a, b, c, d] = number(scalar).into_limbs().map(u128::from);
    [a | b << 64, c | d << 64]
}

/// Returns two numbers below 2^128 in absolute value; the first and λ times the second are `scalar` in sum.
fn split(scalar: Scalar) -> [SignedNumber; 2] {
    let nearest = |factor: U256| {
        let product: U512 = number(scalar).widening_mul(factor);
        let rounded: U512 = (product + (U512::ONE << 383)) >> 384;
        Scalar::from(rounded.to::<u128>())
    };
    let reduced = <Scalar as Reduce<bigint::U256>>::reduce;
    let second = nearest(G1) * reduced(MINUS_B1) + nearest(G2) * reduced(MINUS_B2);
    [signed_number(scalar - second * reduced(LAMBDA)), signed_number(second)]
}

fn signed_number(scalar: Scalar) -> SignedNumber {
    let negative = scalar.is_high().into();
    let magnitude = number(if negative { -scalar } else { scalar }).to::<u128>();
    SignedNumber { negative, magnitude }
}

/// Returns `COUNT` digits of a number to the base 2^`bits`, the lowest first. A digit is above minus half the base, and at most
/// half the base. All digits together need a bit more than the number.
pub(super) fn digits<const COUNT: usize>(number: u128, bits: u32) -> [i64; COUNT] {
    let (base, mut rest, mut carry) = (1_i64 << bits, number, 0);
    std::array::from_fn(|_| {
        let digit = (rest & (base as u128 - 1)) as i64 + carry;
        rest >>= bits;
        carry = i64::from(digit > base / 2);
        digit - carry * base
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use polytrie_testing::Seed;
    use rand::RngExt;
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    fn scalar(number: U256) -> Scalar {
        <Scalar as Reduce<bigint::U256>>::reduce_bytes(&number.to_be_bytes().into())
    }

    fn value(of: SignedNumber) -> Scalar {
        let magnitude = Scalar::from(of.magnitude);
        if of.negative { -magnitude } else { magnitude }
    }

    #[test]
    fn parts_of_a_scalar_sum_up_to_it() {
        let seed = Seed::or(1);
        let mut random = ChaCha8Rng::seed_from_u64(seed.value());
        let mut numbers: Vec<_> = (0..10_000).map(|_| U256::from_limbs(random.random())).collect();
        let minus_one = number(-Scalar::ONE);
        for edge in [U256::ZERO, U256::ONE, minus_one, minus_one >> 1, U256::MAX] {
            numbers.extend([edge, edge.wrapping_add(U256::ONE)]);
        }
        let lambda = <Scalar as Reduce<bigint::U256>>::reduce(LAMBDA);
        assert_eq!(lambda * lambda * lambda, Scalar::ONE);
        for number in numbers {
            let whole = scalar(number);
            let [first, second] = split(whole);
            assert_eq!(value(first) + value(second) * lambda, whole);
        }
    }

    #[test]
    fn digits_sum_up_to_the_number() {
        fn check<const COUNT: usize>(number: u128, bits: u32) {
            let digits: [i64; COUNT] = digits(number, bits);
            assert!(digits.iter().all(|digit| digit.abs() <= 1 << (bits - 1)));
            let sum = digits.iter().rev().fold(Scalar::ZERO, |sum, digit| {
                let magnitude = Scalar::from(digit.unsigned_abs());
                sum * Scalar::from(1_u64 << bits) + if *digit < 0 { -magnitude } else { magnitude }
            });
            assert_eq!(sum, Scalar::from(number));
        }
        let seed = Seed::or(1);
        let mut random = ChaCha8Rng::seed_from_u64(seed.value());
        let some = (0..10_000).map(|_| random.random());
        for number in
            [0, 1, 16, 17, 512, 513, u128::MAX, u128::MAX - 1, 1 << 127].into_iter().chain(some)
        {
            check::<26>(number, 5);
            check::<13>(number, 10);
        }
    }
}
