//! SELFDESTRUCT, of which the EVM does not always tell an inspector.
//!
//! From Cancun on it says nothing where the heir is the contract itself, unless the contract was created in the same
//! transaction. geth and Erigon show these, too.

use super::tracers::Context;
use alloy_primitives::{Address, Log, U256};
use revm::{
    Inspector,
    bytecode::opcode::SELFDESTRUCT,
    context_interface::{ContextTr, JournalTr},
    interpreter::{
        CallInputs, CallOutcome, CreateInputs, CreateOutcome, InstructionResult, Interpreter,
        interpreter_types::{Jumps, LoopControl},
    },
};
use revm_inspectors::tracing::TracingInspector;

/// Contract, heir and balance.
pub(super) type Destruction = (Address, Address, U256);

/// Returns the destruction that the current step is about to do, if it is a SELFDESTRUCT.
pub(super) fn begun<C: ContextTr>(
    interpreter: &Interpreter,
    context: &mut C,
) -> Option<Destruction> {
    if interpreter.bytecode.opcode() != SELFDESTRUCT {
        return None;
    }
    let contract = interpreter.input.target_address;
    let heir = interpreter.stack.peek(0).unwrap_or_default();
    let account = context.journal_mut().load_account(contract);
    let balance = account.map_or(U256::ZERO, |account| account.data.info.balance);
    Some((contract, Address::from_word(heir.into()), balance))
}

/// Whether the step that has just ended was a SELFDESTRUCT that succeeded.
pub(super) fn is_done(interpreter: &mut Interpreter) -> bool {
    interpreter.bytecode.instruction_result() == Some(InstructionResult::SelfDestruct)
}

/// The library's record of calls, which hears of every SELFDESTRUCT.
#[derive(Debug)]
pub(super) struct Calls {
    pub(super) record: TracingInspector,
    begun: Option<Destruction>,
}

impl Calls {
    pub(super) const fn new(record: TracingInspector) -> Self {
        Self { record, begun: None }
    }
}

impl Inspector<Context<'_>> for Calls {
    fn initialize_interp(&mut self, interpreter: &mut Interpreter, context: &mut Context<'_>) {
        self.record.initialize_interp(interpreter, context);
    }

    fn step(&mut self, interpreter: &mut Interpreter, context: &mut Context<'_>) {
        self.begun = begun(interpreter, context);
        self.record.step(interpreter, context);
    }

    fn step_end(&mut self, interpreter: &mut Interpreter, context: &mut Context<'_>) {
        self.record.step_end(interpreter, context);
        if let Some((contract, heir, balance)) = self.begun.take().filter(|_| is_done(interpreter))
        {
            Inspector::<Context<'_>>::selfdestruct(&mut self.record, contract, heir, balance);
        }
    }

    fn log(&mut self, context: &mut Context<'_>, log: Log) {
        self.record.log(context, log);
    }

    fn call(&mut self, context: &mut Context<'_>, inputs: &mut CallInputs) -> Option<CallOutcome> {
        self.record.call(context, inputs)
    }

    fn call_end(
        &mut self,
        context: &mut Context<'_>,
        inputs: &CallInputs,
        outcome: &mut CallOutcome,
    ) {
        self.record.call_end(context, inputs, outcome);
    }

    fn create(
        &mut self,
        context: &mut Context<'_>,
        inputs: &mut CreateInputs,
    ) -> Option<CreateOutcome> {
        self.record.create(context, inputs)
    }

    fn create_end(
        &mut self,
        context: &mut Context<'_>,
        inputs: &CreateInputs,
        outcome: &mut CreateOutcome,
    ) {
        self.record.create_end(context, inputs, outcome);
    }
}
