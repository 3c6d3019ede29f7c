//! A block's access list, made while the block runs (EIP-7928).
//!
//! The changes that revm returns at the end of a transaction, a system call or a reward contain every account and slot
//! that was touched, also in reverted calls. So this is the one place to gather them, under every layer and in every
//! fork. Before Cancun a list may lack some slots: a contract that destroys itself empties slots that the block has not
//! read, and their names are not known. The list also lacks the drain of The DAO.

use alloy_eips::eip7928::{
    AccountChanges, BalanceChange, BlockAccessIndex, CodeChange, NonceChange, SlotChanges,
    StorageChange,
};
use alloy_primitives::{
    Address, B256, Bytes, KECCAK256_EMPTY, U256,
    map::{AddressMap, HashMap},
};
use revm::state::{Account as EvmAccount, AccountInfo};

use super::changes::is_gone;

/// Accounts and slots that a running block has touched so far.
#[derive(Debug, Default)]
pub(super) struct AccessListBuilder {
    /// Current place in the block: 0 before the transactions, then one for each of them, then one after them.
    index: BlockAccessIndex,
    accounts: AddressMap<Touched>,
    /// Codes that accounts were given, by hash.
    codes: HashMap<B256, Bytes>,
}

#[derive(Debug)]
struct Touched {
    balance: Values<U256>,
    nonce: Values<u64>,
    code: Values<B256>,
    slots: HashMap<U256, Values<U256>>,
}

/// A value and its changes over the block.
#[derive(Debug)]
struct Values<T> {
    /// Value before the block first touched it.
    before: T,
    /// Places that changed the value, in order, each with the value after it.
    left: Vec<(BlockAccessIndex, T)>,
}

impl<T: Copy + PartialEq> Values<T> {
    const fn new(before: T) -> Self {
        Self { before, left: Vec::new() }
    }

    fn now(&self) -> T {
        self.left.last().map_or(self.before, |(_, value)| *value)
    }

    /// Sets the value. A place counts as a change if the value at its end differs from that at its start, however often
    /// it changed in between.
    fn set(&mut self, index: BlockAccessIndex, value: T) {
        self.left.pop_if(|(at, _)| *at == index);
        if self.now() != value {
            self.left.push((index, value));
        }
    }

    fn changes<C>(self, change: impl Fn(BlockAccessIndex, T) -> C) -> Vec<C> {
        self.left.into_iter().map(|(index, value)| change(index, value)).collect()
    }
}

impl Touched {
    fn new(info: &AccountInfo, slots: HashMap<U256, Values<U256>>) -> Self {
        Self {
            balance: Values::new(info.balance),
            nonce: Values::new(info.nonce),
            code: Values::new(info.code_hash),
            slots,
        }
    }
}

impl AccessListBuilder {
    /// Moves to the place after this number of transactions: later changes belong to it.
    pub(super) const fn go_on_after(&mut self, transactions: usize) {
        self.index = BlockAccessIndex::new(transactions as u64 + 1);
    }

    /// Adds the touched slots and the changes of an account.
    pub(super) fn add(&mut self, address: Address, account: &EvmAccount) {
        let index = self.index;
        let touched = self
            .accounts
            .entry(address)
            .or_insert_with(|| Touched::new(&account.original_info(), HashMap::default()));
        let is_gone = account.is_touched() && is_gone(account);
        for (slot, value) in &account.storage {
            let values =
                touched.slots.entry(*slot).or_insert_with(|| Values::new(value.original_value));
            if account.is_touched() && !is_gone {
                values.set(index, value.present_value);
            }
        }
        if is_gone {
            for values in touched.slots.values_mut() {
                values.set(index, U256::ZERO);
            }
            touched.balance.set(index, U256::ZERO);
            touched.nonce.set(index, 0);
            touched.code.set(index, KECCAK256_EMPTY);
        } else if account.is_touched() {
            let info = &account.info;
            touched.balance.set(index, info.balance);
            touched.nonce.set(index, info.nonce);
            if info.code_hash != touched.code.now()
                && let Some(code) = &info.code
            {
                self.codes.insert(info.code_hash, code.original_bytes());
            }
            touched.code.set(index, info.code_hash);
        }
    }

    /// Returns the list, in the order of EIP-7928.
    pub(super) fn finish(self) -> Vec<AccountChanges> {
        let Self { accounts, codes, .. } = self;
        let mut list: Vec<_> = accounts
            .into_iter()
            .map(|(address, touched)| changes_of(address, touched, &codes))
            .collect();
        list.sort_unstable_by_key(|account| account.address);
        list
    }
}

fn changes_of(address: Address, touched: Touched, codes: &HashMap<B256, Bytes>) -> AccountChanges {
    let (mut storage_changes, mut storage_reads) = (Vec::new(), Vec::new());
    for (slot, values) in touched.slots {
        if values.left.is_empty() {
            storage_reads.push(slot);
        } else {
            storage_changes.push(SlotChanges::new(slot, values.changes(StorageChange::new)));
        }
    }
    storage_changes.sort_unstable_by_key(|changes| changes.slot);
    storage_reads.sort_unstable();
    let code = |hash: B256| codes.get(&hash).cloned().unwrap_or_default();
    AccountChanges {
        address,
        storage_changes,
        storage_reads,
        balance_changes: touched.balance.changes(BalanceChange::new),
        nonce_changes: touched.nonce.changes(NonceChange::new),
        code_changes: touched.code.changes(|index, hash| CodeChange::new(index, code(hash))),
    }
}
