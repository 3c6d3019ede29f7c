//! The reason why a step or a call failed, in geth's words.

use super::step::Step;
use revm::{bytecode::opcode::OpCode, interpreter::InstructionResult};

/// Returns geth's words for a failure; `None` if the result is none.
pub(super) fn words(result: InstructionResult, step: Step) -> Option<String> {
    use InstructionResult as R;
    if result.is_ok() {
        return None;
    }
    let not_there = || format!("invalid opcode: {}", opcode_name(step.opcode));
    Some(match result {
        R::Revert => "execution reverted".to_owned(),
        R::CallTooDeep => "max call depth exceeded".to_owned(),
        R::OutOfFunds => "insufficient balance for transfer".to_owned(),
        R::OpcodeNotFound | R::NotActivated | R::InvalidFEOpcode => not_there(),
        // The EVM takes the gas before it checks whether the fork has the instruction.
        R::OutOfGas if !step.is_in_fork() => not_there(),
        R::OutOfGas | R::MemoryOOG | R::PrecompileOOG => "out of gas".to_owned(),
        R::CallNotAllowedInsideStatic | R::StateChangeDuringStaticCall => {
            "write protection".to_owned()
        }
        R::InvalidJump => "invalid jump destination".to_owned(),
        R::OutOfOffset => "return data out of bounds".to_owned(),
        R::CreateCollision => "contract address collision".to_owned(),
        R::PrecompileError => "precompiled failed".to_owned(),
        R::NonceOverflow => "nonce uint64 overflow".to_owned(),
        R::CreateContractSizeLimit => "max code size exceeded".to_owned(),
        R::CreateInitCodeSizeLimit => "max initcode size exceeded".to_owned(),
        R::CreateContractStartingWithEF | R::CreateInitCodeStartingEF00 => {
            "invalid code: must not begin with 0xef".to_owned()
        }
        other => format!("{other:?}"),
    })
}

/// Returns the name of an instruction in geth, which also has names for those of EOF, although no fork
/// has them.
pub(super) fn opcode_name(opcode: u8) -> String {
    let of_eof = match opcode {
        0xd0 => "DATALOAD",
        0xd1 => "DATALOADN",
        0xd2 => "DATASIZE",
        0xd3 => "DATACOPY",
        0xe0 => "RJUMP",
        0xe1 => "RJUMPI",
        0xe2 => "RJUMPV",
        0xe3 => "CALLF",
        0xe4 => "RETF",
        0xe5 => "JUMPF",
        0xec => "EOFCREATE",
        0xee => "RETURNCONTRACT",
        0xf7 => "RETURNDATALOAD",
        0xf8 => "EXTCALL",
        0xf9 => "EXTDELEGATECALL",
        0xfb => "EXTSTATICCALL",
        _ => "",
    };
    match OpCode::new(opcode) {
        _ if !of_eof.is_empty() => of_eof.to_owned(),
        Some(known) => known.as_str().to_owned(),
        None => format!("opcode {opcode:#x} not defined"),
    }
}

/// Returns geth's words for a precompile that refuses its input, as far as they follow from the length
/// of the input.
pub(super) fn precompile_words(number: u8, input: usize) -> &'static str {
    const LENGTH: &str = "invalid input length";
    let fits = |unit: usize| input > 0 && input.is_multiple_of(unit);
    match number {
        0x08 if !input.is_multiple_of(192) => "bad elliptic curve pairing size",
        0x09 if input == 213 => "invalid final flag",
        0x09 => LENGTH,
        0x0a if input != 192 => LENGTH,
        0x0b if input != 256 => LENGTH,
        0x0c if !fits(160) => LENGTH,
        0x0d if input != 512 => LENGTH,
        0x0e if !fits(288) => LENGTH,
        0x0f if !fits(384) => LENGTH,
        0x10 if input != 64 => LENGTH,
        0x11 if input != 128 => LENGTH,
        _ => "precompiled failed",
    }
}
