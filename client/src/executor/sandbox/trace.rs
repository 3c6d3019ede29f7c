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
use alloy_rpc_types_trace::{
    geth::{GethDebugBuiltInTracerType, GethDebugTracingOptions, GethTrace, mux::MuxFrame},
    parity::TraceOutput,
};
use revm::{DatabaseCommit, context::TxEnv};
use revm_inspectors::tracing::{DebugInspector, DebugInspectorError, TransactionContext};
use serde_json::{Value, json};
use thiserror::Error;

/// There is no trace.
#[derive(Debug, Clone, Error)]
pub enum TraceError {
    /// The tracer is not known, or its settings are wrong.
    #[error(
        "{0}; there are callTracer, prestateTracer, 4byteTracer, flatCallTracer, muxTracer, noopTracer, and the struct logger if no tracer is named"
    )]
    Tracer(String),
    /// The time it may take is none.
    #[error("timeout is {0:?}, expected a duration such as \"5s\" or \"300ms\"")]
    Timeout(String),
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
    let trace = observer.get_result(None, &tx, &block, &ran, sandbox).map_err(sorted)?;
    Ok(with_gas_used(trace, ran.result.tx_gas_used()))
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
        Ok(with_gas_used(trace, ran.result.tx_gas_used()))
    }
}

/// A flat trace begins with the transaction, whose gas limit it has: what it used is that of the transaction as well, as
/// geth has it.
fn with_gas_used(mut trace: GethTrace, gas_used: u64) -> GethTrace {
    match &mut trace {
        GethTrace::FlatCallTracer(traces) => {
            match traces.first_mut().and_then(|first| first.trace.result.as_mut()) {
                Some(TraceOutput::Call(output)) => output.gas_used = gas_used,
                Some(TraceOutput::Create(output)) => output.gas_used = gas_used,
                None => {}
            }
        }
        GethTrace::MuxTracer(MuxFrame(frames)) => {
            for frame in frames.values_mut() {
                *frame = with_gas_used(std::mem::take(frame), gas_used);
            }
        }
        _ => {}
    }
    trace
}

fn tracer(mut options: GethDebugTracingOptions) -> Result<DebugInspector, TraceError> {
    if let Some(timeout) = options.timeout.as_deref().filter(|timeout| !is_duration(timeout)) {
        return Err(TraceError::Timeout(timeout.to_owned()));
    }
    if options.tracer == Some(GethDebugBuiltInTracerType::MuxTracer.into()) {
        level(&mut options.tracer_config.0);
    }
    DebugInspector::new(options).map_err(|error| TraceError::Tracer(error.to_string()))
}

/// No settings may be written as `null` or as `{}`; the library wants one for some tracers and the other for the rest.
fn level(settings: &mut Value) {
    for (tracer, settings) in settings.as_object_mut().into_iter().flatten() {
        let has_none = matches!(tracer.as_str(), "4byteTracer" | "noopTracer");
        let is_empty = settings.as_object().is_some_and(|settings| settings.is_empty());
        match settings {
            Value::Null if !has_none => *settings = json!({}),
            _ if has_none && is_empty => *settings = Value::Null,
            _ => {}
        }
    }
}

/// Whether a text is a duration as Go reads it: `5s`, `1m30s`, `1.5h`.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    loop {
        let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let number = &rest[..rest.len() - unit.len()];
        let end = unit.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(unit.len());
        let is_unit = matches!(&unit[..end], "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h");
        if !is_unit || number.parse::<f64>().is_err() {
            return false;
        }
        rest = &unit[end..];
        if rest.is_empty() {
            return true;
        }
    }
}

fn sorted(error: DebugInspectorError<InternalError>) -> TraceError {
    match error {
        DebugInspectorError::Database(error) => error.into(),
        other => TraceError::Tracer(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        for good in ["0", "5s", "300ms", "1m30s", "1.5h", "-2us", "1h2m3s4ms5us6ns", ".5s"] {
            assert!(is_duration(good), "{good}");
        }
        for bad in ["", "x", "5", "s", "5 s", "5d", "1.2.3s", "5s1", "-", "1e3s", "5sx"] {
            assert!(!is_duration(bad), "{bad}");
        }
    }
}
