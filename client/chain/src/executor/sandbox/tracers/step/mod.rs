//! A step before its execution, with the values that its price depends on.

mod price;

use super::Context;
use crate::executor::InternalError;
use revm::{
    Database,
    bytecode::{Bytecode, opcode as op},
    context::{ContextError, ContextTr},
    interpreter::{
        Interpreter,
        interpreter_types::{Jumps, RuntimeFlag},
    },
    primitives::{
        Address, KECCAK_EMPTY, U256,
        hardfork::SpecId::{
            self, AMSTERDAM, BERLIN, BYZANTIUM, CANCUN, HOMESTEAD, ISTANBUL, LONDON, OSAKA,
            PETERSBURG, SHANGHAI,
        },
    },
};

/// Greatest number of operands of an instruction.
const OPERANDS: usize = 7;

/// A step before its execution.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Step {
    pub(super) opcode: u8,
    /// Number of words on the stack.
    pub(super) stack: usize,
    /// Gas that is left.
    pub(super) gas: u64,
    top: [U256; OPERANDS],
    /// Size of the memory, in bytes.
    memory: u64,
    spec: SpecId,
    is_static: bool,
    contract: Address,
    /// Whether it is the first access to its account or slot.
    is_cold: bool,
    /// Values that the EVM changes before the step is paid.
    before: Before,
}

/// Values that the EVM changes before it checks the gas, as they are before the step.
#[derive(Debug, Clone, Copy, Default)]
struct Before {
    /// Value of the slot that is written.
    slot: Option<U256>,
    /// Balance of the contract that destroys itself.
    balance: U256,
    /// Whether the receiver of that balance is empty, and whether it exists.
    heir: Option<(bool, bool)>,
}

impl Step {
    /// Returns the next step.
    pub(super) fn next(interpreter: &Interpreter, context: &Context<'_>) -> Self {
        let mut top = [U256::ZERO; OPERANDS];
        for (word, operand) in top.iter_mut().zip(interpreter.stack.data().iter().rev()) {
            *word = *operand;
        }
        let mut step = Self {
            opcode: interpreter.bytecode.opcode(),
            stack: interpreter.stack.len(),
            gas: interpreter.gas.remaining(),
            top,
            memory: interpreter.memory.len() as u64,
            spec: interpreter.runtime_flag.spec_id(),
            is_static: interpreter.runtime_flag.is_static(),
            contract: interpreter.input.target_address,
            is_cold: false,
            before: Before::default(),
        };
        step.is_cold = step.is_cold(context);
        step.before = step.before(context);
        step
    }

    /// Whether the fork has the instruction; those of Frontier are in every fork.
    pub(super) fn is_in_fork(&self) -> bool {
        let since = match self.opcode {
            op::DELEGATECALL => HOMESTEAD,
            op::RETURNDATASIZE | op::RETURNDATACOPY | op::REVERT | op::STATICCALL => BYZANTIUM,
            op::SHL | op::SHR | op::SAR | op::EXTCODEHASH | op::CREATE2 => PETERSBURG,
            op::CHAINID | op::SELFBALANCE => ISTANBUL,
            op::BASEFEE => LONDON,
            op::PUSH0 => SHANGHAI,
            op::BLOBHASH | op::BLOBBASEFEE | op::MCOPY | op::TLOAD | op::TSTORE => CANCUN,
            op::CLZ => OSAKA,
            op::SLOTNUM | op::DUPN | op::SWAPN | op::EXCHANGE => AMSTERDAM,
            _ => return true,
        };
        self.is(since)
    }

    /// Returns a word of the stack, counted from the top; zero if there is none.
    pub(super) const fn operand(&self, place: usize) -> U256 {
        self.top[place]
    }

    fn is(&self, spec: SpecId) -> bool {
        self.spec.is_enabled_in(spec)
    }

    fn address(&self, operand: usize) -> Address {
        Address::from_word(self.top[operand].into())
    }

    /// Returns the account that the instruction accesses.
    fn accessed(&self) -> Option<Address> {
        match self.opcode {
            op::BALANCE
            | op::EXTCODESIZE
            | op::EXTCODEHASH
            | op::EXTCODECOPY
            | op::SELFDESTRUCT => Some(self.address(0)),
            op::CALL | op::CALLCODE | op::DELEGATECALL | op::STATICCALL => Some(self.address(1)),
            _ => None,
        }
    }

    fn is_cold(&self, context: &Context<'_>) -> bool {
        if !self.is(BERLIN) {
            return false;
        }
        match self.opcode {
            op::SLOAD | op::SSTORE => {
                let journal = &context.journaled_state.inner;
                let account = journal.state.get(&self.contract);
                let slot = account.and_then(|account| account.storage.get(&self.top[0]));
                slot.is_none_or(|slot| slot.is_cold_transaction_id(journal.transaction_id))
                    && !journal.warm_addresses.is_storage_warm(&self.contract, &self.top[0])
            }
            _ => self.accessed().is_some_and(|address| is_cold(context, &address)),
        }
    }

    fn before(&self, context: &Context<'_>) -> Before {
        let state = &context.journaled_state.inner.state;
        let contract = state.get(&self.contract);
        match self.opcode {
            op::SSTORE => {
                let slot = contract.and_then(|account| account.storage.get(&self.top[0]));
                Before { slot: slot.map(|slot| slot.present_value), ..Before::default() }
            }
            op::SELFDESTRUCT => Before {
                balance: contract.map_or(U256::ZERO, |account| account.info.balance),
                heir: state
                    .get(&self.address(0))
                    .map(|heir| (heir.is_empty(), !heir.is_loaded_as_not_existing_not_touched())),
                ..Before::default()
            },
            _ => Before::default(),
        }
    }
}

/// Returns the value of a slot without making it warm.
pub(super) fn slot_value(context: &mut Context<'_>, address: Address, slot: U256) -> U256 {
    if let Some(account) = context.journaled_state.inner.state.get(&address) {
        if let Some(slot) = account.storage.get(&slot) {
            return slot.present_value;
        }
        if account.is_created() {
            return U256::ZERO;
        }
    }
    let read = context.db_mut().storage(address, slot);
    kept(context, read).unwrap_or_default()
}

fn is_cold(context: &Context<'_>, address: &Address) -> bool {
    let journal = &context.journaled_state.inner;
    let account = journal.state.get(address);
    account.is_none_or(|account| account.is_cold_transaction_id(journal.transaction_id))
        && journal.warm_addresses.is_cold(address)
}

/// Returns the code of an account without making it warm; `None` if there is no account, or no code.
pub(super) fn code_of(context: &mut Context<'_>, address: Address) -> Option<Bytecode> {
    let account = context.journaled_state.inner.state.get(&address);
    let info = match account.map(|account| account.info.clone()) {
        Some(info) => info,
        None => {
            let read = context.db_mut().basic(address);
            kept(context, read).flatten()?
        }
    };
    match info.code {
        Some(code) => Some(code),
        None if info.code_hash == KECCAK_EMPTY => None,
        None => {
            let read = context.db_mut().code_by_hash(info.code_hash);
            kept(context, read)
        }
    }
}

/// Returns the value of a read. If the state could not be read, the error ends the run.
pub(super) fn kept<T>(context: &mut Context<'_>, read: Result<T, InternalError>) -> Option<T> {
    match read {
        Ok(value) => Some(value),
        Err(error) => {
            context.error = Err(ContextError::Db(error));
            None
        }
    }
}
