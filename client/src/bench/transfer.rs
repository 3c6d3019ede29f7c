//! Plain transfers of ether.

use super::{BlockPlan, GenesisPlan, Planned, Random, Wallet, Workload};
use alloy_consensus::{Header, Sealed, TxEip1559};
use alloy_genesis::GenesisAccount;
use alloy_primitives::{Address, Bytes, U256, uint};
use clap::ValueEnum;
use serde::Serialize;

/// Gas of a transfer to an account without code.
const TRANSFER_GAS: u64 = 21_000;
/// Chain id of generated chains; no network is known to use it.
pub(super) const CHAIN_ID: u64 = 70_717;
/// 2026-01-01. A date in the past keeps every client content.
pub(super) const GENESIS_TIME: u64 = 1_767_225_600;
/// Seconds between blocks, as on mainnet.
pub(super) const BLOCK_TIME: u64 = 12;
pub(super) const GWEI: u128 = 1_000_000_000;
/// 1,000 ether: enough for millions of transactions of one account.
const BALANCE: U256 = uint!(1_000_000_000_000_000_000_000_U256);

/// How often which account takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Popularity {
    /// Each account as often as any other.
    Uniform,
    /// A tenth of the accounts in nine tenths of the cases.
    Hot,
}

impl Popularity {
    /// One of `accounts` accounts.
    pub fn pick(self, accounts: usize, random: &mut Random) -> usize {
        let hot = accounts.div_ceil(10);
        match self {
            Self::Hot if random.percent(90) => random.index(hot),
            Self::Hot if hot < accounts => hot + random.index(accounts - hot),
            _ => random.index(accounts),
        }
    }
}

/// The size and shape of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Size {
    /// Accounts at genesis, at least 1.
    pub accounts: usize,
    /// Transactions in all blocks together.
    pub txs: u64,
    /// Transactions in a block, at least 1; the last one may have fewer.
    pub block_txs: u64,
    /// Which accounts take part.
    pub popularity: Popularity,
    /// Recipients that did not exist before, in percent.
    pub new_recipients: u64,
    /// What everything random follows from.
    #[serde(skip)]
    pub seed: u64,
}

/// EIP-1559 transfers between accounts that exist, and to some that come into being by it.
#[derive(Debug)]
pub struct Transfer {
    size: Size,
    wallet: Wallet,
    random: Random,
    left: u64,
}

impl Transfer {
    /// The workload of this size. Derives all keys at once.
    pub fn new(size: Size) -> Self {
        let wallet = Wallet::new(size.seed, size.accounts);
        Self { size, wallet, random: Random::new(size.seed, 0), left: size.txs }
    }

    /// Sender, recipient, value in wei.
    fn transfer(&mut self) -> (usize, Address, u64) {
        let (accounts, popularity) = (self.size.accounts, self.size.popularity);
        let random = &mut self.random;
        let from = popularity.pick(accounts, random);
        let to = if random.percent(self.size.new_recipients) {
            Address::from(random.bytes())
        } else {
            // Another one than the sender, if there is another one.
            let to = popularity.pick(accounts, random);
            let to = if to == from { (to + 1) % accounts } else { to };
            self.wallet.address(to)
        };
        // Up to a hundredth of an ether.
        (from, to, 1 + random.below(10_000_000_000_000_000))
    }
}

impl Workload for Transfer {
    fn genesis(&self) -> GenesisPlan {
        GenesisPlan {
            chain_id: CHAIN_ID,
            // Everything up to Osaka.
            fork_times: vec![0; 4],
            timestamp: GENESIS_TIME,
            // Full blocks use exactly the target, so the base fee stays where it is.
            gas_limit: (2 * TRANSFER_GAS * self.size.block_txs).max(1_000_000),
            base_fee: GWEI as u64,
            extra_data: Bytes::new(),
            deposit_contract: None,
        }
    }

    fn accounts(&self) -> Box<dyn Iterator<Item = (Address, GenesisAccount)> + '_> {
        // Balances of different digits, as real ones have them.
        let mut random = Random::new(self.size.seed, 1);
        Box::new(self.wallet.addresses().iter().map(move |address| {
            let balance = BALANCE + U256::from(random.word());
            (*address, GenesisAccount { balance, ..Default::default() })
        }))
    }

    fn wallet(&self) -> &Wallet {
        &self.wallet
    }

    fn next_block(&mut self, parent: &Sealed<Header>) -> Option<BlockPlan> {
        let txs = self.left.min(self.size.block_txs);
        if txs == 0 {
            return None;
        }
        self.left -= txs;
        let mut plan = BlockPlan::after(parent, parent.hash(), BLOCK_TIME);
        for _ in 0..txs {
            let (from, to, value) = self.transfer();
            let tx = TxEip1559 {
                chain_id: CHAIN_ID,
                nonce: self.wallet.use_nonce(from),
                gas_limit: TRANSFER_GAS,
                max_fee_per_gas: 100 * GWEI,
                max_priority_fee_per_gas: GWEI / 10 + u128::from(self.random.below(GWEI as u64)),
                to: to.into(),
                value: U256::from(value),
                ..Default::default()
            };
            plan.transactions.push(Planned { from, tx: tx.into() });
        }
        Some(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_tenths_go_to_a_tenth() {
        let mut random = Random::new(3, 0);
        let hot = (0..10_000).filter(|_| Popularity::Hot.pick(1000, &mut random) < 100).count();
        assert!((8_800..9_200).contains(&hot), "{hot}");
        for accounts in 1..20 {
            for popularity in [Popularity::Hot, Popularity::Uniform] {
                let mut seen = vec![false; accounts];
                for _ in 0..2000 {
                    seen[popularity.pick(accounts, &mut random)] = true;
                }
                assert!(seen.iter().all(|seen| *seen), "{popularity:?} of {accounts}");
            }
        }
    }
}
