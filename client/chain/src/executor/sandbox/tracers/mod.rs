//! The tracers of geth, which a caller chooses with `tracer` and `tracerConfig`. They gather their answer while a
//! transaction runs.
//!
//! Where the library `revm-inspectors` answers as geth does, its tracers are used ([`Library`]). The others are
//! implemented here, and answer in geth's words.

mod calls;
mod erc7562;
mod fault;
mod flat;
mod library;
mod opcodes;
mod preimages;
mod prestate;
mod step;
mod struct_logs;

use super::{Sandbox, TraceError};
use crate::executor::InternalError;
use alloy_evm::eth::EthEvmContext;
use alloy_primitives::B256;
use alloy_rpc_types_trace::geth::GethDebugTracingOptions;
use calls::Calls;
use erc7562::Erc7562;
use library::Library;
use opcodes::{Counted, Opcodes};
use preimages::Preimages;
pub(super) use preimages::hashed;
use prestate::Prestate;
use revm::{
    Inspector,
    context::{BlockEnv, TxEnv},
    context_interface::result::ResultAndState,
    interpreter::{CallInputs, CallOutcome, CreateInputs, CreateOutcome, Interpreter},
    primitives::{Address, Log, U256, hardfork::SpecId},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};
use std::{collections::BTreeMap, fmt::Debug};
use struct_logs::StructLogs;

/// Context of the EVM on a sandbox.
pub(super) type Context<'a> = EthEvmContext<&'a mut Sandbox>;

/// Place of a transaction in the chain.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    pub(super) block_hash: Option<B256>,
    pub(super) block_number: u64,
    pub(super) hash: Option<B256>,
    pub(super) index: usize,
}

/// A transaction after its run.
#[derive(Debug)]
pub(super) struct Ending<'a> {
    pub(super) tx: &'a TxEnv,
    pub(super) block: &'a BlockEnv,
    pub(super) spec: SpecId,
    /// Place in the chain; `None` for a call.
    pub(super) place: Option<Place>,
    pub(super) ran: &'a ResultAndState,
    /// State before it.
    pub(super) before: &'a Sandbox,
}

/// An inspector that returns a trace at the end.
pub(super) trait Tracer: for<'a> Inspector<Context<'a>> + Debug {
    /// Returns the trace.
    fn finish(self: Box<Self>, ending: &Ending<'_>) -> Result<Box<RawValue>, TraceError>;
}

/// Returns the requested tracer. `logs_before` is the number of logs of the block before the transaction, and `bytes`
/// the greatest size of the answer.
pub(super) fn tracer(
    options: GethDebugTracingOptions,
    logs_before: u64,
    bytes: usize,
) -> Result<Box<dyn Tracer>, TraceError> {
    let name = options.tracer.as_ref().map(|tracer| tracer.as_str().to_owned());
    let config = options.tracer_config.0.clone();
    Ok(match name.as_deref() {
        Some("callTracer") => Box::new(Calls::new(settings(config)?, logs_before)),
        Some("flatCallTracer") => Box::new(Calls::flat(settings(config)?)),
        Some("prestateTracer") => Box::new(Prestate::new(settings(config)?, bytes)?),
        Some("erc7562Tracer") => Box::new(Erc7562::new(settings(config)?, logs_before)),
        Some("keccak256PreimageTracer") => Box::new(Preimages::default()),
        Some("muxTracer") => Box::new(Mux::new(settings(config)?, &options, logs_before, bytes)?),
        Some("opcountTracer") => Box::new(Opcodes::new(Counted::Steps)),
        Some("unigramTracer") => Box::new(Opcodes::new(Counted::Single)),
        Some("bigramTracer") => Box::new(Opcodes::new(Counted::Pairs)),
        Some("trigramTracer") => Box::new(Opcodes::new(Counted::Triples)),
        None | Some("") => Box::new(StructLogs::new(&options.config, bytes)),
        _ => Box::new(Library::new(options)?),
    })
}

/// Parses the settings of a tracer; `null` stands for the defaults.
fn settings<T: DeserializeOwned + Default>(config: Value) -> Result<T, TraceError> {
    match config {
        Value::Null => Ok(T::default()),
        config => parsed(config),
    }
}

fn parsed<T: DeserializeOwned>(config: Value) -> Result<T, TraceError> {
    serde_json::from_value(config)
        .map_err(|error| TraceError::Tracer(format!("tracerConfig is wrong: {error}")))
}

fn json(answer: &impl Serialize) -> Result<Box<RawValue>, TraceError> {
    to_raw_value(answer).map_err(unwritten)
}

/// Returns the error of an answer that cannot be serialised.
fn unwritten(error: serde_json::Error) -> TraceError {
    InternalError::Evm(error.to_string()).into()
}

/// Several tracers at once (`muxTracer`).
#[derive(Debug)]
struct Mux(BTreeMap<String, Box<dyn Tracer>>);

impl Mux {
    fn new(
        wanted: BTreeMap<String, Value>,
        options: &GethDebugTracingOptions,
        logs_before: u64,
        bytes: usize,
    ) -> Result<Self, TraceError> {
        let each = wanted.into_iter().map(|(name, config)| {
            if matches!(name.as_str(), "" | "muxTracer") {
                let reason = "a muxTracer holds neither another one nor the struct logger";
                return Err(TraceError::Tracer(reason.to_owned()));
            }
            let mut options = options.clone();
            options.tracer = Some(parsed(Value::String(name.clone()))?);
            options.tracer_config.0 = config;
            Ok((name, tracer(options, logs_before, bytes)?))
        });
        each.collect::<Result<_, _>>().map(Self)
    }
}

impl Tracer for Mux {
    fn finish(self: Box<Self>, ending: &Ending<'_>) -> Result<Box<RawValue>, TraceError> {
        let each = self.0.into_iter().map(|(name, tracer)| Ok((name, tracer.finish(ending)?)));
        json(&each.collect::<Result<BTreeMap<_, _>, TraceError>>()?)
    }
}

impl Inspector<Context<'_>> for Mux {
    fn initialize_interp(&mut self, interpreter: &mut Interpreter, context: &mut Context<'_>) {
        self.0.values_mut().for_each(|one| one.initialize_interp(interpreter, context));
    }

    fn step(&mut self, interpreter: &mut Interpreter, context: &mut Context<'_>) {
        self.0.values_mut().for_each(|one| one.step(interpreter, context));
    }

    fn step_end(&mut self, interpreter: &mut Interpreter, context: &mut Context<'_>) {
        self.0.values_mut().for_each(|one| one.step_end(interpreter, context));
    }

    fn log(&mut self, context: &mut Context<'_>, log: Log) {
        self.0.values_mut().for_each(|one| one.log(context, log.clone()));
    }

    fn call(&mut self, context: &mut Context<'_>, inputs: &mut CallInputs) -> Option<CallOutcome> {
        for one in self.0.values_mut() {
            one.call(context, inputs);
        }
        None
    }

    fn call_end(
        &mut self,
        context: &mut Context<'_>,
        inputs: &CallInputs,
        outcome: &mut CallOutcome,
    ) {
        self.0.values_mut().for_each(|one| one.call_end(context, inputs, outcome));
    }

    fn create(
        &mut self,
        context: &mut Context<'_>,
        inputs: &mut CreateInputs,
    ) -> Option<CreateOutcome> {
        for one in self.0.values_mut() {
            one.create(context, inputs);
        }
        None
    }

    fn create_end(
        &mut self,
        context: &mut Context<'_>,
        inputs: &CreateInputs,
        outcome: &mut CreateOutcome,
    ) {
        self.0.values_mut().for_each(|one| one.create_end(context, inputs, outcome));
    }

    fn selfdestruct(&mut self, contract: Address, target: Address, value: U256) {
        for one in self.0.values_mut() {
            Inspector::<Context<'_>>::selfdestruct(one, contract, target, value);
        }
    }
}
