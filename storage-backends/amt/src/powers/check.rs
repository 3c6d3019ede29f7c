//! The check that points are the powers of one number.

use super::{PowersError, PowersOfTau};
use crate::{
    point::{compress, compress_g2},
    verify::weight,
};
use alloy_primitives::Keccak256;
use ark_bn254::{Bn254, Fr, G1Affine, G1Projective, G2Affine};
use ark_ec::{AffineRepr, VariableBaseMSM, pairing::Pairing};
use ark_ff::Zero;
use rayon::prelude::*;

/// Number of points that one thread sums at a time.
const CHUNK: usize = 8192;

impl PowersOfTau {
    /// Checks the powers by pairings.
    ///
    /// `e(Σ r_i·τ^(i+1)·G1, G2) = e(Σ r_i·τ^i·G1, τ·G2)` for weights `r_i` that are hashed from the points
    /// themselves: one wrong power would pass with a probability of 2^-128. Then each power in G2 is checked against
    /// the same one in G1.
    pub(super) fn check(self) -> Result<Self, PowersError> {
        let inconsistent = |reason: String| Err(PowersError::Inconsistent(reason));
        if self.g1[0] != G1Affine::generator() {
            return inconsistent("the first one in G1 is not the generator".into());
        }
        if self.g1[1].is_zero() || self.g1[1] == self.g1[0] {
            return inconsistent("tau is zero or one".into());
        }
        let weights = self.weights();
        let (low, high) = (&self.g1[..self.g1.len() - 1], &self.g1[1..]);
        let (low, high) = rayon::join(|| combine(low, &weights), || combine(high, &weights));
        let difference = Bn254::multi_pairing([high, -low], [G2Affine::generator(), self.g2[0]]);
        if !difference.is_zero() {
            return inconsistent("the pairing check of the powers in G1 fails".into());
        }
        for (k, power) in self.g2.iter().enumerate() {
            let first = self.g1[1 << k];
            let sides = [first, -G1Affine::generator()];
            if !Bn254::multi_pairing(sides, [G2Affine::generator(), *power]).is_zero() {
                return inconsistent(format!("power 2^{k} in G2 is not that in G1"));
            }
        }
        Ok(self)
    }

    /// Returns 128 bits for each power but the last.
    fn weights(&self) -> Vec<Fr> {
        let mut hasher = Keccak256::new();
        hasher.update(b"polytrie amt powers 1");
        for point in &self.g1 {
            hasher.update(compress(point));
        }
        for point in &self.g2 {
            hasher.update(compress_g2(point));
        }
        let seed = hasher.finalize();
        (1..self.g1.len()).into_par_iter().map(|n| weight(&seed, n)).collect()
    }
}

fn combine(points: &[G1Affine], weights: &[Fr]) -> G1Projective {
    points
        .par_chunks(CHUNK)
        .zip(weights.par_chunks(CHUNK))
        .map(|(points, weights)| G1Projective::msm_unchecked(points, weights))
        .sum()
}
