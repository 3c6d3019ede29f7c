//! Traces in the formats of Parity.

use super::{
    CallRequest, Replay, Sandbox, TraceError, budget::Budget, call::run, message::prepare_call,
    selfdestruct::Calls,
};
use alloy_consensus::TxEnvelope;
use alloy_primitives::{Address, B256, map::HashSet};
use alloy_rpc_types_eth::TransactionInfo;
use alloy_rpc_types_trace::parity::{LocalizedTransactionTrace, TraceResults, TraceType};
use revm::context_interface::result::ResultAndState;
use revm_inspectors::tracing::{TraceLimits, TracingInspector, TracingInspectorConfig};

/// Parts of a trace that the caller wants: calls, steps, changes of state.
pub type TraceTypes = HashSet<TraceType>;

/// Traces a call. The trace may take about `bytes`.
///
/// # Errors
///
/// Fails if the EVM refuses the call, the trace is too large, or the state cannot be read.
pub fn parity_trace_call(
    sandbox: &mut Sandbox,
    call: CallRequest<'_>,
    types: &TraceTypes,
    bytes: usize,
) -> Result<TraceResults, TraceError> {
    let rules = call.rules;
    let prepared = prepare_call(sandbox, call)?;
    let observers = (budget(types, bytes), calls(types, bytes));
    let (ran, (budget, calls)) = run(sandbox, &rules, prepared.env, prepared.tx, observers)?;
    left(&budget, &calls.record, types)?;
    results(calls.record, &ran, types, sandbox)
}

impl Replay<'_> {
    /// Traces the next transaction. The trace may take about `bytes`, and its size is subtracted from it.
    ///
    /// # Errors
    ///
    /// Fails if the trace is too large, the sandbox's time is over, or the state cannot be read.
    pub fn parity_trace(
        &mut self,
        tx: &TxEnvelope,
        sender: Address,
        types: &TraceTypes,
        bytes: &mut usize,
    ) -> Result<TraceResults, TraceError> {
        let observers = (budget(types, *bytes), calls(types, *bytes));
        let (ran, (budget, calls)) = self.run(tx, sender, observers)?;
        *bytes = left(&budget, &calls.record, types)?;
        let sandbox = self.sandbox();
        let results = results(calls.record, &ran, types, sandbox)?;
        self.keep(ran);
        Ok(results)
    }

    /// Returns the calls of the next transaction, which has the index `place.1` in the block with the hash `place.0`,
    /// as [`Self::parity_trace`] returns them: the gas before a transaction's first step is not part of its call. The
    /// trace may take about `bytes`, and its size is subtracted from it.
    ///
    /// # Errors
    ///
    /// Fails if the trace is too large, the sandbox's time is over, or the state cannot be read.
    pub fn parity_calls(
        &mut self,
        tx: &TxEnvelope,
        sender: Address,
        place: (B256, usize),
        bytes: &mut usize,
    ) -> Result<Vec<LocalizedTransactionTrace>, TraceError> {
        let calls = TracingInspector::new(TracingInspectorConfig::default_parity());
        let observers = (Budget::of_calls(*bytes), Calls::new(calls));
        let (ran, (budget, calls)) = self.run(tx, sender, observers)?;
        *bytes = budget.left().ok_or(TraceError::TooLarge)?;
        let info = TransactionInfo {
            hash: Some(*tx.tx_hash()),
            index: Some(place.1 as u64),
            block_hash: Some(place.0),
            block_number: Some(self.environment().block_env.number.saturating_to()),
            ..TransactionInfo::default()
        };
        let builder = calls.record.into_parity_builder();
        let traces = builder.into_localized_transaction_traces(info);
        self.keep(ran);
        Ok(traces)
    }
}

/// Returns the budget of a trace. Steps are kept only for a trace of the virtual machine.
fn budget(types: &TraceTypes, bytes: usize) -> Budget {
    match types.contains(&TraceType::VmTrace) {
        true => Budget::of_steps(bytes),
        false => Budget::of_calls(bytes),
    }
}

/// Returns the inspector of a trace. Only the inspector knows the bytes that steps write to memory; each takes two in
/// the answer.
fn calls(types: &TraceTypes, bytes: usize) -> Calls {
    let limits = TraceLimits::default().set_max_recorded_bytes(Some(bytes / 2));
    let record = TracingInspector::new(TracingInspectorConfig::from_parity_config(types));
    Calls::new(record.with_limits(limits))
}

/// Returns the bytes that are left, or an error if the trace took too many.
fn left(
    budget: &Budget,
    inspector: &TracingInspector,
    types: &TraceTypes,
) -> Result<usize, TraceError> {
    let left = budget.left().filter(|_| !inspector.limit_exceeded()).ok_or(TraceError::TooLarge)?;
    Ok(match types.contains(&TraceType::VmTrace) {
        true => left.saturating_sub(2 * inspector.recorded_bytes()),
        // The inspector has recorded only bytes that the budget has counted.
        false => left,
    })
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
