//! State changes that a user sets by hand, without a transaction.
//!
//! The pending state shows such a change at once. The next block applies it ahead of its transactions, so that the
//! state of every block matches its header, and a revert of the block reverts the change too. No other node can import
//! such a block.

use super::WholeAccount;
use alloy_primitives::{
    Address, B256, Bytes, KECCAK256_EMPTY, U256, keccak256,
    map::{AddressMap, B256Map, HashMap},
};
use polytrie_state::{Account, AccountChange, StateError, StateReader, TxWrites};
use std::sync::Arc;

/// The changes that the next block applies ahead of its transactions. An account is changed only after it was taken in as
/// it is at the head.
#[derive(Debug, Clone, Default)]
pub struct Cheats {
    accounts: AddressMap<Changed>,
    /// The codes that were set, by hash.
    codes: B256Map<Bytes>,
}

/// The changes of an account.
#[derive(Debug, Clone, Default)]
pub(super) struct Changed {
    account: Account,
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
        self.of(address).account.code_hash = self.keep(code);
    }

    /// Sets a slot of an account.
    pub fn set_slot(&mut self, address: Address, slot: U256, value: U256) {
        self.of(address).slots.insert(slot, value);
    }

    /// Replaces an account with `whole`: former slots and earlier changes are dropped. A nonce never decreases, so that
    /// no transaction can be replayed.
    pub fn replace(&mut self, address: Address, whole: WholeAccount) {
        let code_hash = self.keep(whole.code);
        let changed = self.of(address);
        let nonce = whole.nonce.max(changed.account.nonce);
        let account = Account { nonce, balance: whole.balance, code_hash };
        let slots = whole.slots.into_iter().collect();
        *changed = Changed { account, wiped: true, has_former_slots: false, slots };
    }

    /// Keeps code that an account gets, and returns its hash.
    fn keep(&mut self, code: Bytes) -> B256 {
        if code.is_empty() {
            return KECCAK256_EMPTY;
        }
        let hash = keccak256(&code);
        self.codes.insert(hash, code);
        hash
    }

    fn of(&mut self, address: Address) -> &mut Changed {
        self.accounts.entry(address).or_default()
    }

    /// Returns the changes as a block applies them, sorted by address.
    pub fn writes(&self) -> TxWrites {
        let mut accounts: Vec<_> =
            self.accounts.iter().map(|(address, changed)| self.change(*address, changed)).collect();
        accounts.sort_unstable_by_key(|change| change.address);
        TxWrites { accounts }
    }

    fn change(&self, address: Address, changed: &Changed) -> AccountChange {
        let hash = changed.account.code_hash;
        let account = changed.account();
        AccountChange {
            address,
            account,
            wiped: changed.wiped,
            code: self.codes.get(&hash).map(|code| (hash, code.clone())),
            slots: match account {
                Some(_) => changed.slots.iter().map(|(slot, value)| (*slot, *value)).collect(),
                None => Vec::new(),
            },
        }
    }
}

impl Changed {
    fn account(&self) -> Option<Account> {
        // An empty account does not exist (EIP-161), unless it has storage.
        (!self.account.is_empty() || self.has_slots()).then_some(self.account)
    }

    fn has_slots(&self) -> bool {
        // An account that loses its former slots one by one counts as one with slots: how many it has is not known.
        self.has_former_slots || self.slots.values().any(|value| !value.is_zero())
    }
}

/// A reader of the state at the head with the changes on top.
#[derive(Debug)]
pub(super) struct WithCheats {
    pub(super) head: Arc<dyn StateReader>,
    pub(super) cheats: Arc<Cheats>,
}

impl StateReader for WithCheats {
    fn account(&self, address: &Address) -> Result<Option<Account>, StateError> {
        match self.cheats.accounts.get(address) {
            Some(changed) => Ok(changed.account()),
            None => self.head.account(address),
        }
    }

    fn slot(&self, address: &Address, slot: &U256) -> Result<U256, StateError> {
        let Some(changed) = self.cheats.accounts.get(address) else {
            return self.head.slot(address, slot);
        };
        match changed.slots.get(slot) {
            Some(value) => Ok(*value),
            None if changed.wiped => Ok(U256::ZERO),
            None => self.head.slot(address, slot),
        }
    }

    fn code(&self, code_hash: &B256) -> Result<Option<Bytes>, StateError> {
        match self.cheats.codes.get(code_hash) {
            Some(code) => Ok(Some(code.clone())),
            None => self.head.code(code_hash),
        }
    }

    fn has_storage(&self, address: &Address) -> Result<bool, StateError> {
        match self.cheats.accounts.get(address) {
            Some(changed) => Ok(changed.has_slots()),
            None => self.head.has_storage(address),
        }
    }
}
