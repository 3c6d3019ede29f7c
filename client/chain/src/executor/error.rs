//! The errors of a block's execution.

use alloy_evm::block::{BlockExecutionError, BlockValidationError};
use alloy_primitives::{Address, B256};
use polytrie_consensus::clique::CliqueError;
use polytrie_state::StateError;
use revm::context_interface::DBErrorMarker;
use thiserror::Error;

use super::SenderError;

/// Error of a block's execution.
#[derive(Debug, Clone, Error)]
pub enum ExecuteError {
    /// An invalid block.
    #[error(transparent)]
    Invalid(#[from] BlockInvalid),
    /// A failure of the node, which says nothing about the block.
    #[error(transparent)]
    Internal(#[from] InternalError),
}

/// Reason why no execution of a block is possible.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BlockInvalid {
    /// A transaction from which no sender can be recovered.
    #[error(transparent)]
    Sender(#[from] SenderError),
    /// A transaction that cannot be included at its place.
    #[error("transaction {index} ({hash}) cannot be executed: {reason}")]
    Transaction {
        /// Index of the transaction in the block, from 0.
        index: usize,
        /// Hash of the transaction.
        hash: B256,
        /// Reason of the EVM.
        reason: String,
    },
    /// A transaction with a gas limit above the gas that the block has left.
    #[error(
        "transaction {index} ({hash}) has the gas limit {gas_limit}, but only {available} gas is \
         left in the block"
    )]
    TransactionGas {
        /// Index of the transaction in the block, from 0.
        index: usize,
        /// Hash of the transaction.
        hash: B256,
        /// Gas limit of the transaction.
        gas_limit: u64,
        /// Gas that the block has left.
        available: u64,
    },
    /// A header without a field that the execution needs.
    #[error("the header has no {field}, which a block of {fork} must have")]
    MissingField {
        /// Name of the field.
        field: &'static str,
        /// Name of the fork that asks for the field.
        fork: &'static str,
    },
    /// An ommer that is not one of the last generations.
    #[error(
        "the ommer with the number {found} cannot be rewarded in block {number}, expected one of the \
         7 numbers before it"
    )]
    OmmerNumber {
        /// Number of the ommer.
        found: u64,
        /// Number of the block.
        number: u64,
    },
    /// A header from which its signer, who receives the fees, cannot be recovered.
    #[error(transparent)]
    Seal(#[from] CliqueError),
    /// A system call that failed.
    #[error("a system call failed: {reason}")]
    SystemCall {
        /// Reason of the failure.
        reason: String,
    },
    /// A missing contract that every block from some fork on must call.
    #[error(
        "there is no contract at {address}, which every block from {fork} on must call for {purpose} (EIP-{eip}); put its \
         code into `alloc` of the chain's genesis file, or deploy it in the first block of {fork} at the latest"
    )]
    NoSystemContract {
        /// Address of the contract.
        address: Address,
        /// The purpose of the call.
        purpose: &'static str,
        /// Number of the EIP that requires the call.
        eip: u16,
        /// Name of the fork from which on blocks make the call.
        fork: &'static str,
    },
    /// A log of the deposit contract that is not a deposit (EIP-6110).
    #[error("the deposit contract logged something that is not a deposit: {reason}")]
    Deposit {
        /// Description of the difference.
        reason: String,
    },
    /// Another reason, in the words of the EVM.
    #[error("the block cannot be executed: {reason}")]
    Other {
        /// Reason of the EVM.
        reason: String,
    },
}

/// Failure of the node while it executed a block.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum InternalError {
    /// A state that cannot be read or written.
    #[error(transparent)]
    State(#[from] StateError),
    /// An ancestor with an unknown hash.
    #[error("the hash of block {number} is not known, but BLOCKHASH asks for it")]
    MissingBlockHash {
        /// Number of the ancestor.
        number: u64,
    },
    /// Another number of senders than of transactions.
    #[error("found {found} senders for {expected} transactions")]
    SenderCount {
        /// Number of senders.
        found: usize,
        /// Number of transactions.
        expected: usize,
    },
    /// An error of the EVM that no block can cause.
    #[error("the EVM failed: {0}")]
    Evm(String),
}

impl DBErrorMarker for InternalError {}

impl ExecuteError {
    /// Sorts an error of alloy-evm, given the first error of the database and the current
    /// transaction.
    pub(super) fn new(
        error: BlockExecutionError,
        noticed: Option<&InternalError>,
        transaction: Option<(usize, B256)>,
    ) -> Self {
        // alloy-evm reports a failed read in a system call as a failed call, so the error of the
        // database comes first.
        if let Some(noticed) = noticed {
            return Self::Internal(noticed.clone());
        }
        match error {
            BlockExecutionError::Internal(error) => InternalError::Evm(error.to_string()).into(),
            BlockExecutionError::Validation(error) => BlockInvalid::new(error, transaction).into(),
        }
    }
}

impl BlockInvalid {
    fn new(error: BlockValidationError, transaction: Option<(usize, B256)>) -> Self {
        use BlockValidationError as E;
        match (error, transaction) {
            (E::InvalidTx { hash, error }, Some((index, _))) => {
                Self::Transaction { index, hash, reason: error.to_string() }
            }
            (
                E::TransactionGasLimitMoreThanAvailableBlockGas {
                    transaction_gas_limit: gas_limit,
                    block_available_gas: available,
                },
                Some((index, hash)),
            ) => Self::TransactionGas { index, hash, gas_limit, available },
            (E::MissingParentBeaconBlockRoot, _) => {
                Self::MissingField { field: "parent beacon block root", fork: "Cancun" }
            }
            (E::DepositRequestDecode(reason), _) => Self::Deposit { reason },
            (
                error @ (E::BeaconRootContractCall { .. }
                | E::BlockHashContractCall { .. }
                | E::WithdrawalRequestsContractCall { .. }
                | E::ConsolidationRequestsContractCall { .. }
                | E::BuilderDepositRequestsContractCall { .. }
                | E::BuilderExitRequestsContractCall { .. }),
                _,
            ) => Self::SystemCall { reason: error.to_string() },
            (error, Some((index, hash))) => {
                Self::Transaction { index, hash, reason: error.to_string() }
            }
            (error, None) => Self::Other { reason: error.to_string() },
        }
    }
}
