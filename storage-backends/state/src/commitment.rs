//! A layer's commitment to its state.

use alloy_primitives::{B256, Bytes};

/// The kind of commitment a layer makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CommitmentKind {
    /// The state root of the Ethereum specification; comparable with a header.
    StateRoot,
    /// The layer makes no commitment.
    None,
    /// A commitment in the layer's own form, which no header can hold.
    Own,
}

/// A layer's commitment to the whole state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Commitment {
    kind: CommitmentKind,
    digest: B256,
    body: Bytes,
}

impl Commitment {
    /// Creates the commitment of a canonical layer.
    pub fn state_root(root: B256) -> Self {
        Self { kind: CommitmentKind::StateRoot, ..Self::digest_alone(root) }
    }

    /// Creates a commitment in a layer's own form, which is its digest and nothing else.
    pub fn digest_alone(digest: B256) -> Self {
        Self::own(digest, Bytes::copy_from_slice(digest.as_slice()))
    }

    /// Creates the commitment of a layer that does not authenticate; its digest is zero.
    pub const fn none() -> Self {
        Self { kind: CommitmentKind::None, digest: B256::ZERO, body: Bytes::new() }
    }

    /// Creates a commitment in a layer's own form, from the full form and the digest of it.
    pub const fn own(digest: B256, body: Bytes) -> Self {
        Self { kind: CommitmentKind::Own, digest, body }
    }

    /// Returns the kind of the commitment.
    pub const fn kind(&self) -> CommitmentKind {
        self.kind
    }

    /// Returns the 32 bytes that stand for the commitment; for a canonical layer, the state root.
    pub const fn digest(&self) -> B256 {
        self.digest
    }

    /// Returns the full commitment as the layer's README defines it.
    pub const fn body(&self) -> &Bytes {
        &self.body
    }

    /// Returns the state root, if this commitment can be compared with a header.
    pub fn as_state_root(&self) -> Option<B256> {
        (self.kind == CommitmentKind::StateRoot).then_some(self.digest)
    }
}
