//! Layers whose commitment lives in a store of its own, which commits by itself, as one over a published crate does.
//!
//! ```text
//! chain's store   flat rows ‖ block ‖ head ‖ trail        all reads, one atomic write a block
//! other store     the same rows under other keys          the commitment and proofs, behind or level
//! ```
//!
//! Such a layer is a [`ForeignLayer`] of what implements [`Foreign`]:
//!
//! - `layer.rs`: the seam,
//! - `step.rs`: what a block amounts to, and the way back,
//! - `keys.rs`: which key a row has in the other store, and what a write set changes there,
//! - `undo.rs`: undo records that say where the other store was,
//! - `waiting.rs`: what the other store does not have yet,
//! - `proof.rs`, `check.rs`: proofs, looking for damage.

mod check;
mod keys;
mod layer;
mod proof;
mod step;
mod undo;
mod waiting;

pub use keys::{Changes, Key, Row, changed, current, key_of, slot_key, sorter};
pub use layer::ForeignLayer;
pub use proof::{Way, verify};
pub use step::Next;
pub use waiting::{Limits, Waiting, Waits, make_durable};

use crate::{CheckReport, Horizon, Mark, StateError, Trail, TrailStep, WriteSet, flat::FlatTables};
use polytrie_kv::{Sorter, Store};
use std::{fmt::Debug, sync::Arc};

/// A store that commits by itself, as a layer drives it. It stands in memory at the end of the trail, whatever its files have
/// already: they follow what is durable in the chain's store, and are never ahead.
///
/// It may be called from any thread. `trail` is that of the head where it is asked for, and the rows of `store` are of the
/// same state; both are what it takes to open the files at last, which may be put off until something needs them.
pub trait Foreign: Debug + Send + Sync + Sized + 'static {
    /// The name of the layer.
    const NAME: &'static str;
    /// Its flat rows.
    const FLAT: FlatTables;
    /// Whether its digest follows from the state. If it tells how that came about, undo records have the mark before the block.
    const TELLS_STATE: bool;
    /// Which of [`Self::figures`] is the number of nodes that a check reports.
    const NODES: &'static str;

    /// Settings.
    type Options;
    /// Where it stands.
    type Mark: Mark;
    /// What the trail says of a step.
    type Step: TrailStep;
    /// What it gets to do when a step is accepted.
    type Work: Debug + Send + 'static;
    /// The proof of a key.
    type Way: Way;

    /// One that is not open.
    fn new(options: Self::Options) -> Self;

    /// Whether it is to be opened at once: its files are kept, and may be behind.
    fn follows_on_disk(&self) -> bool;

    /// Opens it if it is not open, and brings it level.
    ///
    /// # Errors
    ///
    /// [`StateError::Corrupt`] if the files are damaged, or do not belong to the store and cannot be made anew; or if they
    /// cannot be opened; so below.
    fn open(&self, trail: &Trail<Self::Mark>, store: &Store) -> Result<(), StateError>;

    /// Makes what is needed before it is filled: where it will be, unfilled, which is not where the old files are or were if
    /// [`Self::clear`] removes these. Nothing of them goes yet.
    ///
    /// # Errors
    ///
    /// [`StateError::Protocol`] if there are forks; or if files cannot be made.
    fn reserve(&self, old: &Self::Mark) -> Result<Self::Mark, StateError>;

    /// Removes what was at this mark, of which the trail says by now that it is not filled.
    ///
    /// # Errors
    ///
    /// If files cannot be removed.
    fn clear(&self, old: &Self::Mark) -> Result<(), StateError>;

    /// Fills what was reserved from the flat rows of a store, durably. If it fails, it is closed.
    ///
    /// # Errors
    ///
    /// If it or the store fails.
    fn fill(&self, store: &Store, reserved: &Self::Mark) -> Result<Self::Mark, StateError>;

    /// What the block of this number amounts to; `None` if nothing changes.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    fn forward(
        &self,
        from: &Trail<Self::Mark>,
        store: &Store,
        number: u64,
        writes: &WriteSet,
    ) -> Result<Option<Next<Self>>, StateError>;

    /// What a step of the way back from a block amounts to. `to` is where the whole way leads: the last step of it has that,
    /// where undo records do.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    fn back(
        &self,
        from: &Trail<Self::Mark>,
        store: &Store,
        writes: &WriteSet,
        to: Option<Self::Mark>,
    ) -> Result<Option<Next<Self>>, StateError> {
        let _ = to;
        self.forward(from, store, 0, writes)
    }

    /// Takes the step of this number in the trail, whose batch was written to `store`, and commits if that is due.
    ///
    /// # Errors
    ///
    /// If it fails. The layer is poisoned then.
    fn accept(&self, store: &Store, step: u64, work: Self::Work) -> Result<(), StateError>;

    /// The last step that its files have, durably.
    fn done(&self) -> u64;

    /// Another one that begins here and goes its own way.
    ///
    /// # Errors
    ///
    /// As [`Self::open`]; [`StateError::Unsupported`] if those there are have to end first.
    fn fork(self: &Arc<Self>, trail: &Trail<Self::Mark>, store: &Store)
    -> Result<Self, StateError>;

    /// For each key the proof of its value, or of that it has none, at the end of the trail; `None` if another step was
    /// accepted meanwhile.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    fn prove(
        &self,
        trail: &Trail<Self::Mark>,
        store: &Store,
        keys: Vec<Key>,
    ) -> Result<Option<Vec<Self::Way>>, StateError>;

    /// Reports what of it is not what these rows say.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    fn scrub(
        &self,
        trail: &Trail<Self::Mark>,
        store: &Store,
        rows: Sorter<Row>,
        report: &mut CheckReport,
    ) -> Result<(), StateError>;

    /// The chain has moved on.
    fn advance(&self, horizon: Horizon) {
        let _ = horizon;
    }

    /// What there is to count, by name.
    fn figures(&self) -> Vec<(&'static str, u64)>;
}
