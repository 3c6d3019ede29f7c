//! How often which instructions ran, alone and one after the other.

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

/// What is counted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Counted {
    /// All steps (`opcountTracer`).
    Steps,
    /// Each instruction (`unigramTracer`).
    Single,
    /// Each with the one before it (`bigramTracer`).
    Pairs,
    /// Each with the two before it (`trigramTracer`).
    Triples,
}

/// Counts instructions.
#[derive(Debug)]
pub(super) struct Opcodes {
    counted: Counted,
    steps: u64,
    /// The last instructions and the count; an instruction that is not there yet has no name.
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
        // No code is not run at all.
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
            // The first one of a call, and the first after it, is not looked at.
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
