//! Clique, which is proof of authority (EIP-225).
//!
//! A signer seals each block: the last bytes of the extra data are its signature. Votes in the headers decide which
//! addresses are signers. A signer puts an address into the field `beneficiary` of a block that it seals, and into
//! `nonce` whether this address is to become a signer or to stop being one. More than half of the signers decide. At
//! each checkpoint the header lists the signers, and undecided votes become void.
//!
//! | rule | where |
//! |---|---|
//! | layout of the extra data, vote, zero mix hash, no ommers, period, difficulty 1 or 2 | `check_header` |
//! | the seal belongs to a key | [`recover_signer`] |
//! | list of a checkpoint, signer authorized and not one of the last signers, difficulty by its turn | [`Snapshot::check`] |
//! | what a vote changes | [`Snapshot::apply`] |

mod error;
mod header;
mod seal;
mod snapshot;

pub use error::CliqueError;
pub(super) use header::check_header;
pub use seal::{coinbase, recover_signer, seal_hash};
pub use snapshot::Snapshot;

use alloy_primitives::{B64, U256};

/// Nonce of a vote for a new signer.
pub const NONCE_AUTH: B64 = B64::new([0xff; 8]);

/// Nonce of a vote against a signer, and of a block without a vote.
pub const NONCE_DROP: B64 = B64::ZERO;

/// Difficulty of a block with a signer in turn: the block number modulo the number of signers is its position.
pub const DIFF_INTURN: U256 = U256::from_limbs([2, 0, 0, 0]);

/// Difficulty of a block of any other signer.
pub const DIFF_NOTURN: U256 = U256::from_limbs([1, 0, 0, 0]);
