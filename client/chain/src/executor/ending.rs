//! The reason why a transaction did not succeed.

use super::sandbox::{halt_message, revert_reason};
use alloy_primitives::Bytes;
use revm::context_interface::result::{ExecutionResult, HaltReason};
use std::fmt;

/// Greatest number of bytes of a revert's data that are shown.
const MOST_SHOWN: usize = 68;

/// Reason why an included transaction did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failed {
    /// A revert of a contract, with its data.
    Reverted(Bytes),
    /// A halt of the EVM.
    Halted(HaltReason),
}

impl Failed {
    /// Returns the reason why a run did not succeed; `None` if it did.
    pub(super) fn of(result: &ExecutionResult) -> Option<Self> {
        match result {
            ExecutionResult::Success { .. } => None,
            ExecutionResult::Revert { output, .. } => Some(Self::Reverted(output.clone())),
            ExecutionResult::Halt { reason, .. } => Some(Self::Halted(reason.clone())),
        }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Halted(reason) => f.write_str(&halt_message(reason)),
            Self::Reverted(data) => match revert_reason(data) {
                Some(reason) => write!(f, "reverted: {}", reason.text()),
                None if data.is_empty() => f.write_str("reverted"),
                None if data.len() <= MOST_SHOWN => write!(f, "reverted with {data}"),
                None => {
                    write!(f, "reverted with {} … ({} bytes)", data.slice(..MOST_SHOWN), data.len())
                }
            },
        }
    }
}
