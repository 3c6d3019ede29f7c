//! The values of each call that the rules of ERC-7562 need (`erc7562Tracer`).

use super::{
    Context, Ending, Tracer,
    calls::{Calls, CallsConfig},
    preimages::Preimages,
    step::{code_of, slot_value},
};
use crate::executor::sandbox::TraceError;
use alloy_primitives::{Address, B256, Bytes, U64, U256};
use alloy_rpc_types_trace::geth::CallFrame;
use revm::{
    Inspector,
    bytecode::opcode::{
        ADD, AND, CALL, CALLCODE, DELEGATECALL, DIV, EQ, EXTCODECOPY, EXTCODEHASH, EXTCODESIZE,
        GAS, GT, ISZERO, LT, MUL, NOT, OR, POP, PUSH0, RETURN, REVERT, SGT, SHL, SHR, SLOAD, SLT,
        SSTORE, STATICCALL, SUB, SWAP16, TLOAD, TSTORE,
    },
    interpreter::{
        CallInputs, CallOutcome, CreateInputs, CreateOutcome, Interpreter,
        interpreter_types::{Jumps, LegacyBytecode},
    },
    primitives::Log,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};

/// Options of the tracer.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Erc7562Config {
    ignored_opcodes: Option<Vec<U64>>,
    with_log: bool,
}

/// Tracer of calls and of what each of them used.
#[derive(Debug)]
pub(super) struct Erc7562 {
    calls: Calls,
    preimages: Preimages,
    ignored: BTreeSet<u8>,
    /// Open calls.
    open: Vec<Used>,
    root: Used,
    /// Previous step, with the word on top of its stack.
    last: Option<(u8, U256)>,
}

/// Slots, instructions and contracts that one call used.
#[derive(Debug, Default)]
struct Used {
    slots: Slots,
    ext_code: Vec<Address>,
    opcodes: BTreeMap<u8, u64>,
    contracts: BTreeMap<Address, ContractSize>,
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

/// Size of a contract's code in bytes, and the instruction that first read it.
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
        }
    }

    fn end(&mut self) {
        let Some(used) = self.open.pop() else { return };
        match self.open.last_mut() {
            Some(parent) => parent.calls.push(used),
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

/// Whether a call within another one ended because it ran out of gas, judged by its error.
fn is_out_of_gas(error: &str) -> bool {
    error.starts_with("out of gas") || error == "contract creation code storage out of gas"
}

impl Used {
    fn shown(self, mut frame: CallFrame) -> Shown {
        let mut used = self.calls.into_iter();
        let calls = std::mem::take(&mut frame.calls).into_iter().map(|call| {
            let out_of_gas = call.error.as_deref().is_some_and(is_out_of_gas);
            // A SELFDESTRUCT is among the calls, but runs no code.
            let used = match call.typ.as_str() {
                "SELFDESTRUCT" => Self::default(),
                _ => used.next().unwrap_or_default(),
            };
            Shown { out_of_gas, ..used.shown(call) }
        });
        let calls = calls.collect();
        let opcodes = self.opcodes.into_iter();
        Shown {
            frame,
            accessed_slots: self.slots,
            ext_code_access_info: self.ext_code,
            used_opcodes: opcodes.map(|(opcode, count)| (U64::from(opcode), count)).collect(),
            contract_size: self.contracts,
            out_of_gas: false,
            keccak: Vec::new(),
            calls,
        }
    }

    /// Counts the access of a step to a slot; `top` is the word on top of its stack.
    fn access(&mut self, opcode: u8, top: U256, contract: Address, context: &mut Context<'_>) {
        let slot = B256::from(top);
        let Slots { reads, writes, transient_reads, transient_writes } = &mut self.slots;
        let count = match opcode {
            SLOAD => {
                if !writes.contains_key(&slot) && !reads.contains_key(&slot) {
                    reads.insert(slot, vec![slot_value(context, contract, top).into()]);
                }
                return;
            }
            SSTORE => writes,
            TLOAD => transient_reads,
            TSTORE => transient_writes,
            _ => return,
        };
        *count.entry(slot).or_default() += 1;
    }
}

impl Inspector<Context<'_>> for Erc7562 {
    /// A step counts whether or not it can be paid, as in geth.
    fn step(&mut self, interpreter: &mut Interpreter, context: &mut Context<'_>) {
        self.calls.step(interpreter, context);
        // Empty code has no steps.
        if interpreter.bytecode.bytecode_len() == 0 {
            return;
        }
        self.preimages.step(interpreter, context);
        let opcode = interpreter.bytecode.opcode();
        let [top, second] = [0, 1].map(|place| interpreter.stack.peek(place).ok());
        if matches!(opcode, RETURN | REVERT) {
            self.last = None;
        }
        let last = self.last.replace((opcode, top.unwrap_or_default()));
        let Some(used) = self.open.last_mut() else { return };
        if let Some((before, word)) = last {
            if is_ext(before) && !(before == EXTCODESIZE && opcode == ISZERO) {
                used.ext_code.push(Address::from_word(word.into()));
            }
            if before == GAS && !is_call(opcode) {
                *used.opcodes.entry(GAS).or_default() += 1;
            }
        }
        if opcode != GAS && !self.ignored.contains(&opcode) {
            *used.opcodes.entry(opcode).or_default() += 1;
        }
        let looked_at = if is_ext(opcode) { top } else { second.filter(|_| is_call(opcode)) };
        if let Some(word) = looked_at {
            let address = Address::from_word(word.into());
            used.contracts.entry(address).or_insert_with(|| {
                let code = code_of(context, address);
                let contract_size = code.map_or(0, |code| code.original_byte_slice().len());
                ContractSize { contract_size, opcode }
            });
        }
        if let Some(top) = top {
            used.access(opcode, top, interpreter.input.target_address, context);
        }
    }

    fn step_end(&mut self, interpreter: &mut Interpreter, context: &mut Context<'_>) {
        self.calls.step_end(interpreter, context);
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
        self.end();
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
        self.end();
        self.calls.create_end(context, inputs, outcome);
    }
}

impl Tracer for Erc7562 {
    fn finish(self: Box<Self>, ending: &Ending<'_>) -> Result<Box<RawValue>, TraceError> {
        let Self { calls, preimages, root, .. } = *self;
        let mut shown = root.shown(calls.into_frame(ending));
        shown.keccak = preimages.into_inputs();
        super::json(&shown)
    }
}
