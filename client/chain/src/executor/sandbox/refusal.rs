//! Why a transaction was not even begun.

use crate::executor::InternalError;
use revm::context_interface::result::{EVMError, InvalidTransaction};
use thiserror::Error;

/// A transaction or call that the EVM refuses, in the words and with the error codes of `eth_simulateV1`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct Refusal {
    /// Error code as `eth_simulateV1` defines it; −32000 where it defines none.
    pub code: i32,
    /// What was found and expected.
    pub message: String,
}

impl Refusal {
    /// A refusal without a code of its own.
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
            E::CallerGasLimitMoreThanBlock => (-38015, "block gas limit reached".to_owned()),
            E::RejectCallerWithCode => (-38024, "sender not an eoa".to_owned()),
            E::CreateInitCodeSizeLimit => (-38025, "max initcode size exceeded".to_owned()),
            E::NonceOverflowInTransaction => (-32000, "nonce has max value".to_owned()),
            E::PriorityFeeGreaterThanMaxFee => {
                (-32000, "max priority fee per gas higher than max fee per gas".to_owned())
            }
            other => (-32000, other.to_string()),
        };
        Self { code, message }
    }
}

/// What stopped the EVM: the transaction, or the node.
pub(super) fn refused(error: EVMError<InternalError>) -> Result<Refusal, InternalError> {
    match error {
        EVMError::Transaction(invalid) => Ok(invalid.into()),
        EVMError::Database(internal) => Err(internal),
        EVMError::Header(error) => Ok(Refusal::new(error.to_string())),
        EVMError::Custom(error) => Ok(Refusal::new(error)),
        other => Err(InternalError::Evm(other.to_string())),
    }
}
