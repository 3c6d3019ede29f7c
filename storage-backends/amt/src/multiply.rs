//! Multiplications of many points by many scalars at once.
//!
//! A Fourier transform of points consists of hundreds of thousands of multiplications by roots of unity. If they are
//! done for many points in step, every doubling and addition shares its inversion. The endomorphism of the curve
//! (GLV) halves the number of doublings, and signed windows that of the additions.

use crate::{
    batch::{add_all, add_at, double_all},
    point::identity,
};
use ark_bn254::{Fr, G1Affine, g1::Config};
use ark_ec::scalar_mul::glv::GLVConfig;
use ark_ff::{BigInteger, PrimeField};
use rayon::prelude::*;

/// Number of points that one thread multiplies in step.
const CHUNK: usize = 512;

/// Number of digits of a scalar of at most 128 bits in signed windows.
const DIGITS: usize = 130;

/// Number of odd multiples kept of each point: 1, 3, 5, 7.
const MULTIPLES: usize = 4;

/// A scalar in two halves: `k = low + λ·high`, both in signed windows of four bits, least digit first.
#[derive(Debug, Clone)]
pub(crate) struct Recoded {
    low: [i8; DIGITS],
    high: [i8; DIGITS],
}

impl Recoded {
    pub(crate) fn new(scalar: Fr) -> Self {
        let (low, high) = <Config as GLVConfig>::scalar_decomposition(scalar);
        Self { low: windows(low), high: windows(high) }
    }
}

/// Recodes a number in signed windows: every digit that is not zero is odd and followed by three zeros.
fn windows((positive, magnitude): (bool, Fr)) -> [i8; DIGITS] {
    let mut rest = magnitude.into_bigint();
    let mut digits = [0; DIGITS];
    for digit in &mut digits {
        if rest.is_odd() {
            let low = (rest.0[0] & 15) as i8;
            let value = if low < 8 { low } else { low - 16 };
            if value > 0 {
                rest.sub_with_borrow(&u64::from(value.unsigned_abs()).into());
            } else {
                rest.add_with_carry(&u64::from(value.unsigned_abs()).into());
            }
            *digit = if positive { value } else { -value };
        }
        rest.div2();
    }
    digits
}

/// Computes `points[k] = scalars(k) · points[k]`, in parallel.
pub(crate) fn multiply<'a, S>(points: &mut [G1Affine], scalars: S)
where
    S: Fn(usize) -> &'a Recoded + Sync,
{
    points.par_chunks_mut(CHUNK).enumerate().for_each(|(n, chunk)| {
        let scalars: Vec<&Recoded> = (0..chunk.len()).map(|k| scalars(n * CHUNK + k)).collect();
        multiply_chunk(chunk, &scalars);
    });
}

fn multiply_chunk(points: &mut [G1Affine], scalars: &[&Recoded]) {
    let mut twice = points.to_vec();
    double_all(&mut twice);
    let mut multiples: [Vec<G1Affine>; MULTIPLES] = std::array::from_fn(|_| points.to_vec());
    for n in 1..MULTIPLES {
        multiples[n] = multiples[n - 1].clone();
        add_all(&mut multiples[n], &twice);
    }
    points.fill(identity());
    let mut positions = Vec::with_capacity(points.len());
    let mut terms = Vec::with_capacity(points.len());
    let mut begun = false;
    for at in (0..DIGITS).rev() {
        if begun {
            double_all(points);
        }
        for half in [false, true] {
            positions.clear();
            terms.clear();
            for (k, scalar) in scalars.iter().enumerate() {
                let digit = if half { scalar.high[at] } else { scalar.low[at] };
                if digit == 0 {
                    continue;
                }
                let multiple = multiples[usize::from(digit.unsigned_abs() / 2)][k];
                let term = if half {
                    <Config as GLVConfig>::endomorphism_affine(&multiple)
                } else {
                    multiple
                };
                // A chunk has 512 points.
                positions.push(k as u32);
                terms.push(if digit < 0 { -term } else { term });
            }
            add_at(points, &positions, &terms);
            begun |= !positions.is_empty();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ark_ec::{AffineRepr, CurveGroup};
    use ark_ff::{AdditiveGroup, Field, PrimeField};

    #[test]
    fn products_are_those_of_the_library() {
        let scalars: Vec<Fr> = [Fr::ZERO, Fr::ONE, -Fr::ONE, Fr::from(8u64), Fr::from(u64::MAX)]
            .into_iter()
            .chain(
                (0..600u64)
                    .map(|n| Fr::from_le_bytes_mod_order(&[n as u8 ^ 0x5a; 32]).pow([n + 2])),
            )
            .collect();
        let mut points: Vec<G1Affine> = (0..scalars.len() as u64)
            .map(|n| (G1Affine::generator() * Fr::from(n)).into_affine())
            .collect();
        let expected: Vec<G1Affine> =
            points.iter().zip(&scalars).map(|(p, s)| (*p * s).into_affine()).collect();
        let recoded: Vec<Recoded> = scalars.iter().map(|s| Recoded::new(*s)).collect();
        multiply(&mut points, |k| &recoded[k]);
        assert_eq!(points, expected);
    }
}
