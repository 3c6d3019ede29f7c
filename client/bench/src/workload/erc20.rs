//! The workload of token transfers.

use super::{
    Shape, Workload,
    transfer::{genesis, senders, transaction},
};
use crate::{BlockPlan, Planned, Random, Wallet};
use alloy_consensus::{Header, Sealed, TxEip1559};
use alloy_primitives::{Address, Bytes, U256, address, hex, keccak256, uint};
use polytrie_chainspec::{GenesisPlan, InitialAccount};
use serde::Deserialize;

/// Address of the contract.
pub(super) const TOKEN: Address = address!("7070000000000000000000000000000000000020");
/// Output of `scripts/compile-contracts` for the source beside it.
const COMPILED: &str = include_str!("../contracts/Token.json");
/// Selector of `transfer(address,uint256)`.
const TRANSFER: [u8; 4] = hex!("a9059cbb");
/// Gas limit of a call, more than any call uses: a little under 52,000 if the recipient has no tokens
/// before.
pub(super) const CALL_GAS: u64 = 55_000;
/// Balance of each account: a million tokens of 18 decimals.
const TOKENS: U256 = uint!(1_000_000_000_000_000_000_000_000_U256);

/// EIP-1559 calls of `transfer` of one ERC-20 contract, in which every account has a balance at genesis.
#[derive(Debug)]
pub struct Erc20 {
    shape: Shape,
    pub(super) wallet: Wallet,
    random: Random,
    left: u64,
    code: Bytes,
    slots: Slots,
}

/// Parts of a compiled contract.
#[derive(Debug, Deserialize)]
pub(super) struct Compiled {
    pub(super) slots: Slots,
    pub(super) code: Bytes,
}

/// Slots of the contract's variables.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Slots {
    pub(super) balance_of: u8,
    pub(super) allowance: u8,
    pub(super) total_supply: u8,
}

impl Compiled {
    /// Returns the compiled token.
    #[expect(clippy::expect_used, reason = "the file is part of the program, and a test reads it")]
    pub(super) fn token() -> Self {
        serde_json::from_str(COMPILED).expect("the compiled contract is well formed")
    }
}

impl Erc20 {
    /// Returns the workload of this shape, with the accounts and the seed of this wallet.
    pub fn new(wallet: Wallet, shape: Shape) -> Self {
        let Compiled { slots, code } = Compiled::token();
        let random = Random::new(wallet.seed(), 0);
        Self { shape, random, left: shape.txs, wallet, code, slots }
    }

    /// Returns a transaction that sends tokens.
    pub(super) fn transfer(
        wallet: &mut Wallet,
        from: usize,
        to: Address,
        random: &mut Random,
    ) -> TxEip1559 {
        // The amount is at most a hundredth of a token.
        let tokens = 1 + random.below(10_000_000_000_000_000);
        let input =
            [&TRANSFER[..], to.into_word().as_slice(), &U256::from(tokens).to_be_bytes::<32>()]
                .concat();
        TxEip1559 {
            to: TOKEN.into(),
            input: input.into(),
            ..transaction(wallet, from, CALL_GAS, random)
        }
    }

    /// Returns the balances, and after them their sum.
    fn token_slots(&self) -> impl Iterator<Item = (U256, U256)> + '_ {
        let mut random = Random::new(self.wallet.seed(), 4);
        let Slots { balance_of, total_supply, .. } = self.slots;
        let mut accounts = self.wallet.addresses().iter();
        let mut supply = Some(U256::ZERO);
        std::iter::from_fn(move || {
            let Some(account) = accounts.next() else {
                return supply.take().map(|sum| (U256::from(total_supply), sum));
            };
            let tokens = TOKENS + U256::from(random.word());
            supply = supply.map(|sum| sum + tokens);
            Some((mapping_slot(U256::from(balance_of), account), tokens))
        })
    }
}

/// Returns the slot of an address in the mapping whose own slot is `slot`: keccak256(key ‖ slot of the
/// mapping).
pub(super) fn mapping_slot(slot: U256, key: &Address) -> U256 {
    keccak256([key.into_word().0, slot.to_be_bytes::<32>()].concat()).into()
}

impl Workload for Erc20 {
    fn genesis(&self) -> GenesisPlan {
        // No block uses more gas than the target, so the base fee never rises.
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
        let Self { shape, wallet, random, left, .. } = self;
        shape.block(left, parent, || {
            let (from, to) = shape.parties(wallet, random);
            Planned { from, tx: Self::transfer(wallet, from, to, random).into() }
        })
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
        // Solidity documents this layout of mappings.
        assert_eq!(
            mapping_slot(U256::ZERO, &Address::ZERO),
            uint!(0xad3228b676f7d3cd4284a5443f17f1962b36e491b30a40b2405849e597ba5fb5_U256)
        );
    }
}
