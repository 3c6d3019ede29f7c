//! A builder of histories, transaction by transaction, with the state at each moment.

use super::{Block, History};
use crate::oracle::Oracle;
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256, keccak256};
use polytrie_state::{Account, AccountChange, TxWrites};
use rand::{RngExt, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A history under construction.
#[derive(Debug)]
pub(super) struct Builder {
    pub(super) rng: ChaCha8Rng,
    seed: u64,
    genesis: TxWrites,
    blocks: Vec<Block>,
    states: Vec<Arc<Oracle>>,
    /// The state after the last transaction.
    now: Oracle,
    touched: BTreeSet<Address>,
}

/// A transaction under construction.
#[derive(Debug)]
pub(super) struct Tx {
    before: Oracle,
    changes: BTreeMap<Address, AccountChange>,
}

impl Builder {
    pub(super) fn new(seed: u64) -> Self {
        Self::on(Arc::default(), seed)
    }

    /// Starts a history at a state.
    pub(super) fn on(state: Arc<Oracle>, seed: u64) -> Self {
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            seed,
            genesis: TxWrites::default(),
            blocks: Vec::new(),
            now: (*state).clone(),
            states: vec![state],
            touched: BTreeSet::new(),
        }
    }

    /// Sets the genesis. Must be called before any block is added.
    pub(super) fn genesis(&mut self, fill: impl FnOnce(&mut ChaCha8Rng, &mut Tx)) {
        self.block("genesis", fill);
        self.genesis =
            self.blocks.pop().and_then(|block| block.txs.into_iter().next()).unwrap_or_default();
        self.states = self.states.split_off(1);
    }

    /// Adds a block of one transaction.
    pub(super) fn block(&mut self, label: &str, fill: impl FnOnce(&mut ChaCha8Rng, &mut Tx)) {
        self.empty_block(label);
        self.tx(fill);
    }

    /// Adds a block without transactions.
    pub(super) fn empty_block(&mut self, label: &str) {
        self.blocks.push(Block { label: label.to_owned(), txs: Vec::new() });
        self.states.push(Arc::new(self.now.clone()));
    }

    /// Adds a transaction to the last block.
    pub(super) fn tx(&mut self, fill: impl FnOnce(&mut ChaCha8Rng, &mut Tx)) {
        let mut tx = Tx { before: self.now.clone(), changes: BTreeMap::new() };
        fill(&mut self.rng, &mut tx);
        self.touched.extend(tx.changes.keys());
        let mut accounts: Vec<AccountChange> = tx.changes.into_values().collect();
        accounts.shuffle(&mut self.rng);
        let writes = TxWrites { accounts };
        self.now.apply(&writes);
        if let Some(block) = self.blocks.last_mut() {
            block.txs.push(writes);
        }
        if let Some(state) = self.states.last_mut() {
            *state = Arc::new(self.now.clone());
        }
    }

    /// Returns the state before the next block.
    pub(super) fn parent(&self) -> Arc<Oracle> {
        self.states[self.states.len() - 1].clone()
    }

    /// Returns all addresses written so far.
    pub(super) fn touched(&self) -> Vec<Address> {
        self.touched.iter().copied().collect()
    }

    pub(super) fn shuffled<T: Clone>(&mut self, items: &[T]) -> Vec<T> {
        let mut items = items.to_vec();
        items.shuffle(&mut self.rng);
        items
    }

    pub(super) fn finish(self) -> History {
        History { seed: self.seed, genesis: self.genesis, blocks: self.blocks, states: self.states }
    }
}

impl Tx {
    /// Returns the current account within the transaction.
    pub(super) fn account(&self, address: &Address) -> Option<Account> {
        match self.changes.get(address) {
            Some(change) => change.account,
            None => self.before.account(address),
        }
    }

    /// Returns the current value of the slot within the transaction.
    pub(super) fn slot(&self, address: &Address, slot: &U256) -> U256 {
        match self.changes.get(address) {
            Some(change) => match change.slots.iter().find(|(found, _)| found == slot) {
                Some((_, value)) => *value,
                None if change.wiped || change.account.is_none() => U256::ZERO,
                None => self.before.slot(address, slot),
            },
            None => self.before.slot(address, slot),
        }
    }

    /// Marks the account as touched and creates it if it does not exist.
    pub(super) fn touch(&mut self, address: Address) -> &mut Account {
        self.change(address).account.get_or_insert_default()
    }

    pub(super) fn set_account(&mut self, address: Address, account: Account) {
        self.change(address).account = Some(account);
    }

    pub(super) fn set_slot(&mut self, address: Address, slot: U256, value: U256) {
        self.touch(address);
        let change = self.change(address);
        match change.slots.iter_mut().find(|(found, _)| *found == slot) {
            Some((_, found)) => *found = value,
            None => change.slots.push((slot, value)),
        }
    }

    /// Sets a slot that the transaction has not written yet. Faster than [`Self::set_slot`] for many slots, because
    /// that one searches all of them each time.
    pub(super) fn append_slot(&mut self, address: Address, slot: U256, value: U256) {
        self.touch(address);
        self.change(address).slots.push((slot, value));
    }

    /// Sets the code of an account. `None` removes it, as is possible for a delegation (EIP-7702).
    pub(super) fn set_code(&mut self, address: Address, code: Option<&[u8]>) {
        let code = code.map(|code| (keccak256(code), Bytes::copy_from_slice(code)));
        self.touch(address).code_hash = code.as_ref().map_or(KECCAK256_EMPTY, |(hash, _)| *hash);
        self.change(address).code = code;
    }

    /// Removes the account and its storage.
    pub(super) fn destroy(&mut self, address: Address) {
        let change = self.change(address);
        change.account = None;
        change.wiped = true;
        change.slots.clear();
        change.code = None;
    }

    /// Creates the account again, without its earlier contents.
    pub(super) fn create(&mut self, address: Address, code: Option<&[u8]>) {
        self.destroy(address);
        self.set_account(address, Account { nonce: 1, ..Account::default() });
        self.set_code(address, code);
    }

    fn change(&mut self, address: Address) -> &mut AccountChange {
        let account = self.before.account(&address);
        self.changes.entry(address).or_insert_with(|| AccountChange {
            address,
            account,
            wiped: false,
            code: None,
            slots: Vec::new(),
        })
    }
}

/// Returns a random value for a slot: a small one (whose leaf may be embedded in its parent), one at the limit of
/// RLP's single bytes, or any other.
pub(super) fn value(rng: &mut ChaCha8Rng) -> U256 {
    match rng.random_range(0..10) {
        0..4 => U256::from(rng.random_range(1..0x80u8)),
        4..6 => U256::from(rng.random_range(0x7e..0x82u8)),
        6 => U256::from(rng.random::<u64>()) + U256::ONE,
        7 => U256::MAX,
        _ => U256::from_be_bytes(rng.random::<[u8; 32]>()) | U256::ONE,
    }
}

/// Returns code of 1 to 100 bytes. Short codes occur repeatedly, so that several accounts share them.
pub(super) fn code(rng: &mut ChaCha8Rng) -> Vec<u8> {
    if rng.random_bool(0.5) {
        return vec![0x60, rng.random_range(0..8u8)];
    }
    let length = rng.random_range(1..=100);
    (0..length).map(|_| rng.random()).collect()
}

/// Returns the code of an account that delegates (EIP-7702).
pub(super) fn delegation(to: &Address) -> Vec<u8> {
    [&[0xef, 0x01, 0x00], to.as_slice()].concat()
}

/// Returns a random account of any size.
pub(super) fn account(rng: &mut ChaCha8Rng) -> Account {
    let balance = match rng.random_range(0..4) {
        0 => U256::from(rng.random_range(0..0x100u16)),
        1 => U256::from_be_bytes(rng.random::<[u8; 32]>()),
        _ => U256::from(rng.random::<u64>()),
    };
    let nonce = match rng.random_range(0..4) {
        0 => 0,
        1 => rng.random(),
        _ => rng.random_range(0..1000),
    };
    Account { nonce, balance, code_hash: KECCAK256_EMPTY }
}

/// Hash of empty code.
pub(super) const NO_CODE: B256 = KECCAK256_EMPTY;
