//! SLOAD and SSTORE with calls to the database's hooks before them.

use alloy_evm::eth::EthEvmContext;
use revm::{
    bytecode::opcode,
    handler::instructions::EthInstructions,
    interpreter::{
        Instruction, InstructionContext, InstructionExecResult,
        instructions::{gas_table_spec, host},
        interpreter::EthInterpreter,
        interpreter_types::InputsTr,
    },
};

use crate::{StateHook, eip1283};

/// The interpreter and host that an instruction works on.
pub(crate) type Frame<'a, DB> = InstructionContext<'a, EthEvmContext<DB>, EthInterpreter>;

/// The instruction table of an EVM over `DB`.
pub(crate) type Instructions<DB> = EthInstructions<EthInterpreter, EthEvmContext<DB>>;

/// Puts SLOAD and SSTORE with these additions into `instructions`. Their static gas stays that of the revision.
pub(crate) fn install<DB: StateHook>(
    instructions: &mut Instructions<DB>,
    hooks: bool,
    eip1283: bool,
) {
    let gas = gas_table_spec(instructions.spec);
    let sstore = match (hooks, eip1283) {
        (false, false) => return,
        (false, true) => Instruction::new(eip1283::sstore::<DB>),
        (true, false) => Instruction::new(hooked_sstore::<DB>),
        (true, true) => Instruction::new(hooked_eip1283_sstore::<DB>),
    };
    instructions.insert_instruction(opcode::SSTORE, sstore, gas[usize::from(opcode::SSTORE)]);
    if hooks {
        let sload = Instruction::new(hooked_sload::<DB>);
        instructions.insert_instruction(opcode::SLOAD, sload, gas[usize::from(opcode::SLOAD)]);
    }
}

fn hooked_sload<DB: StateHook>(frame: Frame<'_, DB>) -> InstructionExecResult {
    let address = frame.interpreter.input.target_address();
    // The stock instruction reports an empty stack.
    if let Some(slot) = frame.interpreter.stack.data().last() {
        frame.host.journaled_state.database.on_sload(address, *slot);
    }
    host::sload(frame)
}

fn hooked_sstore<DB: StateHook>(mut frame: Frame<'_, DB>) -> InstructionExecResult {
    tell_sstore(&mut frame);
    host::sstore(frame)
}

fn hooked_eip1283_sstore<DB: StateHook>(mut frame: Frame<'_, DB>) -> InstructionExecResult {
    tell_sstore(&mut frame);
    eip1283::sstore(frame)
}

#[inline]
fn tell_sstore<DB: StateHook>(frame: &mut Frame<'_, DB>) {
    let address = frame.interpreter.input.target_address();
    if let Some(slot) = frame.interpreter.stack.data().last() {
        frame.host.journaled_state.database.on_sstore(address, *slot);
    }
}
