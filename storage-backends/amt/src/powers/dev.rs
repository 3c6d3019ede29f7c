//! Powers of a tau that is no secret.

use super::{PowersError, PowersOfTau, check_height};
use crate::fft::powers_of;
use alloy_primitives::keccak256;
use ark_bn254::{Fr, G1Projective, G2Projective};
use ark_ec::{CurveGroup, PrimeGroup, ScalarMul};
use ark_ff::{Field, PrimeField};

impl PowersOfTau {
    /// Makes powers of a tau that is derived from a seed, for devnets and benchmarks. A prover who knows the seed can
    /// forge any proof; [`Self::is_insecure`] is true for such powers.
    ///
    /// # Errors
    ///
    /// [`PowersError::Height`].
    pub fn insecure_dev(height: u8, seed: &str) -> Result<Self, PowersError> {
        check_height(height)?;
        Ok(Self::from_seed(height, seed).0)
    }

    /// Drops tau, as a ceremony does.
    #[cfg(test)]
    pub(crate) fn forget(&mut self) {
        self.tau = None;
    }

    pub(crate) fn from_seed(height: u8, seed: &str) -> (Self, Fr) {
        let [low, high] = [0, 1]
            .map(|n| keccak256([b"polytrie insecure tau", &[n][..], seed.as_bytes()].concat()));
        let tau = Fr::from_be_bytes_mod_order(&[high.0, low.0].concat());
        let g1 = G1Projective::generator().batch_mul(&powers_of(tau, 1 << height));
        let g2: Vec<G2Projective> =
            (0..height).map(|k| G2Projective::generator() * tau.pow([1 << k])).collect();
        let g2 = G2Projective::normalize_batch(&g2);
        (Self { height, g1, g2, tau: Some(tau) }, tau)
    }
}
