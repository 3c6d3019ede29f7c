//! Execution of one call.

use super::{
    Observer, Refusal, Sandbox, SandboxEvm, deadline::Deadline, message::prepare_call,
    refusal::refused,
};
use crate::executor::InternalError;
use alloy_consensus::Header;
use alloy_evm::{Evm, EvmEnv};
use alloy_primitives::{Bytes, Log};
use alloy_rpc_types_eth::{BlockOverrides, TransactionRequest};
use polytrie_chainspec::Rules;
use revm::{
    context::TxEnv,
    context_interface::result::{ExecutionResult, HaltReason, ResultAndState},
};
use revm_state_hooks::HookedEvm;
use thiserror::Error;

/// A call, the block that it runs in, and its options.
#[derive(Debug)]
pub struct CallRequest<'a> {
    /// Header of the block that gives the call its environment.
    pub header: &'a Header,
    /// Rules of the block.
    pub rules: Rules<'a>,
    /// Parameters of the call.
    pub request: TransactionRequest,
    /// Fields of the environment that the caller overrides.
    pub block: Option<&'a BlockOverrides>,
    /// Greatest gas limit of the call, which a call without a limit gets.
    pub gas_cap: u64,
}

/// Result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallOutcome {
    /// Whether it succeeded: neither reverted nor halted.
    pub success: bool,
    /// Returned data, or the data of a revert.
    pub output: Bytes,
    /// Gas used after refunds.
    pub gas_used: u64,
    /// Gas used before refunds: the least gas limit that could have sufficed.
    pub gas_spent: u64,
    /// Regular gas that it adds to its block where blocks count two kinds of gas (EIP-8037).
    pub regular_gas: u64,
    /// State gas that it adds to its block there.
    pub state_gas: u64,
    /// Logs of the call; empty unless it succeeded.
    pub logs: Vec<Log>,
    /// Reason of the halt; `None` if it did not halt.
    pub halt: Option<String>,
    /// Whether it halted because it ran out of gas.
    pub out_of_gas: bool,
}

impl CallOutcome {
    /// Whether it reverted, so that `output` is the data of the revert.
    pub fn reverted(&self) -> bool {
        !self.success && self.halt.is_none()
    }
}

/// Error of a call that did not run to its end.
#[derive(Debug, Clone, Error)]
pub enum CallError {
    /// A call that the EVM refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A call that did not end before the sandbox's deadline.
    #[error(
        "execution aborted: it takes longer than a call may; ask for less, or start the node with a larger --rpc.evmtimeout"
    )]
    TooLong,
    /// A failure of the node.
    #[error(transparent)]
    Internal(#[from] InternalError),
}

/// Runs a call on `sandbox` as `eth_call` does: nonces, the sender's code and the block's gas do not matter, and a call
/// without a gas price pays nothing.
///
/// # Errors
///
/// Fails if the EVM refuses the call or the state cannot be read. A call that reverts is no error.
pub fn call<I: Observer>(
    sandbox: &mut Sandbox,
    call: CallRequest<'_>,
    observer: I,
) -> Result<(CallOutcome, I), CallError> {
    let rules = call.rules;
    let prepared = prepare_call(sandbox, call)?;
    let (ran, observer) = run(sandbox, &rules, prepared.env, prepared.tx, observer)?;
    Ok((outcome(ran.result), observer))
}

/// Runs a transaction without keeping its changes.
pub(super) fn run<I: Observer>(
    sandbox: &mut Sandbox,
    rules: &Rules<'_>,
    env: EvmEnv,
    tx: TxEnv,
    observer: I,
) -> Result<(ResultAndState, I), CallError> {
    let precompiles = sandbox.precompiles(rules.spec_id());
    let observers = (Deadline::new(sandbox.deadline()), observer);
    let mut evm: SandboxEvm<'_, (Deadline, I)> =
        HookedEvm::with_inspector(sandbox, env, observers).with_precompiles(precompiles);
    if rules.is_eip1283() {
        evm = evm.with_eip1283();
    }
    let ran = evm
        .transact_raw(tx)
        .map_err(|error| refused(error).map_or_else(CallError::Internal, CallError::Refused))?;
    let (deadline, observer) = evm.into_inspector();
    if deadline.is_over() {
        return Err(CallError::TooLong);
    }
    Ok((ran, observer))
}

/// Converts the result of the EVM into the outcome of a call.
pub(super) fn outcome(result: ExecutionResult) -> CallOutcome {
    let gas_used = result.tx_gas_used();
    // The floor of EIP-7623 is not part of the gas that the EVM spends, but no gas limit may be below it.
    let gas_spent = result.gas().total_gas_spent().max(gas_used);
    let regular_gas = result.gas().block_regular_gas_used();
    let state_gas = result.gas().block_state_gas_used();
    let (success, output, logs, halt) = match result {
        ExecutionResult::Success { output, logs, .. } => (true, output.into_data(), logs, None),
        ExecutionResult::Revert { output, .. } => (false, output, Vec::new(), None),
        ExecutionResult::Halt { reason, .. } => (false, Bytes::new(), Vec::new(), Some(reason)),
    };
    let out_of_gas = matches!(halt, Some(HaltReason::OutOfGas(_)));
    CallOutcome {
        success,
        output,
        gas_used,
        gas_spent,
        regular_gas,
        state_gas,
        logs,
        halt: halt.map(|reason| halt_message(&reason)),
        out_of_gas,
    }
}

/// Returns the reason of a halt in the words that clients know from geth.
pub(in crate::executor) fn halt_message(reason: &HaltReason) -> String {
    match reason {
        HaltReason::OutOfGas(_) => "out of gas".to_owned(),
        HaltReason::OpcodeNotFound | HaltReason::NotActivated => "invalid opcode".to_owned(),
        HaltReason::InvalidFEOpcode => "invalid opcode: INVALID".to_owned(),
        HaltReason::InvalidJump => "invalid jump destination".to_owned(),
        HaltReason::StackUnderflow => "stack underflow".to_owned(),
        HaltReason::StackOverflow => "stack limit reached 1024 (1023)".to_owned(),
        HaltReason::OutOfFunds => "insufficient balance for transfer".to_owned(),
        HaltReason::CallTooDeep => "max call depth exceeded".to_owned(),
        HaltReason::CreateCollision => "contract address collision".to_owned(),
        HaltReason::CreateContractSizeLimit => "max code size exceeded".to_owned(),
        HaltReason::CreateInitCodeSizeLimit => "max initcode size exceeded".to_owned(),
        HaltReason::CreateContractStartingWithEF => {
            "invalid code: must not begin with 0xef".to_owned()
        }
        HaltReason::OutOfOffset => "return data out of bounds".to_owned(),
        HaltReason::NonceOverflow => "nonce uint64 overflow".to_owned(),
        HaltReason::PrecompileError => "precompile failed".to_owned(),
        HaltReason::PrecompileErrorWithContext(reason) => format!("precompile failed: {reason}"),
        other => format!("{other:?}"),
    }
}
