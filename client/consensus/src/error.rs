//! The errors of an invalid block: one variant for each rule.
//!
//! Throughout, `found` is the value in the block and `expected` is the one that the rules or the
//! execution give.

use super::{access_list::AccessListError, clique::CliqueError};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{B64, B256, Bloom, Bytes, U256};
use thiserror::Error;

/// Rule of the chain that a block breaks.
///
/// Each error means that the block is invalid, never that the node failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConsensusError {
    // Rules about the header and its parent.
    /// A parent hash that is not the hash of the block before.
    #[error("the header's parent hash is {found}, but the block before it has the hash {expected}")]
    ParentHash {
        /// Parent hash in the header.
        found: B256,
        /// Hash of the parent.
        expected: B256,
    },
    /// A number that is not the parent's plus one.
    #[error("the header's number is {found}, expected {expected} after its parent")]
    Number {
        /// Number in the header.
        found: u64,
        /// The parent's number plus one.
        expected: u64,
    },
    /// A timestamp that is not later than the parent's.
    #[error("the header's timestamp {found} is not later than its parent's, {parent}")]
    Timestamp {
        /// Timestamp in the header, in seconds.
        found: u64,
        /// Timestamp of the parent, in seconds.
        parent: u64,
    },
    /// A gas limit below the least one allowed.
    #[error("the header's gas limit is {found}, expected at least {min}")]
    GasLimitTooLow {
        /// Gas limit in the header.
        found: u64,
        /// Least gas limit allowed.
        min: u64,
    },
    /// A gas limit above 2^63 - 1.
    #[error("the header's gas limit is {found}, expected at most {max}")]
    GasLimitTooHigh {
        /// Gas limit in the header.
        found: u64,
        /// Highest gas limit allowed.
        max: u64,
    },
    /// A gas limit that differs from the parent's by 1/1024 of it or more.
    #[error(
        "the header's gas limit is {found}, expected a value less than {bound} away from {parent}, \
         the limit of its parent (doubled where the London fork begins)"
    )]
    GasLimitChange {
        /// Gas limit in the header.
        found: u64,
        /// Gas limit to compare with: the parent's, doubled at the London fork block.
        parent: u64,
        /// Bound that the difference must stay below.
        bound: u64,
    },
    /// More gas used than the limit allows.
    #[error("the header's gas used is {found}, expected at most its gas limit {gas_limit}")]
    GasUsedAboveLimit {
        /// Gas used in the header.
        found: u64,
        /// Gas limit in the header.
        gas_limit: u64,
    },
    /// Extra data that are too long.
    #[error("the header's extra data has {found} bytes, expected at most {max}")]
    ExtraDataTooLong {
        /// Length of the extra data, in bytes.
        found: usize,
        /// Greatest length allowed, in bytes.
        max: usize,
    },
    /// One of the first ten blocks of the DAO fork without the fork's mark.
    #[error(
        "the header's extra data is {found}, expected \"dao-hard-fork\" in the ten blocks from the DAO fork on"
    )]
    DaoExtraDataMissing {
        /// Extra data in the header.
        found: Bytes,
    },
    /// The mark of the DAO fork on a chain that rejects the fork.
    #[error(
        "the header's extra data is \"dao-hard-fork\", but this chain does not take part in the DAO fork"
    )]
    DaoExtraDataForbidden,
    /// A difficulty other than the one of the fork's formula.
    #[error("the header's difficulty is {found}, expected {expected}")]
    Difficulty {
        /// Difficulty in the header.
        found: U256,
        /// Difficulty that follows from the parent.
        expected: U256,
    },
    /// A broken rule of Clique, whose blocks an authorized signer must seal (EIP-225).
    #[error(transparent)]
    Clique(#[from] CliqueError),
    /// A header without proof of work before the chain reached the terminal total difficulty.
    #[error(
        "the header's difficulty is 0 as after the merge, expected {expected}: its parent has not reached the terminal \
         total difficulty"
    )]
    ProofOfStakeBeforeMerge {
        /// Difficulty that follows from the parent.
        expected: U256,
    },
    /// A header with proof of work after the chain reached the terminal total difficulty (EIP-3675).
    #[error(
        "the header's difficulty is {found}, expected 0: its parent has reached the terminal total difficulty, so it is \
         past the merge"
    )]
    ProofOfWorkAfterMerge {
        /// Difficulty in the header.
        found: U256,
    },
    /// A nonce other than zero after the merge (EIP-3675).
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
    /// A base fee other than the one that follows from the parent (EIP-1559).
    #[error("the header's base fee is {found} wei, expected {expected} wei")]
    BaseFee {
        /// Base fee in the header, in wei.
        found: u64,
        /// Base fee that follows from the parent, in wei. It may be above 64 bits, which no header
        /// can hold.
        expected: u128,
    },
    /// Blob gas used that is no whole number of blobs.
    #[error(
        "the header's blob gas used is {found}, expected a multiple of {per_blob}, the gas of one blob"
    )]
    BlobGasNotMultiple {
        /// Blob gas used in the header.
        found: u64,
        /// Gas of one blob.
        per_blob: u64,
    },
    /// More blob gas used than the schedule allows.
    #[error("the header's blob gas used is {found}, expected at most {max}")]
    BlobGasAboveLimit {
        /// Blob gas used in the header.
        found: u64,
        /// Greatest blob gas of one block.
        max: u64,
    },
    /// Excess blob gas other than what follows from the parent (EIP-4844, EIP-7918).
    #[error("the header's excess blob gas is {found}, expected {expected}")]
    ExcessBlobGas {
        /// Excess blob gas in the header.
        found: u64,
        /// Excess blob gas that follows from the parent. It may be above 64 bits, which no header can
        /// hold.
        expected: u128,
    },
    /// An absent field that the active fork asks for.
    #[error("the header has no {field}, expected one since the {fork} fork")]
    MissingField {
        /// Name of the field.
        field: &'static str,
        /// Fork that brought the field.
        fork: EthereumHardfork,
    },
    /// A field of a fork that is not active.
    #[error("the header has a {field}, expected none before the {fork} fork")]
    UnexpectedField {
        /// Name of the field.
        field: &'static str,
        /// Fork that brings the field.
        fork: EthereumHardfork,
    },

    // Rules about the body and its header.
    /// A transactions root that is not that of the body.
    #[error(
        "the header's transactions root is {found}, but the transactions have the root {expected}"
    )]
    TransactionsRoot {
        /// Root in the header.
        found: B256,
        /// Root of the transactions in the body.
        expected: B256,
    },
    /// An ommers hash that is not that of the body.
    #[error("the header's ommers hash is {found}, but the ommers have the hash {expected}")]
    OmmersHash {
        /// Hash in the header.
        found: B256,
        /// Hash of the ommers in the body.
        expected: B256,
    },
    /// A withdrawals root that is not that of the body (EIP-4895).
    #[error(
        "the header's withdrawals root is {found}, but the withdrawals have the root {expected}"
    )]
    WithdrawalsRoot {
        /// Root in the header.
        found: B256,
        /// Root of the withdrawals in the body.
        expected: B256,
    },
    /// A body without a list of withdrawals although Shanghai is active.
    #[error("the body has no list of withdrawals, expected one since the Shanghai fork")]
    WithdrawalsMissing,
    /// A body with a list of withdrawals although Shanghai is not active.
    #[error("the body has a list of {found} withdrawals, expected none before the Shanghai fork")]
    WithdrawalsUnexpected {
        /// Number of withdrawals in the body.
        found: usize,
    },
    /// A block with an encoding that is too long (EIP-7934).
    #[error("the block's encoding has {found} bytes, expected at most {max}")]
    BlockTooLarge {
        /// Length of the block's RLP, in bytes.
        found: usize,
        /// Greatest length allowed, in bytes.
        max: usize,
    },
    /// Blob gas used that is not that of the transactions.
    #[error(
        "the header's blob gas used is {found}, but the blobs of the transactions use {expected}"
    )]
    BlobGasUsed {
        /// Blob gas used in the header.
        found: u64,
        /// Blob gas of all transactions in the body.
        expected: u64,
    },
    /// A transaction that breaks a rule.
    #[error("transaction {index} is invalid: {source}")]
    Transaction {
        /// Position in the block, from 0.
        index: usize,
        /// Rule that the transaction breaks.
        source: TransactionError,
    },
    /// More ommers than two.
    #[error("the block has {found} ommers, expected at most {max}")]
    TooManyOmmers {
        /// Number of ommers.
        found: usize,
        /// Greatest number of ommers of a block.
        max: usize,
    },
    /// An ommer that breaks a rule.
    #[error("ommer {index} ({hash}) is invalid: {source}")]
    Ommer {
        /// Position in the block's list of ommers, from 0.
        index: usize,
        /// Hash of the ommer.
        hash: B256,
        /// Rule that the ommer breaks.
        source: Box<OmmerError>,
    },

    // Rules about the result of the execution and the header.
    /// Gas used other than that of the execution.
    #[error("the header's gas used is {found}, but running the block used {expected}")]
    GasUsed {
        /// Gas used in the header.
        found: u64,
        /// Gas that the execution used.
        expected: u64,
    },
    /// A receipts root other than that of the execution.
    #[error(
        "the header's receipts root is {found}, but running the block gave receipts with the root {expected}"
    )]
    ReceiptsRoot {
        /// Root in the header.
        found: B256,
        /// Root of the receipts of the execution.
        expected: B256,
    },
    /// A logs bloom other than that of the execution.
    // The message leaves out the two blooms: 256 bytes of either are of no use to a reader.
    #[error(
        "the header's logs bloom differs from the bloom of the logs that running the block gave"
    )]
    LogsBloom {
        /// Bloom in the header.
        found: Box<Bloom>,
        /// Bloom of all logs of the execution.
        expected: Box<Bloom>,
    },
    /// A requests hash other than that of the execution (EIP-7685).
    #[error(
        "the header's requests hash is {found}, but running the block gave requests with the hash {expected}"
    )]
    RequestsHash {
        /// Hash in the header.
        found: B256,
        /// Hash of the requests of the execution.
        expected: B256,
    },
    /// A block access list hash other than that of the execution (EIP-7928).
    #[error(
        "the header's block access list hash is {found}, but running the block gave a list with the hash {expected}"
    )]
    BlockAccessListHash {
        /// Hash in the header.
        found: B256,
        /// Hash of the list of the execution.
        expected: B256,
    },
    /// A block access list, from outside or from the execution, that breaks a rule (EIP-7928).
    #[error(transparent)]
    AccessList(#[from] AccessListError),
    /// A state root other than that of the execution.
    #[error(
        "the header's state root is {found}, but running the block led to the state root {expected}"
    )]
    StateRootMismatch {
        /// Root in the header.
        found: B256,
        /// Root of the state after the execution.
        expected: B256,
    },
}

/// Rule that an ommer breaks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OmmerError {
    /// An ommer that is one of the block's own ancestors.
    #[error("it is an ancestor of the block")]
    IsAncestor,
    /// An ommer that is listed twice, in this block or in one of its ancestors.
    #[error("it has been included before")]
    AlreadyIncluded,
    /// An ommer that is a sibling of the block itself.
    #[error("its parent {parent} is the block's own parent, expected an earlier ancestor")]
    SiblingOfBlock {
        /// Hash of the parent that both have.
        parent: B256,
    },
    /// An ommer that does not descend from one of the last blocks of this chain.
    #[error("its parent {parent} is not among the {generations} blocks before this one")]
    UnknownParent {
        /// Hash of the ommer's parent.
        parent: B256,
        /// Number of generations before the block among which the parent must be.
        generations: usize,
    },
    /// An ommer with a header that breaks a rule about its parent.
    #[error(transparent)]
    Header(#[from] ConsensusError),
}

/// Rule that a transaction breaks in any state.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// A type of a fork that is not active.
    #[error("type {tx_type} is not allowed before the {fork} fork")]
    TypeNotActive {
        /// Type of the transaction (EIP-2718).
        tx_type: u8,
        /// Fork that brings the type.
        fork: EthereumHardfork,
    },
    /// A transaction that is signed for another chain.
    #[error("its chain id is {found}, expected {expected}")]
    ChainId {
        /// Chain id in the transaction.
        found: u64,
        /// Chain id of this chain.
        expected: u64,
    },
    /// A chain id in a legacy transaction before EIP-155.
    #[error(
        "it is protected against replay (chain id {found}), which is not allowed before the Spurious Dragon fork"
    )]
    ReplayProtectionNotActive {
        /// Chain id in the transaction.
        found: u64,
    },
    /// A signature with an `r` or `s` that is zero, or not below the order of secp256k1.
    #[error(
        "its signature's {part} is {found:#x}, expected a value above 0 and below the order of secp256k1"
    )]
    SignatureOutOfRange {
        /// Name of the number: `r` or `s`.
        part: &'static str,
        /// Number in the signature.
        found: U256,
    },
    /// A signature with an `s` in the upper half of its range (EIP-2).
    #[error(
        "its signature's s is {found:#x}, expected at most half the order of secp256k1 since the Homestead fork"
    )]
    HighS {
        /// Number in the signature.
        found: U256,
    },
    /// A signature from which no sender can be computed.
    #[error("its sender cannot be recovered: the signature belongs to no public key")]
    NoSender,
    /// A nonce of 2^64 - 1 (EIP-2681).
    #[error("its nonce is 2^64 - 1, expected a smaller one")]
    NonceTooHigh,
    /// A gas limit above the cap of one transaction (EIP-7825).
    #[error("its gas limit is {found}, expected at most {max} since the Osaka fork")]
    GasLimitAboveCap {
        /// Gas limit of the transaction.
        found: u64,
        /// Cap of one transaction.
        max: u64,
    },
    /// Init code that is too long (EIP-3860, EIP-7954).
    #[error("its init code has {found} bytes, expected at most {max}")]
    InitCodeTooLarge {
        /// Length of the init code, in bytes.
        found: usize,
        /// Greatest length allowed, in bytes.
        max: usize,
    },
    /// A blob transaction with its blobs, which is the form for the network only.
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
        /// Greatest number of blobs of a transaction.
        max: u64,
    },
    /// A blob hash of an unknown version.
    #[error("its blob hash {found} has the version {}, expected 1", found[0])]
    BlobHashVersion {
        /// Versioned hash of the blob.
        found: B256,
    },
    /// An EIP-7702 transaction without an authorization.
    #[error("its authorization list is empty, expected at least one authorization")]
    EmptyAuthorizationList,
}
