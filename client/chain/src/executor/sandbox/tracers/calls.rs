//! The nested calls of a transaction (`callTracer`).

use super::{
    Context, Ending, Tracer,
    fault::{precompile_words, words},
    flat::{FlatConfig, flattened},
    step::Step,
};
use crate::executor::sandbox::{TraceError, revert::revert_reason};
use alloy_primitives::{Address, Bytes, U256};
use alloy_rpc_types_trace::geth::{CallFrame, CallLogFrame};
use revm::{
    Inspector,
    bytecode::opcode::SELFDESTRUCT,
    context_interface::{ContextTr, JournalTr, Transaction},
    interpreter::{
        CallInputs, CallOutcome, CallScheme, CreateInputs, CreateOutcome, CreateScheme,
        InstructionResult, Interpreter, InterpreterAction, InterpreterResult,
        interpreter_types::LoopControl,
    },
    primitives::{Log, TxKind},
};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Options of the tracer.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct CallsConfig {
    /// Whether only the transaction's own call is wanted.
    pub(super) only_top_call: bool,
    /// Whether logs are wanted.
    pub(super) with_log: bool,
}

/// Tracer of a transaction's calls.
#[derive(Debug, Default)]
pub(super) struct Calls {
    config: CallsConfig,
    /// Options of `flatCallTracer`, if the calls are wanted as a flat list.
    flat: Option<FlatConfig>,
    /// Number of open calls, with those that are not gathered.
    depth: usize,
    open: Vec<Open>,
    root: Option<CallFrame>,
    /// Number of logs of the block before this transaction.
    logs_before: u64,
}

/// An open call.
#[derive(Debug, Default)]
struct Open {
    frame: CallFrame,
    step: Step,
    /// Reason why its last step could not be paid.
    unpaid: Option<String>,
    /// Data that its code returned, if it ended by itself.
    returned: Option<Bytes>,
    /// Address of the callee, which may be a precompile.
    callee: Address,
}

impl Calls {
    pub(super) fn new(config: CallsConfig, logs_before: u64) -> Self {
        Self { config, logs_before, ..Self::default() }
    }

    pub(super) fn flat(config: FlatConfig) -> Self {
        Self { flat: Some(config), ..Self::default() }
    }

    /// Returns the transaction's call, with the calls within it.
    pub(super) fn into_frame(self, ending: &Ending<'_>) -> CallFrame {
        // A transaction whose gas is used up before its first call has no call.
        let mut root = self.root.unwrap_or_else(|| {
            let (typ, to) = match ending.tx.kind {
                TxKind::Call(to) => ("CALL", Some(to)),
                TxKind::Create => ("CREATE", None),
            };
            CallFrame {
                typ: typ.to_owned(),
                from: ending.tx.caller,
                to,
                value: Some(ending.tx.value),
                input: ending.tx.data.clone(),
                error: words(InstructionResult::OutOfGas, Step::default()),
                ..CallFrame::default()
            }
        });
        root.gas = U256::from(ending.tx.gas_limit());
        root.gas_used = U256::from(ending.ran.result.tx_gas_used());
        if self.config.with_log {
            clear_failed_logs(&mut root);
        }
        root
    }

    /// Whether the call at this depth is gathered.
    const fn is_wanted(&self, depth: usize) -> bool {
        depth == 0 || !self.config.only_top_call
    }

    fn begin(&mut self, frame: CallFrame, callee: Address) {
        if self.is_wanted(self.depth) {
            self.open.push(Open { frame, callee, ..Open::default() });
        }
        self.depth += 1;
    }

    fn current(&mut self) -> Option<&mut Open> {
        if self.depth > 0 && self.is_wanted(self.depth - 1) { self.open.last_mut() } else { None }
    }

    fn end(&mut self, result: &InterpreterResult) {
        self.depth = self.depth.saturating_sub(1);
        if !self.is_wanted(self.depth) {
            return;
        }
        let Some(open) = self.open.pop() else { return };
        let frame = open.finished(result);
        match self.open.last_mut() {
            Some(parent) => parent.frame.calls.push(frame),
            None => self.root = Some(frame),
        }
    }
}

impl Open {
    fn finished(self, ended: &InterpreterResult) -> CallFrame {
        let Self { mut frame, step, unpaid, returned, callee } = self;
        let is_create = frame.typ.starts_with("CREATE");
        let result = ended.result;
        frame.gas_used =
            match result.is_ok_or_revert() || result == InstructionResult::NonceOverflow {
                true => U256::from(ended.gas.total_gas_spent()),
                false => frame.gas,
            };
        let Some(error) = unpaid.or_else(|| words(result, step)) else {
            // Before Homestead a contract whose code cannot be paid for is created without code.
            let output = if is_create { returned } else { None };
            let output = output.unwrap_or_else(|| ended.output.clone());
            frame.output = Some(output).filter(|output| !output.is_empty());
            return frame;
        };
        frame.error = Some(match result {
            InstructionResult::OutOfGas if is_create && returned.is_some() => {
                "contract creation code storage out of gas".to_owned()
            }
            InstructionResult::PrecompileError => {
                precompile_words(callee.0[19], frame.input.len()).to_owned()
            }
            _ => error,
        });
        if is_create {
            frame.to = None;
        }
        if result == InstructionResult::Revert && !ended.output.is_empty() {
            frame.output = Some(ended.output.clone());
            let reason = revert_reason(&ended.output).map(|reason| reason.text());
            frame.revert_reason = reason.filter(|reason| !reason.is_empty());
        }
        frame
    }
}

/// Removes the logs of calls that failed, or that are within one that failed.
fn clear_failed_logs(root: &mut CallFrame) {
    let mut left = vec![(root, false)];
    while let Some((frame, failed)) = left.pop() {
        let failed = failed || frame.error.is_some();
        if failed {
            frame.logs.clear();
        }
        left.extend(frame.calls.iter_mut().map(|call| (call, failed)));
    }
}

impl Inspector<Context<'_>> for Calls {
    fn step(&mut self, interpreter: &mut Interpreter, context: &mut Context<'_>) {
        let step = Step::next(interpreter, context);
        let destroyed = (step.opcode == SELFDESTRUCT).then(|| {
            let contract = interpreter.input.target_address;
            let account = context.journal_ref().evm_state().get(&contract);
            let balance = account.map_or(U256::ZERO, |account| account.info.balance);
            let heir = interpreter.stack.peek(0).unwrap_or_default();
            CallFrame {
                typ: "SELFDESTRUCT".to_owned(),
                from: contract,
                to: Some(Address::from_word(heir.into())),
                value: Some(balance),
                ..CallFrame::default()
            }
        });
        if let Some(open) = self.current() {
            open.step = step;
        }
        // A SELFDESTRUCT is listed as a call within this one, unless only the top call is wanted.
        if let Some(frame) = destroyed.filter(|_| !self.config.only_top_call)
            && let Some(open) = self.current()
        {
            open.frame.calls.push(frame);
        }
    }

    fn step_end(&mut self, interpreter: &mut Interpreter, context: &mut Context<'_>) {
        let is_top_only = self.config.only_top_call;
        let Some(open) = self.current() else { return };
        let Some(InterpreterAction::Return(result)) = interpreter.bytecode.action() else { return };
        if result.result.is_halt() {
            open.unpaid = open.step.price(result.result, context).fault;
        }
        if result.result.is_ok() {
            open.returned = Some(result.output.clone());
        } else if open.step.opcode == SELFDESTRUCT && !is_top_only {
            // The SELFDESTRUCT failed, so its frame is removed.
            open.frame.calls.pop();
        }
    }

    fn log(&mut self, context: &mut Context<'_>, log: Log) {
        if !self.config.with_log {
            return;
        }
        // The logs of failed calls are not in the journal any more, and do not count.
        let index = self.logs_before + context.journal_ref().logs().len().saturating_sub(1) as u64;
        let Some(open) = self.current() else { return };
        let (topics, data) = log.data.split();
        open.frame.logs.push(CallLogFrame {
            address: Some(log.address),
            topics: Some(topics),
            data: Some(data),
            position: Some(open.frame.calls.len() as u64),
            index: Some(index),
        });
    }

    fn call(&mut self, context: &mut Context<'_>, inputs: &mut CallInputs) -> Option<CallOutcome> {
        let (typ, from, to) = match inputs.scheme {
            CallScheme::Call => ("CALL", inputs.caller, inputs.target_address),
            CallScheme::StaticCall => ("STATICCALL", inputs.caller, inputs.target_address),
            CallScheme::CallCode => ("CALLCODE", inputs.target_address, inputs.bytecode_address),
            CallScheme::DelegateCall => {
                ("DELEGATECALL", inputs.target_address, inputs.bytecode_address)
            }
        };
        let is_wanted = self.is_wanted(self.depth);
        let frame = CallFrame {
            typ: typ.to_owned(),
            from,
            to: Some(to),
            gas: U256::from(inputs.gas_limit),
            value: (inputs.scheme != CallScheme::StaticCall).then(|| inputs.call_value()),
            input: if is_wanted { inputs.input.bytes(context) } else { Bytes::new() },
            ..CallFrame::default()
        };
        self.begin(frame, inputs.bytecode_address);
        None
    }

    fn call_end(&mut self, _: &mut Context<'_>, _: &CallInputs, outcome: &mut CallOutcome) {
        self.end(&outcome.result);
    }

    fn create(
        &mut self,
        context: &mut Context<'_>,
        inputs: &mut CreateInputs,
    ) -> Option<CreateOutcome> {
        let caller = context.journal_ref().evm_state().get(&inputs.caller());
        let nonce = caller.map_or(0, |account| account.info.nonce);
        let created = inputs.created_address(nonce);
        let typ = match inputs.scheme() {
            CreateScheme::Create2 { .. } => "CREATE2",
            _ => "CREATE",
        };
        let frame = CallFrame {
            typ: typ.to_owned(),
            from: inputs.caller(),
            to: Some(created),
            gas: U256::from(inputs.gas_limit()),
            value: Some(inputs.value()),
            input: inputs.init_code().clone(),
            ..CallFrame::default()
        };
        self.begin(frame, Address::ZERO);
        None
    }

    fn create_end(&mut self, _: &mut Context<'_>, _: &CreateInputs, outcome: &mut CreateOutcome) {
        // If the creator's nonce cannot grow, the EVM returns neither an error nor a contract.
        if outcome.result.result == InstructionResult::Return && outcome.address.is_none() {
            let mut result = outcome.result.clone();
            result.result = InstructionResult::NonceOverflow;
            return self.end(&result);
        }
        self.end(&outcome.result);
    }
}

impl Tracer for Calls {
    fn finish(self: Box<Self>, ending: &Ending<'_>) -> Result<Box<RawValue>, TraceError> {
        let flat = self.flat;
        let root = self.into_frame(ending);
        match flat {
            Some(config) => super::json(&flattened(root, config, ending)),
            None => super::json(&root),
        }
    }
}
