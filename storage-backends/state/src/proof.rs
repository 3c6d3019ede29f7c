//! Proofs, whatever the layer.

use serde::{Deserialize, Serialize};

/// A proof of an account and some of its slots, in the form its layer defines.
///
/// It names the layer it came from; verifying it needs the commitment and the layer's `verify` function, but
/// no layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// Name of the layer that made it.
    pub layer: String,
    /// The layer's own form; for canonical layers that of `eth_getProof` (EIP-1186).
    pub proof: serde_json::Value,
}

/// Why a proof does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// The proof is not of the form its layer defines.
    #[error("the proof is malformed: {0}")]
    Malformed(String),
    /// The proof does not lead to the commitment.
    #[error("the proof does not hold: {0}")]
    Invalid(String),
}
