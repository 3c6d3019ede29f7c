//! What is hashed (`keccak256PreimageTracer`).

use super::{Context, Ending, Tracer};
use crate::executor::sandbox::TraceError;
use alloy_primitives::{B256, Bytes, U256, keccak256};
use revm::{
    Inspector,
    bytecode::opcode::KECCAK256,
    interpreter::{
        Interpreter,
        interpreter_types::{Jumps, LoopControl},
    },
};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Gathers the inputs of KECCAK256 by their hashes.
#[derive(Debug, Default)]
pub(super) struct Preimages {
    /// Where in memory the step under way finds its input.
    step: Option<(U256, U256)>,
    found: BTreeMap<B256, Bytes>,
}

impl Preimages {
    /// The inputs, in ascending order.
    pub(super) fn into_inputs(self) -> Vec<Bytes> {
        let mut inputs: Vec<_> = self.found.into_values().collect();
        inputs.sort_unstable();
        inputs
    }
}

impl Inspector<Context<'_>> for Preimages {
    fn step(&mut self, interpreter: &mut Interpreter, _: &mut Context<'_>) {
        self.step = match interpreter.bytecode.opcode() {
            KECCAK256 => interpreter.stack.peek(0).ok().zip(interpreter.stack.peek(1).ok()),
            _ => None,
        };
    }

    fn step_end(&mut self, interpreter: &mut Interpreter, _: &mut Context<'_>) {
        let Some((offset, length)) = self.step.take() else { return };
        // A step that ran to its end has grown the memory to what it reads.
        if interpreter.bytecode.instruction_result().is_some() {
            return;
        }
        let (Ok(offset), Ok(length)) = (usize::try_from(offset), usize::try_from(length)) else {
            return;
        };
        let input = match length {
            0 => Bytes::new(),
            _ => Bytes::copy_from_slice(&interpreter.memory.slice_len(offset, length)),
        };
        self.found.insert(keccak256(&input), input);
    }
}

impl Tracer for Preimages {
    fn finish(self: Box<Self>, _: &Ending<'_>) -> Result<Box<RawValue>, TraceError> {
        super::json(&self.found)
    }
}
