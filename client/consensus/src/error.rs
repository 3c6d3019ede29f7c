//! Why a block is invalid: one variant for each rule.
//!
//! Throughout, `found` is what the block says and `expected` is what the rules or the execution give.

use super::{access_list::AccessListError, clique::CliqueError};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{B64, B256, Bloom, Bytes, U256};
use thiserror::Error;

/// A rule of the chain that a block breaks.
///
/// Each value means that the block is invalid, never that the node failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConsensusError {
    // The header against its parent.
    /// The block does not follow the block it was checked against.
    #[error("the header's parent hash is {found}, but the block before it has the hash {expected}")]
    ParentHash {
        /// Parent hash in the header.
        found: B256,
        /// Hash of the parent.
        expected: B256,
    },
    /// The number is not the parent's plus one.
    #[error("the header's number is {found}, expected {expected} after its parent")]
    Number {
        /// Number in the header.
        found: u64,
        /// The parent's number plus one.
        expected: u64,
    },
    /// The timestamp does not grow.
    #[error("the header's timestamp {found} is not later than its parent's, {parent}")]
    Timestamp {
        /// Timestamp in the header, in seconds.
        found: u64,
        /// Timestamp of the parent, in seconds.
        parent: u64,
    },
    /// The gas limit is below the least one allowed.
    #[error("the header's gas limit is {found}, expected at least {min}")]
    GasLimitTooLow {
        /// Gas limit in the header.
        found: u64,
        /// The least gas limit allowed.
        min: u64,
    },
    /// The gas limit is above 2^63 - 1.
    #[error("the header's gas limit is {found}, expected at most {max}")]
    GasLimitTooHigh {
        /// Gas limit in the header.
        found: u64,
        /// The highest gas limit allowed.
        max: u64,
    },
    /// The gas limit differs from the parent's by 1/1024 of it or more.
    #[error(
        "the header's gas limit is {found}, expected a value less than {bound} away from {parent}, \
         the limit of its parent (doubled where the London fork begins)"
    )]
    GasLimitChange {
        /// Gas limit in the header.
        found: u64,
        /// The gas limit to compare with: the parent's, doubled at the London fork block.
        parent: u64,
        /// The difference must be below this.
        bound: u64,
    },
    /// More gas is used than the limit allows.
    #[error("the header's gas used is {found}, expected at most its gas limit {gas_limit}")]
    GasUsedAboveLimit {
        /// Gas used in the header.
        found: u64,
        /// Gas limit in the header.
        gas_limit: u64,
    },
    /// The extra data is too long.
    #[error("the header's extra data has {found} bytes, expected at most {max}")]
    ExtraDataTooLong {
        /// Length of the extra data, in bytes.
        found: usize,
        /// The greatest length allowed, in bytes.
        max: usize,
    },
    /// One of the first ten blocks of the DAO fork lacks the fork's mark.
    #[error(
        "the header's extra data is {found}, expected \"dao-hard-fork\" in the ten blocks from the DAO fork on"
    )]
    DaoExtraDataMissing {
        /// Extra data in the header.
        found: Bytes,
    },
    /// A chain that rejects the DAO fork has its mark.
    #[error(
        "the header's extra data is \"dao-hard-fork\", but this chain does not take part in the DAO fork"
    )]
    DaoExtraDataForbidden,
    /// The difficulty is not the one the fork's formula gives.
    #[error("the header's difficulty is {found}, expected {expected}")]
    Difficulty {
        /// Difficulty in the header.
        found: U256,
        /// Difficulty that follows from the parent.
        expected: U256,
    },
    /// A rule of Clique, under which the block is to be sealed by an authorized signer (EIP-225).
    #[error(transparent)]
    Clique(#[from] CliqueError),
    /// A header without proof of work, before the terminal total difficulty was reached.
    #[error(
        "the header's difficulty is 0 as after the merge, expected {expected}: its parent has not reached the terminal \
         total difficulty"
    )]
    ProofOfStakeBeforeMerge {
        /// Difficulty that follows from the parent.
        expected: U256,
    },
    /// A header with proof of work, after the terminal total difficulty was reached (EIP-3675).
    #[error(
        "the header's difficulty is {found}, expected 0: its parent has reached the terminal total difficulty, so it is \
         past the merge"
    )]
    ProofOfWorkAfterMerge {
        /// Difficulty in the header.
        found: U256,
    },
    /// A nonce after the merge (EIP-3675).
    #[error("the header's nonce is {found}, expected 0 after the merge")]
    NonceAfterMerge {
        /// Nonce in the header.
        found: B64,
    },
    /// An ommers hash other than that of the empty list, after the merge (EIP-3675).
    #[error("the header's ommers hash is {found}, expected that of an empty list after the merge")]
    OmmersHashAfterMerge {
        /// Ommers hash in the header.
        found: B256,
    },
    /// The base fee is not the one that follows from the parent (EIP-1559).
    #[error("the header's base fee is {found} wei, expected {expected} wei")]
    BaseFee {
        /// Base fee in the header, in wei.
        found: u64,
        /// Base fee that follows from the parent, in wei. Beyond 64 bits no header can state it.
        expected: u128,
    },
    /// The blob gas used is not a whole number of blobs.
    #[error(
        "the header's blob gas used is {found}, expected a multiple of {per_blob}, the gas of one blob"
    )]
    BlobGasNotMultiple {
        /// Blob gas used in the header.
        found: u64,
        /// Gas of one blob.
        per_blob: u64,
    },
    /// More blob gas is used than the schedule allows.
    #[error("the header's blob gas used is {found}, expected at most {max}")]
    BlobGasAboveLimit {
        /// Blob gas used in the header.
        found: u64,
        /// The most blob gas of one block.
        max: u64,
    },
    /// The excess blob gas is not the one that follows from the parent (EIP-4844, EIP-7918).
    #[error("the header's excess blob gas is {found}, expected {expected}")]
    ExcessBlobGas {
        /// Excess blob gas in the header.
        found: u64,
        /// Excess blob gas that follows from the parent. Beyond 64 bits no header can state it.
        expected: u128,
    },
    /// A field that the active fork asks for is absent.
    #[error("the header has no {field}, expected one since the {fork} fork")]
    MissingField {
        /// Name of the field.
        field: &'static str,
        /// The fork that brought it.
        fork: EthereumHardfork,
    },
    /// A field of a fork that is not active is present.
    #[error("the header has a {field}, expected none before the {fork} fork")]
    UnexpectedField {
        /// Name of the field.
        field: &'static str,
        /// The fork that brings it.
        fork: EthereumHardfork,
    },

    // The body against its header.
    /// The transactions are not those of the header.
    #[error(
        "the header's transactions root is {found}, but the transactions have the root {expected}"
    )]
    TransactionsRoot {
        /// Root in the header.
        found: B256,
        /// Root of the transactions in the body.
        expected: B256,
    },
    /// The ommers are not those of the header.
    #[error("the header's ommers hash is {found}, but the ommers have the hash {expected}")]
    OmmersHash {
        /// Hash in the header.
        found: B256,
        /// Hash of the ommers in the body.
        expected: B256,
    },
    /// The withdrawals are not those of the header (EIP-4895).
    #[error(
        "the header's withdrawals root is {found}, but the withdrawals have the root {expected}"
    )]
    WithdrawalsRoot {
        /// Root in the header.
        found: B256,
        /// Root of the withdrawals in the body.
        expected: B256,
    },
    /// No list of withdrawals although Shanghai is active.
    #[error("the body has no list of withdrawals, expected one since the Shanghai fork")]
    WithdrawalsMissing,
    /// A list of withdrawals although Shanghai is not active.
    #[error("the body has a list of {found} withdrawals, expected none before the Shanghai fork")]
    WithdrawalsUnexpected {
        /// Number of withdrawals in the body.
        found: usize,
    },
    /// The encoded block is too long (EIP-7934).
    #[error("the block's encoding has {found} bytes, expected at most {max}")]
    BlockTooLarge {
        /// Length of the block's RLP, in bytes.
        found: usize,
        /// The greatest length allowed, in bytes.
        max: usize,
    },
    /// The blob gas of the transactions is not what the header says.
    #[error(
        "the header's blob gas used is {found}, but the blobs of the transactions use {expected}"
    )]
    BlobGasUsed {
        /// Blob gas used in the header.
        found: u64,
        /// Blob gas of all transactions in the body.
        expected: u64,
    },
    /// A transaction breaks a rule.
    #[error("transaction {index} is invalid: {source}")]
    Transaction {
        /// Position in the block, from 0.
        index: usize,
        /// The rule it breaks.
        source: TransactionError,
    },
    /// More than two ommers.
    #[error("the block has {found} ommers, expected at most {max}")]
    TooManyOmmers {
        /// Number of ommers.
        found: usize,
        /// The most a block may have.
        max: usize,
    },
    /// An ommer breaks a rule.
    #[error("ommer {index} ({hash}) is invalid: {source}")]
    Ommer {
        /// Position in the block's list of ommers, from 0.
        index: usize,
        /// Hash of the ommer.
        hash: B256,
        /// The rule it breaks.
        source: Box<OmmerError>,
    },

    // The result of running the block against its header.
    /// Running the block used another amount of gas.
    #[error("the header's gas used is {found}, but running the block used {expected}")]
    GasUsed {
        /// Gas used in the header.
        found: u64,
        /// Gas that running the block used.
        expected: u64,
    },
    /// Running the block gave other receipts.
    #[error(
        "the header's receipts root is {found}, but running the block gave receipts with the root {expected}"
    )]
    ReceiptsRoot {
        /// Root in the header.
        found: B256,
        /// Root of the receipts.
        expected: B256,
    },
    /// Running the block gave other logs.
    // 256 bytes of either would tell a reader nothing.
    #[error(
        "the header's logs bloom differs from the bloom of the logs that running the block gave"
    )]
    LogsBloom {
        /// Bloom in the header.
        found: Box<Bloom>,
        /// Bloom of all logs.
        expected: Box<Bloom>,
    },
    /// Running the block gave other requests (EIP-7685).
    #[error(
        "the header's requests hash is {found}, but running the block gave requests with the hash {expected}"
    )]
    RequestsHash {
        /// Hash in the header.
        found: B256,
        /// Hash of the requests.
        expected: B256,
    },
    /// Running the block gave another block access list (EIP-7928).
    #[error(
        "the header's block access list hash is {found}, but running the block gave a list with the hash {expected}"
    )]
    BlockAccessListHash {
        /// Hash in the header.
        found: B256,
        /// Hash of the list.
        expected: B256,
    },
    /// The list that came beside the block, or that running it gave, breaks a rule (EIP-7928).
    #[error(transparent)]
    AccessList(#[from] AccessListError),
    /// Running the block led to another state.
    #[error(
        "the header's state root is {found}, but running the block led to the state root {expected}"
    )]
    StateRootMismatch {
        /// Root in the header.
        found: B256,
        /// Root of the state after the block.
        expected: B256,
    },
}

/// A rule that an ommer breaks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OmmerError {
    /// The ommer is one of the block's own ancestors.
    #[error("it is an ancestor of the block")]
    IsAncestor,
    /// The ommer is listed twice, in this block or in one of its ancestors.
    #[error("it has been included before")]
    AlreadyIncluded,
    /// The ommer is a sibling of the block itself.
    #[error("its parent {parent} is the block's own parent, expected an earlier ancestor")]
    SiblingOfBlock {
        /// Hash of the parent both share.
        parent: B256,
    },
    /// The ommer does not descend from the recent part of this chain.
    #[error("its parent {parent} is not among the {generations} blocks before this one")]
    UnknownParent {
        /// Hash of the ommer's parent.
        parent: B256,
        /// How many generations back the parent may be.
        generations: usize,
    },
    /// The ommer's header does not follow its parent by the rules.
    #[error(transparent)]
    Header(#[from] ConsensusError),
}

/// A rule that a transaction breaks, whatever the state it would run in.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// The type comes with a fork that is not active.
    #[error("type {tx_type} is not allowed before the {fork} fork")]
    TypeNotActive {
        /// EIP-2718 type.
        tx_type: u8,
        /// The fork that brings the type.
        fork: EthereumHardfork,
    },
    /// The transaction is signed for another chain.
    #[error("its chain id is {found}, expected {expected}")]
    ChainId {
        /// Chain id in the transaction.
        found: u64,
        /// Chain id of this chain.
        expected: u64,
    },
    /// Replay protection before EIP-155.
    #[error(
        "it is protected against replay (chain id {found}), which is not allowed before the Spurious Dragon fork"
    )]
    ReplayProtectionNotActive {
        /// Chain id in the transaction.
        found: u64,
    },
    /// `r` or `s` is zero, or not below the order of secp256k1.
    #[error(
        "its signature's {part} is {found:#x}, expected a value above 0 and below the order of secp256k1"
    )]
    SignatureOutOfRange {
        /// `r` or `s`.
        part: &'static str,
        /// The value in the signature.
        found: U256,
    },
    /// `s` is in the upper half of its range (EIP-2).
    #[error(
        "its signature's s is {found:#x}, expected at most half the order of secp256k1 since the Homestead fork"
    )]
    HighS {
        /// The value in the signature.
        found: U256,
    },
    /// No sender can be computed from the signature.
    #[error("its sender cannot be recovered: the signature belongs to no public key")]
    NoSender,
    /// The nonce is 2^64 - 1 (EIP-2681).
    #[error("its nonce is 2^64 - 1, expected a smaller one")]
    NonceTooHigh,
    /// The gas limit is above the cap of one transaction (EIP-7825).
    #[error("its gas limit is {found}, expected at most {max} since the Osaka fork")]
    GasLimitAboveCap {
        /// Gas limit of the transaction.
        found: u64,
        /// The cap.
        max: u64,
    },
    /// The code that a creation runs is too long (EIP-3860, EIP-7954).
    #[error("its init code has {found} bytes, expected at most {max}")]
    InitCodeTooLarge {
        /// Length of the init code, in bytes.
        found: usize,
        /// The greatest length allowed, in bytes.
        max: usize,
    },
    /// A blob transaction that carries its blobs, as it does on the network but not in a block.
    #[error("it carries its blobs, expected only their hashes inside a block")]
    CarriesBlobs,
    /// A blob transaction without a blob (EIP-4844).
    #[error("it is a blob transaction without blobs, expected at least one")]
    NoBlobs,
    /// More blobs than one transaction may have (EIP-7594).
    #[error("it has {found} blobs, expected at most {max}")]
    TooManyBlobs {
        /// Number of blobs.
        found: usize,
        /// The most a transaction may have.
        max: u64,
    },
    /// A blob hash of an unknown version.
    #[error("its blob hash {found} has the version {}, expected 1", found[0])]
    BlobHashVersion {
        /// The hash.
        found: B256,
    },
    /// An EIP-7702 transaction that authorizes nothing.
    #[error("its authorization list is empty, expected at least one authorization")]
    EmptyAuthorizationList,
}
