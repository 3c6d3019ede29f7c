//! The common type of the proofs of all layers.

use crate::{Account, Result, corrupt};
use alloy_primitives::{Address, B256, U256};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// A slot in the JSON of a proof that shows all slots together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotClaim {
    /// The slot.
    pub key: U256,
    /// The value of the slot; zero if it is not set.
    pub value: U256,
}

/// A slot in the JSON of a proof, with what proves it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotProof<P> {
    /// The slot.
    pub key: U256,
    /// The value of the slot; zero if it is not set.
    pub value: U256,
    /// What proves the value, in the form of the layer.
    pub proof: P,
}

/// A proof of an account and some of its slots, in the form its layer defines.
///
/// It names the layer it came from; verifying it needs the commitment and the layer's `verify` function, but
/// no layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// Name of the layer that made the proof.
    pub layer: String,
    /// The proof in the layer's own form; for canonical layers that of `eth_getProof` (EIP-1186).
    pub proof: serde_json::Value,
}

impl Proof {
    /// Creates a proof of a layer from the form that the layer defines.
    ///
    /// # Errors
    ///
    /// If the form does not serialise.
    pub fn of(layer: &str, form: &impl Serialize) -> Result<Self> {
        let proof = serde_json::to_value(form)
            .map_err(|error| corrupt!("a proof does not serialise: {error}"))?;
        Ok(Self { layer: layer.to_owned(), proof })
    }

    /// Decodes the proof into the form of a layer.
    ///
    /// # Errors
    ///
    /// [`ProofError::Malformed`] if it does not have that form.
    pub fn form<T: DeserializeOwned>(&self) -> Result<T, ProofError> {
        serde_json::from_value(self.proof.clone())
            .map_err(|error| ProofError::Malformed(error.to_string()))
    }
}

/// The facts that a proof of an account and slots proves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Proven {
    /// The address of the proven account.
    pub address: Address,
    /// Whether the account exists; if not, the other fields are those of an empty account.
    pub exists: bool,
    /// Nonce.
    pub nonce: u64,
    /// Balance in wei.
    pub balance: U256,
    /// Keccak-256 of the code.
    pub code_hash: B256,
    /// The proven slots with their values; zero if a slot is not set.
    pub slots: Vec<(U256, U256)>,
}

impl Proven {
    /// Returns the account, if it exists, and the values of `slots`, in this order.
    ///
    /// # Errors
    ///
    /// If the proof was made for another address or other slots.
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

/// The reason why a proof is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// The proof is not of the form its layer defines.
    #[error("the proof is malformed: {0}")]
    Malformed(String),
    /// The proof does not lead to the commitment.
    #[error("the proof does not hold: {0}")]
    Invalid(String),
}
