//! Readers of the head that have not read yet.
//!
//! A reader holds a version, and a block copies what a reader holds. But a node makes a reader of each head, and hardly any
//! is ever used. So a reader takes hold of its version when it reads for the first time. If a block has moved the head by
//! then, its undo record leads back. Before the head moves again, the reader takes hold unasked.

use crate::{reader::RainReader, shared::RainCore};
use alloy_primitives::{Address, B256, Bytes, U256};
use parking_lot::Mutex;
use polytrie_state::{Access, Account, Result, StateError, StateReader};
use std::{
    mem,
    sync::{Arc, OnceLock, Weak},
};

/// A reader of the head at which it was made.
#[derive(Debug)]
pub(crate) struct HeadReader {
    core: Arc<RainCore>,
    pub(crate) root: B256,
    /// The undo record that leads to that head, once the head has moved.
    back: Mutex<Option<Vec<u8>>>,
    /// Set while the core's work is locked, because the head must not move meanwhile.
    held: OnceLock<Result<RainReader>>,
}

impl HeadReader {
    /// Takes hold of a version, unless that was done before. `make` gets the undo record that leads there from the head, or
    /// `None` if the version is the head.
    pub(crate) fn hold(
        &self,
        make: impl FnOnce(Option<Vec<u8>>) -> Result<RainReader>,
    ) -> &Result<RainReader> {
        self.held.get_or_init(|| {
            let back = self.back.lock().take();
            make(back)
        })
    }

    fn held(&self) -> Result<&RainReader> {
        let held = self.held.get().unwrap_or_else(|| self.core.hold(self));
        held.as_ref().map_err(StateError::clone)
    }
}

/// The readers that have not read yet.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    /// The reader of the head.
    newest: Weak<HeadReader>,
    /// The reader of the head before.
    older: Weak<HeadReader>,
}

impl Unread {
    /// Returns a reader of the head.
    pub(crate) fn reader(&mut self, core: &Arc<RainCore>, root: B256) -> Arc<HeadReader> {
        if let Some(reader) = unread(&self.newest) {
            return reader;
        }
        let (core, back, held) = (Arc::clone(core), Mutex::default(), OnceLock::new());
        let reader = Arc::new(HeadReader { core, root, back, held });
        self.newest = Arc::downgrade(&reader);
        reader
    }

    /// Returns the reader of the head before, if it has not read.
    pub(crate) fn older(&self) -> Option<Arc<HeadReader>> {
        unread(&self.older)
    }

    /// Returns all readers that have not read.
    pub(crate) fn all(&self) -> impl Iterator<Item = Arc<HeadReader>> {
        [&self.older, &self.newest].into_iter().filter_map(unread)
    }

    /// Notes that the head has moved. `back` leads back from there; without it no reader may be unread.
    pub(crate) fn moved(&mut self, back: Option<Vec<u8>>) {
        self.older = mem::take(&mut self.newest);
        if let Some(reader) = self.older() {
            *reader.back.lock() = back;
        }
    }
}

/// Returns a reader that is still there and has not read.
fn unread(reader: &Weak<HeadReader>) -> Option<Arc<HeadReader>> {
    reader.upgrade().filter(|reader| reader.held.get().is_none())
}

impl StateReader for HeadReader {
    fn account(&self, address: &Address) -> Result<Option<Account>> {
        self.held()?.account(address)
    }

    fn slot(&self, address: &Address, slot: &U256) -> Result<U256> {
        self.held()?.slot(address, slot)
    }

    fn code(&self, code_hash: &B256) -> Result<Option<Bytes>> {
        self.held()?.code(code_hash)
    }

    fn codes(&self, hashes: &[B256]) -> Result<Vec<Option<Bytes>>> {
        self.held()?.codes(hashes)
    }

    fn has_storage(&self, address: &Address) -> Result<bool> {
        self.held()?.has_storage(address)
    }

    /// Takes hold of the version as a read does. An import asks this of readers that its threads use some blocks later. They
    /// give way to others, so none of them should find the way back while a block waits.
    fn gathers(&self) -> bool {
        self.held().is_ok_and(|reader| reader.gathers())
    }

    fn gather(&self, accesses: &[Access]) -> Result<()> {
        self.held()?.gather(accesses)
    }
}
