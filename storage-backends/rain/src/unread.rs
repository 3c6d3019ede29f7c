//! Readers of the head that have not read yet.
//!
//! A reader holds a version, and a block copies what a reader holds. But a node makes a reader of each head, and hardly any
//! is ever used. So a reader takes hold of its version when it reads for the first time. If the head has moved on, the undo
//! records since then lead back.

use crate::{reader::RainReader, shared::RainCore};
use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_state::{Access, Account, Result, StateError, StateReader};
use std::{
    collections::VecDeque,
    mem,
    sync::{Arc, OnceLock, Weak},
};

/// Number of blocks after which a reader takes hold of its version even if it was not used.
const MOST: usize = 4;

/// A reader of the head at which it was made.
#[derive(Debug)]
pub(crate) struct HeadReader {
    core: Arc<RainCore>,
    /// Number of moves of the head up to that one, and the root there.
    moves: usize,
    pub(crate) root: B256,
    /// Set while the core's work is locked, because the head must not move meanwhile.
    held: OnceLock<Result<RainReader>>,
}

impl HeadReader {
    fn is_unread(&self) -> bool {
        self.held.get().is_none()
    }

    /// Takes hold of the version that `make` returns, unless that was done before.
    pub(crate) fn hold(&self, make: impl FnOnce() -> Result<RainReader>) -> &Result<RainReader> {
        self.held.get_or_init(make)
    }

    fn held(&self) -> Result<&RainReader> {
        let held = self.held.get().unwrap_or_else(|| self.core.hold(self));
        held.as_ref().map_err(StateError::clone)
    }
}

/// The readers that have not read yet, with the ways back to their heads.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    /// Number of moves of the head.
    moves: usize,
    /// The reader of the head.
    newest: Weak<HeadReader>,
    /// The readers of the heads before, oldest first, each with the undo record that leads there from the next head.
    older: VecDeque<(Weak<HeadReader>, Vec<u8>)>,
}

impl Unread {
    /// Returns a reader of the head.
    pub(crate) fn reader(&mut self, core: &Arc<RainCore>, root: B256) -> Arc<HeadReader> {
        if let Some(reader) = unread(&self.newest) {
            return reader;
        }
        let (core, held) = (Arc::clone(core), OnceLock::new());
        let reader = Arc::new(HeadReader { core, moves: self.moves, root, held });
        self.newest = Arc::downgrade(&reader);
        reader
    }

    /// Returns the undo records that lead from the head to that of a reader that has not read.
    pub(crate) fn way_back(&self, reader: &HeadReader) -> impl Iterator<Item = &[u8]> {
        let steps = self.moves.saturating_sub(reader.moves);
        self.older.iter().rev().take(steps).map(|(_, back)| back.as_slice())
    }

    /// Returns all readers that have not read.
    pub(crate) fn all(&self) -> Vec<Arc<HeadReader>> {
        let older = self.older.iter().map(|(reader, _)| reader);
        older.chain([&self.newest]).filter_map(unread).collect()
    }

    /// Notes that the head has moved. `back` leads back from there; without it no reader may be unread. Returns a reader that
    /// has to take hold of its version now.
    pub(crate) fn moved(&mut self, back: Option<Vec<u8>>) -> Option<Arc<HeadReader>> {
        self.moves += 1;
        let newest = mem::take(&mut self.newest);
        if let Some(back) = back
            && (!self.older.is_empty() || unread(&newest).is_some())
        {
            self.older.push_back((newest, back));
        }
        while self.older.front().is_some_and(|(reader, _)| unread(reader).is_none()) {
            self.older.pop_front();
        }
        let (oldest, _) = self.older.front().filter(|_| self.older.len() > MOST)?;
        unread(oldest)
    }
}

/// Returns a reader that is still there and has not read.
fn unread(reader: &Weak<HeadReader>) -> Option<Arc<HeadReader>> {
    reader.upgrade().filter(|reader| reader.is_unread())
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

    fn gathers(&self) -> bool {
        self.core.source.store.snapshot().is_remote()
    }

    fn gather(&self, accesses: &[Access]) -> Result<()> {
        self.held()?.gather(accesses)
    }
}
