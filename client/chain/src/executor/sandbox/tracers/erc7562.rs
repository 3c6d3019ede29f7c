//! What the rules of ERC-7562 want to know of each call (`erc7562Tracer`).

use super::{
    Context, Ending, Tracer,
    calls::{Calls, CallsConfig},
    preimages::Preimages,
};
use crate::executor::{InternalError, sandbox::TraceError};
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U64, U256};
use alloy_rpc_types_trace::geth::CallFrame;
use revm::{
    Inspector,
    bytecode::opcode::{
        ADD, AND, CALL, CALLCODE, DELEGATECALL, DIV, EQ, EXTCODECOPY, EXTCODEHASH, EXTCODESIZE,
        GAS, GT, ISZERO, LT, MUL, NOT, OR, POP, PUSH0, RETURN, REVERT, SGT, SHL, SHR, SLOAD, SLT,
        SSTORE, STATICCALL, SUB, SWAP16, TLOAD, TSTORE,
    },
    context_interface::{ContextTr, JournalTr},
    interpreter::{
        CallInputs, CallOutcome, CreateInputs, CreateOutcome, InstructionResult, Interpreter,
        interpreter_types::{Jumps, LoopControl},
    },
    primitives::Log,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};

/// What is wanted of the calls.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Erc7562Config {
    ignored_opcodes: Option<Vec<U64>>,
    with_log: bool,
}

/// Gathers calls, and what each of them used.
#[derive(Debug)]
pub(super) struct Erc7562 {
    calls: Calls,
    preimages: Preimages,
    ignored: BTreeSet<u8>,
    /// The calls under way.
    open: Vec<Used>,
    root: Used,
    /// The step before, with the word on top of its stack.
    last: Option<(u8, U256)>,
    step: (u8, U256),
}

/// What one call used.
#[derive(Debug, Default)]
struct Used {
    slots: Slots,
    ext_code: Vec<Address>,
    opcodes: BTreeMap<u8, u64>,
    /// The hash of each contract's code, and the instruction that looked first.
    contracts: BTreeMap<Address, (B256, u8)>,
    out_of_gas: bool,
    calls: Vec<Self>,
}

#[derive(Debug, Default, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct Slots {
    reads: BTreeMap<B256, Vec<B256>>,
    writes: BTreeMap<B256, u64>,
    transient_reads: BTreeMap<B256, u64>,
    transient_writes: BTreeMap<B256, u64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    #[serde(flatten)]
    frame: CallFrame,
    accessed_slots: Slots,
    ext_code_access_info: Vec<Address>,
    used_opcodes: BTreeMap<U64, u64>,
    contract_size: BTreeMap<Address, ContractSize>,
    out_of_gas: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    keccak: Vec<Bytes>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    calls: Vec<Self>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ContractSize {
    contract_size: usize,
    opcode: u8,
}

impl Erc7562 {
    pub(super) fn new(config: Erc7562Config, logs_before: u64) -> Self {
        let calls = CallsConfig { only_top_call: false, with_log: config.with_log };
        let ignored = match config.ignored_opcodes {
            Some(opcodes) => opcodes.into_iter().map(|opcode| opcode.saturating_to()).collect(),
            None => (PUSH0..=SWAP16)
                .chain([POP, ADD, SUB, MUL, DIV, EQ, LT, GT, SLT, SGT, SHL, SHR, AND, OR, NOT])
                .chain([ISZERO])
                .collect(),
        };
        Self {
            calls: Calls::new(calls, logs_before),
            preimages: Preimages::default(),
            ignored,
            open: Vec::new(),
            root: Used::default(),
            last: None,
            step: (0, U256::ZERO),
        }
    }

    fn end(&mut self, result: InstructionResult) {
        let Some(mut used) = self.open.pop() else { return };
        match self.open.last_mut() {
            Some(parent) => {
                used.out_of_gas =
                    matches!(result, InstructionResult::OutOfGas | InstructionResult::MemoryOOG);
                parent.calls.push(used);
            }
            None => self.root = used,
        }
    }
}

const fn is_ext(opcode: u8) -> bool {
    matches!(opcode, EXTCODESIZE | EXTCODECOPY | EXTCODEHASH)
}

const fn is_call(opcode: u8) -> bool {
    matches!(opcode, CALL | CALLCODE | DELEGATECALL | STATICCALL)
}

impl Used {
    fn shown(self, mut frame: CallFrame, ending: &Ending<'_>) -> Result<Shown, InternalError> {
        let mut used = self.calls.into_iter();
        let mut calls = Vec::with_capacity(frame.calls.len());
        for call in std::mem::take(&mut frame.calls) {
            // A destroyed contract stands among the calls, and runs nothing.
            let used = match call.typ.as_str() {
                "SELFDESTRUCT" => Self::default(),
                _ => used.next().unwrap_or_default(),
            };
            calls.push(used.shown(call, ending)?);
        }
        let mut contract_size = BTreeMap::new();
        for (address, (hash, opcode)) in self.contracts {
            let code = ending.before.code(&hash)?.or_else(|| {
                let account = ending.ran.state.get(&address)?;
                account.info.code.as_ref().map(|code| code.original_bytes())
            });
            let size = code.unwrap_or_default().len();
            contract_size.insert(address, ContractSize { contract_size: size, opcode });
        }
        let opcodes = self.opcodes.into_iter();
        Ok(Shown {
            frame,
            accessed_slots: self.slots,
            ext_code_access_info: self.ext_code,
            used_opcodes: opcodes.map(|(opcode, count)| (U64::from(opcode), count)).collect(),
            contract_size,
            out_of_gas: self.out_of_gas,
            keccak: Vec::new(),
            calls,
        })
    }
}

impl Inspector<Context<'_>> for Erc7562 {
    fn step(&mut self, interpreter: &mut Interpreter, context: &mut Context<'_>) {
        self.calls.step(interpreter, context);
        self.preimages.step(interpreter, context);
        let opcode = interpreter.bytecode.opcode();
        let top = interpreter.stack.peek(0).unwrap_or_default();
        if matches!(opcode, RETURN | REVERT) {
            self.last = None;
        }
        let last = self.last.replace((opcode, top));
        self.step = (opcode, top);
        let Some(used) = self.open.last_mut() else { return };
        if let Some((before, word)) = last {
            if is_ext(before) && !(before == EXTCODESIZE && opcode == ISZERO) {
                used.ext_code.push(Address::from_word(word.into()));
            }
            if before == GAS && !is_call(opcode) {
                *used.opcodes.entry(GAS).or_default() += 1;
            }
        }
        if is_call(opcode) {
            self.step.1 = interpreter.stack.peek(1).unwrap_or_default();
        }
        if opcode != GAS && !self.ignored.contains(&opcode) {
            *used.opcodes.entry(opcode).or_default() += 1;
        }
        let slot = B256::from(top);
        let count = match opcode {
            SSTORE => &mut used.slots.writes,
            TLOAD => &mut used.slots.transient_reads,
            TSTORE => &mut used.slots.transient_writes,
            _ => return,
        };
        *count.entry(slot).or_default() += 1;
    }

    fn step_end(&mut self, interpreter: &mut Interpreter, context: &mut Context<'_>) {
        self.calls.step_end(interpreter, context);
        self.preimages.step_end(interpreter, context);
        let Some(used) = self.open.last_mut() else { return };
        let (opcode, word) = self.step;
        if interpreter.bytecode.instruction_result().is_some() {
            return;
        }
        if opcode == SLOAD {
            let (slot, value) = (B256::from(word), interpreter.stack.peek(0).unwrap_or_default());
            if !used.slots.writes.contains_key(&slot) {
                used.slots.reads.entry(slot).or_insert_with(|| vec![value.into()]);
            }
        }
        if is_ext(opcode) || is_call(opcode) {
            let address = Address::from_word(word.into());
            let account = context.journal_ref().evm_state().get(&address);
            let hash = account.map_or(KECCAK256_EMPTY, |account| account.info.code_hash);
            used.contracts.entry(address).or_insert((hash, opcode));
        }
    }

    fn log(&mut self, context: &mut Context<'_>, log: Log) {
        self.calls.log(context, log);
    }

    fn call(&mut self, context: &mut Context<'_>, inputs: &mut CallInputs) -> Option<CallOutcome> {
        self.open.push(Used::default());
        self.calls.call(context, inputs)
    }

    fn call_end(
        &mut self,
        context: &mut Context<'_>,
        inputs: &CallInputs,
        outcome: &mut CallOutcome,
    ) {
        self.end(outcome.result.result);
        self.calls.call_end(context, inputs, outcome);
    }

    fn create(
        &mut self,
        context: &mut Context<'_>,
        inputs: &mut CreateInputs,
    ) -> Option<CreateOutcome> {
        self.open.push(Used::default());
        self.calls.create(context, inputs)
    }

    fn create_end(
        &mut self,
        context: &mut Context<'_>,
        inputs: &CreateInputs,
        outcome: &mut CreateOutcome,
    ) {
        self.end(outcome.result.result);
        self.calls.create_end(context, inputs, outcome);
    }
}

impl Tracer for Erc7562 {
    fn finish(self: Box<Self>, ending: &Ending<'_>) -> Result<Box<RawValue>, TraceError> {
        let Self { calls, preimages, root, .. } = *self;
        let mut shown = root.shown(calls.into_frame(ending), ending)?;
        shown.keccak = preimages.into_inputs();
        super::json(&shown)
    }
}
