//! Traces in the formats of geth.

use super::{
    CallError, CallRequest, Replay, Sandbox,
    budget::Budget,
    call::run,
    message::prepare_call,
    tracers::{Ending, Place, tracer},
};
use crate::executor::InternalError;
use alloy_consensus::TxEnvelope;
use alloy_evm::FromRecoveredTx;
use alloy_primitives::{Address, B256};
use alloy_rpc_types_trace::geth::GethDebugTracingOptions;
use revm::context::TxEnv;
use serde_json::value::RawValue;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Error of a trace.
#[derive(Debug, Clone, Error)]
pub enum TraceError {
    /// An unknown tracer, or wrong settings of one.
    #[error(
        "{0}; there are callTracer, flatCallTracer, prestateTracer, erc7562Tracer, keccak256PreimageTracer, 4byteTracer, opcountTracer, unigramTracer, bigramTracer, trigramTracer, muxTracer, noopTracer, and the struct logger if no tracer is named"
    )]
    Tracer(String),
    /// A time limit that is no duration.
    #[error("timeout is {0:?}, expected a duration such as \"5s\" or \"300ms\"")]
    Timeout(String),
    /// A trace that did not end within the time limit of its caller.
    #[error(
        "execution timeout: the trace takes longer than its `timeout`, {0:?}; name a longer one"
    )]
    OutOfTime(String),
    /// A trace that takes too many bytes.
    #[error(
        "the trace is larger than an answer may be; name a tracer that gathers less (callTracer), set `limit`, `disableStack` or `disableStorage`, or start the node with a larger --rpc.max-response"
    )]
    TooLarge,
    /// A call that was refused.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A failure of the node.
    #[error(transparent)]
    Internal(#[from] InternalError),
}

/// Traces a call. The trace may take about `bytes`.
///
/// # Errors
///
/// Fails if the tracer is unknown, the EVM refuses the call, the trace is too large, or the state cannot be read.
pub fn trace_call(
    sandbox: &mut Sandbox,
    call: CallRequest<'_>,
    options: GethDebugTracingOptions,
    bytes: usize,
) -> Result<Box<RawValue>, TraceError> {
    let limit = TimeLimit::new(&options)?;
    let budget = Budget::new(&options, bytes);
    let observer = tracer(options, 0, bytes)?;
    let rules = call.rules;
    let prepared = prepare_call(sandbox, call)?;
    let (tx, block) = (prepared.tx.clone(), prepared.env.block_env.clone());
    let before = limit.begin(sandbox);
    let ran = run(sandbox, &rules, prepared.env, prepared.tx, (budget, observer));
    let (ran, (budget, observer)) = limit.end(sandbox, before, ran)?;
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
    /// Traces the next transaction, which has the index `place.1` in the block with the hash `place.0`. The trace may
    /// take about `bytes`, and its size is subtracted from it.
    ///
    /// # Errors
    ///
    /// Fails if the tracer is unknown, the trace is too large, the sandbox's deadline is over, or the state cannot be
    /// read.
    pub fn trace(
        &mut self,
        tx: &TxEnvelope,
        sender: Address,
        place: (B256, usize),
        options: GethDebugTracingOptions,
        bytes: &mut usize,
    ) -> Result<Box<RawValue>, TraceError> {
        let limit = TimeLimit::new(&options)?;
        let budget = Budget::new(&options, *bytes);
        let observer = tracer(options, self.logs(), *bytes)?;
        let before = limit.begin(self.sandbox());
        let ran = self.run(tx, sender, (budget, observer));
        let (ran, (budget, observer)) = limit.end(self.sandbox(), before, ran)?;
        let left = budget.left().ok_or(TraceError::TooLarge)?;
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
        *bytes = left.min(bytes.saturating_sub(trace.get().len()));
        self.keep(ran);
        Ok(trace)
    }
}

/// Time limit that the caller of a trace sets. It can only shorten the sandbox's.
#[derive(Debug)]
struct TimeLimit(Option<(String, Duration)>);

impl TimeLimit {
    fn new(options: &GethDebugTracingOptions) -> Result<Self, TraceError> {
        let Some(text) = &options.timeout else { return Ok(Self(None)) };
        let time = duration(text).ok_or_else(|| TraceError::Timeout(text.clone()))?;
        Ok(Self(Some((text.clone(), time))))
    }

    /// Sets the deadline, from now on. Returns the sandbox's former deadline.
    fn begin(&self, sandbox: &mut Sandbox) -> Option<Instant> {
        let before = sandbox.deadline();
        if let Some((_, time)) = &self.0 {
            let end = Instant::now().checked_add(*time);
            sandbox.set_deadline(before.into_iter().chain(end).min());
        }
        before
    }

    /// Restores the sandbox's deadline. If the run was too long, returns the error of the limit that ended it.
    fn end<T>(
        self,
        sandbox: &mut Sandbox,
        before: Option<Instant>,
        ran: Result<T, CallError>,
    ) -> Result<T, TraceError> {
        sandbox.set_deadline(before);
        ran.map_err(|error| match (error, self.0) {
            (CallError::TooLong, Some((text, _)))
                if before.is_none_or(|before| Instant::now() < before) =>
            {
                TraceError::OutOfTime(text)
            }
            (error, _) => error.into(),
        })
    }
}

/// Parses a duration in Go's form: `5s`, `1m30s`, `1.5h`. A negative one counts as zero.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    let mut seconds = 0.0;
    loop {
        let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let number = &rest[..rest.len() - unit.len()];
        let end = unit.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(unit.len());
        let factor = match &unit[..end] {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        seconds += number.parse::<f64>().ok()? * factor;
        rest = &unit[end..];
        if rest.is_empty() {
            let seconds = if text.starts_with('-') { 0.0 } else { seconds };
            return Duration::try_from_secs_f64(seconds).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        for (good, millis) in [
            ("0", 0),
            ("5s", 5_000),
            ("300ms", 300),
            ("1m30s", 90_000),
            ("1.5h", 5_400_000),
            ("-2us", 0),
            ("1h2m3s4ms5us6ns", 3_723_004),
            (".5s", 500),
        ] {
            assert_eq!(duration(good).map(|time| time.as_millis()), Some(millis), "{good}");
        }
        for bad in ["", "x", "5", "s", "5 s", "5d", "1.2.3s", "5s1", "-", "1e3s", "5sx"] {
            assert_eq!(duration(bad), None, "{bad}");
        }
    }
}
