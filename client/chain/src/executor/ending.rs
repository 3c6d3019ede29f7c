//! Why a transaction did not succeed.

use super::sandbox::{halt_message, revert_reason};
use alloy_primitives::Bytes;
use revm::context_interface::result::{ExecutionResult, HaltReason};
use std::fmt;

/// Bytes of what a revert returned that are shown.
const MOST_SHOWN: usize = 68;

/// Why a transaction that was included did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failed {
    /// A contract reverted, and returned this.
    Reverted(Bytes),
    /// The EVM stopped it.
    Halted(HaltReason),
}

impl Failed {
    /// Why a run did not succeed; `None` if it did.
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
