//! The tracers of the library, where their answers are those of geth.

use super::{Context, Ending, Tracer};
use crate::executor::{InternalError, sandbox::TraceError};
use alloy_rpc_types_trace::geth::GethDebugTracingOptions;
use revm::{
    Inspector,
    interpreter::{CallInputs, CallOutcome, CreateInputs, CreateOutcome, Interpreter},
    primitives::{Address, Log, U256},
};
use revm_inspectors::tracing::{DebugInspector, DebugInspectorError, TransactionContext};
use serde_json::value::RawValue;

/// A tracer of the library.
#[derive(Debug)]
pub(super) struct Library(DebugInspector);

impl Library {
    pub(super) fn new(mut options: GethDebugTracingOptions) -> Result<Self, TraceError> {
        // Empty settings may be written as `null` or as `{}`.
        if options.tracer_config.0.as_object().is_some_and(|config| config.is_empty()) {
            options.tracer_config = Default::default();
        }
        let inspector = DebugInspector::new(options);
        inspector.map(Self).map_err(|error| TraceError::Tracer(error.to_string()))
    }
}

impl Tracer for Library {
    fn finish(mut self: Box<Self>, ending: &Ending<'_>) -> Result<Box<RawValue>, TraceError> {
        let place = ending.place.map(|place| TransactionContext {
            block_hash: place.block_hash,
            tx_index: Some(place.index),
            tx_hash: place.hash,
        });
        let Ending { tx, block, ran, mut before, .. } = *ending;
        let trace = self.0.get_result(place, tx, block, ran, &mut before).map_err(sorted)?;
        super::json(&trace)
    }
}

fn sorted(error: DebugInspectorError<InternalError>) -> TraceError {
    match error {
        DebugInspectorError::Database(error) => error.into(),
        other => TraceError::Tracer(other.to_string()),
    }
}

impl Inspector<Context<'_>> for Library {
    fn initialize_interp(&mut self, interpreter: &mut Interpreter, context: &mut Context<'_>) {
        self.0.initialize_interp(interpreter, context);
    }

    fn step(&mut self, interpreter: &mut Interpreter, context: &mut Context<'_>) {
        self.0.step(interpreter, context);
    }

    fn step_end(&mut self, interpreter: &mut Interpreter, context: &mut Context<'_>) {
        self.0.step_end(interpreter, context);
    }

    fn log(&mut self, context: &mut Context<'_>, log: Log) {
        self.0.log(context, log);
    }

    fn call(&mut self, context: &mut Context<'_>, inputs: &mut CallInputs) -> Option<CallOutcome> {
        self.0.call(context, inputs)
    }

    fn call_end(
        &mut self,
        context: &mut Context<'_>,
        inputs: &CallInputs,
        outcome: &mut CallOutcome,
    ) {
        self.0.call_end(context, inputs, outcome);
    }

    fn create(
        &mut self,
        context: &mut Context<'_>,
        inputs: &mut CreateInputs,
    ) -> Option<CreateOutcome> {
        self.0.create(context, inputs)
    }

    fn create_end(
        &mut self,
        context: &mut Context<'_>,
        inputs: &CreateInputs,
        outcome: &mut CreateOutcome,
    ) {
        self.0.create_end(context, inputs, outcome);
    }

    fn selfdestruct(&mut self, contract: Address, target: Address, value: U256) {
        Inspector::<Context<'_>>::selfdestruct(&mut self.0, contract, target, value);
    }
}
