//! A call that takes too long.

use revm::{
    Inspector,
    context_interface::ContextTr,
    interpreter::{
        CallInputs, CallOutcome, InstructionResult, Interpreter, interpreter::EthInterpreter,
    },
};
use std::time::Instant;

/// Instructions between two looks at the clock.
const STEPS: u32 = 1024;

/// Ends a run at a moment, however much gas is left.
#[derive(Debug)]
pub(super) struct Deadline {
    at: Option<Instant>,
    steps: u32,
    over: bool,
}

impl Deadline {
    /// No run goes on after `at`; it may take as long as it likes if there is none.
    pub(super) const fn new(at: Option<Instant>) -> Self {
        Self { at, steps: 0, over: false }
    }

    /// Whether the run was ended.
    pub(super) const fn is_over(&self) -> bool {
        self.over
    }

    fn look(&mut self) {
        self.steps = 0;
        self.over = self.over || self.at.is_some_and(|at| Instant::now() >= at);
    }
}

impl<C: ContextTr> Inspector<C> for Deadline {
    fn step(&mut self, interpreter: &mut Interpreter<EthInterpreter>, _: &mut C) {
        self.steps += 1;
        if self.steps >= STEPS {
            self.look();
        }
        if self.over {
            interpreter.halt(InstructionResult::OutOfGas);
        }
    }

    fn call(&mut self, _: &mut C, _: &mut CallInputs) -> Option<CallOutcome> {
        // A precompile takes no step, and may take its time.
        self.look();
        None
    }
}
