//! The sample chain: a thousand small blocks that exercise a little of everything.
//!
//! The chain starts past the merge, because no client in use today imports proof of work, and goes through Paris,
//! Shanghai, Cancun, Prague, Osaka and two forks of blob parameters. Beside transfers its blocks hold: contracts that
//! are created, called, destroyed and created again at the same address (in the same block and later); storage that
//! is written, overwritten and cleared; failing transactions of several kinds; every transaction type; delegated
//! accounts; withdrawals; and requests to the consensus layer. Some blocks are empty.
//!
//! `block.rs` builds a block, `actions.rs` adds transactions, `lives.rs` has the contract that is destroyed and
//! created again, and `contracts.rs` the code of all contracts.

use crate::{block::Draft, contracts};
use alloy_consensus::{Header, Sealed};
use alloy_eips::eip4895::Withdrawal;
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{Address, Bytes, U256, uint};
use polytrie_bench::{
    BlockPlan, Random, Wallet, Workload,
    workload::{BLOCK_TIME, CHAIN_ID, GENESIS_TIME, GWEI},
};
use polytrie_chainspec::{GenesisPlan, InitialAccount};
use std::collections::BTreeMap;

/// Number of blocks after the genesis block.
pub(crate) const BLOCKS: u64 = 1000;
/// Number of accounts that send transactions.
pub(crate) const ACCOUNTS: usize = 24;
/// Balance of each account at genesis: a million ether.
const BALANCE: U256 = uint!(1_000_000_000_000_000_000_000_000_U256);
const GAS_LIMIT: u64 = 1_000_000;
/// Seconds between two forks: about two hundred blocks, as some slots have no block.
pub(crate) const ERA: u64 = 220 * BLOCK_TIME;
/// Supply of the token.
pub(crate) const SUPPLY: u64 = 1_000_000;
/// Address of the contract whose logs are deposits.
pub(crate) const DEPOSIT_CONTRACT: Address = Address::repeat_byte(0xde);
/// Address of a contract that exists from genesis on, with storage.
pub(crate) const GENESIS_TABLE: Address = Address::repeat_byte(0x7a);

/// Forks of the chain and their times. The genesis block is of Paris.
const FORKS: [(EthereumHardfork, u64); 6] = [
    (EthereumHardfork::Shanghai, GENESIS_TIME + ERA),
    (EthereumHardfork::Cancun, GENESIS_TIME + 2 * ERA),
    (EthereumHardfork::Prague, GENESIS_TIME + 3 * ERA),
    (EthereumHardfork::Osaka, GENESIS_TIME + 4 * ERA),
    (EthereumHardfork::Bpo1, GENESIS_TIME + 4 * ERA + ERA / 2),
    (EthereumHardfork::Bpo2, GENESIS_TIME + 4 * ERA + ERA * 3 / 4),
];

/// State of the generator: accounts, contracts, and what the contracts hold.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) wallet: Wallet,
    pub(crate) random: Random,
    pub(crate) fork: EthereumHardfork,
    pub(crate) contracts: Contracts,
    /// Units of the token that each account has.
    pub(crate) tokens: Vec<u64>,
    /// Whether each account has code by delegation.
    pub(crate) delegated: Vec<bool>,
    /// Whether the contract of each salt exists.
    pub(crate) alive: BTreeMap<u64, bool>,
    pub(crate) withdrawals: u64,
}

/// Addresses of the contracts; [`Address::ZERO`] before they are deployed.
#[derive(Debug, Default)]
pub(crate) struct Contracts {
    pub(crate) table: Address,
    pub(crate) token: Address,
    pub(crate) factory: Address,
    pub(crate) relay: Address,
    pub(crate) burner: Address,
    pub(crate) observers: Vec<Address>,
}

impl Sample {
    /// The generator for a wallet of 24 accounts; everything random follows from the wallet's seed.
    pub(crate) fn new(wallet: Wallet) -> Self {
        Self {
            random: Random::new(wallet.seed(), 2),
            wallet,
            fork: EthereumHardfork::Paris,
            contracts: Contracts::default(),
            tokens: vec![0; ACCOUNTS],
            delegated: vec![false; ACCOUNTS],
            alive: BTreeMap::new(),
            withdrawals: 0,
        }
    }

    /// The plan of the next block, without transactions.
    fn frame(&mut self, parent: &Sealed<Header>) -> BlockPlan {
        let random = &mut self.random;
        // Some slots have no block.
        let seconds = if random.percent(10) { 2 * BLOCK_TIME } else { BLOCK_TIME };
        let bound = parent.gas_limit / 1024 - 1;
        BlockPlan {
            gas_limit: parent.gas_limit - bound + random.below(2 * bound + 1),
            beneficiary: Address::with_last_byte(0xb0 + random.below(4) as u8),
            extra_data: Bytes::from_static(b"polytrie sample"),
            ..BlockPlan::after(parent, parent.hash(), seconds)
        }
    }

    /// Adds withdrawals to a third of the blocks; some go to accounts that do not exist, some are of nothing.
    fn withdraw(&mut self, block: &mut Draft) {
        if self.fork < EthereumHardfork::Shanghai || !self.random.percent(33) {
            return;
        }
        for _ in 0..=self.random.below(4) {
            let address = match self.random.below(4) {
                0 => Address::from(self.random.bytes()),
                _ => self.wallet.address(self.random.index(ACCOUNTS)),
            };
            let amount =
                if self.random.percent(10) { 0 } else { self.random.below(32_000_000_000) };
            let validator_index = self.random.below(1_000_000);
            block.plan.withdrawals.push(Withdrawal {
                index: self.withdrawals,
                validator_index,
                address,
                amount,
            });
            self.withdrawals += 1;
        }
    }
}

impl Workload for Sample {
    fn genesis(&self) -> GenesisPlan {
        GenesisPlan {
            chain_id: CHAIN_ID,
            fork_times: FORKS.map(|(_, time)| time).to_vec(),
            timestamp: GENESIS_TIME,
            gas_limit: GAS_LIMIT,
            base_fee: GWEI as u64,
            extra_data: Bytes::from_static(b"polytrie sample"),
            deposit_contract: Some(DEPOSIT_CONTRACT),
        }
    }

    fn accounts(&self) -> Box<dyn Iterator<Item = InitialAccount<'_>> + '_> {
        let funded = |address: &Address| InitialAccount::funded(*address, BALANCE);
        let slots = (0..20).map(|slot| (U256::from(slot), U256::from_be_bytes([slot + 1; 32])));
        let table = InitialAccount {
            slots: Box::new(slots),
            ..InitialAccount::contract(GENESIS_TABLE, contracts::table())
        };
        let deposits = InitialAccount::contract(DEPOSIT_CONTRACT, contracts::deposit());
        Box::new(self.wallet.addresses().iter().map(funded).chain([deposits, table]))
    }

    fn wallet(&self) -> &Wallet {
        &self.wallet
    }

    fn next_block(&mut self, parent: &Sealed<Header>) -> Option<BlockPlan> {
        let number = parent.number + 1;
        if number > BLOCKS {
            return None;
        }
        let plan = self.frame(parent);
        let fork = FORKS.iter().rev().find(|(_, time)| plan.timestamp >= *time);
        let fork = fork.map_or(EthereumHardfork::Paris, |(fork, _)| *fork);
        let new_rules = fork != self.fork || number == 1;
        self.fork = fork;
        let base_fee = u128::from(parent.base_fee_per_gas.unwrap_or_default());
        let mut block = Draft::new(plan, number, fork);
        self.withdraw(&mut block);
        if number == 1 {
            self.deploy_contracts(&mut block);
        }
        if new_rules {
            self.deploy_observer(&mut block);
        }
        self.live(&mut block);
        if !self.random.percent(12) {
            for _ in 0..self.random.below(5) {
                self.act(&mut block);
            }
            // The base fee would fall to nothing if blocks were nearly empty.
            if base_fee < GWEI / 2 && self.random.percent(75) {
                self.burn(&mut block);
            }
        }
        Some(block.plan)
    }
}
