//! The view that readers get: the head, and the state there and at earlier blocks.

use super::{Cheats, Result, cheats::WithCheats};
use alloy_consensus::{Header, Sealed};
use alloy_primitives::B256;
use polytrie_chain::{Chain, ChainDb, ChainError, Head, StateHistory};
use polytrie_chainspec::{ChainSpec, Rules};
use polytrie_kv::Snapshot;
use polytrie_state::StateReader;
use std::sync::Arc;

/// The chain at one moment. Later blocks do not change its answers.
#[derive(Debug, Clone)]
pub struct View {
    /// Head of the chain at that moment.
    pub head: Head,
    pub(super) db: ChainDb<Snapshot>,
    pub(super) reader: Arc<dyn StateReader>,
    pub(super) cheats: Arc<Cheats>,
    pub(super) history: Arc<StateHistory>,
    /// Number of the views before this one.
    pub(super) order: u64,
}

impl View {
    /// Creates the view of a chain as it is now, with these changes by hand. There were `order` views before.
    ///
    /// # Errors
    ///
    /// If the store or the layer fails.
    pub(super) fn of(
        chain: &Chain,
        history: &Arc<StateHistory>,
        cheats: Arc<Cheats>,
        order: u64,
    ) -> Result<Self> {
        let db = ChainDb::new(chain.db().store().snapshot());
        let reader = chain.layer().reader()?;
        Ok(Self {
            head: chain.head().clone(),
            db,
            reader,
            cheats,
            history: Arc::clone(history),
            order,
        })
    }

    /// Returns a reader of the state at the head, with the changes by hand on top.
    pub fn state(&self) -> Arc<dyn StateReader> {
        let head = Arc::clone(&self.reader);
        match self.cheats.is_empty() {
            true => head,
            false => Arc::new(WithCheats { head, cheats: Arc::clone(&self.cheats) }),
        }
    }

    /// Returns a reader of the state after block `number`, which must not be above the head. `None` if that state is
    /// not kept any more.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn state_at(&self, number: u64) -> Result<Option<Arc<dyn StateReader>>, ChainError> {
        if number == self.head.number() {
            return Ok(Some(self.state()));
        }
        self.history.at(&self.head, Arc::clone(&self.reader), self.db.store(), number)
    }

    /// Returns the number of the earliest block whose state can be read.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn oldest_state(&self) -> Result<u64, ChainError> {
        self.history.oldest(self.db.store(), self.head.number())
    }

    /// Returns the blocks of the chain. Only rows of the store are part of the view; other data may be newer.
    pub const fn db(&self) -> &ChainDb<Snapshot> {
        &self.db
    }

    /// Whether a block is in the chain; `false` if its row cannot be read.
    pub fn has(&self, header: &Sealed<Header>) -> bool {
        let row = self.db.canonical(header.number).ok().flatten();
        row.is_some_and(|(hash, _)| hash == header.hash())
    }

    /// Returns the hash of the head.
    pub const fn hash(&self) -> B256 {
        self.head.hash()
    }

    /// Returns the rules of a block at `timestamp` after the head.
    pub fn next_rules<'a>(&self, spec: &'a ChainSpec, timestamp: u64) -> Rules<'a> {
        let merged = spec.is_merged_after(self.head.total_difficulty);
        spec.rules(self.head.number() + 1, timestamp, merged)
    }
}
