//! The errors of the driver as [`KvError`].

use polytrie_kv::KvError;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use std::fmt::Display;

/// Name of the engine on the command line and in errors.
pub(crate) const NAME: &str = "cassandra";

/// Makes the error of an action that failed.
pub(crate) fn failed(action: &'static str, reason: impl Display) -> KvError {
    KvError::Engine { engine: NAME, action, reason: reason.to_string() }
}

/// Makes the error of a row of the cluster that this crate does not write.
pub(crate) fn corrupt(reason: impl Display) -> KvError {
    KvError::Corrupt(format!("{NAME}: {reason}"))
}

/// Whether the same request would fail in the same way whenever it is repeated. Other errors may pass: nodes that do
/// not answer, too few replicas, broken connections.
pub(crate) fn is_final(error: &ExecutionError) -> bool {
    match error {
        ExecutionError::BadQuery(_) | ExecutionError::PrepareError(_) => true,
        ExecutionError::LastAttemptError(error) => match error {
            RequestAttemptError::SerializationError(_)
            | RequestAttemptError::CqlRequestSerialization(_)
            | RequestAttemptError::CqlResultParseError(_) => true,
            RequestAttemptError::DbError(error, _) => matches!(
                error,
                DbError::SyntaxError
                    | DbError::Invalid
                    | DbError::Unauthorized
                    | DbError::AuthenticationError
                    | DbError::ConfigError
            ),
            _ => false,
        },
        _ => false,
    }
}
