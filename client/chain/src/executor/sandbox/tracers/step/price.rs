//! The price of a step, and the reason why it cannot be paid, as in geth.
//!
//! The EVM stops counting where the gas does not suffice, but geth first computes the whole price.

use super::{Context, Step, code_of, is_cold, kept, slot_value};
use revm::{
    Database,
    bytecode::opcode::{self as op, OpCode},
    context::{Cfg, ContextTr},
    context_interface::{cfg::GasParams, context::SStoreResult},
    interpreter::{InstructionResult, instructions::gas_table_spec},
    primitives::{
        Address, U256,
        hardfork::SpecId::{BERLIN, ISTANBUL, PRAGUE, SHANGHAI, SPURIOUS_DRAGON, TANGERINE},
    },
};

/// Greatest size of memory for which geth counts gas, in bytes.
const MEMORY: u64 = 0x1F_FFFF_FFE0;

const OUT_OF_GAS: &str = "out of gas";
const OVERFLOW: &str = "gas uint64 overflow";
const WRITE_PROTECTION: &str = "write protection";

/// Price of a step.
#[derive(Debug)]
pub(in crate::executor::sandbox::tracers) struct Price {
    pub(in crate::executor::sandbox::tracers) gas: u64,
    /// Reason why the step cannot be paid.
    pub(in crate::executor::sandbox::tracers) fault: Option<String>,
}

impl Step {
    /// Returns the price of the instruction, which failed with `result`. The caller must not change the state between
    /// the step and this call.
    pub(in crate::executor::sandbox::tracers) fn price(
        &self,
        result: InstructionResult,
        context: &mut Context<'_>,
    ) -> Price {
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

    /// Returns the part of the price that depends on the instruction alone.
    fn fixed(&self) -> u64 {
        match self.opcode {
            op::EXP | op::SSTORE | op::LOG0..=op::LOG4 => 0,
            op::SLOAD if self.is(BERLIN) => 0,
            op::SELFDESTRUCT if !self.is(BERLIN) => 0,
            op::CREATE | op::CREATE2 => GasParams::new_spec(self.spec).create_cost(),
            opcode => u64::from(gas_table_spec(self.spec)[usize::from(opcode)]),
        }
    }

    /// Returns the size of the memory that the step needs, in bytes; `None` if it cannot be represented.
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

    /// Returns the other part of the price, given that `left` gas is there to pay it, or the reason why it cannot be
    /// computed.
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

    /// Returns the price of a creation. `most` is the greatest length of init code from Shanghai on (EIP-3860, from
    /// Amsterdam on EIP-7954).
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
        // The journal has the new value already, so the former one comes from before the step.
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
        // If the receiver was not loaded before, its values are those of the block's state.
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

fn access_cost(prices: &GasParams) -> u64 {
    prices.cold_account_additional_cost()
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

/// Returns the address of an account's code, if it is a delegation.
fn delegate_of(context: &mut Context<'_>, address: Address) -> Option<Address> {
    code_of(context, address)?.eip7702_address()
}

/// Returns the end of a part of the memory; an empty part ends at 0.
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
