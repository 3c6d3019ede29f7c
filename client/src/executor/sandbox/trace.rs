//! Traces in the forms of geth.

use super::{
    CallError, CallRequest, Replay, Sandbox,
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
    /// The call was refused.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The node failed.
    #[error(transparent)]
    Internal(#[from] InternalError),
}

/// Traces a call.
///
/// # Errors
///
/// If there is no such tracer, the EVM refuses the call, or the state cannot be read.
pub fn trace_call(
    sandbox: &mut Sandbox,
    call: CallRequest<'_>,
    options: GethDebugTracingOptions,
) -> Result<GethTrace, TraceError> {
    let mut observer = tracer(options)?;
    let rules = call.rules;
    let prepared = prepare_call(sandbox, call).map_err(CallError::from)?;
    let (tx, block) = (prepared.tx.clone(), prepared.env.block_env.clone());
    let (ran, inspector) = run(sandbox, &rules, prepared.env, prepared.tx, observer)?;
    observer = inspector;
    observer.get_result(None, &tx, &block, &ran, sandbox).map_err(sorted)
}

impl Replay<'_> {
    /// Traces the next transaction, which is number `index` of the block with this hash.
    ///
    /// # Errors
    ///
    /// If there is no such tracer, or the state cannot be read.
    pub fn trace(
        &mut self,
        tx: &TxEnvelope,
        sender: Address,
        place: (B256, usize),
        options: GethDebugTracingOptions,
    ) -> Result<GethTrace, TraceError> {
        let (ran, mut observer) = self.run(tx, sender, tracer(options)?)?;
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
