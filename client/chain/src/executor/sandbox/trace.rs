//! Traces in the forms of geth.

use super::{
    CallError, CallRequest, Replay, Sandbox,
    budget::Budget,
    call::{prepare_call, run},
    tracers::{Ending, Place, tracer},
};
use crate::executor::InternalError;
use alloy_consensus::TxEnvelope;
use alloy_evm::FromRecoveredTx;
use alloy_primitives::{Address, B256};
use alloy_rpc_types_trace::geth::GethDebugTracingOptions;
use revm::context::TxEnv;
use serde_json::value::RawValue;
use thiserror::Error;

/// There is no trace.
#[derive(Debug, Clone, Error)]
pub enum TraceError {
    /// The tracer is not known, or its settings are wrong.
    #[error(
        "{0}; there are callTracer, flatCallTracer, prestateTracer, erc7562Tracer, keccak256PreimageTracer, 4byteTracer, muxTracer, noopTracer, and the struct logger if no tracer is named"
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
) -> Result<Box<RawValue>, TraceError> {
    check_timeout(&options)?;
    let budget = Budget::new(&options, bytes);
    let observer = tracer(options, 0)?;
    let rules = call.rules;
    let prepared = prepare_call(sandbox, call).map_err(CallError::from)?;
    let (tx, block) = (prepared.tx.clone(), prepared.env.block_env.clone());
    let (ran, (budget, observer)) =
        run(sandbox, &rules, prepared.env, prepared.tx, (budget, observer))?;
    budget.left().ok_or(TraceError::TooLarge)?;
    observer.finish(&Ending {
        tx: &tx,
        block: &block,
        spec: rules.spec_id(),
        place: None,
        ran: &ran,
        before: sandbox,
    })
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
    ) -> Result<Box<RawValue>, TraceError> {
        check_timeout(&options)?;
        let budget = Budget::new(&options, *bytes);
        let observer = tracer(options, self.logs())?;
        let (ran, (budget, observer)) = self.run(tx, sender, (budget, observer))?;
        *bytes = budget.left().ok_or(TraceError::TooLarge)?;
        let block = self.environment().block_env;
        let place = Place {
            block_hash: Some(place.0),
            block_number: block.number.saturating_to(),
            hash: Some(*tx.tx_hash()),
            index: place.1,
        };
        let trace = observer.finish(&Ending {
            tx: &TxEnv::from_recovered_tx(tx, sender),
            block: &block,
            spec: self.spec_id(),
            place: Some(place),
            ran: &ran,
            before: self.sandbox(),
        })?;
        self.keep(ran);
        Ok(trace)
    }
}

fn check_timeout(options: &GethDebugTracingOptions) -> Result<(), TraceError> {
    match options.timeout.as_deref().filter(|timeout| !is_duration(timeout)) {
        Some(timeout) => Err(TraceError::Timeout(timeout.to_owned())),
        None => Ok(()),
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
