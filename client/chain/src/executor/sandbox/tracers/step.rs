//! A step before it takes place: what it costs, and why it cannot be paid, as geth counts and says it.
//!
//! The EVM stops counting where the gas does not suffice; geth names the whole price first.

use super::Context;
use crate::executor::InternalError;
use revm::{
    Database,
    bytecode::{
        Bytecode,
        opcode::{self as op, OpCode},
    },
    context::{Cfg, ContextError, ContextTr},
    context_interface::{cfg::GasParams, context::SStoreResult},
    interpreter::{
        InstructionResult, Interpreter,
        instructions::gas_table_spec,
        interpreter_types::{Jumps, RuntimeFlag},
    },
    primitives::{
        Address, KECCAK_EMPTY, U256,
        hardfork::SpecId::{
            self, AMSTERDAM, BERLIN, BYZANTIUM, CANCUN, HOMESTEAD, ISTANBUL, LONDON, OSAKA,
            PETERSBURG, PRAGUE, SHANGHAI, SPURIOUS_DRAGON, TANGERINE,
        },
    },
};

/// Operands of the instruction that has most of them.
const OPERANDS: usize = 7;
/// The largest memory that geth counts gas for.
const MEMORY: u64 = 0x1F_FFFF_FFE0;

const OUT_OF_GAS: &str = "out of gas";
const OVERFLOW: &str = "gas uint64 overflow";
const WRITE_PROTECTION: &str = "write protection";

/// A step before it takes place.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Step {
    pub(super) opcode: u8,
    /// Words on the stack.
    pub(super) stack: usize,
    /// Gas that is left.
    pub(super) gas: u64,
    top: [U256; OPERANDS],
    /// Bytes of the memory.
    memory: u64,
    spec: SpecId,
    is_static: bool,
    contract: Address,
    /// Whether it is the first to access its account or slot.
    is_cold: bool,
    /// What it changes before it is paid.
    before: Before,
}

/// What the EVM changes before it looks at the gas, as far as it is known before.
#[derive(Debug, Clone, Copy, Default)]
struct Before {
    /// The value of the slot that is written.
    slot: Option<U256>,
    /// The balance of the contract that destroys itself.
    balance: U256,
    /// Whether its heir is empty, and whether it exists.
    heir: Option<(bool, bool)>,
}

/// What a step costs.
#[derive(Debug)]
pub(super) struct Price {
    pub(super) gas: u64,
    /// Why it cannot be paid.
    pub(super) fault: Option<String>,
}

impl Step {
    /// The step that is next.
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

    /// What it costs, where nothing has happened since it was looked at but that it failed like this.
    pub(super) fn price(&self, result: InstructionResult, context: &mut Context<'_>) -> Price {
        if matches!(result, InstructionResult::OpcodeNotFound | InstructionResult::NotActivated)
            || !self.is_in_fork()
        {
            return Price { gas: 0, fault: None };
        }
        let fixed = self.fixed();
        let fault = |gas, fault: String| Price { gas, fault: Some(fault) };
        let Some(code) = OpCode::new(self.opcode) else { return Price { gas: 0, fault: None } };
        let (inputs, outputs) = (usize::from(code.inputs()), usize::from(code.outputs()));
        if self.stack < inputs {
            return fault(fixed, format!("stack underflow ({} <=> {inputs})", self.stack));
        }
        let most = 1024 + inputs - outputs;
        if self.stack > most {
            return fault(fixed, format!("stack limit reached {} ({most})", self.stack));
        }
        let Some(left) = self.gas.checked_sub(fixed) else {
            return fault(fixed, OUT_OF_GAS.to_owned());
        };
        let Some(memory) = self.memory_after() else { return fault(fixed, OVERFLOW.to_owned()) };
        match self.varying(context, memory, left) {
            Err(reason) => fault(fixed, format!("{OUT_OF_GAS}: {reason}")),
            Ok(gas) if gas > left => fault(fixed.saturating_add(gas), OUT_OF_GAS.to_owned()),
            Ok(gas) => Price { gas: fixed + gas, fault: None },
        }
    }

    /// Whether the fork has the instruction, of those that came after Frontier.
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

    /// A word of the stack, counted from the top; zero where there is none.
    pub(super) const fn operand(&self, place: usize) -> U256 {
        self.top[place]
    }

    fn is(&self, spec: SpecId) -> bool {
        self.spec.is_enabled_in(spec)
    }

    fn address(&self, operand: usize) -> Address {
        Address::from_word(self.top[operand].into())
    }

    /// The account that the instruction accesses.
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

    /// The part of the price that depends on nothing but the instruction.
    fn fixed(&self) -> u64 {
        match self.opcode {
            op::EXP | op::SSTORE | op::LOG0..=op::LOG4 => 0,
            op::SLOAD if self.is(BERLIN) => 0,
            op::SELFDESTRUCT if !self.is(BERLIN) => 0,
            op::CREATE | op::CREATE2 => GasParams::new_spec(self.spec).create_cost(),
            opcode => u64::from(gas_table_spec(self.spec)[usize::from(opcode)]),
        }
    }

    /// Bytes that the memory must have; `None` if they cannot be counted.
    fn memory_after(&self) -> Option<u64> {
        let part = |offset: usize, length: usize| end(self.top[offset], self.top[length]);
        let fixed = |length: u64| end(self.top[0], U256::from(length));
        let bytes = match self.opcode {
            op::KECCAK256 | op::RETURN | op::REVERT | op::LOG0..=op::LOG4 => part(0, 1)?,
            op::CALLDATACOPY | op::CODECOPY | op::RETURNDATACOPY => part(0, 2)?,
            op::EXTCODECOPY => part(1, 3)?,
            op::MLOAD | op::MSTORE => fixed(32)?,
            op::MSTORE8 => fixed(1)?,
            op::MCOPY => end(self.top[0].max(self.top[1]), self.top[2])?,
            op::CREATE | op::CREATE2 => part(1, 2)?,
            op::CALL | op::CALLCODE => part(3, 4)?.max(part(5, 6)?),
            op::DELEGATECALL | op::STATICCALL => part(2, 3)?.max(part(4, 5)?),
            _ => 0,
        };
        words(bytes).checked_mul(32)
    }

    /// The rest of the price, where `left` is there to pay it; or why it is not even counted.
    fn varying(&self, context: &mut Context<'_>, memory: u64, left: u64) -> Result<u64, String> {
        let prices = GasParams::new_spec(self.spec);
        let memory = self.growth(&prices, memory)?;
        let length = |operand: usize| usize::try_from(self.top[operand]).map_err(|_| OVERFLOW);
        let cold = if self.is_cold { prices.cold_account_additional_cost() } else { 0 };
        let table = |opcode: u8| u64::from(gas_table_spec(self.spec)[usize::from(opcode)]);
        let is_writing =
            matches!(self.opcode, op::SSTORE | op::CREATE | op::CREATE2 | op::SELFDESTRUCT);
        if self.is_static && is_writing {
            return Err(WRITE_PROTECTION.to_owned());
        }
        Ok(match self.opcode {
            op::EXP => table(op::EXP) + prices.exp_cost(self.top[1]),
            op::KECCAK256 => memory + prices.keccak256_cost(length(1)?),
            op::CALLDATACOPY | op::CODECOPY | op::RETURNDATACOPY => {
                memory + prices.copy_cost(length(2)?)
            }
            op::MCOPY => memory + prices.mcopy_cost(length(2)?),
            op::EXTCODECOPY => memory + prices.extcodecopy(length(3)?) + cold,
            op::BALANCE | op::EXTCODESIZE | op::EXTCODEHASH => cold,
            op::SLOAD if self.is_cold => table(op::SLOAD) + prices.cold_storage_additional_cost(),
            op::SLOAD if self.is(BERLIN) => table(op::SLOAD),
            op::SSTORE => return self.sstore(context, &prices, left),
            op::LOG0..=op::LOG4 => {
                let topics = self.opcode - op::LOG0;
                memory + table(self.opcode) + prices.log_cost(topics, length(1)? as u64)
            }
            op::CREATE | op::CREATE2 => {
                memory + self.creation(&prices, length(2)?, context.cfg().max_initcode_size())?
            }
            op::CALL | op::CALLCODE | op::DELEGATECALL | op::STATICCALL => {
                return self.call(context, &prices, memory, left);
            }
            op::SELFDESTRUCT => return self.selfdestruct(context, &prices, left),
            _ => memory,
        })
    }

    fn growth(&self, prices: &GasParams, bytes: u64) -> Result<u64, String> {
        if bytes > MEMORY {
            return Err(OVERFLOW.to_owned());
        }
        let cost = |bytes: u64| prices.memory_cost(words(bytes) as usize);
        Ok(cost(bytes).saturating_sub(cost(self.memory)))
    }

    /// `most` is how long the initial code may be from Shanghai on (EIP-3860, from Amsterdam on EIP-7954).
    fn creation(&self, prices: &GasParams, length: usize, most: usize) -> Result<u64, String> {
        if self.is(SHANGHAI) && length > most {
            return Err(format!("max initcode size exceeded: code size {length} limit {most}"));
        }
        let code = if self.is(SHANGHAI) { prices.initcode_cost(length) } else { 0 };
        Ok(match self.opcode {
            op::CREATE2 => code + prices.keccak256_cost(length),
            _ => code,
        })
    }

    fn sstore(
        &self,
        context: &mut Context<'_>,
        prices: &GasParams,
        left: u64,
    ) -> Result<u64, String> {
        if self.is(ISTANBUL) && left <= prices.call_stipend() {
            return Err("not enough gas for reentrancy sentry".to_owned());
        }
        let [slot, new_value, ..] = self.top;
        let account = context.journaled_state.inner.state.get(&self.contract);
        let loaded = account.and_then(|account| account.storage.get(&slot));
        let original_value = match loaded.map(|slot| slot.original_value) {
            Some(value) => value,
            None => slot_value(context, self.contract, slot),
        };
        // The journal has what is written already.
        let present_value = self.before.slot.unwrap_or(original_value);
        let values = SStoreResult { original_value, present_value, new_value };
        let is_net = self.is(ISTANBUL);
        Ok(prices.sstore_static_gas() + prices.sstore_dynamic_gas(is_net, &values, self.is_cold))
    }

    fn call(
        &self,
        context: &mut Context<'_>,
        prices: &GasParams,
        memory: u64,
        left: u64,
    ) -> Result<u64, String> {
        let out_of_gas = || OUT_OF_GAS.to_owned();
        let sends = matches!(self.opcode, op::CALL | op::CALLCODE) && !self.top[2].is_zero();
        if self.opcode == op::CALL && sends && self.is_static {
            return Err(WRITE_PROTECTION.to_owned());
        }
        let access = if self.is_cold { prices.cold_account_additional_cost() } else { 0 };
        let left = left.checked_sub(access).ok_or_else(out_of_gas)?;
        let callee = self.address(1);
        let mut own = memory + if sends { prices.transfer_value_cost() } else { 0 };
        if self.opcode == op::CALL {
            if left < own {
                return Err(out_of_gas());
            }
            let is_new = match self.is(SPURIOUS_DRAGON) {
                true => sends && is_empty(context, callee),
                false => !exists(context, callee),
            };
            own += if is_new { prices.new_account_cost(false, true) } else { 0 };
        }
        let mut delegate = 0;
        let mut for_call = left.wrapping_sub(own);
        if self.is(PRAGUE) {
            for_call = left.checked_sub(own).ok_or_else(out_of_gas)?;
            if let Some(code) = delegate_of(context, callee) {
                let cold = if is_cold(context, &code) { access_cost(prices) } else { 0 };
                delegate = prices.warm_storage_read_cost() + cold;
                for_call = for_call.checked_sub(delegate).ok_or_else(out_of_gas)?;
            }
        }
        let wanted = u64::try_from(self.top[0]);
        let given = match wanted {
            _ if self.is(TANGERINE) => wanted.unwrap_or(u64::MAX).min(for_call - for_call / 64),
            Ok(wanted) => wanted,
            Err(_) => return Err(OVERFLOW.to_owned()),
        };
        let total = access.checked_add(own).and_then(|sum| sum.checked_add(delegate));
        total.and_then(|sum| sum.checked_add(given)).ok_or_else(|| OVERFLOW.to_owned())
    }

    fn selfdestruct(
        &self,
        context: &mut Context<'_>,
        prices: &GasParams,
        left: u64,
    ) -> Result<u64, String> {
        let heir = self.address(0);
        let mut gas = if self.is_cold { prices.selfdestruct_cold_cost() } else { 0 };
        if self.is_cold && left < gas {
            return Err(OUT_OF_GAS.to_owned());
        }
        if !self.is(BERLIN) {
            gas += u64::from(gas_table_spec(self.spec)[usize::from(op::SELFDESTRUCT)]);
        }
        // Where the heir was not loaded before, it is as the block's state has it.
        let (is_empty, exists) = self.before.heir.unwrap_or_else(|| {
            let read = context.db_mut().basic(heir);
            let found = kept(context, read).flatten();
            (found.as_ref().is_none_or(|account| account.is_empty()), found.is_some())
        });
        let is_new = match self.is(SPURIOUS_DRAGON) {
            true => is_empty && !self.before.balance.is_zero(),
            false => !exists,
        };
        Ok(gas + if is_new { prices.new_account_cost_for_selfdestruct() } else { 0 })
    }
}

/// The value of a slot, without the slot becoming warm.
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

fn access_cost(prices: &GasParams) -> u64 {
    prices.cold_account_additional_cost()
}

fn is_cold(context: &Context<'_>, address: &Address) -> bool {
    let journal = &context.journaled_state.inner;
    let account = journal.state.get(address);
    account.is_none_or(|account| account.is_cold_transaction_id(journal.transaction_id))
        && journal.warm_addresses.is_cold(address)
}

fn is_empty(context: &mut Context<'_>, address: Address) -> bool {
    if let Some(account) = context.journaled_state.inner.state.get(&address) {
        return account.is_empty();
    }
    let read = context.db_mut().basic(address);
    kept(context, read).flatten().is_none_or(|account| account.is_empty())
}

fn exists(context: &mut Context<'_>, address: Address) -> bool {
    if let Some(account) = context.journaled_state.inner.state.get(&address) {
        return !account.is_loaded_as_not_existing_not_touched();
    }
    let read = context.db_mut().basic(address);
    kept(context, read).flatten().is_some()
}

/// Where an account's code is, if it is a delegation.
fn delegate_of(context: &mut Context<'_>, address: Address) -> Option<Address> {
    code_of(context, address)?.eip7702_address()
}

/// The code of an account, without the account becoming warm; `None` where there is no account, or no code.
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

/// What was read; where the state could not be read, the run ends with that.
pub(super) fn kept<T>(context: &mut Context<'_>, read: Result<T, InternalError>) -> Option<T> {
    match read {
        Ok(value) => Some(value),
        Err(error) => {
            context.error = Err(ContextError::Db(error));
            None
        }
    }
}

/// The end of a part of the memory; nothing lies anywhere.
fn end(offset: U256, length: U256) -> Option<u64> {
    let length = u64::try_from(length).ok()?;
    match length {
        0 => Some(0),
        _ => u64::try_from(offset).ok()?.checked_add(length),
    }
}

const fn words(bytes: u64) -> u64 {
    bytes.div_ceil(32)
}
