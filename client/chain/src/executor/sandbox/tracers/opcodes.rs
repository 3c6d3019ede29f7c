//! Counts of instructions, alone and in sequences.

use super::{Context, Ending, Tracer, fault::opcode_name};
use crate::executor::sandbox::TraceError;
use revm::{
    Inspector,
    context::{ContextTr, JournalTr},
    interpreter::{
        Interpreter,
        interpreter_types::{Jumps, LegacyBytecode},
    },
};
use serde_json::value::RawValue;
use std::collections::HashMap;

/// The unit that a tracer of instructions counts.
#[derive(Debug, Clone, Copy)]
pub(super) enum Counted {
    /// All steps (`opcountTracer`).
    Steps,
    /// Each instruction (`unigramTracer`).
    Single,
    /// Each instruction with the one before it (`bigramTracer`).
    Pairs,
    /// Each instruction with the two before it (`trigramTracer`).
    Triples,
}

/// Counter of instructions.
#[derive(Debug)]
pub(super) struct Opcodes {
    counted: Counted,
    steps: u64,
    /// Counts of sequences of up to three instructions; `None` for a place that the sequence does
    /// not have.
    seen: HashMap<[Option<u8>; 3], u64>,
    last: [Option<u8>; 2],
    depth: usize,
}

impl Opcodes {
    pub(super) fn new(counted: Counted) -> Self {
        Self { counted, steps: 0, seen: HashMap::new(), last: [None; 2], depth: 0 }
    }

    fn count(&mut self, key: [Option<u8>; 3]) {
        *self.seen.entry(key).or_default() += 1;
    }

    fn name(&self, key: [Option<u8>; 3]) -> String {
        let names = key.map(|opcode| opcode.map(opcode_name).unwrap_or_default());
        match self.counted {
            Counted::Steps | Counted::Single => names[2].clone(),
            Counted::Pairs => names[1..].join("-"),
            Counted::Triples => names.join("-"),
        }
    }
}

impl Inspector<Context<'_>> for Opcodes {
    fn step(&mut self, interpreter: &mut Interpreter, context: &mut Context<'_>) {
        // Empty code has no steps.
        if interpreter.bytecode.bytecode_len() == 0 {
            return;
        }
        self.steps += 1;
        let opcode = Some(interpreter.bytecode.opcode());
        let depth = context.journal_ref().depth();
        let is_same = std::mem::replace(&mut self.depth, depth) == depth;
        match self.counted {
            Counted::Steps => {}
            Counted::Single => self.count([None, None, opcode]),
            Counted::Pairs => {
                if is_same {
                    self.count([None, self.last[1], opcode]);
                }
                self.last[1] = opcode;
            }
            // The first instruction of a call, and the first one after it, is not counted.
            Counted::Triples if !is_same => self.last = [None; 2],
            Counted::Triples => {
                let [before, last] = self.last;
                self.count([before, last, opcode]);
                self.last = [last, opcode];
            }
        }
    }
}

impl Tracer for Opcodes {
    fn finish(self: Box<Self>, _: &Ending<'_>) -> Result<Box<RawValue>, TraceError> {
        if let Counted::Steps = self.counted {
            return super::json(&self.steps);
        }
        let named = self.seen.iter().map(|(key, count)| (self.name(*key), count));
        super::json(&named.collect::<std::collections::BTreeMap<_, _>>())
    }
}
