//! Every step (the struct logger, which is the default tracer).

use super::{
    Context, Ending, Tracer,
    fault::opcode_name,
    step::{Step, kept, slot_value},
};
use crate::executor::sandbox::TraceError;
use alloy_primitives::{Address, B256, Bytes, U256, map::AddressMap};
use alloy_rpc_types_trace::geth::GethDefaultTracingOptions;
use revm::{
    Database, Inspector,
    bytecode::opcode::{SELFDESTRUCT, SLOAD, SSTORE},
    context::{Cfg, ContextError, ContextTr, JournalTr, Transaction},
    context_interface::{result::ExecutionResult, transaction::AuthorizationTr},
    interpreter::{
        CallInputs, CallOutcome, CreateInputs, CreateOutcome, FrameInput, InstructionResult,
        Interpreter, InterpreterAction,
        interpreter_types::{Jumps, LegacyBytecode, LoopControl},
    },
};
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

type Slots = BTreeMap<B256, B256>;

/// Tracer of every step.
#[derive(Debug, Default)]
pub(super) struct StructLogs {
    memory: bool,
    stack: bool,
    storage: bool,
    return_data: bool,
    /// Number of bytes after which no step is added.
    limit: usize,
    /// Greatest size of the answer, in bytes.
    most: usize,
    /// Finished steps as text, with commas between them.
    text: Vec<u8>,
    /// Number of bytes of these steps, without the commas.
    written: usize,
    /// Slots that were read and written, by contract.
    slots: AddressMap<Slots>,
    begun: Option<Begun>,
    /// Refunds before each of the open calls.
    refunds: Vec<i64>,
    /// Refunds so far.
    refund: i64,
}

/// A step that is not finished.
#[derive(Debug)]
struct Begun {
    step: Step,
    pc: usize,
    stack: Option<Vec<U256>>,
    return_data: Option<Bytes>,
    memory: Option<Vec<B256>>,
    /// Contract of the slots that the step shows, if it shows any.
    contract: Option<Address>,
}

/// A step in the answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StructLog<'a> {
    pc: usize,
    op: String,
    gas: u64,
    gas_cost: u64,
    depth: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stack: Option<Vec<U256>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    return_data: Option<Bytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<Vec<B256>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    storage: Option<&'a Slots>,
    #[serde(skip_serializing_if = "is_zero")]
    refund: i64,
}

/// Answer of the tracer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    gas: u64,
    failed: bool,
    return_value: Bytes,
    struct_logs: &'a RawValue,
}

impl StructLogs {
    /// Returns a tracer with an answer of at most about `most` bytes.
    pub(super) fn new(config: &GethDefaultTracingOptions, most: usize) -> Self {
        let limit = config.limit.filter(|limit| *limit > 0);
        Self {
            memory: config.is_memory_enabled(),
            stack: !config.disable_stack.unwrap_or_default(),
            storage: !config.disable_storage.unwrap_or_default(),
            return_data: config.is_return_data_enabled(),
            limit: limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX),
            most,
            ..Self::default()
        }
    }

    /// Whether the caller's limit is reached, so that no step is added.
    const fn is_full(&self) -> bool {
        self.written > self.limit
    }

    fn is_over(&self) -> bool {
        self.text.len() > self.most
    }

    fn begin_call(&mut self, context: &mut Context<'_>) {
        if self.refunds.is_empty() {
            self.refund = authority_refund(context);
        }
        self.refunds.push(self.refund);
    }

    /// Records the slot that the step reads or writes. Returns whether the step is such a one.
    fn touch(&mut self, step: &Step, contract: Address, context: &mut Context<'_>) -> bool {
        let operands = match step.opcode {
            SLOAD => 1,
            SSTORE => 2,
            _ => return false,
        };
        if !self.storage || step.stack < operands {
            return false;
        }
        let slot = step.operand(0);
        let value = match step.opcode {
            SLOAD => slot_value(context, contract, slot),
            _ => step.operand(1),
        };
        self.slots.entry(contract).or_default().insert(slot.into(), value.into());
        true
    }

    fn write(&mut self, log: &StructLog<'_>) -> Result<(), serde_json::Error> {
        if !self.text.is_empty() {
            self.text.push(b',');
        }
        let before = self.text.len();
        serde_json::to_writer(&mut self.text, log)?;
        self.written += self.text.len() - before;
        Ok(())
    }
}

impl Inspector<Context<'_>> for StructLogs {
    fn step(&mut self, interpreter: &mut Interpreter, context: &mut Context<'_>) {
        // Empty code has no steps.
        if self.is_full() || interpreter.bytecode.bytecode_len() == 0 {
            return;
        }
        if self.is_over() {
            interpreter.halt(InstructionResult::OutOfGas);
            return;
        }
        let step = Step::next(interpreter, context);
        let contract = interpreter.input.target_address;
        let is_touching = self.touch(&step, contract, context);
        let return_data = || interpreter.return_data.0.clone();
        self.begun = Some(Begun {
            step,
            pc: interpreter.bytecode.pc(),
            stack: self.stack.then(|| interpreter.stack.data().clone()),
            return_data: self.return_data.then(return_data).filter(|data| !data.is_empty()),
            memory: (self.memory && !interpreter.memory.is_empty()).then(|| {
                let memory = interpreter.memory.slice_len(0, interpreter.memory.len());
                memory.chunks(32).map(B256::right_padding_from).collect()
            }),
            contract: is_touching.then_some(contract),
        });
    }

    fn step_end(&mut self, interpreter: &mut Interpreter, context: &mut Context<'_>) {
        let counted = self.refunds.last().unwrap_or(&0) + interpreter.gas.refunded();
        let before = std::mem::replace(&mut self.refund, counted);
        let Some(Begun { step, pc, stack, return_data, memory, contract }) = self.begun.take()
        else {
            return;
        };
        let (gas_cost, error) = match interpreter.bytecode.action() {
            Some(InterpreterAction::Return(ended)) if ended.result.is_halt() => {
                let price = step.price(ended.result, context);
                (price.gas, price.fault)
            }
            // The gas that a creation passes on is not part of its price, unlike that of a call.
            Some(InterpreterAction::NewFrame(FrameInput::Create(inputs))) => {
                (step.gas.saturating_sub(interpreter.gas.remaining() + inputs.gas_limit()), None)
            }
            _ => (step.gas.saturating_sub(interpreter.gas.remaining()), None),
        };
        // The refund of these two instructions is part of their price.
        let refund = match step.opcode {
            SSTORE | SELFDESTRUCT => counted,
            _ => before,
        };
        let slots = std::mem::take(&mut self.slots);
        let written = self.write(&StructLog {
            pc,
            op: opcode_name(step.opcode),
            gas: step.gas,
            gas_cost,
            depth: context.journal_ref().depth(),
            error,
            stack,
            return_data,
            memory,
            storage: contract.and_then(|contract| slots.get(&contract)),
            refund,
        });
        self.slots = slots;
        if let Err(error) = written {
            context.error = Err(ContextError::Custom(error.to_string()));
        }
    }

    fn call(&mut self, context: &mut Context<'_>, _: &mut CallInputs) -> Option<CallOutcome> {
        self.begin_call(context);
        None
    }

    fn call_end(&mut self, _: &mut Context<'_>, _: &CallInputs, _: &mut CallOutcome) {
        self.refunds.pop();
    }

    fn create(&mut self, context: &mut Context<'_>, _: &mut CreateInputs) -> Option<CreateOutcome> {
        self.begin_call(context);
        None
    }

    fn create_end(&mut self, _: &mut Context<'_>, _: &CreateInputs, _: &mut CreateOutcome) {
        self.refunds.pop();
    }
}

impl Tracer for StructLogs {
    fn finish(self: Box<Self>, ending: &Ending<'_>) -> Result<Box<RawValue>, TraceError> {
        if self.is_over() {
            return Err(TraceError::TooLarge);
        }
        let text = String::from_utf8_lossy(&self.text);
        let struct_logs = RawValue::from_string(format!("[{text}]"));
        let struct_logs = struct_logs.map_err(super::unwritten)?;
        let result = &ending.ran.result;
        let return_value = match result {
            ExecutionResult::Success { output, .. } => output.data().clone(),
            ExecutionResult::Revert { output, .. } => output.clone(),
            ExecutionResult::Halt { .. } => Bytes::new(),
        };
        super::json(&Answer {
            gas: result.tx_gas_used(),
            failed: !result.is_success(),
            return_value,
            struct_logs: &struct_logs,
        })
    }
}

/// Returns the refund for delegations of accounts that existed before (EIP-7702), which is granted before the first
/// step.
fn authority_refund(context: &mut Context<'_>) -> i64 {
    let caller = context.tx().caller();
    let mut authorities: Vec<_> =
        context.tx().authorization_list().filter_map(|tuple| tuple.authority()).collect();
    authorities.sort_unstable();
    authorities.dedup();
    let mut accepted_before = 0;
    for authority in authorities {
        let account = context.journal_ref().evm_state().get(&authority);
        let now = account.map_or(0, |account| account.info.nonce);
        let read = context.db_mut().basic(authority);
        let before = kept(context, read).flatten();
        let is_sender = u64::from(authority == caller);
        // Each accepted authorization raised the nonce.
        let nonce = before.as_ref().map_or(0, |account| account.nonce);
        let accepted = now.saturating_sub(nonce + is_sender);
        let is_new = before.is_none() && is_sender == 0;
        accepted_before += accepted.saturating_sub(u64::from(is_new));
    }
    let each = context.cfg().gas_params().tx_eip7702_auth_refund_regular();
    i64::try_from(accepted_before * each).unwrap_or(i64::MAX)
}

const fn is_zero(refund: &i64) -> bool {
    *refund == 0
}
