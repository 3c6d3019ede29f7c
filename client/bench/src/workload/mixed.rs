//! The workload of payments and calls, in a proportion and with a popularity of accounts as on mainnet.

use super::{Erc20, Shape, Workload, erc20::CALL_GAS, transfer::payment};
use crate::{BlockPlan, Planned, Random, Wallet};
use alloy_consensus::{Header, Sealed};
use polytrie_chainspec::{GenesisPlan, InitialAccount};

/// Percentage of transactions that call a contract.
const CALLS: u64 = 15;

/// [`Erc20`] and [`Transfer`](super::Transfer) in one chain: 15 of 100 transactions call the token, the others are
/// payments. Its genesis is that of [`Erc20`].
#[derive(Debug)]
pub struct Mixed {
    token: Erc20,
    shape: Shape,
    random: Random,
    left: u64,
}

impl Mixed {
    /// Returns the workload of this shape, with the accounts and the seed of this wallet.
    pub fn new(wallet: Wallet, shape: Shape) -> Self {
        let random = Random::new(wallet.seed(), 0);
        Self { shape, random, left: shape.txs, token: Erc20::new(wallet, shape) }
    }
}

impl Workload for Mixed {
    fn genesis(&self) -> GenesisPlan {
        // The limit is enough for a block of calls only, which is far more than any block uses.
        super::transfer::genesis(2 * CALL_GAS * self.shape.block_txs)
    }

    fn accounts(&self) -> Box<dyn Iterator<Item = InitialAccount<'_>> + '_> {
        self.token.accounts()
    }

    fn wallet(&self) -> &Wallet {
        self.token.wallet()
    }

    fn next_block(&mut self, parent: &Sealed<Header>) -> Option<BlockPlan> {
        let Self { shape, random, left, token } = self;
        let wallet = &mut token.wallet;
        shape.block(left, parent, || {
            let call = random.percent(CALLS);
            let (from, to) = shape.parties(wallet, random);
            let tx = match call {
                true => Erc20::transfer(wallet, from, to, random),
                false => payment(wallet, from, to, random),
            };
            Planned { from, tx: tx.into() }
        })
    }
}
