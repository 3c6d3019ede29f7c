//! Transfers of a token.

use super::{
    BLOCK_TIME, InitialAccount, Shape, Workload,
    transfer::{genesis, senders, transaction},
};
use crate::bench::{BlockPlan, GenesisPlan, Planned, Random, Wallet};
use alloy_consensus::{Header, Sealed, TxEip1559};
use alloy_primitives::{Address, Bytes, U256, address, hex, keccak256, uint};
use serde::Deserialize;

/// Where the contract stands.
pub(super) const TOKEN: Address = address!("7070000000000000000000000000000000000020");
/// What `scripts/compile-contracts` made of the source beside it.
const COMPILED: &str = include_str!("../contracts/Token.json");
/// `transfer(address,uint256)`.
const TRANSFER: [u8; 4] = hex!("a9059cbb");
/// More than any of the calls uses: a little under 52,000 if the recipient has no tokens before.
const CALL_GAS: u64 = 55_000;
/// A million tokens of 18 decimals.
const TOKENS: U256 = uint!(1_000_000_000_000_000_000_000_000_U256);

/// EIP-1559 calls of `transfer` of one ERC-20 contract, in which every account has a balance at genesis.
#[derive(Debug)]
pub struct Erc20 {
    shape: Shape,
    wallet: Wallet,
    random: Random,
    left: u64,
    code: Bytes,
    slots: Slots,
}

/// The parts of a compiled contract that matter here.
#[derive(Debug, Deserialize)]
struct Compiled {
    slots: Slots,
    code: Bytes,
}

/// Where the contract keeps its variables.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Slots {
    balance_of: u8,
    total_supply: u8,
}

impl Erc20 {
    /// The workload of this shape, with accounts and seed of this wallet.
    #[expect(clippy::expect_used, reason = "the file is part of the program, and a test reads it")]
    pub fn new(wallet: Wallet, shape: Shape) -> Self {
        let Compiled { slots, code } =
            serde_json::from_str(COMPILED).expect("the compiled contract is well formed");
        let random = Random::new(wallet.seed(), 0);
        Self { shape, random, left: shape.txs, wallet, code, slots }
    }

    /// The slot of an account's balance: a mapping keeps it at keccak256(key ‖ slot of the mapping).
    fn balance_slot(mapping: u8, account: &Address) -> U256 {
        let mut bytes = [0; 64];
        bytes[12..32].copy_from_slice(account.as_slice());
        bytes[63] = mapping;
        keccak256(bytes).into()
    }

    /// The balances, and after them their sum.
    fn token_slots(&self) -> impl Iterator<Item = (U256, U256)> + '_ {
        let mut random = Random::new(self.wallet.seed(), 4);
        let Slots { balance_of, total_supply } = self.slots;
        let mut accounts = self.wallet.addresses().iter();
        let mut supply = Some(U256::ZERO);
        std::iter::from_fn(move || {
            let Some(account) = accounts.next() else {
                return supply.take().map(|sum| (U256::from(total_supply), sum));
            };
            let tokens = TOKENS + U256::from(random.word());
            supply = supply.map(|sum| sum + tokens);
            Some((Self::balance_slot(balance_of, account), tokens))
        })
    }
}

impl Workload for Erc20 {
    fn genesis(&self) -> GenesisPlan {
        // No block goes beyond the target, so the base fee never rises.
        genesis(2 * CALL_GAS * self.shape.block_txs)
    }

    fn accounts(&self) -> Box<dyn Iterator<Item = InitialAccount<'_>> + '_> {
        let token = InitialAccount {
            slots: Box::new(self.token_slots()),
            ..InitialAccount::contract(TOKEN, self.code.clone())
        };
        Box::new(std::iter::once(token).chain(senders(&self.wallet)))
    }

    fn wallet(&self) -> &Wallet {
        &self.wallet
    }

    fn next_block(&mut self, parent: &Sealed<Header>) -> Option<BlockPlan> {
        let txs = self.left.min(self.shape.block_txs);
        if txs == 0 {
            return None;
        }
        self.left -= txs;
        let mut plan = BlockPlan::after(parent, parent.hash(), BLOCK_TIME);
        for _ in 0..txs {
            let (from, to) = self.shape.parties(&self.wallet, &mut self.random);
            // Up to a hundredth of a token.
            let tokens = 1 + self.random.below(10_000_000_000_000_000);
            let input =
                [&TRANSFER[..], to.into_word().as_slice(), &U256::from(tokens).to_be_bytes::<32>()]
                    .concat();
            let tx = TxEip1559 {
                to: TOKEN.into(),
                input: input.into(),
                ..transaction(&mut self.wallet, from, CALL_GAS, &mut self.random)
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
    fn balances_add_up_to_the_supply() {
        let shape = Shape { accounts: 7, ..Shape::default() };
        let workload = Erc20::new(Wallet::new(1, 7), shape);
        assert!(workload.code.len() > 1000);
        let slots: Vec<_> = workload.token_slots().collect();
        assert_eq!(slots.len(), 8);
        let (slot, supply) = slots[7];
        assert_eq!(slot, U256::from(2));
        assert_eq!(supply, slots[..7].iter().map(|(_, tokens)| *tokens).sum::<U256>());
        // The layout that Solidity documents for mappings.
        assert_eq!(
            Erc20::balance_slot(0, &Address::ZERO),
            uint!(0xad3228b676f7d3cd4284a5443f17f1962b36e491b30a40b2405849e597ba5fb5_U256)
        );
    }
}
