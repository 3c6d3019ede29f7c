//! Random histories of blocks, difficult on purpose.

mod builder;
mod random;
mod scenarios;
mod seed;

pub use seed::Seed;

use crate::{
    keys::{ADDRESSES, SLOTS, address, slot},
    oracle::Oracle,
};
use alloy_primitives::{Address, U256};
use builder::Builder;
use parking_lot::Mutex;
use polytrie_state::TxWrites;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A block of a history.
#[derive(Debug, Clone)]
pub struct Block {
    /// Description of the block, for messages.
    pub label: String,
    /// The writes of its transactions.
    pub txs: Vec<TxWrites>,
}

/// A genesis and blocks on top of it, with the state after each.
#[derive(Debug, Clone)]
pub struct History {
    /// The seed of the history; the same seed gives the same history.
    pub seed: u64,
    /// The writes that create the genesis from an empty state; empty for a [fork](Self::fork).
    pub genesis: TxWrites,
    /// The blocks; the first one is number 1.
    pub blocks: Vec<Block>,
    /// The states: that of the genesis, and that after each block.
    pub states: Vec<Arc<Oracle>>,
}

/// The kind, the seed and the size of a history.
type Made = (&'static str, u64, usize);

/// The histories that were made so far. A suite that runs under several settings makes them, and the roots of their states,
/// once.
static MADE: Mutex<BTreeMap<Made, History>> = Mutex::new(BTreeMap::new());

impl History {
    /// Creates a history of some hundred blocks: all known difficult cases, in an order that the seed decides, with
    /// random blocks between them.
    pub fn adversarial(seed: u64) -> Self {
        Self::made(("adversarial", seed, 0), adversarial)
    }

    /// Creates a history of random blocks only.
    pub fn random(seed: u64, blocks: usize) -> Self {
        Self::made(("random", seed, blocks), |builder| {
            random::genesis(builder, 8);
            for _ in 0..blocks {
                random::block(builder);
            }
        })
    }

    /// Creates a few blocks that each touch thousands of accounts and slots, so that the parallel code paths are
    /// used.
    pub fn wide(seed: u64) -> Self {
        Self::made(("wide", seed, 0), scenarios::wide)
    }

    /// Creates a few blocks that wipe contracts with more slots than an undo record lists.
    pub fn large(seed: u64) -> Self {
        Self::made(("large", seed, 0), scenarios::large)
    }

    /// Creates a genesis of `accounts` accounts, some of them with code and slots, and two random blocks.
    pub fn with_genesis_of(seed: u64, accounts: u32) -> Self {
        Self::made(("genesis", seed, accounts as usize), |builder| {
            random::genesis(builder, accounts);
            random::block(builder);
            random::block(builder);
        })
    }

    fn made(made: Made, fill: impl FnOnce(&mut Builder)) -> Self {
        if let Some(history) = MADE.lock().get(&made) {
            return history.clone();
        }
        let mut builder = Builder::new(made.1);
        fill(&mut builder);
        let history = builder.finish();
        MADE.lock().insert(made, history.clone());
        history
    }

    /// Creates random blocks that follow block `at` instead of those of this history; block `at` is their genesis.
    pub fn fork(&self, at: usize, seed: u64, blocks: usize) -> Self {
        let mut builder = Builder::on(self.states[at].clone(), seed);
        for _ in 0..blocks {
            random::block(&mut builder);
        }
        builder.finish()
    }

    /// Returns the state of the genesis.
    pub fn genesis(&self) -> &Oracle {
        &self.states[0]
    }

    /// Returns the number of the last block.
    pub fn head(&self) -> usize {
        self.blocks.len()
    }

    /// Returns the accounts that the blocks touch, and some that never exist.
    pub fn addresses(&self) -> Vec<Address> {
        let touched = self.changes().map(|(address, _)| address);
        touched
            .chain(ADDRESSES.all().into_iter().map(address))
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    /// Returns the slots that the blocks touch, and for each account they touch one slot that never exists.
    pub fn slots(&self) -> Vec<(Address, U256)> {
        let mut slots = BTreeSet::new();
        for (address, touched) in self.changes() {
            slots.extend(touched.iter().map(|(slot, _)| (address, *slot)));
            slots.insert((address, U256::MAX));
            slots.insert((address, slot(SLOTS.pairs[0][0])));
        }
        slots.into_iter().collect()
    }

    fn changes(&self) -> impl Iterator<Item = (Address, &[(U256, U256)])> {
        let changes = self.blocks.iter().flat_map(|block| &block.txs).flat_map(|tx| &tx.accounts);
        changes.map(|change| (change.address, &*change.slots))
    }
}

fn adversarial(builder: &mut Builder) {
    random::genesis(builder, 24);
    for scenario in builder.shuffled(scenarios::ALL) {
        scenario(builder);
        random::block(builder);
    }
}

#[cfg(test)]
mod tests;
