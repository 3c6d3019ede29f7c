//! Clique, proof of authority (EIP-225).
//!
//! A block is sealed by one of the signers: the last bytes of its extra data are a signature. Who the signers are is
//! decided by votes in the headers: a signer puts an address into the field `beneficiary` of a block that it seals, and
//! whether that address is to become a signer or to be none any more into `nonce`. More than half of the signers decide.
//! At each checkpoint the header lists the signers, and votes that have not decided anything are void.
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

/// The nonce of a vote for a new signer.
pub const NONCE_AUTH: B64 = B64::new([0xff; 8]);

/// The nonce of a vote against a signer, and of a block without a vote.
pub const NONCE_DROP: B64 = B64::ZERO;

/// The difficulty of a block whose signer has its turn.
pub const DIFF_INTURN: U256 = U256::from_limbs([2, 0, 0, 0]);

/// The difficulty of a block of another signer.
pub const DIFF_NOTURN: U256 = U256::from_limbs([1, 0, 0, 0]);
