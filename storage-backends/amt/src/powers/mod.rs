//! Powers of tau: the public result of a ceremony.

mod check;
mod dev;
mod error;
mod gnark;
mod ptau;

pub use error::PowersError;

use crate::MAX_HEIGHT;
use ark_bn254::{Fr, G1Affine, G2Affine};

/// The powers of an unknown number `τ` that vectors of `2^height` entries need. They are checked against each other
/// when they are read.
#[derive(Debug, Clone)]
pub struct PowersOfTau {
    height: u8,
    /// The points `τ^i·G1` for `i` below `2^height`.
    g1: Vec<G1Affine>,
    /// The points `τ^(2^k)·G2` for `k` below the height.
    g2: Vec<G2Affine>,
    /// Tau itself, if it is known because it was generated here.
    tau: Option<Fr>,
}

impl PowersOfTau {
    /// Returns the height of the vectors that the powers are for.
    pub const fn height(&self) -> u8 {
        self.height
    }

    /// Whether tau is known, so that proofs can be forged.
    pub const fn is_insecure(&self) -> bool {
        self.tau.is_some()
    }

    pub(crate) fn g1(&self) -> &[G1Affine] {
        &self.g1
    }

    pub(crate) fn g2(&self) -> &[G2Affine] {
        &self.g2
    }

    pub(crate) const fn tau(&self) -> Option<Fr> {
        self.tau
    }
}

fn check_height(height: u8) -> Result<(), PowersError> {
    if (1..=MAX_HEIGHT).contains(&height) { Ok(()) } else { Err(PowersError::Height(height)) }
}
