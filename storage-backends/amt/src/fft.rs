//! Fourier transforms of points: from the powers of tau to the tables.
//!
//! With `w` the root of unity of order `n = 2^height` and `P_e = τ^e·G1`:
//!
//! - the **basis** is `B_j = (1/n) Σ_e w^(-je) P_e`, the Lagrange polynomials at tau;
//! - the **quotients** of depth `d` are `Q_{d,j} = L_j / (x^M + w^(jM))` at tau, `M = n/2^d`, which is the same
//!   transform of the vector that has `P_(e-M)` where `e mod 2M ≥ M`, and nothing elsewhere.
//!
//! Both run the stages of a decimation in frequency. After its first `d-1` stages the vector of depth `d` is,
//! but for known factors, what the basis had after the same stages; so depth `d` begins from there.

use crate::{
    batch::butterflies,
    multiply::{Recoded, multiply},
};
use ark_bn254::{Fr, G1Affine};
use ark_ff::Field;
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use rayon::prelude::*;
use std::iter;

/// Number of pairs that share an inversion.
const SHARED: usize = 512;

/// Returns the root of unity of order `2^height`: `5^((r-1)/2^height)`, the usual one of this field.
pub(crate) fn root_of_unity(height: u8) -> Fr {
    // The field has roots of unity up to 2^28.
    Radix2EvaluationDomain::<Fr>::new(1 << height).map_or(Fr::ONE, |domain| domain.group_gen())
}

/// Returns the first powers of a number, beginning with one.
pub(crate) fn powers_of(number: Fr, count: usize) -> Vec<Fr> {
    iter::successors(Some(Fr::ONE), |power| Some(*power * number)).take(count).collect()
}

/// A transform in progress: the powers, scaled, after some of the stages.
#[derive(Debug)]
pub(crate) struct Transform {
    height: u8,
    points: Vec<G1Affine>,
    /// Number of stages done.
    stage: u8,
    /// The scalars `w^(-t)` for all `t`.
    powers: Vec<Recoded>,
}

impl Transform {
    /// Creates a transform of `2^height` powers of tau.
    pub(crate) fn new(height: u8, powers_of_tau: &[G1Affine]) -> Self {
        let n = 1usize << height;
        let mut points = powers_of_tau[..n].to_vec();
        let inverse = Fr::from(n as u64).inverse().map(Recoded::new);
        if let Some(inverse) = &inverse {
            multiply(&mut points, |_| inverse);
        }
        let step = root_of_unity(height).inverse().unwrap_or(Fr::ONE);
        let powers = powers_of(step, n).into_par_iter().map(Recoded::new).collect();
        Self { height, points, stage: 0, powers }
    }

    /// Does one more stage towards the basis.
    pub(crate) fn advance(&mut self) {
        stage(&mut self.points, self.stage, &self.powers);
        self.stage += 1;
    }

    /// Returns the basis, after all stages.
    pub(crate) fn basis(&self) -> Vec<G1Affine> {
        ordered(&self.points, self.height)
    }

    /// Returns the quotients of the depth that follows the stages done: `d = stages + 1`.
    pub(crate) fn quotients(&self) -> Vec<G1Affine> {
        let n = self.points.len();
        let half = n >> (self.stage + 1);
        let mut points = self.points.clone();
        // Block `b` of length 2M belongs to the residue class k, `b` with its bits reversed. Its upper half
        // comes from the lower half of the basis; the first butterfly of a half that is zero is a copy.
        let exponent = |at: usize| {
            let (block, r) = (at / (2 * half), at % (2 * half));
            let class = reverse(block, self.stage);
            if r < half {
                half * class
            } else {
                // The minus sign of the difference is half a turn.
                half * class + ((r - half) << self.stage) + n / 2
            }
        };
        for block in points.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            high.copy_from_slice(low);
        }
        multiply(&mut points, |at| &self.powers[exponent(at) % n]);
        for next in self.stage + 1..self.height {
            stage(&mut points, next, &self.powers);
        }
        ordered(&points, self.height)
    }
}

/// Does one stage of decimation in frequency, over all blocks.
fn stage(points: &mut [G1Affine], stage: u8, powers: &[Recoded]) {
    let n = points.len();
    let half = n >> (stage + 1);
    if half >= SHARED {
        for block in points.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            low.par_chunks_mut(SHARED)
                .zip(high.par_chunks_mut(SHARED))
                .for_each(|(low, high)| butterflies(low, high));
        }
    } else {
        // The blocks are short, so many of them are gathered to share an inversion.
        let width = (2 * SHARED).min(n);
        points.par_chunks_mut(width).for_each(|chunk| {
            let blocks = chunk.chunks_exact(2 * half);
            let mut low: Vec<G1Affine> = blocks.clone().flat_map(|b| &b[..half]).copied().collect();
            let mut high: Vec<G1Affine> = blocks.flat_map(|b| &b[half..]).copied().collect();
            butterflies(&mut low, &mut high);
            for (n, block) in chunk.chunks_exact_mut(2 * half).enumerate() {
                block[..half].copy_from_slice(&low[n * half..(n + 1) * half]);
                block[half..].copy_from_slice(&high[n * half..(n + 1) * half]);
            }
        });
    }
    if half == 1 {
        return;
    }
    // The differences are multiplied by roots of unity (by one in the last stage). Only they are gathered.
    let mut turned: Vec<G1Affine> =
        points.chunks_exact(2 * half).flat_map(|block| &block[half..]).copied().collect();
    multiply(&mut turned, |at| &powers[((at % half) << stage) % n]);
    for (block, turned) in points.chunks_exact_mut(2 * half).zip(turned.chunks_exact(half)) {
        block[half..].copy_from_slice(turned);
    }
}

/// Returns the result in natural order: decimation in frequency leaves it with the bits of its index reversed.
fn ordered(points: &[G1Affine], height: u8) -> Vec<G1Affine> {
    (0..points.len()).map(|at| points[reverse(at, height)]).collect()
}

/// Reverses the lowest `bits` bits of a number.
fn reverse(number: usize, bits: u8) -> usize {
    if bits == 0 { 0 } else { number.reverse_bits() >> (usize::BITS - u32::from(bits)) }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::powers::PowersOfTau;
    use ark_ec::{AffineRepr, CurveGroup};

    #[test]
    fn the_tables_are_the_polynomials_at_tau() {
        for height in [1, 2, 5, 6] {
            let (powers, tau) = PowersOfTau::from_seed(height, "fft");
            let n = 1u64 << height;
            let w = root_of_unity(height);
            let mut transform = Transform::new(height, powers.g1());
            for depth in 1..=height {
                let m = n >> depth;
                let found = transform.quotients();
                for (j, quotient) in found.iter().enumerate() {
                    let divisor = tau.pow([m]) + w.pow([j as u64 * m]);
                    let expected = lagrange(height, tau, j as u64) * divisor.inverse().unwrap();
                    let expected = (G1Affine::generator() * expected).into_affine();
                    assert_eq!(*quotient, expected, "height {height}, depth {depth}, entry {j}");
                }
                transform.advance();
            }
            for (j, point) in transform.basis().iter().enumerate() {
                let expected = G1Affine::generator() * lagrange(height, tau, j as u64);
                assert_eq!(*point, expected.into_affine(), "height {height}, entry {j}");
            }
        }
    }

    fn lagrange(height: u8, tau: Fr, j: u64) -> Fr {
        let n = 1u64 << height;
        let root = root_of_unity(height).pow([j]);
        root * (tau.pow([n]) - Fr::ONE) * (Fr::from(n) * (tau - root)).inverse().unwrap()
    }
}
