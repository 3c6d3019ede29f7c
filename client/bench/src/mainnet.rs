//! A state of mainnet's shape: what is published of mainnet's state, at any size.
//!
//! | | |
//! |---|---|
//! | bytes | a fifth accounts, a tenth code, seven tenths slots ([`ACCOUNT_BYTES`], [`SLOT_BYTES`]) |
//! | contracts | one of ten has code of its own of up to 24 KiB, the others are proxies (EIP-1167), which share a hundred codes |
//! | slots of a contract | the contract with the number n has a share of 1/n (Zipf's law): one giant, and a long tail of a few slots |
//! | lengths of code | a power law too, from 1,500 bytes on |
//! | values | a third counters and flags of a byte, the others amounts, addresses and hashes |
//!
//! Everything follows from the seed and the number of an account, in whole numbers: the same on every machine, and none of
//! it is held in memory.

use crate::{
    Random, SlotKeys,
    fixture::base::mix,
    workload::{CHAIN_ID, GENESIS_TIME, GWEI},
};
use alloy_primitives::{Address, Bytes, U256, hex};
use polytrie_chainspec::{GenesisPlan, InitialAccount};
use polytrie_state::{ACCOUNT_BYTES, SLOT_BYTES};
use serde::{Deserialize, Serialize};

/// What stands before and behind the address in a proxy's code (EIP-1167).
const PROXY: ([u8; 10], [u8; 15]) =
    (hex!("363d3d373d3d3d363d73"), hex!("5af43d82803e903d91602b57fd5bf3"));
/// Contracts that proxies point to.
const PROXIED: u64 = 100;
/// One of so many contracts has code of its own.
const OWN_CODE: u64 = 10;
/// The shortest code of its own.
const SHORTEST: u64 = 1_500;
/// The longest code that a contract can have (EIP-170).
pub const LONGEST_CODE: u64 = 24_576;
/// Mean length of code of its own: that of the power law between the two.
const MEAN_OWN: u64 = 5_694;
/// Bytes of code a contract: that of proxies is there once for all that point to the same one.
const MEAN: u64 = MEAN_OWN / OWN_CODE;
/// Gas limit of its chain.
const GAS_LIMIT: u64 = 60_000_000;
/// Shares are in units of 1 / 2^40.
const UNIT: u128 = 1 << 40;

/// How large the state is, and what it follows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MainnetShape {
    /// Bytes of accounts, slots and code together.
    pub bytes: u64,
    /// What everything random follows from.
    pub seed: u64,
}

/// How much a state holds of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Parts {
    /// Accounts, contracts included.
    pub accounts: u64,
    /// Slots.
    pub slots: u64,
    /// Contracts.
    pub contracts: u64,
    /// Bytes of their code, each code once but for those of proxies, which are few.
    pub code_bytes: u64,
    /// Slots of the largest contract.
    pub largest: u64,
}

impl Parts {
    /// Bytes of accounts, code and slots.
    pub const fn bytes(&self) -> [u64; 3] {
        [self.accounts * ACCOUNT_BYTES, self.code_bytes, self.slots * SLOT_BYTES]
    }
}

impl MainnetShape {
    /// The genesis of a chain that begins with it.
    pub fn genesis(self) -> GenesisPlan {
        GenesisPlan {
            chain_id: CHAIN_ID,
            fork_times: vec![0; 4],
            timestamp: GENESIS_TIME,
            gas_limit: GAS_LIMIT,
            base_fee: GWEI as u64,
            extra_data: Bytes::new(),
            deposit_contract: None,
        }
    }

    const fn accounts_count(self) -> u64 {
        self.bytes / 5 / ACCOUNT_BYTES
    }

    const fn contracts_count(self) -> u64 {
        self.bytes / 10 / MEAN
    }

    /// The accounts, in no order of their hashes.
    pub fn accounts(self) -> impl Iterator<Item = InitialAccount<'static>> {
        let contracts = self.contracts_count();
        let zipf = Zipf::new(self.bytes / 10 * 7 / SLOT_BYTES, contracts);
        let users = contracts..self.accounts_count();
        let contracts = (0..contracts).map(move |number| self.contract(number, &zipf));
        contracts.chain(users.map(move |number| self.user(number)))
    }

    /// How much the state holds, counted without making it.
    pub fn parts(self) -> Parts {
        let contracts = self.contracts_count();
        let zipf = Zipf::new(self.bytes / 10 * 7 / SLOT_BYTES, contracts);
        Parts {
            accounts: self.accounts_count(),
            slots: (0..contracts).map(|number| zipf.share(number)).sum(),
            contracts,
            code_bytes: (0..contracts).map(|number| self.code_length(number)).sum(),
            largest: if contracts > 0 { zipf.share(0) } else { 0 },
        }
    }

    /// A word of an account.
    const fn word(self, number: u64, part: u64) -> u64 {
        mix(self.seed ^ mix(number.wrapping_mul(8).wrapping_add(part)))
    }

    /// The address of an account by its number.
    pub fn address(self, number: u64) -> Address {
        let words = [1, 2, 3].map(|part| self.word(number, part).to_be_bytes()).concat();
        Address::from_slice(&words[..20])
    }

    fn user(self, number: u64) -> InitialAccount<'static> {
        // Most have sent a few transactions, a few very many.
        let nonce = 65_536 / (1 + self.word(number, 4) % 65_536) - 1;
        let balance = U256::from(self.word(number, 5)) << (self.word(number, 6) % 16) as usize;
        InitialAccount { nonce, ..InitialAccount::funded(self.address(number), balance) }
    }

    fn contract(self, number: u64, zipf: &Zipf) -> InitialAccount<'static> {
        let keys = SlotKeys { seed: self.word(number, 7), keys: zipf.share(number) };
        let slots = (0..keys.keys).map(move |slot| (keys.key(slot), value(keys.key(!slot))));
        InitialAccount {
            slots: Box::new(slots),
            ..InitialAccount::contract(self.address(number), self.code(number))
        }
    }

    /// Bytes of code that no other contract has.
    const fn code_length(self, number: u64) -> u64 {
        if !number.is_multiple_of(OWN_CODE) {
            return 0;
        }
        let (rank, count) = (number / OWN_CODE, self.contracts_count().div_ceil(OWN_CODE));
        // Ranks in another order than the shares of slots.
        let rank = count - 1 - rank;
        let length = SHORTEST * 2 * count / (2 * rank + 1);
        if length < LONGEST_CODE { length } else { LONGEST_CODE }
    }

    fn code(self, number: u64) -> Bytes {
        if !number.is_multiple_of(OWN_CODE) {
            // EIP-1167: most point to few.
            let target = self.address(number % (PROXIED * OWN_CODE) / OWN_CODE * OWN_CODE);
            return [&PROXY.0[..], target.as_slice(), &PROXY.1].concat().into();
        }
        // As compilers begin.
        let mut code = vec![0x60, 0x80, 0x60, 0x40, 0x52];
        let length = self.code_length(number) as usize;
        let mut random = Random::new(self.seed, number);
        while code.len() < length {
            code.extend(random.word().to_be_bytes());
        }
        code.truncate(length);
        code.into()
    }
}

/// A value of the sizes that real ones have; never zero.
fn value(random: U256) -> U256 {
    let bits: usize = match random.as_limbs()[0] % 12 {
        0..4 => 248,
        4..8 => 256 - 88,
        8..10 => 256 - 160,
        _ => 0,
    };
    (random >> bits) | U256::ONE
}

/// Shares of a whole by Zipf's law.
#[derive(Debug, Clone, Copy)]
struct Zipf {
    whole: u128,
    /// Of 1 + 1/2 + 1/3 … in [`UNIT`]s.
    sum: u128,
}

impl Zipf {
    fn new(whole: u64, count: u64) -> Self {
        let sum: u128 = (1..=u128::from(count)).map(|rank| UNIT / rank).sum();
        Self { whole: whole.into(), sum: sum.max(1) }
    }

    /// The share of a number from 0 on, rounded.
    const fn share(self, number: u64) -> u64 {
        let part = self.sum * (number as u128 + 1);
        ((self.whole * UNIT + part / 2) / part) as u64
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloy_primitives::keccak256;
    use std::collections::{HashMap, HashSet};

    const SHAPE: MainnetShape = MainnetShape { bytes: 4_000_000, seed: 3 };

    #[test]
    fn shares_are_those_of_mainnet() {
        let (mut found, mut codes, mut addresses) =
            (Parts::default(), HashMap::new(), HashSet::new());
        for account in SHAPE.accounts() {
            let slots: Vec<_> = account.slots.collect();
            assert!(slots.iter().all(|(_, value)| !value.is_zero()));
            assert!(addresses.insert(account.address));
            found.accounts += 1;
            found.slots += slots.len() as u64;
            found.largest = found.largest.max(slots.len() as u64);
            if !account.code.is_empty() {
                found.contracts += 1;
                assert!(account.code.len() as u64 <= LONGEST_CODE);
                codes.insert(keccak256(&account.code), account.code.len() as u64);
            }
        }
        let own = codes.values().filter(|length| **length != 45);
        found.code_bytes = own.sum();
        assert_eq!(found, SHAPE.parts());
        // With the proxies, each code once.
        let code: u64 = codes.values().sum();
        let [accounts, _, slots] = found.bytes();
        for (bytes, percent) in [(accounts, 20), (code, 10), (slots, 70)] {
            let expected = (SHAPE.bytes / 100 * percent) as f64;
            let off = (bytes as f64 / expected - 1.0).abs();
            assert!(off < 0.05, "{percent} %: {bytes} bytes, expected {expected}");
        }
        assert!(found.largest > found.slots / 20, "{found:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        let written = |shape: MainnetShape| {
            let mut out = Vec::new();
            shape.genesis().write(shape.accounts(), &mut out).unwrap();
            keccak256(out)
        };
        let small = MainnetShape { bytes: 400_000, seed: 3 };
        assert_eq!(written(small), written(small));
        assert_ne!(written(small), written(MainnetShape { seed: 4, ..small }));
    }
}
