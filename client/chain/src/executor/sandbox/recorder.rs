//! The accounts and slots that an execution reads.

use alloy_primitives::{Address, B256, Bytes, U256};
use parking_lot::Mutex;
use polytrie_state::{Account, StateError, StateReader};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A reader that records which accounts, slots and codes are read.
#[derive(Debug)]
pub struct RecordingReader {
    base: Arc<dyn StateReader>,
    seen: Mutex<Seen>,
}

/// Recorded reads, by address and by hash.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Accounts, each with its slots.
    pub accounts: BTreeMap<Address, BTreeSet<U256>>,
    /// Code by its hash.
    pub codes: BTreeMap<B256, Bytes>,
}

impl RecordingReader {
    /// Returns a reader with nothing recorded.
    pub fn new(base: Arc<dyn StateReader>) -> Arc<Self> {
        Arc::new(Self { base, seen: Mutex::default() })
    }

    /// Returns the reads so far.
    pub fn seen(&self) -> Seen {
        self.seen.lock().clone()
    }
}

impl StateReader for RecordingReader {
    fn account(&self, address: &Address) -> Result<Option<Account>, StateError> {
        self.seen.lock().accounts.entry(*address).or_default();
        self.base.account(address)
    }

    fn slot(&self, address: &Address, slot: &U256) -> Result<U256, StateError> {
        self.seen.lock().accounts.entry(*address).or_default().insert(*slot);
        self.base.slot(address, slot)
    }

    fn code(&self, code_hash: &B256) -> Result<Option<Bytes>, StateError> {
        let code = self.base.code(code_hash)?;
        if let Some(code) = &code {
            self.seen.lock().codes.insert(*code_hash, code.clone());
        }
        Ok(code)
    }

    fn has_storage(&self, address: &Address) -> Result<bool, StateError> {
        self.seen.lock().accounts.entry(*address).or_default();
        self.base.has_storage(address)
    }
}
