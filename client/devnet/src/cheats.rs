//! Changes of the state that no transaction made.
//!
//! What a user sets by hand is seen at once, and becomes part of the state with the next block, ahead of its
//! transactions. So the state of every block stays what its header says, and taking a block back takes the changes
//! back too. No other node can import such a block.

use super::WholeAccount;
use alloy_primitives::{
    Address, B256, Bytes, KECCAK256_EMPTY, U256, keccak256,
    map::{AddressMap, HashMap},
};
use polytrie_chain::Overlay;
use polytrie_state::{Account, AccountChange, StateReader, TxWrites};
use std::sync::Arc;

/// Changes that wait for the next block.
#[derive(Debug, Clone, Default)]
pub struct Cheats {
    accounts: AddressMap<Changed>,
}

#[derive(Debug, Clone, Default)]
struct Changed {
    account: Account,
    code: Option<(B256, Bytes)>,
    /// Whether the slots it had are gone.
    wiped: bool,
    slots: HashMap<U256, U256>,
}

impl Cheats {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }

    /// Changes an account, which is as `now` says.
    pub fn set_account(&mut self, address: Address, now: Account) {
        self.accounts.entry(address).or_default().account = now;
    }

    /// Gives an account, which is as `now` says, other code.
    pub fn set_code(&mut self, address: Address, now: Account, code: Bytes) {
        let hash = keccak256(&code);
        let changed = self.accounts.entry(address).or_default();
        changed.account = Account { code_hash: hash, ..now };
        changed.code = Some((hash, code));
    }

    /// Sets a slot of an account, which is as `now` says.
    pub fn set_slot(&mut self, address: Address, now: Account, slot: U256, value: U256) {
        let changed = self.accounts.entry(address).or_default();
        changed.account = now;
        changed.slots.insert(slot, value);
    }

    /// Makes an account all of this and nothing else.
    pub fn replace(&mut self, address: Address, whole: WholeAccount) {
        let code = (!whole.code.is_empty()).then(|| (keccak256(&whole.code), whole.code));
        let code_hash = code.as_ref().map_or(KECCAK256_EMPTY, |(hash, _)| *hash);
        let account = Account { nonce: whole.nonce, balance: whole.balance, code_hash };
        let slots = whole.slots.into_iter().collect();
        self.accounts.insert(address, Changed { account, code, wiped: true, slots });
    }

    /// The changes as a block applies them, in order of the addresses.
    pub fn writes(&self) -> TxWrites {
        let mut accounts: Vec<_> =
            self.accounts.iter().map(|(a, changed)| changed.change(*a)).collect();
        accounts.sort_unstable_by_key(|change| change.address);
        TxWrites { accounts }
    }

    /// Reads a state with the changes on top.
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
        // An account that is empty is none (EIP-161), but where it was given storage.
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
