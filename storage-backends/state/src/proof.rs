//! Proofs, whatever the layer.

use crate::{Account, StateError};
use alloy_primitives::{Address, B256, U256};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

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

impl Proof {
    /// The proof of a layer, from the form that this defines.
    ///
    /// # Errors
    ///
    /// If that does not serialise.
    pub fn of(layer: &str, form: &impl Serialize) -> Result<Self, StateError> {
        let proof = serde_json::to_value(form)
            .map_err(|error| StateError::Corrupt(format!("a proof does not serialise: {error}")))?;
        Ok(Self { layer: layer.to_owned(), proof })
    }

    /// The proof in the form of a layer.
    ///
    /// # Errors
    ///
    /// [`ProofError::Malformed`] if it is not of that form.
    pub fn form<T: DeserializeOwned>(&self) -> Result<T, ProofError> {
        serde_json::from_value(self.proof.clone())
            .map_err(|error| ProofError::Malformed(error.to_string()))
    }
}

/// What a proof of an account and slots proves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Proven {
    /// The account asked for.
    pub address: Address,
    /// Whether it exists; if not, the other fields are those of an empty account.
    pub exists: bool,
    /// Nonce.
    pub nonce: u64,
    /// Balance in wei.
    pub balance: U256,
    /// Keccak-256 of the code.
    pub code_hash: B256,
    /// The slots asked for, with their values; zero where there is none.
    pub slots: Vec<(U256, U256)>,
}

impl Proven {
    /// The account, if there is one, and the values of `slots`, in this order.
    ///
    /// # Errors
    ///
    /// If something else was asked for when the proof was made.
    pub fn answer(
        self,
        address: &Address,
        slots: &[U256],
    ) -> Result<(Option<Account>, Vec<U256>), ProofError> {
        let Self { exists, nonce, balance, code_hash, .. } = self;
        if self.address != *address || !self.slots.iter().map(|(slot, _)| slot).eq(slots) {
            return Err(ProofError::Invalid("the proof is about something else".into()));
        }
        let account = exists.then_some(Account { nonce, balance, code_hash });
        Ok((account, self.slots.into_iter().map(|(_, value)| value).collect()))
    }
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
