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
use polytrie_state::{Account, AccountChange, StateError, StateReader, TxWrites};
use std::sync::Arc;

/// The changes that the next block applies ahead of its transactions. An account is changed only after it was taken in as
/// it is at the head.
#[derive(Debug, Clone, Default)]
pub struct Cheats {
    accounts: AddressMap<Changed>,
}

/// The changes of an account.
#[derive(Debug, Clone, Default)]
pub(super) struct Changed {
    account: Account,
    code: Option<(B256, Bytes)>,
    /// Whether the former slots of the account are deleted.
    wiped: bool,
    /// Whether the account has former slots that are not deleted as a whole.
    has_former_slots: bool,
    slots: HashMap<U256, U256>,
}

impl Cheats {
    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }

    /// Reads those of these accounts that have no changes yet. `state` is the state at the head.
    ///
    /// # Errors
    ///
    /// If the state cannot be read.
    pub(super) fn unchanged(
        &self,
        addresses: &[Address],
        state: &dyn StateReader,
    ) -> Result<Vec<(Address, Changed)>, StateError> {
        let new = addresses.iter().filter(|address| !self.accounts.contains_key(*address));
        new.map(|address| {
            let account = state.account(address)?.unwrap_or_default();
            let has_former_slots = state.has_storage(address)?;
            Ok((*address, Changed { account, has_former_slots, ..Changed::default() }))
        })
        .collect()
    }

    /// Takes in accounts that [`Self::unchanged`] has read.
    pub(super) fn begin(&mut self, unchanged: Vec<(Address, Changed)>) {
        self.accounts.extend(unchanged);
    }

    /// Returns nonce, balance and code hash of an account to change them.
    pub fn account_mut(&mut self, address: Address) -> &mut Account {
        &mut self.of(address).account
    }

    /// Sets the code of an account.
    pub fn set_code(&mut self, address: Address, code: Bytes) {
        let hash = keccak256(&code);
        let changed = self.of(address);
        changed.account.code_hash = hash;
        changed.code = Some((hash, code));
    }

    /// Sets a slot of an account.
    pub fn set_slot(&mut self, address: Address, slot: U256, value: U256) {
        self.of(address).slots.insert(slot, value);
    }

    /// Replaces an account with `whole`: former slots and earlier changes are dropped. A nonce never decreases, so that
    /// no transaction can be replayed.
    pub fn replace(&mut self, address: Address, whole: WholeAccount) {
        let code = (!whole.code.is_empty()).then(|| (keccak256(&whole.code), whole.code));
        let code_hash = code.as_ref().map_or(KECCAK256_EMPTY, |(hash, _)| *hash);
        let changed = self.of(address);
        let nonce = whole.nonce.max(changed.account.nonce);
        let account = Account { nonce, balance: whole.balance, code_hash };
        let slots = whole.slots.into_iter().collect();
        *changed = Changed { account, code, wiped: true, has_former_slots: false, slots };
    }

    fn of(&mut self, address: Address) -> &mut Changed {
        self.accounts.entry(address).or_default()
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
