//! The state of the worst cases.

use super::{
    WorstSpec,
    cases::{
        DEEP, Routine, SAME, address, base, contract, counting, delegating, destroying, doomed,
        powers, slot,
    },
    mined::{Mined, mine},
};
use crate::{
    Random, Wallet,
    mainnet::{LONGEST_CODE, MainnetShape},
    workload::{GENESIS_TIME, genesis},
};
use alloy_primitives::{Bytes, U256, uint};
use polytrie_chainspec::{GenesisPlan, InitialAccount};
use polytrie_state::{hash_address, hash_slot};

/// Number of accounts that send.
const SENDERS: usize = 64;
/// Balance of each: a million ether.
const BALANCE: U256 = uint!(1_000_000_000_000_000_000_000_000_U256);
/// Greatest number of keys from which deep ones are mined; each takes 40 bytes of memory.
const MOST_MINED: u64 = 1 << 22;
/// Seconds from the genesis block to the fork Cancun, and all later forks.
pub(super) const CANCUN_AFTER: u64 = 100_000;

impl WorstSpec {
    /// Returns the genesis of the chain. Before Cancun a contract can be destroyed with its slots.
    pub(crate) fn genesis(&self) -> GenesisPlan {
        let cancun = GENESIS_TIME + CANCUN_AFTER;
        // The fullest block uses no more than half of the limit. So the base fee never rises above what transactions
        // pay, however many blocks there are.
        let plan = genesis(2 * self.most_gas);
        GenesisPlan { fork_times: vec![0, cancun, cancun, cancun], ..plan }
    }

    /// Returns the wallet of the accounts that send transactions.
    pub(super) fn wallet(&self) -> Wallet {
        Wallet::new(self.seed, SENDERS)
    }

    fn pairs(&self) -> (u32, usize) {
        let pool = (4 * self.largest()).min(MOST_MINED) as u32;
        (pool, (self.largest() / 100) as usize)
    }

    /// Mines the deep slots.
    pub(super) fn deep_slots(&self) -> Mined {
        let (pool, pairs) = self.pairs();
        mine(pool, pairs, |number| hash_slot(&slot(base::DEEP_SLOTS + number)))
    }

    /// Mines the deep accounts.
    pub(super) fn deep_accounts(&self) -> Mined {
        let (pool, pairs) = self.pairs();
        mine(pool, pairs, |number| hash_address(&address(base::DEEP_ACCOUNTS + number)))
    }

    /// Returns all accounts but the system contracts, in any order.
    pub(crate) fn accounts(&self) -> impl Iterator<Item = InitialAccount<'static>> + use<> {
        let spec = *self;
        let senders = spec.wallet().addresses().to_vec();
        let senders = senders.into_iter().map(|sender| InitialAccount::funded(sender, BALANCE));
        let routines = Routine::ALL.into_iter();
        let routines = routines.map(|it| InitialAccount::contract(it.address(), it.code()));
        let contracts = powers(&spec).map(|power| with_slots(contract(power), 10_u64.pow(power)));
        let doomed = (1..=spec.blocks).map(move |block| InitialAccount {
            code: destroying(),
            ..with_slots(doomed(block), spec.largest() / 10)
        });
        let small = (0..spec.small()).map(|number| InitialAccount {
            code: counting(),
            ..with_slots(address(base::SMALL + number), 1)
        });
        let same = InitialAccount { code: counting(), ..with_slots(SAME, 1) };
        let codes = (0..spec.codes).map(move |number| {
            InitialAccount::contract(address(base::CODES + number), long_code(spec.seed, number))
        });
        let slots = spec.deep_slots().all.into_iter();
        let slots = slots.map(|number| (slot(base::DEEP_SLOTS + u64::from(number)), U256::ONE));
        let deep = InitialAccount {
            balance: BALANCE,
            slots: Box::new(slots),
            ..InitialAccount::contract(DEEP, delegating())
        };
        let deep_accounts = spec.deep_accounts().all.into_iter().map(|number| {
            let address = address(base::DEEP_ACCOUNTS + u64::from(number));
            InitialAccount::funded(address, U256::ONE)
        });
        let around = MainnetShape { bytes: spec.size, seed: spec.seed }.accounts();
        let cases = senders.chain(routines).chain(contracts).chain(doomed).chain(small);
        cases.chain([same, deep]).chain(codes).chain(deep_accounts).chain(around)
    }
}

/// Returns a contract that delegates, with the first `count` slots.
fn with_slots(at: alloy_primitives::Address, count: u64) -> InitialAccount<'static> {
    let slots = (0..count).map(|number| (slot(base::SLOTS + number), U256::from(number + 1)));
    InitialAccount {
        balance: BALANCE,
        slots: Box::new(slots),
        ..InitialAccount::contract(at, delegating())
    }
}

/// Returns code of the greatest length that no other contract has.
fn long_code(seed: u64, number: u64) -> Bytes {
    let mut random = Random::new(seed, !number);
    // The code begins with STOP.
    let mut code = vec![0];
    while code.len() < LONGEST_CODE as usize {
        code.extend(random.word().to_be_bytes());
    }
    code.truncate(LONGEST_CODE as usize);
    code.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Above the target of EIP-1559, which is half of the limit, each block would raise the base fee by an eighth: after
    /// forty blocks it would be more than transactions offer.
    #[test]
    fn full_blocks_do_not_raise_the_base_fee() {
        for most_gas in [1_000_000, 60_000_000, 100_000_000_000] {
            let spec =
                WorstSpec { seed: 1, size: 0, slots: 1_000, codes: 1, blocks: 1_000, most_gas };
            assert!(spec.genesis().gas_limit / 2 >= most_gas, "{spec:?}");
        }
    }
}
