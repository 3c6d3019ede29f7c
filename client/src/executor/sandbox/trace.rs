//! Traces in the forms of geth.

use super::{
    CallError, CallRequest, Replay, Sandbox,
    budget::Budget,
    call::{prepare_call, run},
};
use crate::executor::InternalError;
use alloy_consensus::TxEnvelope;
use alloy_evm::FromRecoveredTx;
use alloy_primitives::{Address, B256};
use alloy_rpc_types_trace::geth::{GethDebugTracingOptions, GethTrace};
use revm::{DatabaseCommit, context::TxEnv};
use revm_inspectors::tracing::{DebugInspector, DebugInspectorError, TransactionContext};
use thiserror::Error;

/// There is no trace.
#[derive(Debug, Clone, Error)]
pub enum TraceError {
    /// The tracer is not known, or its settings are wrong.
    #[error(
        "{0}; there are callTracer, prestateTracer, 4byteTracer, flatCallTracer, muxTracer, noopTracer, and the struct logger if no tracer is named"
    )]
    Tracer(String),
    /// It takes more bytes than it may.
    #[error(
        "the trace is larger than an answer may be; name a tracer that gathers less (callTracer), set `limit`, `disableStack` or `disableStorage`, or start the node with a larger --rpc.max-response"
    )]
    TooLarge,
    /// The call was refused.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The node failed.
    #[error(transparent)]
    Internal(#[from] InternalError),
}

/// Traces a call, as long as its trace takes about `bytes` at most.
///
/// # Errors
///
/// If there is no such tracer, the EVM refuses the call, the trace is too large, or the state cannot be read.
pub fn trace_call(
    sandbox: &mut Sandbox,
    call: CallRequest<'_>,
    options: GethDebugTracingOptions,
    bytes: usize,
) -> Result<GethTrace, TraceError> {
    let budget = Budget::new(&options, bytes);
    let observer = tracer(options)?;
    let rules = call.rules;
    let prepared = prepare_call(sandbox, call).map_err(CallError::from)?;
    let (tx, block) = (prepared.tx.clone(), prepared.env.block_env.clone());
    let (ran, (budget, mut observer)) =
        run(sandbox, &rules, prepared.env, prepared.tx, (budget, observer))?;
    budget.left().ok_or(TraceError::TooLarge)?;
    observer.get_result(None, &tx, &block, &ran, sandbox).map_err(sorted)
}

impl Replay<'_> {
    /// Traces the next transaction, which is number `place.1` of the block with the hash `place.0`. The trace may take
    /// about `bytes`; what it takes is subtracted from them.
    ///
    /// # Errors
    ///
    /// If there is no such tracer, the trace is too large, the sandbox's time is over, or the state cannot be read.
    pub fn trace(
        &mut self,
        tx: &TxEnvelope,
        sender: Address,
        place: (B256, usize),
        options: GethDebugTracingOptions,
        bytes: &mut usize,
    ) -> Result<GethTrace, TraceError> {
        let budget = Budget::new(&options, *bytes);
        let (ran, (budget, mut observer)) = self.run(tx, sender, (budget, tracer(options)?))?;
        *bytes = budget.left().ok_or(TraceError::TooLarge)?;
        let block = self.environment().block_env;
        let context = TransactionContext {
            block_hash: Some(place.0),
            tx_index: Some(place.1),
            tx_hash: Some(*tx.tx_hash()),
        };
        let tx = TxEnv::from_recovered_tx(tx, sender);
        let sandbox = self.sandbox();
        let trace =
            observer.get_result(Some(context), &tx, &block, &ran, sandbox).map_err(sorted)?;
        sandbox.commit(ran.state);
        Ok(trace)
    }
}

fn tracer(options: GethDebugTracingOptions) -> Result<DebugInspector, TraceError> {
    DebugInspector::new(options).map_err(|error| TraceError::Tracer(error.to_string()))
}

fn sorted(error: DebugInspectorError<InternalError>) -> TraceError {
    match error {
        DebugInspectorError::Database(error) => error.into(),
        other => TraceError::Tracer(other.to_string()),
    }
}
