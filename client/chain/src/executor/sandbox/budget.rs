//! A limit for the size of a trace.

use super::tracers::hashed;
use alloy_primitives::{
    U256,
    map::{AddressMap, HashSet},
};
use alloy_rpc_types_trace::geth::{GethDebugTracerType, GethDebugTracingOptions};
use revm::{
    Inspector,
    bytecode::opcode::{SLOAD, SSTORE},
    context_interface::ContextTr,
    interpreter::{
        CallInputs, CallOutcome, CreateInputs, CreateOutcome, InstructionResult, Interpreter,
        interpreter::EthInterpreter,
        interpreter_types::{Jumps, LegacyBytecode},
    },
    primitives::Log,
};

/// Estimated bytes of a step, of a call and of a log without their data, between their size in memory and as text.
const STEP: usize = 200;
/// Estimated bytes of a word of the stack.
const STACK_WORD: usize = 32;
/// Estimated bytes of a slot with its value, which are written out in full.
const SLOT: usize = 140;

/// Inspector that ends a run when its trace takes more bytes than an answer may have, by an estimate.
#[derive(Debug)]
pub(super) struct Budget {
    left: usize,
    over: bool,
    /// Touched slots, if every step is kept.
    steps: Option<Slots>,
    /// Whether the inputs of hashes are kept.
    preimages: bool,
}

/// Touched slots by contract: every step that touches one shows all touched slots of its contract.
type Slots = AddressMap<HashSet<U256>>;

impl Budget {
    /// Returns a budget of `left` bytes for a trace with these options; the struct logger counts its own bytes.
    pub(super) fn new(options: &GethDebugTracingOptions, left: usize) -> Self {
        let name = options.tracer.as_ref().map_or("", GethDebugTracerType::as_str);
        let preimages = matches!(name, "keccak256PreimageTracer" | "erc7562Tracer" | "muxTracer");
        Self { left, over: false, steps: None, preimages }
    }

    /// Returns a budget of `left` bytes for a trace of every step with its stack and slots, and the code of every
    /// call.
    pub(super) fn of_steps(left: usize) -> Self {
        Self { left, over: false, steps: Some(Slots::default()), preimages: false }
    }

    /// Returns a budget of `left` bytes for a trace of calls only.
    pub(super) const fn of_calls(left: usize) -> Self {
        Self { left, over: false, steps: None, preimages: false }
    }

    /// Returns the bytes that are left; `None` if the trace took too many.
    pub(super) fn left(&self) -> Option<usize> {
        (!self.over).then_some(self.left)
    }

    fn take(&mut self, bytes: usize) {
        match self.left.checked_sub(bytes) {
            Some(left) => self.left = left,
            None => self.over = true,
        }
    }
}

fn step_size(slots: &mut Slots, interpreter: &Interpreter<EthInterpreter>) -> usize {
    let mut bytes = STEP + interpreter.stack.len() * STACK_WORD;
    if matches!(interpreter.bytecode.opcode(), SLOAD | SSTORE)
        && let Ok(slot) = interpreter.stack.peek(0)
    {
        let slots = slots.entry(interpreter.input.target_address).or_default();
        slots.insert(slot);
        bytes += slots.len() * SLOT;
    }
    bytes
}

impl<C: ContextTr> Inspector<C> for Budget {
    fn initialize_interp(&mut self, interpreter: &mut Interpreter<EthInterpreter>, _: &mut C) {
        if self.steps.is_some() {
            self.take(interpreter.bytecode.bytecode_len() * 2);
        }
    }

    fn step(&mut self, interpreter: &mut Interpreter<EthInterpreter>, _: &mut C) {
        if let Some(slots) = &mut self.steps {
            let bytes = step_size(slots, interpreter);
            self.take(bytes);
        }
        if self.preimages
            && let Some((_, length)) = hashed(interpreter)
        {
            self.take(length.saturating_mul(2).saturating_add(SLOT));
        }
        if self.over {
            interpreter.halt(InstructionResult::OutOfGas);
        }
    }

    fn log(&mut self, _: &mut C, log: Log) {
        self.take(STEP + log.data.data.len() * 2);
    }

    fn call(&mut self, _: &mut C, inputs: &mut CallInputs) -> Option<CallOutcome> {
        self.take(STEP + inputs.input.len() * 2);
        None
    }

    fn call_end(&mut self, _: &mut C, _: &CallInputs, outcome: &mut CallOutcome) {
        self.take(outcome.output().len() * 2);
    }

    fn create(&mut self, _: &mut C, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        self.take(STEP + inputs.init_code().len() * 2);
        None
    }

    fn create_end(&mut self, _: &mut C, _: &CreateInputs, outcome: &mut CreateOutcome) {
        self.take(outcome.output().len() * 2);
    }
}
