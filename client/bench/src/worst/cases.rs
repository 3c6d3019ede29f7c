//! The cases: the contracts and transactions of each.
//!
//! A contract with slots delegates to the routine that the call names, so that cases share contracts. A routine goes
//! through numbers until its gas ends. The number n stands for the slot or the address n · [`FACTOR`]; these are far
//! from each other in any order of keys that a layer may use.

use super::WorstSpec;
use crate::assembler::Assembler;
use alloy_primitives::{Address, Bytes, U256, uint};
use revm::bytecode::opcode::{
    ADD, BALANCE, CALL, CALLDATACOPY, CALLDATALOAD, CALLDATASIZE, CALLER, DELEGATECALL, DUP1, DUP2,
    DUP3, DUP4, DUP6, EXTCODECOPY, EXTCODESIZE, GAS, GT, MOD, MUL, POP, SELFDESTRUCT, SHR, SLOAD,
    SSTORE, STOP, SWAP1,
};

/// Factor of a number. It is odd, so that no two numbers stand for the same slot or address.
const FACTOR: U256 = uint!(0x9e3779b97f4a7c15f39cc0605cedc8341082276bf3a27251f86c6a11d0c18e95_U256);
/// Gas below which a routine ends.
const RESERVE: u64 = 60_000;

/// Offset of the routine in a call's data.
const ROUTINE: u64 = 0;
/// Offset of the first number.
const FIRST: u64 = 0x20;
/// Offset of the count of numbers, after which they start again.
const COUNT: u64 = 0x40;
/// Offset of the base that is added to a number.
const BASE: u64 = 0x60;
/// Offset of the value to store.
const VALUE: u64 = 0x80;
/// Offset of the list of numbers, 4 bytes each.
const LIST: u64 = 0xa0;

/// First numbers of the ranges.
pub(super) mod base {
    /// Slots of contracts.
    pub(in super::super) const SLOTS: u64 = 0;
    /// Slots from which the deep ones are mined.
    pub(in super::super) const DEEP_SLOTS: u64 = 1 << 33;
    /// Accounts from which the deep ones are mined.
    pub(in super::super) const DEEP_ACCOUNTS: u64 = 1 << 34;
    /// Contracts with long code.
    pub(in super::super) const CODES: u64 = 1 << 40;
    /// Contracts with one slot.
    pub(in super::super) const SMALL: u64 = 1 << 41;
    /// Keys that do not exist.
    pub(in super::super) const ABSENT: u64 = 1 << 53;
}

/// Returns the slot of a number.
pub(super) fn slot(number: u64) -> U256 {
    U256::from(number).wrapping_mul(FACTOR)
}

/// Returns the address of a number.
pub(super) fn address(number: u64) -> Address {
    Address::from_word(slot(number).into())
}

/// Returns the address of a contract of the cases.
const fn place(number: u16) -> Address {
    let mut bytes = [0; 20];
    let number = number.to_be_bytes();
    bytes[0] = 0x70;
    bytes[1] = 0x70;
    bytes[18] = number[0];
    bytes[19] = number[1];
    Address::new(bytes)
}

/// Returns the address of the contract with 10^`power` slots.
pub(super) const fn contract(power: u32) -> Address {
    place(0x200 + power as u16)
}

/// Address of the contract with the deep slots.
pub(super) const DEEP: Address = place(0x300);
/// Address of the contract whose only slot every transaction accesses.
pub(super) const SAME: Address = place(0x301);

/// Returns the address of the contract that block `block` destroys.
pub(super) const fn doomed(block: u64) -> Address {
    place(0x1000 + block as u16)
}

/// Instructions that a case repeats, for one slot or address after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Routine {
    Load,
    Store,
    ThereAndBack,
    Balance,
    Pay,
    CodeSize,
    CodeCopy,
    StoreAndCall,
    LoadListed,
    BalanceListed,
}

impl Routine {
    /// All routines.
    pub(super) const ALL: [Self; 10] = [
        Self::Load,
        Self::Store,
        Self::ThereAndBack,
        Self::Balance,
        Self::Pay,
        Self::CodeSize,
        Self::CodeCopy,
        Self::StoreAndCall,
        Self::LoadListed,
        Self::BalanceListed,
    ];

    /// Returns the address of its code.
    pub(super) const fn address(self) -> Address {
        place(0x100 + self as u16)
    }

    /// Returns the gas that a number takes at least, where a transaction comes to it for the first time.
    pub(super) const fn least_gas(self) -> u64 {
        match self {
            Self::Load | Self::LoadListed => 2_100,
            Self::Balance | Self::BalanceListed | Self::CodeSize => 2_600,
            Self::CodeCopy => 4_900,
            Self::Store | Self::ThereAndBack => 5_000,
            Self::StoreAndCall => 29_000,
            Self::Pay => 34_300,
        }
    }

    /// Returns its code. The instructions of the routine consume the slot or address on top of the stack.
    pub(super) fn code(self) -> Bytes {
        match self {
            Self::Load => through(|code| code.ops(&[SLOAD, POP])),
            Self::Store => through(|code| value(code).ops(&[SWAP1, SSTORE])),
            // The value v is read, then v + 1 is stored, then v.
            Self::ThereAndBack => through(|code| {
                let code = code.ops(&[DUP1, SLOAD, DUP1]).push(1).ops(&[ADD, DUP3, SSTORE]);
                code.ops(&[SWAP1, SSTORE])
            }),
            Self::Balance => through(|code| code.ops(&[BALANCE, POP])),
            Self::Pay => through(|code| {
                let code = code.push(0).push(0).push(0).push(0).push(1).ops(&[DUP6]);
                code.push(0).ops(&[CALL, POP, POP])
            }),
            Self::CodeSize => through(|code| code.ops(&[EXTCODESIZE, POP])),
            Self::CodeCopy => through(|code| {
                let code = code.push(crate::mainnet::LONGEST_CODE).push(0).push(0);
                code.ops(&[DUP4, EXTCODECOPY, POP])
            }),
            Self::StoreAndCall => through(|code| {
                let code = value(code).ops(&[DUP2, SSTORE]);
                code.push(0).push(0).push(0).push(0).push(0).ops(&[DUP6, GAS, CALL, POP, POP])
            }),
            Self::LoadListed => listed(|code| code.ops(&[SLOAD, POP])),
            Self::BalanceListed => listed(|code| code.ops(&[BALANCE, POP])),
        }
    }
}

fn value(code: Assembler) -> Assembler {
    code.push(VALUE).ops(&[CALLDATALOAD])
}

/// Replaces the number on top of the stack by its slot or address.
fn stands_for(code: Assembler) -> Assembler {
    let code = code.push(BASE).ops(&[CALLDATALOAD, ADD]);
    code.push_bytes(&FACTOR.to_be_bytes::<32>()).ops(&[MUL])
}

/// Returns code that goes through numbers while there is gas.
fn through(each: impl FnOnce(Assembler) -> Assembler) -> Bytes {
    let code = Assembler::new().push(FIRST).ops(&[CALLDATALOAD]).label("next");
    let code = code.ops(&[DUP1]).push(COUNT).ops(&[CALLDATALOAD, SWAP1, MOD]);
    let code = each(stands_for(code)).push(1).ops(&[ADD]);
    code.push(RESERVE).ops(&[GAS, GT]).jump_if("next").ops(&[STOP]).finish()
}

/// Returns code that goes through the list of numbers.
fn listed(each: impl FnOnce(Assembler) -> Assembler) -> Bytes {
    let code = Assembler::new().push(LIST).label("next");
    let code = code.ops(&[DUP1, CALLDATALOAD]).push(224).ops(&[SHR]);
    let code = each(stands_for(code)).push(4).ops(&[ADD, DUP1]);
    code.ops(&[CALLDATASIZE, GT]).jump_if("next").ops(&[STOP]).finish()
}

/// Returns code that delegates to the routine in its data.
pub(super) fn delegating() -> Bytes {
    let code = Assembler::new().ops(&[CALLDATASIZE]).push(0).push(0).ops(&[CALLDATACOPY]);
    let code = code.push(0).push(0).ops(&[CALLDATASIZE]).push(0).push(ROUTINE);
    code.ops(&[CALLDATALOAD, GAS, DELEGATECALL, STOP]).finish()
}

/// Returns code that adds one to its slot 0.
pub(super) fn counting() -> Bytes {
    let code = Assembler::new().push(0).ops(&[SLOAD]).push(1).ops(&[ADD]).push(0);
    code.ops(&[SSTORE, STOP]).finish()
}

/// Returns code that destroys its contract.
pub(super) fn destroying() -> Bytes {
    Assembler::new().ops(&[CALLER, SELFDESTRUCT]).finish()
}

/// Encodes a call of a contract that delegates, with the first number and the list.
pub(super) fn call(calls: &Calls, first: u64, list: &[u32]) -> Bytes {
    let Calls { routine, count, base, value, .. } = calls;
    // No number reaches half of the range of 64 bits.
    let count = count.unwrap_or(1 << 63);
    let mut data = routine.address().into_word().to_vec();
    for word in [first, count, *base, *value] {
        data.extend(U256::from(word).to_be_bytes::<32>());
    }
    data.extend(list.iter().flat_map(|number| number.to_be_bytes()));
    data.into()
}

/// Long transactions of one routine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Calls {
    pub(super) to: Address,
    pub(super) routine: Routine,
    /// Number of numbers; `None` if they never start again.
    pub(super) count: Option<u64>,
    pub(super) base: u64,
    pub(super) value: u64,
}

/// Transactions of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plan {
    /// Each goes through other numbers.
    Through(Calls),
    /// Each goes through a part of a list of mined numbers, each of which takes this much gas.
    Listed(Calls, u64),
    /// Many short ones, to the same contract.
    Short(Address),
    /// One per block, which destroys another contract. Only before Cancun, because since then hardly anything is
    /// destroyed (EIP-6780).
    Destroy,
}

/// A worst case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// Name on the command line.
    pub name: String,
    /// Description of its blocks.
    pub about: String,
    pub(super) plan: Plan,
}

impl Case {
    /// Returns all cases, in their order.
    pub fn all(spec: &WorstSpec) -> Vec<Self> {
        let mut cases = Vec::new();
        let mut add = |name: &str, about: &str, plan| {
            cases.push(Self { name: name.to_owned(), about: about.to_owned(), plan });
        };
        let powers = powers(spec);
        let largest = contract(*powers.end());
        let through = |to, routine, count, base, value| {
            Plan::Through(Calls { to, routine, count, base, value })
        };
        for power in powers {
            let (to, count) = (contract(power), Some(10_u64.pow(power)));
            let present = through(to, Routine::Load, count, base::SLOTS, 0);
            let about = format!("SLOAD of slots that are there, in a contract of 10^{power}");
            add(&format!("sload-present-1e{power}"), &about, present);
            let absent = through(to, Routine::Load, None, base::ABSENT, 0);
            let about = format!("SLOAD of slots that are not there, in a contract of 10^{power}");
            add(&format!("sload-absent-1e{power}"), &about, absent);
        }
        let count = Some(spec.largest());
        let stores = |count, base, value| through(largest, Routine::Store, count, base, value);
        add(
            "sstore-set",
            "SSTORE of new slots in the largest contract",
            stores(None, base::ABSENT, 1),
        );
        add(
            "sstore-clear",
            "SSTORE of zero to slots of the largest contract",
            stores(count, base::SLOTS, 0),
        );
        let back = through(largest, Routine::ThereAndBack, count, base::SLOTS, 0);
        add("sstore-there-and-back", "two SSTOREs a slot, the second of what was there", back);
        let pay = through(largest, Routine::Pay, None, base::ABSENT, 0);
        add("accounts-new", "1 wei to accounts that were not there", pay);
        let balances = through(largest, Routine::Balance, None, base::ABSENT, 0);
        add("balance-absent", "BALANCE of accounts that are not there", balances);
        let codes = Some(spec.codes);
        let size = through(largest, Routine::CodeSize, codes, base::CODES, 0);
        add("extcodesize-24k", "EXTCODESIZE of contracts with 24 KiB of code", size);
        let copy = through(largest, Routine::CodeCopy, codes, base::CODES, 0);
        add("extcodecopy-24k", "EXTCODECOPY of all 24 KiB of contracts", copy);
        let mined = |to, routine, base| Calls { to, routine, count: None, base, value: 0 };
        let slots = Plan::Listed(mined(DEEP, Routine::LoadListed, base::DEEP_SLOTS), 2_400);
        add("deep-slots", "SLOAD of slots whose branches were mined to lie deep", slots);
        let accounts =
            Plan::Listed(mined(DEEP, Routine::BalanceListed, base::DEEP_ACCOUNTS), 2_900);
        add("deep-accounts", "BALANCE of accounts whose branches were mined to lie deep", accounts);
        add(
            "selfdestruct-large",
            "one SELFDESTRUCT a block, of a contract with a tenth of the slots of the largest",
            Plan::Destroy,
        );
        let giant = through(largest, Routine::StoreAndCall, Some(spec.small()), base::SMALL, 3);
        add(
            "giant-and-small",
            "a new slot of the largest contract, and one of a small contract, in turns",
            giant,
        );
        add("same-slot", "the same slot, read and written by every transaction", Plan::Short(SAME));
        cases
    }
}

/// Returns the powers of ten for which there is a contract.
pub(super) fn powers(spec: &WorstSpec) -> std::ops::RangeInclusive<u32> {
    3..=spec.slots.max(1_000).ilog10()
}

impl WorstSpec {
    /// Returns the number of slots of the largest contract.
    pub(super) fn largest(&self) -> u64 {
        10_u64.pow(*powers(self).end())
    }

    /// Returns the number of contracts with one slot.
    pub(super) fn small(&self) -> u64 {
        self.largest() / 10
    }
}
