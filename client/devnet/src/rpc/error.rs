//! Error answers of requests, and their codes.

use crate::{NodeError, PoolError};
use alloy_primitives::{B256, Bytes};
use jsonrpsee::types::{ErrorObject, ErrorObjectOwned};
use polytrie_chain::executor::{
    InternalError,
    sandbox::{
        CallError, CallOutcome, OverrideError, Refusal, RevertReason, panic_meaning, revert_reason,
    },
};
use polytrie_chain::{BuildError, ChainError};
use polytrie_state::StateError;

/// Code for invalid parameters.
const INVALID_PARAMS: i32 = -32602;
/// Code for a request that cannot be carried out.
const SERVER: i32 = -32000;
/// Code for a method that the state layer or the node does not support.
const UNSUPPORTED: i32 = -32004;
/// Code for a transaction that no block can include at current fees.
const REJECTED: i32 = -32003;
/// Code for a failure of the node.
const INTERNAL: i32 = -32603;
/// The message of a reverted call, without its reason.
pub(super) const REVERT_MESSAGE: &str = "execution reverted";
/// Code for a reverted call; the data have the reason.
const REVERTED: i32 = 3;

/// The error answer of a request.
#[derive(Debug, Clone)]
pub struct RpcError(ErrorObjectOwned);

/// The result of a request.
pub type RpcResult<T> = Result<T, RpcError>;

impl RpcError {
    /// Creates an error with any code.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self(ErrorObject::owned(code, message.into(), None::<()>))
    }

    /// Creates an error with any code and the hash of a transaction as its data.
    pub fn about(code: i32, message: impl Into<String>, hash: &B256) -> Self {
        Self(ErrorObject::owned(code, message.into(), Some(hash)))
    }

    /// Creates the error of invalid parameters.
    pub fn params(message: impl Into<String>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }

    /// Creates the error of a request that cannot be carried out.
    pub fn server(message: impl Into<String>) -> Self {
        Self::new(SERVER, message)
    }

    /// Creates the error of a missing block. Its code is that of [`Self::server`], as in the tests of execution-apis.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::server(message)
    }

    /// Creates the error of a method that the state layer does not support.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(UNSUPPORTED, message)
    }

    /// Logs a failure of the node, and creates its error.
    pub fn internal(error: &dyn std::fmt::Display) -> Self {
        tracing::error!("a request failed: {error}");
        Self::new(INTERNAL, error.to_string())
    }

    /// Creates the error of a reverted call.
    pub fn reverted(data: &Bytes) -> Self {
        Self(ErrorObject::owned(REVERTED, revert_message(data), Some(data)))
    }

    /// Creates the error of a call that halted or reverted.
    pub fn failed(outcome: &CallOutcome) -> Self {
        match &outcome.halt {
            Some(reason) => Self::server(reason.clone()),
            None => Self::reverted(&outcome.output),
        }
    }

    /// Returns the JSON-RPC code.
    pub fn code(&self) -> i32 {
        self.0.code()
    }

    /// Returns the message.
    pub fn message(&self) -> &str {
        self.0.message()
    }
}

/// Returns the message of a revert, with its reason if that is `Error(string)` or `Panic(uint256)`.
pub(super) fn revert_message(data: &Bytes) -> String {
    match revert_reason(data) {
        None => REVERT_MESSAGE.to_owned(),
        Some(RevertReason::Panic(code)) if panic_meaning(code).is_some() => {
            let meaning = panic_meaning(code).unwrap_or_default();
            format!("{REVERT_MESSAGE}: panic: {meaning} ({code:#04x})")
        }
        Some(reason) => format!("{REVERT_MESSAGE}: {}", reason.text()),
    }
}

impl From<RpcError> for ErrorObjectOwned {
    fn from(error: RpcError) -> Self {
        error.0
    }
}

impl From<NodeError> for RpcError {
    fn from(error: NodeError) -> Self {
        match error {
            NodeError::Pool(error) => error.into(),
            NodeError::ReadOnly | NodeError::Refused(_) | NodeError::Busy => {
                Self::server(error.to_string())
            }
            NodeError::Time(_) | NodeError::TooFew { .. } => Self::params(error.to_string()),
            NodeError::TakenBack { .. } => Self::not_found(error.to_string()),
            NodeError::Build(BuildError::Refused(_)) => Self::server(error.to_string()),
            NodeError::Build(BuildError::Broken(error)) | NodeError::Chain(error) => error.into(),
            NodeError::Genesis(error) => Self::internal(&error),
            NodeError::Failed(error) => Self::internal(&error),
        }
    }
}

impl From<PoolError> for RpcError {
    fn from(error: PoolError) -> Self {
        let is_low =
            matches!(error, PoolError::BelowBaseFee { .. } | PoolError::BelowBlobFee { .. });
        Self::new(if is_low { REJECTED } else { SERVER }, error.to_string())
    }
}

impl From<ChainError> for RpcError {
    fn from(error: ChainError) -> Self {
        match error {
            ChainError::NoUndo { .. }
            | ChainError::NotHere { .. }
            | ChainError::BeforeStart { .. }
            | ChainError::AboveHead { .. }
            | ChainError::TooLong { .. } => Self::server(error.to_string()),
            ChainError::State(error) => error.into(),
            error => Self::internal(&error),
        }
    }
}

impl From<StateError> for RpcError {
    fn from(error: StateError) -> Self {
        match error {
            StateError::Unsupported { .. } => Self::unsupported(error.to_string()),
            error => Self::internal(&error),
        }
    }
}

impl From<InternalError> for RpcError {
    fn from(error: InternalError) -> Self {
        match error {
            InternalError::State(error) => error.into(),
            error => Self::internal(&error),
        }
    }
}

impl From<Refusal> for RpcError {
    fn from(refusal: Refusal) -> Self {
        Self::server(refusal.message)
    }
}

impl From<CallError> for RpcError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(refusal) => refusal.into(),
            CallError::TooLong => Self::server(error.to_string()),
            CallError::Internal(error) => error.into(),
        }
    }
}

impl From<OverrideError> for RpcError {
    fn from(error: OverrideError) -> Self {
        match error {
            OverrideError::Internal(error) => error.into(),
            OverrideError::NoPrecompile(_) | OverrideError::Overridden(_) => {
                Self::server(error.to_string())
            }
            OverrideError::StateAndDiff(_) => Self::params(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::bytes;

    #[test]
    fn reverts_are_put_into_words() {
        let text = bytes!(
            "08c379a00000000000000000000000000000000000000000000000000000000000000020000000000000000000000000000000000000000000000000000000000000000a75736572206572726f72"
        );
        assert_eq!(revert_message(&text), "execution reverted: user error");
        let panic =
            bytes!("4e487b710000000000000000000000000000000000000000000000000000000000000011");
        assert_eq!(
            revert_message(&panic),
            "execution reverted: panic: arithmetic underflow or overflow (0x11)"
        );
        for other in [
            bytes!(""),
            bytes!("01"),
            bytes!("08c379a0"),
            bytes!("08c379a0ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"),
        ] {
            assert_eq!(revert_message(&other), "execution reverted");
        }
    }
}
