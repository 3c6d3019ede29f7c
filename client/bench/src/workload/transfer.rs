//! The workload of ether transfers.

use super::{CHAIN_ID, GENESIS_TIME, GWEI, Shape, Workload};
use crate::{BlockPlan, Planned, Random, Wallet};
use alloy_consensus::{Header, Sealed, TxEip1559};
use alloy_primitives::{Address, Bytes, U256, uint};
use polytrie_chainspec::{GenesisPlan, InitialAccount};

/// Gas of a transfer to an account without code.
const TRANSFER_GAS: u64 = 21_000;
/// Balance of each account: 1,000 ether, enough for millions of transactions.
const BALANCE: U256 = uint!(1_000_000_000_000_000_000_000_U256);

/// EIP-1559 transfers between existing accounts, and to some that the transfer creates.
#[derive(Debug)]
pub struct Transfer {
    shape: Shape,
    wallet: Wallet,
    random: Random,
    left: u64,
}

impl Transfer {
    /// Returns the workload of this shape, with the accounts and the seed of this wallet.
    pub fn new(wallet: Wallet, shape: Shape) -> Self {
        Self { shape, random: Random::new(wallet.seed(), 0), left: shape.txs, wallet }
    }
}

impl Workload for Transfer {
    fn genesis(&self) -> GenesisPlan {
        // Full blocks use exactly the target, so the base fee does not change.
        genesis(2 * TRANSFER_GAS * self.shape.block_txs)
    }

    fn accounts(&self) -> Box<dyn Iterator<Item = InitialAccount<'_>> + '_> {
        Box::new(senders(&self.wallet))
    }

    fn wallet(&self) -> &Wallet {
        &self.wallet
    }

    fn next_block(&mut self, parent: &Sealed<Header>) -> Option<BlockPlan> {
        let Self { shape, wallet, random, left } = self;
        shape.block(left, parent, || {
            let (from, to) = shape.parties(wallet, random);
            Planned { from, tx: payment(wallet, from, to, random).into() }
        })
    }
}

/// Returns a payment.
pub(super) fn payment(
    wallet: &mut Wallet,
    from: usize,
    to: Address,
    random: &mut Random,
) -> TxEip1559 {
    TxEip1559 {
        to: to.into(),
        // The amount is at most a hundredth of an ether.
        value: U256::from(1 + random.below(10_000_000_000_000_000)),
        ..transaction(wallet, from, TRANSFER_GAS, random)
    }
}

/// Returns a genesis with every fork up to Osaka and this gas limit.
pub(crate) fn genesis(gas_limit: u64) -> GenesisPlan {
    GenesisPlan {
        chain_id: CHAIN_ID,
        fork_times: vec![0; 4],
        timestamp: GENESIS_TIME,
        gas_limit: gas_limit.max(1_000_000),
        base_fee: GWEI as u64,
        extra_data: Bytes::new(),
        deposit_contract: None,
    }
}

/// Returns the accounts of a wallet, each with enough ether to send for a long time.
pub(super) fn senders(wallet: &Wallet) -> impl Iterator<Item = InitialAccount<'_>> {
    // The balances have different digits, like real ones.
    let mut random = Random::new(wallet.seed(), 1);
    wallet
        .addresses()
        .iter()
        .map(move |address| InitialAccount::funded(*address, BALANCE + U256::from(random.word())))
}

/// Returns the next transaction of an account without a call, with a fee that stays above the base
/// fee.
pub(super) fn transaction(
    wallet: &mut Wallet,
    from: usize,
    gas_limit: u64,
    random: &mut Random,
) -> TxEip1559 {
    TxEip1559 {
        chain_id: CHAIN_ID,
        nonce: wallet.use_nonce(from),
        gas_limit,
        max_fee_per_gas: 100 * GWEI,
        max_priority_fee_per_gas: GWEI / 10 + u128::from(random.below(GWEI as u64)),
        ..Default::default()
    }
}
