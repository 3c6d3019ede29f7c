//! Why a transaction does not enter the pool, in the words that clients look for.

use alloy_primitives::{Address, U256};
use polytrie_consensus::TransactionError;
use thiserror::Error;

/// A transaction that the pool does not take.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PoolError {
    /// The pool has this transaction.
    #[error("already known")]
    Known,
    /// Its nonce was used.
    #[error("nonce too low: next nonce {expected}, tx nonce {found}")]
    NonceTooLow {
        /// In the transaction.
        found: u64,
        /// The sender's.
        expected: u64,
    },
    /// Its nonce is too far ahead.
    #[error(
        "nonce too far ahead: next nonce {expected}, tx nonce {found}, at most {limit} transactions of one sender are kept"
    )]
    NonceTooHigh {
        /// In the transaction.
        found: u64,
        /// The sender's.
        expected: u64,
        /// How many of one sender are kept.
        limit: usize,
    },
    /// It does not pay enough to take the place of another with its nonce.
    #[error(
        "replacement transaction underpriced: each fee must be at least {percent}% above the fee of the transaction it replaces"
    )]
    Underpriced {
        /// By how much it must be higher.
        percent: u8,
    },
    /// The sender cannot pay for it.
    #[error(
        "insufficient funds for gas * price + value: address {sender} have {balance} want {cost}"
    )]
    Funds {
        /// The sender.
        sender: Address,
        /// What it has, in wei.
        balance: U256,
        /// What it would need.
        cost: U256,
    },
    /// Its gas limit does not even cover what every transaction costs.
    #[error("intrinsic gas too low: gas {found}, minimum needed {needed}")]
    IntrinsicGas {
        /// Its gas limit.
        found: u64,
        /// What it must have.
        needed: u64,
    },
    /// The sender cannot pay for it and for what waits already.
    #[error(
        "insufficient funds for gas * price + value: address {sender} have {balance} want {cost} for all of its transactions that wait"
    )]
    Overdraft {
        /// The sender.
        sender: Address,
        /// What it has, in wei.
        balance: U256,
        /// What it would need for all of them.
        cost: U256,
    },
    /// No block has so much gas.
    #[error("exceeds block gas limit: gas {found}, block {limit}")]
    BlockGasLimit {
        /// Its gas limit.
        found: u64,
        /// The block's.
        limit: u64,
    },
    /// Tip above the fee.
    #[error("max priority fee per gas higher than max fee per gas: tip {tip}, fee {fee}")]
    TipAboveFee {
        /// Tip in wei.
        tip: u128,
        /// Fee in wei.
        fee: u128,
    },
    /// It pays less than the node accepts.
    #[error("transaction underpriced: fee {found}, minimum needed {needed}")]
    BelowMinimum {
        /// In wei.
        found: u128,
        /// In wei.
        needed: u128,
    },
    /// It does not pay the base fee, and nothing would make it fall.
    #[error("max fee per gas less than block base fee: fee {found}, base fee {needed}")]
    BelowBaseFee {
        /// In wei.
        found: u128,
        /// In wei.
        needed: u64,
    },
    /// It does not pay the fee for blobs, and nothing would make it fall.
    #[error(
        "max fee per blob gas less than block blob gas fee: fee {found}, blob base fee {needed}"
    )]
    BelowBlobFee {
        /// In wei.
        found: u128,
        /// In wei.
        needed: u128,
    },
    /// The sender is a contract.
    #[error("sender not an eoa: address {0} has code")]
    SenderHasCode(Address),
    /// Too many bytes.
    #[error("oversized data: transaction size {found}, limit {limit}")]
    TooLarge {
        /// Its size.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// There is no room, and it does not pay more than what others sent.
    #[error(
        "txpool is full: {limit} transactions are waiting and none of another sender pays less"
    )]
    Full {
        /// How many are kept.
        limit: usize,
    },
    /// There is no room for its bytes, and too little of what others sent pays less.
    #[error(
        "txpool is full: {used} of {limit} bytes are taken, {needed} more are needed and too few of other senders pay less"
    )]
    FullBytes {
        /// Bytes of all that wait.
        used: usize,
        /// How many are kept.
        limit: usize,
        /// How many it adds.
        needed: usize,
    },
    /// A blob transaction without its blobs.
    #[error(
        "blob transaction without its blobs: send it in the network form, with blobs, commitments and proofs"
    )]
    MissingBlobs,
    /// Its blobs do not fit its hashes.
    #[error("the blobs of the transaction are not valid: {0}")]
    Blobs(String),
    /// Its blobs have proofs that blocks do not take yet.
    #[error(
        "the blobs of the transaction have a proof for each cell, as from Osaka on: send them with one proof each"
    )]
    CellProofs,
    /// It breaks a rule whatever the state.
    #[error(transparent)]
    Invalid(#[from] TransactionError),
}
