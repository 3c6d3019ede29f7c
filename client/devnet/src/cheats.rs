//! State changes that a user sets by hand, without a transaction.
//!
//! The pending state shows such a change at once. The next block applies it ahead of its transactions, so that the
//! state of every block matches its header, and a revert of the block reverts the change too. No other node can import
//! such a block.

use super::WholeAccount;
use alloy_primitives::{
    Address, B256, Bytes, KECCAK256_EMPTY, U256, keccak256,
    map::{AddressMap, HashMap},
};
use polytrie_chain::Overlay;
use polytrie_state::{Account, AccountChange, StateReader, TxWrites};
use std::sync::Arc;

/// The changes that the next block applies ahead of its transactions.
#[derive(Debug, Clone, Default)]
pub struct Cheats {
    accounts: AddressMap<Changed>,
}

#[derive(Debug, Clone, Default)]
struct Changed {
    account: Account,
    code: Option<(B256, Bytes)>,
    /// Whether the former slots of the account are deleted.
    wiped: bool,
    slots: HashMap<U256, U256>,
}

impl Cheats {
    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }

    /// Sets nonce, balance and code hash of an account to those of `now`.
    pub fn set_account(&mut self, address: Address, now: Account) {
        self.accounts.entry(address).or_default().account = now;
    }

    /// Sets the code of an account; its nonce and balance become those of `now`.
    pub fn set_code(&mut self, address: Address, now: Account, code: Bytes) {
        let hash = keccak256(&code);
        let changed = self.accounts.entry(address).or_default();
        changed.account = Account { code_hash: hash, ..now };
        changed.code = Some((hash, code));
    }

    /// Sets a slot of an account; its nonce, balance and code hash become those of `now`.
    pub fn set_slot(&mut self, address: Address, now: Account, slot: U256, value: U256) {
        let changed = self.accounts.entry(address).or_default();
        changed.account = now;
        changed.slots.insert(slot, value);
    }

    /// Replaces an account with `whole`: former slots and earlier changes are dropped.
    pub fn replace(&mut self, address: Address, whole: WholeAccount) {
        let code = (!whole.code.is_empty()).then(|| (keccak256(&whole.code), whole.code));
        let code_hash = code.as_ref().map_or(KECCAK256_EMPTY, |(hash, _)| *hash);
        let account = Account { nonce: whole.nonce, balance: whole.balance, code_hash };
        let slots = whole.slots.into_iter().collect();
        self.accounts.insert(address, Changed { account, code, wiped: true, slots });
    }

    /// Returns the changes as a block applies them, sorted by address.
    pub fn writes(&self) -> TxWrites {
        let mut accounts: Vec<_> =
            self.accounts.iter().map(|(a, changed)| changed.change(*a)).collect();
        accounts.sort_unstable_by_key(|change| change.address);
        TxWrites { accounts }
    }

    /// Returns a reader of the state `base` with the changes on top.
    pub(super) fn on(&self, base: Arc<dyn StateReader>) -> Overlay {
        let mut overlay = Overlay::new(base);
        for (address, changed) in &self.accounts {
            overlay.apply(&changed.change(*address));
        }
        overlay
    }
}

impl Changed {
    fn change(&self, address: Address) -> AccountChange {
        let has_slots = self.slots.values().any(|value| !value.is_zero());
        // An empty account does not exist (EIP-161), unless it has storage.
        let gone = self.account.is_empty() && !has_slots;
        AccountChange {
            address,
            account: (!gone).then_some(self.account),
            wiped: self.wiped,
            code: self.code.clone(),
            slots: if gone {
                Vec::new()
            } else {
                self.slots.iter().map(|(s, v)| (*s, *v)).collect()
            },
        }
    }
}
