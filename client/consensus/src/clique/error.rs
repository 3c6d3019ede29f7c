//! The errors of a block that breaks a rule of Clique.

use alloy_primitives::{Address, B64, B256, U256};
use thiserror::Error;

/// Rule of Clique (EIP-225) that a block breaks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CliqueError {
    /// Extra data without room for vanity and seal.
    #[error(
        "the header's extra data has {found} bytes, expected at least {min}: 32 that the signer chooses, and its seal of 65"
    )]
    ExtraDataTooShort {
        /// Length of the extra data, in bytes.
        found: usize,
        /// Least length, in bytes.
        min: usize,
    },
    /// Extra data between vanity and seal of a block that is no checkpoint.
    #[error(
        "the header's extra data has {found} bytes, expected {expected}: only every block whose number is a multiple of \
         the epoch, {epoch}, lists the signers"
    )]
    UnexpectedSigners {
        /// Length of the extra data, in bytes.
        found: usize,
        /// Length without a list of signers, in bytes.
        expected: usize,
        /// Number of blocks from one checkpoint to the next.
        epoch: u64,
    },
    /// Extra data between vanity and seal of a checkpoint that are no list of addresses.
    #[error("the header's list of signers has {found} bytes, expected a multiple of 20")]
    SignerListLength {
        /// Length of the list, in bytes.
        found: usize,
    },
    /// A checkpoint that lists more or fewer signers than are authorized.
    #[error("the header lists {found} signers, expected {expected}")]
    SignerCount {
        /// Number of signers in the list.
        found: usize,
        /// Number of authorized signers.
        expected: usize,
    },
    /// A checkpoint that lists other signers than are authorized, or lists them in another order.
    #[error(
        "signer {index} in the header's list is {found}, expected {expected}: the list has the authorized signers in \
         ascending order"
    )]
    ListedSigner {
        /// Position in the list, from 0.
        index: usize,
        /// Address at that position of the list.
        found: Address,
        /// Authorized signer that belongs at that position.
        expected: Address,
    },
    /// A nonce that is no vote.
    #[error(
        "the header's nonce is {found}, expected 0xffffffffffffffff (a vote for a new signer) or 0x0000000000000000 (a \
         vote against one, or none)"
    )]
    Vote {
        /// Nonce in the header.
        found: B64,
    },
    /// A checkpoint with a vote for a new signer.
    #[error(
        "the header's nonce is {found}, expected 0: in a block whose number is a multiple of the epoch there is no vote"
    )]
    CheckpointVote {
        /// Nonce in the header.
        found: B64,
    },
    /// A checkpoint that names an address to vote about.
    #[error(
        "the header's beneficiary is {found}, expected the zero address: in a block whose number is a multiple of the \
         epoch there is no vote"
    )]
    CheckpointBeneficiary {
        /// Beneficiary in the header.
        found: Address,
    },
    /// A mix hash other than zero.
    #[error("the header's mix hash is {found}, expected 0 in a chain of Clique")]
    MixHash {
        /// Mix hash in the header.
        found: B256,
    },
    /// An ommers hash other than that of the empty list.
    #[error(
        "the header's ommers hash is {found}, expected that of an empty list in a chain of Clique"
    )]
    OmmersHash {
        /// Ommers hash in the header.
        found: B256,
    },
    /// A block earlier than its parent and the period allow.
    #[error(
        "the header's timestamp is {found}, expected at least {min}: its parent's and the period of {period} seconds"
    )]
    Timestamp {
        /// Timestamp in the header, in seconds.
        found: u64,
        /// Least timestamp, in seconds.
        min: u64,
        /// Period, in seconds.
        period: u64,
    },
    /// A difficulty other than 1 and 2.
    #[error(
        "the header's difficulty is {found}, expected 2 (its signer has its turn) or 1: its parent has not reached a \
         terminal total difficulty"
    )]
    Difficulty {
        /// Difficulty in the header.
        found: U256,
    },
    /// A seal that belongs to no public key.
    #[error("the seal in the header's extra data is a signature that belongs to no public key")]
    Seal,
    /// A signer that is not authorized.
    #[error("it is sealed by {signer}, which is not one of the {authorized} authorized signers")]
    UnauthorizedSigner {
        /// Address of the signer.
        signer: Address,
        /// Number of authorized signers.
        authorized: usize,
    },
    /// A signer that sealed one of the last blocks.
    #[error(
        "it is sealed by {signer}, which sealed block {last} as well and may seal the next one from block {next} on"
    )]
    RecentlySigned {
        /// Address of the signer.
        signer: Address,
        /// Number of the block that the signer sealed last.
        last: u64,
        /// Number of the first block that the signer may seal again.
        next: u64,
    },
    /// A difficulty that does not fit whether the signer is in turn.
    #[error(
        "the header's difficulty is {found}, expected {expected}: {} the turn of its signer {signer}",
        if *expected == super::DIFF_INTURN { "it is" } else { "it is not" }
    )]
    Turn {
        /// Address of the signer.
        signer: Address,
        /// Difficulty in the header.
        found: U256,
        /// Difficulty of a block of this signer.
        expected: U256,
    },
}
