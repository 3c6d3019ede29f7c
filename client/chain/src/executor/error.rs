//! Why a block could not be executed.

use alloy_evm::block::{BlockExecutionError, BlockValidationError};
use alloy_primitives::{Address, B256};
use polytrie_consensus::clique::CliqueError;
use polytrie_state::StateError;
use revm::context_interface::DBErrorMarker;
use thiserror::Error;

/// A block could not be executed.
#[derive(Debug, Clone, Error)]
pub enum ExecuteError {
    /// The block is invalid.
    #[error(transparent)]
    Invalid(#[from] BlockInvalid),
    /// The node failed; nothing is known about the block.
    #[error(transparent)]
    Internal(#[from] InternalError),
}

/// A block that no execution is possible for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BlockInvalid {
    /// A transaction cannot be included in the block at its place.
    #[error("transaction {index} ({hash}) cannot be executed: {reason}")]
    Transaction {
        /// Its place in the block, from 0.
        index: usize,
        /// Its hash.
        hash: B256,
        /// The EVM's reason.
        reason: String,
    },
    /// A transaction may use more gas than is left.
    #[error(
        "transaction {index} ({hash}) has the gas limit {gas_limit}, but only {available} gas is \
         left in the block"
    )]
    TransactionGas {
        /// Its place in the block, from 0.
        index: usize,
        /// Its hash.
        hash: B256,
        /// Its gas limit.
        gas_limit: u64,
        /// What is left of the block's gas limit.
        available: u64,
    },
    /// A header field that execution cannot do without is missing.
    #[error("the header has no {field}, which a block of {fork} must have")]
    MissingField {
        /// The field.
        field: &'static str,
        /// The fork that asks for it.
        fork: &'static str,
    },
    /// An ommer is not one of the last generations.
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
    /// The header does not tell who sealed the block, who would be paid the fees.
    #[error(transparent)]
    Seal(#[from] CliqueError),
    /// A contract that the block must call failed.
    #[error("a system call failed: {reason}")]
    SystemCall {
        /// What went wrong.
        reason: String,
    },
    /// A contract that every block of Prague must call is not there.
    #[error(
        "there is no contract at {address}, which every block from Prague on must call for {purpose} (EIP-{eip}); put its \
         code into `alloc` of the chain's genesis file, as `polytrie bench generate` does, or deploy it in the first block of \
         Prague at the latest"
    )]
    NoSystemContract {
        /// Where it was looked for.
        address: Address,
        /// The purpose of the call.
        purpose: &'static str,
        /// Number of the EIP that asks for it.
        eip: u16,
    },
    /// A log of the deposit contract is not a deposit (EIP-6110).
    #[error("the deposit contract logged something that is not a deposit: {reason}")]
    Deposit {
        /// What went wrong.
        reason: String,
    },
    /// Another reason, in the words of the EVM.
    #[error("the block cannot be executed: {reason}")]
    Other {
        /// What went wrong.
        reason: String,
    },
}

/// The node failed while it executed a block.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum InternalError {
    /// The state could not be read or written.
    #[error(transparent)]
    State(#[from] StateError),
    /// The hash of an ancestor is not known.
    #[error("the hash of block {number} is not known, but BLOCKHASH asks for it")]
    MissingBlockHash {
        /// Number of the ancestor.
        number: u64,
    },
    /// The caller did not bring a sender for each transaction.
    #[error("found {found} senders for {expected} transactions")]
    SenderCount {
        /// Senders given.
        found: usize,
        /// Transactions in the block.
        expected: usize,
    },
    /// The EVM failed in a way that no block can cause.
    #[error("the EVM failed: {0}")]
    Evm(String),
}

impl DBErrorMarker for InternalError {}

impl ExecuteError {
    /// What an error of alloy-evm means, given what the database noticed and which transaction was
    /// under way.
    pub(super) fn new(
        error: BlockExecutionError,
        noticed: Option<&InternalError>,
        transaction: Option<(usize, B256)>,
    ) -> Self {
        // A system call reports a failed read as a failed call, so what the database noticed comes
        // first.
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
