//! The common size and shape of the synthetic workloads.

use super::{
    super::{BlockPlan, Planned, Random, Wallet},
    BLOCK_TIME,
};
use alloy_consensus::{Header, Sealed};
use alloy_primitives::Address;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// How often which account takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Popularity {
    /// Each account as often as any other.
    #[serde(rename = "uniform")]
    Uniform,
    /// A tenth of the accounts in nine tenths of the cases.
    #[value(name = "90/10", alias = "hot")]
    #[serde(rename = "90/10")]
    Hot,
}

impl Popularity {
    /// Picks one of `accounts` accounts.
    pub fn pick(self, accounts: usize, random: &mut Random) -> usize {
        let hot = accounts.div_ceil(10);
        match self {
            Self::Hot if random.percent(90) => random.index(hot),
            Self::Hot if hot < accounts => hot + random.index(accounts - hot),
            _ => random.index(accounts),
        }
    }
}

/// Size and shape of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Number of accounts at genesis, at least 1.
    pub accounts: usize,
    /// Number of transactions in all blocks together.
    pub txs: u64,
    /// Number of transactions in a block, at least 1; the last block may have fewer.
    pub block_txs: u64,
    /// Popularity of the accounts.
    pub popularity: Popularity,
    /// Percentage of recipients that did not exist before.
    pub new_recipients: u64,
    /// Number of accounts that send, the first ones; 0 for all.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub senders: usize,
}

const fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            accounts: 100_000,
            txs: 100_000,
            block_txs: 200,
            popularity: Popularity::Uniform,
            new_recipients: 5,
            senders: 0,
        }
    }
}

impl Shape {
    /// Picks the number of a sender.
    pub(super) fn sender(&self, random: &mut Random) -> usize {
        let senders = if self.senders == 0 { self.accounts } else { self.senders };
        self.popularity.pick(senders.min(self.accounts), random)
    }

    /// Plans the next block: as many of the transactions that are `left` as it may hold. `None` if none
    /// is left.
    pub(super) fn block(
        &self,
        left: &mut u64,
        parent: &Sealed<Header>,
        mut next: impl FnMut() -> Planned,
    ) -> Option<BlockPlan> {
        let txs = self.block_txs.min(*left);
        if txs == 0 {
            return None;
        }
        *left -= txs;
        let mut plan = BlockPlan::after(parent, parent.hash(), BLOCK_TIME);
        plan.transactions.extend((0..txs).map(|_| next()));
        Some(plan)
    }

    /// Picks a payment: the number of the sender, and the address of the recipient.
    pub(super) fn parties(&self, wallet: &Wallet, random: &mut Random) -> (usize, Address) {
        let from = self.sender(random);
        if random.percent(self.new_recipients) {
            return (from, Address::from(random.bytes()));
        }
        // The recipient is another account than the sender, if there is another one.
        let to = self.popularity.pick(self.accounts, random);
        let to = if to == from { (to + 1) % self.accounts } else { to };
        (from, wallet.address(to))
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
