//! Why a block breaks a rule of Clique.

use alloy_primitives::{Address, B64, B256, U256};
use thiserror::Error;

/// A rule of Clique (EIP-225) that a block breaks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CliqueError {
    /// There is no room for vanity and seal.
    #[error(
        "the header's extra data has {found} bytes, expected at least {min}: 32 that the signer chooses, and its seal of 65"
    )]
    ExtraDataTooShort {
        /// Length of the extra data, in bytes.
        found: usize,
        /// The least length, in bytes.
        min: usize,
    },
    /// Something stands between vanity and seal of a block that is no checkpoint.
    #[error(
        "the header's extra data has {found} bytes, expected {expected}: only every block whose number is a multiple of \
         the epoch, {epoch}, lists the signers"
    )]
    UnexpectedSigners {
        /// Length of the extra data, in bytes.
        found: usize,
        /// Length without a list, in bytes.
        expected: usize,
        /// Blocks from one checkpoint to the next.
        epoch: u64,
    },
    /// What stands between vanity and seal of a checkpoint is no list of addresses.
    #[error("the header's list of signers has {found} bytes, expected a multiple of 20")]
    SignerListLength {
        /// Length of the list, in bytes.
        found: usize,
    },
    /// A checkpoint lists more or fewer signers than there are.
    #[error("the header lists {found} signers, expected {expected}")]
    SignerCount {
        /// Signers in the list.
        found: usize,
        /// Authorized signers.
        expected: usize,
    },
    /// A checkpoint lists other signers than there are, or in another order.
    #[error(
        "signer {index} in the header's list is {found}, expected {expected}: the list has the authorized signers in \
         ascending order"
    )]
    ListedSigner {
        /// Position in the list, from 0.
        index: usize,
        /// The address there.
        found: Address,
        /// The signer that belongs there.
        expected: Address,
    },
    /// The nonce is no vote.
    #[error(
        "the header's nonce is {found}, expected 0xffffffffffffffff (a vote for a new signer) or 0x0000000000000000 (a \
         vote against one, or none)"
    )]
    Vote {
        /// Nonce in the header.
        found: B64,
    },
    /// A checkpoint votes for a new signer.
    #[error(
        "the header's nonce is {found}, expected 0: in a block whose number is a multiple of the epoch there is no vote"
    )]
    CheckpointVote {
        /// Nonce in the header.
        found: B64,
    },
    /// A checkpoint names an address to vote about.
    #[error(
        "the header's beneficiary is {found}, expected the zero address: in a block whose number is a multiple of the \
         epoch there is no vote"
    )]
    CheckpointBeneficiary {
        /// Beneficiary in the header.
        found: Address,
    },
    /// The mix hash is not zero.
    #[error("the header's mix hash is {found}, expected 0 in a chain of Clique")]
    MixHash {
        /// Mix hash in the header.
        found: B256,
    },
    /// The ommers hash is not that of the empty list.
    #[error(
        "the header's ommers hash is {found}, expected that of an empty list in a chain of Clique"
    )]
    OmmersHash {
        /// Ommers hash in the header.
        found: B256,
    },
    /// The block comes too early.
    #[error(
        "the header's timestamp is {found}, expected at least {min}: its parent's and the period of {period} seconds"
    )]
    Timestamp {
        /// Timestamp in the header, in seconds.
        found: u64,
        /// The least timestamp, in seconds.
        min: u64,
        /// The period, in seconds.
        period: u64,
    },
    /// The difficulty is neither of the two there are.
    #[error(
        "the header's difficulty is {found}, expected 2 (its signer has its turn) or 1: its parent has not reached a \
         terminal total difficulty"
    )]
    Difficulty {
        /// Difficulty in the header.
        found: U256,
    },
    /// The seal belongs to no key.
    #[error("the seal in the header's extra data is a signature that belongs to no public key")]
    Seal,
    /// The signer is not authorized.
    #[error("it is sealed by {signer}, which is not one of the {authorized} authorized signers")]
    UnauthorizedSigner {
        /// The signer.
        signer: Address,
        /// How many signers are authorized.
        authorized: usize,
    },
    /// The signer has sealed one of the last blocks.
    #[error(
        "it is sealed by {signer}, which sealed block {last} as well and may seal the next one from block {next} on"
    )]
    RecentlySigned {
        /// The signer.
        signer: Address,
        /// The block that it sealed last.
        last: u64,
        /// The first block that it may seal again.
        next: u64,
    },
    /// The difficulty does not go with the turn of the signer.
    #[error(
        "the header's difficulty is {found}, expected {expected}: {} the turn of its signer {signer}",
        if *expected == super::DIFF_INTURN { "it is" } else { "it is not" }
    )]
    Turn {
        /// The signer.
        signer: Address,
        /// Difficulty in the header.
        found: U256,
        /// Difficulty that goes with the turn.
        expected: U256,
    },
}
