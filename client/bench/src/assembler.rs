//! EVM code, written instruction by instruction.

use alloy_primitives::{Bytes, U256};
use revm::bytecode::opcode;

/// EVM code under construction. Labels and jumps reach 255 bytes far, which is enough here.
#[derive(Debug, Default)]
pub struct Assembler {
    code: Vec<u8>,
    labels: Vec<(&'static str, u8)>,
    /// Jumps: the label's name, and the offset in the code of the byte that takes its address.
    jumps: Vec<(&'static str, usize)>,
}

impl Assembler {
    /// Code without instructions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends instructions that have no operand.
    #[must_use]
    pub fn ops(mut self, ops: &[u8]) -> Self {
        self.code.extend_from_slice(ops);
        self
    }

    /// Pushes a number with the shortest instruction that every fork knows: zero takes PUSH1.
    #[must_use]
    pub fn push(self, number: u64) -> Self {
        self.push_bytes(&U256::from(number).to_be_bytes_trimmed_vec())
    }

    /// Pushes up to 32 bytes as one number.
    #[must_use]
    pub fn push_bytes(mut self, bytes: &[u8]) -> Self {
        // PUSH0 exists from Shanghai on only.
        let bytes = if bytes.is_empty() { &[0] } else { bytes };
        self.code.push(opcode::PUSH1 - 1 + bytes.len() as u8);
        self.code.extend_from_slice(bytes);
        self
    }

    /// Defines a label at this place, with a JUMPDEST.
    #[must_use]
    pub fn label(mut self, name: &'static str) -> Self {
        self.labels.push((name, self.code.len() as u8));
        self.code.push(opcode::JUMPDEST);
        self
    }

    /// Jumps to the label.
    #[must_use]
    pub fn jump(self, label: &'static str) -> Self {
        self.push_label(label).ops(&[opcode::JUMP])
    }

    /// Jumps to the label if the top of the stack is not zero.
    #[must_use]
    pub fn jump_if(self, label: &'static str) -> Self {
        self.push_label(label).ops(&[opcode::JUMPI])
    }

    fn push_label(mut self, label: &'static str) -> Self {
        self.jumps.push((label, self.code.len() + 1));
        self.code.extend_from_slice(&[opcode::PUSH1, 0]);
        self
    }

    /// The finished code. A jump to an unknown label goes to byte 0, where the contracts here have a JUMPDEST only if
    /// they jump there.
    pub fn finish(mut self) -> Bytes {
        for (label, place) in self.jumps {
            let target = self.labels.iter().find(|(name, _)| *name == label);
            self.code[place] = target.map_or(0, |(_, target)| *target);
        }
        self.code.into()
    }

    /// Init code that runs these instructions and then deploys `runtime`.
    pub fn deploy(self, runtime: &Bytes) -> Bytes {
        let mut code = self.finish().to_vec();
        // PUSH2 length, DUP1, PUSH2 offset, PUSH1 0, CODECOPY, PUSH1 0, RETURN
        let offset = code.len() + 13;
        code.push(opcode::PUSH2);
        code.extend_from_slice(&(runtime.len() as u16).to_be_bytes());
        code.extend_from_slice(&[opcode::DUP1, opcode::PUSH2]);
        code.extend_from_slice(&(offset as u16).to_be_bytes());
        code.extend_from_slice(&[
            opcode::PUSH1,
            0,
            opcode::CODECOPY,
            opcode::PUSH1,
            0,
            opcode::RETURN,
        ]);
        code.extend_from_slice(runtime);
        code.into()
    }
}

/// Init code that deploys `runtime` and does nothing else.
pub fn deploy(runtime: &Bytes) -> Bytes {
    Assembler::new().deploy(runtime)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::hex;

    #[test]
    fn instructions_become_bytes() {
        let code =
            Assembler::new().push(0).label("again").push(0x1234).jump_if("again").jump("end");
        let code = code.label("end").ops(&[opcode::STOP]).finish();
        assert_eq!(hex::encode(&code), "60005b611234600257600c565b00");
        let init = deploy(&code);
        assert_eq!(&init[13..], &code[..]);
        assert_eq!(hex::encode(&init[..13]), "61000e8061000d6000396000f3");
    }
}
