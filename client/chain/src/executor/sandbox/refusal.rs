//! The refusal of a transaction before its first instruction.

use crate::executor::InternalError;
use revm::context_interface::result::{EVMError, InvalidTransaction};
use thiserror::Error;

/// Refusal of a transaction or call by the EVM, in the words and with the error codes of
/// `eth_simulateV1`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct Refusal {
    /// Error code of `eth_simulateV1`.
    pub code: i32,
    /// Found and expected value, in words.
    pub message: String,
}

impl Refusal {
    /// Returns a refusal of the request before it reaches the EVM.
    pub fn new(message: impl Into<String>) -> Self {
        Self { code: -32000, message: message.into() }
    }
}

impl From<InvalidTransaction> for Refusal {
    fn from(error: InvalidTransaction) -> Self {
        use InvalidTransaction as E;
        let (code, message) = match &error {
            E::NonceTooLow { tx, state } => {
                (-38010, format!("nonce too low: next nonce {state}, tx nonce {tx}"))
            }
            E::NonceTooHigh { tx, state } => {
                (-38011, format!("nonce too high: next nonce {state}, tx nonce {tx}"))
            }
            E::GasPriceLessThanBasefee => {
                (-38012, "max fee per gas less than block base fee".to_owned())
            }
            E::CallGasCostMoreThanGasLimit { initial_gas, gas_limit } => {
                (-38013, format!("intrinsic gas too low: have {gas_limit}, want {initial_gas}"))
            }
            E::GasFloorMoreThanGasLimit { gas_floor, gas_limit } => (
                -38013,
                format!(
                    "insufficient gas for floor data gas cost: have {gas_limit}, want {gas_floor}"
                ),
            ),
            E::LackOfFundForMaxFee { fee, balance } => (
                -38014,
                format!("insufficient funds for gas * price + value: have {balance}, want {fee}"),
            ),
            E::OverflowPaymentInTransaction => (
                -38014,
                "insufficient funds for gas * price + value: required balance exceeds 256 bits"
                    .to_owned(),
            ),
            E::CallerGasLimitMoreThanBlock => (-38015, "block gas limit reached".to_owned()),
            E::RejectCallerWithCode => (-38024, "sender not an eoa".to_owned()),
            E::CreateInitCodeSizeLimit => (-38025, "max initcode size exceeded".to_owned()),
            E::NonceOverflowInTransaction => (-32603, "nonce has max value".to_owned()),
            E::PriorityFeeGreaterThanMaxFee => {
                (-32602, "max priority fee per gas higher than max fee per gas".to_owned())
            }
            // geth and the tests of execution-apis have this code for every error without one.
            other => (-32603, other.to_string()),
        };
        Self { code, message }
    }
}

/// Sorts an error of the EVM: a refusal of the transaction, or a failure of the node.
pub(super) fn refused(error: EVMError<InternalError>) -> Result<Refusal, InternalError> {
    match error {
        EVMError::Transaction(invalid) => Ok(invalid.into()),
        EVMError::Database(internal) => Err(internal),
        EVMError::Header(error) => Ok(Refusal::new(error.to_string())),
        EVMError::Custom(error) => Ok(Refusal::new(error)),
        other => Err(InternalError::Evm(other.to_string())),
    }
}
