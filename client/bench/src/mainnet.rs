//! A state of mainnet's shape, at any size, after published figures of mainnet's state.
//!
//! | | |
//! |---|---|
//! | bytes | a fifth accounts, a tenth code, seven tenths slots ([`ACCOUNT_BYTES`], [`SLOT_BYTES`]) |
//! | contracts | one of ten has code of its own of up to 24 KiB, the others are proxies (EIP-1167), which share a hundred codes |
//! | slots of a contract | the contract with the number n has a share of 1/n (Zipf's law): one giant, and a long tail of a few slots |
//! | lengths of code | a power law too, from 1,500 bytes on |
//! | values | a third counters and flags of a byte, the others amounts, addresses and hashes |
//!
//! Each account follows from the seed and its number, in integer arithmetic: the same on every machine, and without a
//! table of accounts in memory.

use crate::{Random, SlotKeys, fixture::base::mix, workload};
use alloy_primitives::{Address, Bytes, U256, hex};
use polytrie_chainspec::{GenesisPlan, InitialAccount};
use polytrie_state::{ACCOUNT_BYTES, SLOT_BYTES};
use serde::{Deserialize, Serialize};

/// Bytes before and after the address in the code of a proxy (EIP-1167).
const PROXY: ([u8; 10], [u8; 15]) =
    (hex!("363d3d373d3d3d363d73"), hex!("5af43d82803e903d91602b57fd5bf3"));
/// Number of contracts that proxies point to.
const PROXIED: u64 = 100;
/// One of this many contracts has unique code; the others are proxies.
const OWN_CODE: u64 = 10;
/// Length in bytes of the shortest such code.
const SHORTEST: u64 = 1_500;
/// Length in bytes of the longest code that a contract can have (EIP-170).
pub const LONGEST_CODE: u64 = 24_576;
/// Mean length in bytes of such code: that of the power law between [`SHORTEST`] and [`LONGEST_CODE`].
const MEAN_OWN: u64 = 5_694;
/// Mean bytes of code for a contract. All proxies to one contract share their code, so it hardly counts.
const MEAN: u64 = MEAN_OWN / OWN_CODE;
/// Gas limit of the generated chain.
const GAS_LIMIT: u64 = 60_000_000;
/// Fixed-point unit of shares: 2^40 is 1.
const UNIT: u128 = 1 << 40;

/// Parameters of the state: its size and its seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MainnetShape {
    /// Bytes of accounts, slots and code together; the generated state comes near to it.
    pub bytes: u64,
    /// Seed of everything random.
    pub seed: u64,
}

/// Counts of what a state holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Parts {
    /// Accounts, with the contracts among them.
    pub accounts: u64,
    /// Slots of all contracts.
    pub slots: u64,
    /// Accounts with code.
    pub contracts: u64,
    /// Bytes of the code that is no proxy's; the few codes of proxies are not counted.
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
    /// The genesis of a chain that begins with this state.
    pub fn genesis(self) -> GenesisPlan {
        workload::genesis(GAS_LIMIT)
    }

    const fn accounts_count(self) -> u64 {
        self.bytes / 5 / ACCOUNT_BYTES
    }

    const fn contracts_count(self) -> u64 {
        self.bytes / 10 / MEAN
    }

    /// Shares of the contracts of all slots.
    fn zipf(self) -> Zipf {
        Zipf::new(self.bytes / 10 * 7 / SLOT_BYTES, self.contracts_count())
    }

    /// All accounts, not sorted by hash: first contracts, then accounts without code.
    pub fn accounts(self) -> impl Iterator<Item = InitialAccount<'static>> {
        let (contracts, zipf) = (self.contracts_count(), self.zipf());
        let users = contracts..self.accounts_count();
        let contracts = (0..contracts).map(move |number| self.contract(number, &zipf));
        contracts.chain(users.map(move |number| self.user(number)))
    }

    /// Counts of the state, computed without making its accounts.
    pub fn parts(self) -> Parts {
        let (contracts, zipf) = (self.contracts_count(), self.zipf());
        Parts {
            accounts: self.accounts_count(),
            slots: (0..contracts).map(|number| zipf.share(number)).sum(),
            contracts,
            code_bytes: (0..contracts).map(|number| self.code_length(number)).sum(),
            largest: if contracts > 0 { zipf.share(0) } else { 0 },
        }
    }

    /// A pseudo-random word of an account; `part` numbers its words.
    const fn word(self, number: u64, part: u64) -> u64 {
        mix(self.seed ^ mix(number.wrapping_mul(8).wrapping_add(part)))
    }

    /// Address of the account with this number.
    pub fn address(self, number: u64) -> Address {
        let words = [1, 2, 3].map(|part| self.word(number, part).to_be_bytes()).concat();
        Address::from_slice(&words[..20])
    }

    fn user(self, number: u64) -> InitialAccount<'static> {
        // Most accounts have sent a few transactions, a few accounts very many.
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

    /// Bytes of code that only this contract has; 0 for a proxy.
    const fn code_length(self, number: u64) -> u64 {
        if !number.is_multiple_of(OWN_CODE) {
            return 0;
        }
        let (rank, count) = (number / OWN_CODE, self.contracts_count().div_ceil(OWN_CODE));
        // The ranks run against the order of the shares of slots, so that contracts with many slots do not have
        // the longest code.
        let rank = count - 1 - rank;
        let length = SHORTEST * 2 * count / (2 * rank + 1);
        if length < LONGEST_CODE { length } else { LONGEST_CODE }
    }

    fn code(self, number: u64) -> Bytes {
        if !number.is_multiple_of(OWN_CODE) {
            // A proxy (EIP-1167). Few contracts have most of the proxies.
            let target = self.address(number % (PROXIED * OWN_CODE) / OWN_CODE * OWN_CODE);
            return [&PROXY.0[..], target.as_slice(), &PROXY.1].concat().into();
        }
        // The first bytes that compilers emit.
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

/// A non-zero value. The lengths of values are distributed as on mainnet.
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
    /// The sum 1 + 1/2 + 1/3 + … up to the number of shares, in [`UNIT`]s.
    sum: u128,
}

impl Zipf {
    fn new(whole: u64, count: u64) -> Self {
        let sum: u128 = (1..=u128::from(count)).map(|rank| UNIT / rank).sum();
        Self { whole: whole.into(), sum: sum.max(1) }
    }

    /// The share of the contract with this number (from 0), rounded to a whole number.
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
        // Codes of proxies included, each distinct code once.
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
