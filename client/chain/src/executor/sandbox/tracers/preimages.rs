//! The inputs of hashes (`keccak256PreimageTracer`).

use super::{Context, Ending, Tracer};
use crate::executor::sandbox::TraceError;
use alloy_primitives::{B256, Bytes, U256, keccak256};
use revm::{
    Inspector,
    bytecode::opcode::KECCAK256,
    interpreter::{Interpreter, interpreter_types::Jumps},
};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Greatest number of zeros after the end of the memory that an input may have.
const PADDING: usize = 1 << 20;

/// Inputs of KECCAK256, by their hashes.
#[derive(Debug, Default)]
pub(super) struct Preimages {
    found: BTreeMap<B256, Bytes>,
}

impl Preimages {
    /// Returns the inputs, in ascending order.
    pub(super) fn into_inputs(self) -> Vec<Bytes> {
        let mut inputs: Vec<_> = self.found.into_values().collect();
        inputs.sort_unstable();
        inputs
    }
}

impl Inspector<Context<'_>> for Preimages {
    fn step(&mut self, interpreter: &mut Interpreter, _: &mut Context<'_>) {
        let Some((offset, length)) = hashed(interpreter) else { return };
        let there = interpreter.memory.len().saturating_sub(offset).min(length);
        let mut input = Vec::with_capacity(length);
        if there > 0 {
            input.extend_from_slice(&interpreter.memory.slice_len(offset, there));
        }
        input.resize(length, 0);
        self.found.insert(keccak256(&input), input.into());
    }
}

/// Returns offset and length of the input in memory if the next step is KECCAK256. As in geth the step counts whether
/// or not it can be paid, unless too much of the input is beyond the end of the memory.
pub(in crate::executor::sandbox) fn hashed(interpreter: &Interpreter) -> Option<(usize, usize)> {
    if interpreter.bytecode.opcode() != KECCAK256 {
        return None;
    }
    let word = |place| interpreter.stack.peek(place).ok().and_then(low_bits);
    let (offset, length) = (word(0)?, word(1)?);
    let behind = offset.checked_add(length)?.saturating_sub(interpreter.memory.len());
    (behind <= PADDING).then_some((offset, length))
}

/// Returns the last 63 bits of a word, the only ones that geth reads; `None` if the bit before them is set.
fn low_bits(word: U256) -> Option<usize> {
    let [low, ..] = word.into_limbs();
    i64::try_from(low).ok().and_then(|low| usize::try_from(low).ok())
}

impl Tracer for Preimages {
    fn finish(self: Box<Self>, _: &Ending<'_>) -> Result<Box<RawValue>, TraceError> {
        super::json(&self.found)
    }
}
