//! Errors of the pool, in the words that client libraries look for.

use alloy_primitives::{Address, U256};
use polytrie_consensus::TransactionError;
use thiserror::Error;

/// The reason for which the pool refuses a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PoolError {
    /// The pool has the transaction already.
    #[error("already known")]
    Known,
    /// The nonce was used before.
    #[error("nonce too low: next nonce {expected}, tx nonce {found}")]
    NonceTooLow {
        /// Nonce of the transaction.
        found: u64,
        /// Nonce of the sender.
        expected: u64,
    },
    /// The nonce is too far ahead.
    #[error(
        "nonce too far ahead: next nonce {expected}, tx nonce {found}, at most {limit} transactions of one sender are kept"
    )]
    NonceTooHigh {
        /// Nonce of the transaction.
        found: u64,
        /// Nonce of the sender.
        expected: u64,
        /// Maximum number of transactions of one sender.
        limit: usize,
    },
    /// The fees are too low to replace the transaction with the same nonce.
    #[error(
        "replacement transaction underpriced: each fee must be at least {percent}% above the fee of the transaction it replaces"
    )]
    Underpriced {
        /// Minimum increase of each fee, in percent.
        percent: u8,
    },
    /// The balance is too low for the transaction.
    #[error(
        "insufficient funds for gas * price + value: address {sender} have {balance} want {cost}"
    )]
    Funds {
        /// The sender.
        sender: Address,
        /// Balance of the sender in wei.
        balance: U256,
        /// Maximum cost of the transaction in wei.
        cost: U256,
    },
    /// The gas limit is below the intrinsic gas of the transaction.
    #[error("intrinsic gas too low: gas {found}, minimum needed {needed}")]
    IntrinsicGas {
        /// Gas limit of the transaction.
        found: u64,
        /// Intrinsic gas of the transaction.
        needed: u64,
    },
    /// The balance is too low for this and the other transactions of the sender in the pool.
    #[error(
        "insufficient funds for gas * price + value: address {sender} have {balance} want {cost} for all of its transactions that wait"
    )]
    Overdraft {
        /// The sender.
        sender: Address,
        /// Balance of the sender in wei.
        balance: U256,
        /// Maximum cost of all these transactions in wei.
        cost: U256,
    },
    /// The gas limit is above that of a block.
    #[error("exceeds block gas limit: gas {found}, block {limit}")]
    BlockGasLimit {
        /// Gas limit of the transaction.
        found: u64,
        /// Gas limit of the block.
        limit: u64,
    },
    /// The tip is above the fee.
    #[error("max priority fee per gas higher than max fee per gas: tip {tip}, fee {fee}")]
    TipAboveFee {
        /// Tip in wei.
        tip: u128,
        /// Fee in wei.
        fee: u128,
    },
    /// The fee is below the minimum that was set for the node.
    #[error("transaction underpriced: fee {found}, minimum needed {needed}")]
    BelowMinimum {
        /// Maximum fee per gas of the transaction, in wei.
        found: u128,
        /// Minimum fee per gas of the node, in wei.
        needed: u128,
    },
    /// The fee is below the base fee, and no block would lower that.
    #[error("max fee per gas less than block base fee: fee {found}, base fee {needed}")]
    BelowBaseFee {
        /// Maximum fee per gas of the transaction, in wei.
        found: u128,
        /// Base fee of the next block, in wei.
        needed: u64,
    },
    /// The blob fee is below that of the next block, and no block would lower that.
    #[error(
        "max fee per blob gas less than block blob gas fee: fee {found}, blob base fee {needed}"
    )]
    BelowBlobFee {
        /// Maximum fee per blob gas of the transaction, in wei.
        found: u128,
        /// Blob base fee of the next block, in wei.
        needed: u128,
    },
    /// The sender is a contract.
    #[error("sender not an eoa: address {0} has code")]
    SenderHasCode(Address),
    /// The transaction has too many bytes.
    #[error("oversized data: transaction size {found}, limit {limit}")]
    TooLarge {
        /// Bytes of the transaction.
        found: usize,
        /// Maximum number of bytes.
        limit: usize,
    },
    /// The pool has the maximum number of transactions, and no other sender pays less.
    #[error(
        "txpool is full: {limit} transactions are waiting and none of another sender pays less"
    )]
    Full {
        /// Maximum number of transactions.
        limit: usize,
    },
    /// The pool has no room for the bytes, and too few transactions of other senders pay less.
    #[error(
        "txpool is full: {used} of {limit} bytes are taken, {needed} more are needed and too few of other senders pay less"
    )]
    FullBytes {
        /// Bytes of all transactions in the pool.
        used: usize,
        /// Maximum number of bytes.
        limit: usize,
        /// Bytes that the transaction adds.
        needed: usize,
    },
    /// A blob transaction came without its blobs.
    #[error(
        "blob transaction without its blobs: send it in the network form, with blobs, commitments and proofs"
    )]
    MissingBlobs,
    /// The blobs do not match the hashes of the transaction, or are not valid.
    #[error("the blobs of the transaction are not valid: {0}")]
    Blobs(String),
    /// The blobs have cell proofs, which blocks before Osaka do not accept.
    #[error(
        "the blobs of the transaction have a proof for each cell, as from Osaka on: send them with one proof each"
    )]
    CellProofs,
    /// The transaction breaks a rule that does not depend on the state.
    #[error(transparent)]
    Invalid(#[from] TransactionError),
}
