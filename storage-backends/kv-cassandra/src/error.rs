//! The errors of the driver as [`KvError`].

use polytrie_kv::KvError;
use scylla::errors::{DbError, ExecutionError, PrepareError, RequestAttemptError};
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

/// Whether a refusal may pass: Cassandra keeps passwords and rights in tables, and too few nodes answered to look there.
pub(crate) fn is_not_looked_up(said: &str) -> bool {
    ["Unable to perform authentication", "Unable to perform authorization"]
        .iter()
        .any(|words| said.contains(words))
}

/// Whether the same request would fail in the same way whenever it is repeated. Other errors may pass: nodes that do
/// not answer, too few replicas, broken connections.
pub(crate) fn is_final(error: &ExecutionError) -> bool {
    match error {
        ExecutionError::BadQuery(_) => true,
        ExecutionError::PrepareError(error) => is_unpreparable(error),
        ExecutionError::LastAttemptError(error) => is_refused(error),
        _ => false,
    }
}

/// Whether a statement cannot be prepared whenever that is tried: the nodes lack its table or a column. Nodes that do not
/// answer may be back soon.
pub(crate) fn is_unpreparable(error: &PrepareError) -> bool {
    matches!(error, PrepareError::AllAttemptsFailed { first_attempt } if is_refused(first_attempt))
}

fn is_refused(error: &RequestAttemptError) -> bool {
    match error {
        RequestAttemptError::SerializationError(_)
        | RequestAttemptError::CqlRequestSerialization(_)
        | RequestAttemptError::CqlResultParseError(_) => true,
        RequestAttemptError::DbError(error, said) => match error {
            DbError::SyntaxError | DbError::Invalid | DbError::ConfigError => true,
            DbError::Unauthorized | DbError::AuthenticationError => !is_not_looked_up(said),
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scylla::errors::ConnectionPoolError;

    #[test]
    fn a_right_that_is_not_looked_up_may_be_there() {
        let error = |said: &str| {
            let error = RequestAttemptError::DbError(DbError::Unauthorized, said.to_owned());
            ExecutionError::LastAttemptError(error)
        };
        assert!(is_final(&error("User reader has no MODIFY permission on <table a.b>")));
        let said = "Unable to perform authorization of permissions: Operation timed out";
        assert!(!is_final(&error(said)));
    }

    /// A command that only reads fails at once where tables are missing, and waits for nodes that are slow or away.
    #[test]
    fn what_is_not_prepared_now_may_be_later() {
        let failed = |first_attempt| PrepareError::AllAttemptsFailed { first_attempt };
        let said = |error, said: &str| failed(RequestAttemptError::DbError(error, said.to_owned()));
        assert!(is_unpreparable(&said(DbError::Invalid, "Keyspace 'polytrie' does not exist")));
        for passing in [
            said(DbError::Overloaded, "too many requests"),
            failed(RequestAttemptError::UnableToAllocStreamId),
            PrepareError::ConnectionPoolError(ConnectionPoolError::Initializing),
        ] {
            assert!(!is_unpreparable(&passing), "{passing}");
            assert!(!is_final(&ExecutionError::PrepareError(passing)));
        }
    }
}
