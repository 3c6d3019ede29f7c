//! The checks of a block that a full node does besides the execution, for every fork from Frontier on; and the decoding
//! of blocks, in [`decode`].
//!
//! The checks come in three groups, in the order an importer needs them:
//!
//! 1. [`check_header`]: the header against its parent; under Clique also [`clique::Snapshot::check`], which needs the
//!    blocks before;
//! 2. [`check_body`] and [`check_ommers`]: the body against its header, and the ommers against the
//!    last generations of the chain;
//! 3. [`check_result`] and [`check_state_root`]: what running the block gave against its header; from Amsterdam on also
//!    [`access_list`], for the list that comes beside a block.
//!
//! Every function here is pure: it reads neither the clock nor a store, so any thread may call it. Every error means
//! "this block is invalid"; no error means "this program failed".
//!
//! # What is not checked
//!
//! - The proof-of-work seal (the nonce and mix hash of Ethash). A block with a wrong seal but a right
//!   difficulty passes.
//! - The consensus layer: who proposed a block, its RANDAO value, whether a withdrawal or beacon root
//!   is the beacon chain's. A block file does not hold what is needed for that.
//! - That a timestamp is not in the future.
//! - From Amsterdam on, what a slot number stands for (EIP-7843); only that the header has one.
//!
//! # Where the rules about a transaction stand
//!
//! | rule | where |
//! |---|---|
//! | type allowed, chain id, range of the signature, nonce below 2^64 - 1, gas limit cap, size of init code, blob count and version, authorization list not empty | [`check_transaction`]; but for the signature [`check_unsigned`] |
//! | sender can be recovered | [`recover_sender`], [`recover_senders`] |
//! | intrinsic gas, calldata floor (EIP-7623), fee not below the base fee, priority fee not above the fee, blob fee, gas limit not above the block's | revm, before the transaction runs |
//! | nonce equal to the sender's, balance covers the cost, sender has no code (EIP-3607) | revm, against the state |
//! | gas limit not above what is left of the block | alloy-evm's block executor |
//! | each authorization of an EIP-7702 list | revm; an invalid one is skipped, it does not invalidate the block |

pub mod access_list;
mod body;
pub mod clique;
pub mod decode;
mod difficulty;
mod error;
mod gas;
mod header;
mod impersonation;
mod ommers;
mod result;
mod transactions;

pub use body::{
    MAX_RLP_BLOCK_SIZE, check_body, check_body_roots, check_body_rules, check_decoded_body,
};
pub use difficulty::{MIN_DIFFICULTY, next_difficulty};
pub use error::{ConsensusError, OmmerError, TransactionError};
pub use gas::{MAX_GAS_LIMIT, MIN_GAS_LIMIT, next_base_fee, next_blob_fee, next_excess_blob_gas};
pub use header::check_header;
pub use impersonation::{impersonate, impersonated, sender_of};
pub use ommers::{
    Ancestor, MAX_OMMERS, OMMER_GENERATIONS, RecentAncestors, check_ommer_list, check_ommers,
};
pub use result::{
    ExecutedResult, ReceiptsRoot, check_receipts_root, check_result, check_state_root,
};
pub use transactions::{check_transaction, check_unsigned, recover_sender, recover_senders};

#[cfg(test)]
mod tests;
