//! The commitment of the layer, defined to the byte.

use crate::history::History;
use alloy_primitives::{B256, Bytes, keccak256};
use polytrie_amt::{G1Affine, POINT_BYTES, decode_point, encode_point};
use polytrie_state::{Commitment, ProofError};

/// The first bytes of the body: the name of the layer, and the version of this definition.
const DOMAIN: &[u8; 16] = b"polytrie lvmt 1\n";

/// The parts of a commitment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Body {
    /// The setup's name; it binds the height of the trees, too.
    pub(crate) setup: B256,
    /// The commitment of the root tree.
    pub(crate) root: G1Affine,
    /// Number of epochs.
    pub(crate) epochs: u64,
    /// The root of the tree over all epochs.
    pub(crate) history: B256,
}

impl Body {
    pub(crate) fn new(setup: B256, root: G1Affine, history: &History) -> Self {
        Self { setup, root, epochs: history.size(), history: history.root() }
    }

    /// Returns the commitment: the body `domain ‖ setup ‖ x ‖ y ‖ epochs ‖ history root`, and its hash.
    pub(crate) fn commitment(&self) -> Commitment {
        let body = [
            &DOMAIN[..],
            self.setup.as_slice(),
            &encode_point(&self.root),
            &self.epochs.to_be_bytes(),
            self.history.as_slice(),
        ]
        .concat();
        Commitment::own(keccak256(&body), Bytes::from(body))
    }

    /// Decodes a commitment with a trusted digest.
    pub(crate) fn read(commitment: &Commitment) -> Result<Self, ProofError> {
        let body = commitment.body();
        if keccak256(body) != commitment.digest() {
            return Err(ProofError::Invalid(
                "the body of the commitment does not have the digest that is trusted".into(),
            ));
        }
        Self::parse(body).ok_or_else(|| {
            ProofError::Malformed(format!(
                "the body of the commitment ({} bytes) is none of this layer",
                body.len()
            ))
        })
    }

    fn parse(body: &[u8]) -> Option<Self> {
        let (setup, rest) = body.strip_prefix(DOMAIN)?.split_first_chunk::<32>()?;
        let (root, rest) = rest.split_first_chunk::<POINT_BYTES>()?;
        let (epochs, history) = rest.split_first_chunk::<8>()?;
        Some(Self {
            setup: B256::from(*setup),
            root: decode_point(root)?,
            epochs: u64::from_be_bytes(*epochs),
            history: B256::try_from(history).ok()?,
        })
    }
}
