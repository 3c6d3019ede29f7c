//! A limit for the time of a call.

use revm::{
    Inspector,
    context_interface::ContextTr,
    interpreter::{
        CallInputs, CallOutcome, InstructionResult, Interpreter, interpreter::EthInterpreter,
    },
};
use std::time::Instant;

/// Number of instructions between two checks of the clock.
const STEPS: u32 = 1024;

/// Inspector that ends a run at its deadline, however much gas is left.
#[derive(Debug)]
pub(super) struct Deadline {
    at: Option<Instant>,
    steps: u32,
    over: bool,
}

impl Deadline {
    /// Returns an inspector that ends runs at `at`; `None` for no limit.
    pub(super) const fn new(at: Option<Instant>) -> Self {
        Self { at, steps: 0, over: false }
    }

    /// Whether it has ended the run.
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
        // A precompile has no steps, and may take long.
        self.look();
        None
    }
}
