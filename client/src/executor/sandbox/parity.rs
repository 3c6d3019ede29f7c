//! Traces in the forms of Parity.

use super::{
    CallError, CallRequest, Replay, Sandbox, TraceError,
    budget::Budget,
    call::{prepare_call, run},
};
use alloy_consensus::TxEnvelope;
use alloy_primitives::{Address, map::HashSet};
use alloy_rpc_types_trace::{
    geth::GethDebugTracingOptions,
    parity::{TraceResults, TraceType},
};
use revm::{DatabaseCommit, context_interface::result::ResultAndState};
use revm_inspectors::tracing::{TracingInspector, TracingInspectorConfig};

/// What is to be traced of a call: its calls, its steps, what it changes of the state.
pub type TraceTypes = HashSet<TraceType>;

/// Traces a call, as long as its trace takes about `bytes` at most.
///
/// # Errors
///
/// If the EVM refuses the call, the trace is too large, or the state cannot be read.
pub fn parity_trace_call(
    sandbox: &mut Sandbox,
    call: CallRequest<'_>,
    types: &TraceTypes,
    bytes: usize,
) -> Result<TraceResults, TraceError> {
    let rules = call.rules;
    let prepared = prepare_call(sandbox, call).map_err(CallError::from)?;
    let observers = (budget(types, bytes), inspector(types));
    let (ran, (budget, inspector)) = run(sandbox, &rules, prepared.env, prepared.tx, observers)?;
    budget.left().ok_or(TraceError::TooLarge)?;
    results(inspector, &ran, types, sandbox)
}

impl Replay<'_> {
    /// Traces the next transaction. The trace may take about `bytes`; what it takes is subtracted from them.
    ///
    /// # Errors
    ///
    /// If the trace is too large, the sandbox's time is over, or the state cannot be read.
    pub fn parity_trace(
        &mut self,
        tx: &TxEnvelope,
        sender: Address,
        types: &TraceTypes,
        bytes: &mut usize,
    ) -> Result<TraceResults, TraceError> {
        let observers = (budget(types, *bytes), inspector(types));
        let (ran, (budget, inspector)) = self.run(tx, sender, observers)?;
        *bytes = budget.left().ok_or(TraceError::TooLarge)?;
        let sandbox = self.sandbox();
        let results = results(inspector, &ran, types, sandbox)?;
        sandbox.commit(ran.state);
        Ok(results)
    }
}

/// Steps are kept for a trace of the virtual machine only.
fn budget(types: &TraceTypes, bytes: usize) -> Budget {
    match types.contains(&TraceType::VmTrace) {
        true => Budget::new(&GethDebugTracingOptions::default(), bytes),
        false => Budget::of_calls(bytes),
    }
}

fn inspector(types: &TraceTypes) -> TracingInspector {
    TracingInspector::new(TracingInspectorConfig::from_parity_config(types))
}

fn results(
    inspector: TracingInspector,
    ran: &ResultAndState,
    types: &TraceTypes,
    before: &Sandbox,
) -> Result<TraceResults, TraceError> {
    let builder = inspector.into_parity_builder();
    Ok(builder.into_trace_results_with_state(ran, types, before)?)
}
