//! Layers whose commitment lives in a second store that commits by itself, as adapters of published crates do.
//!
//! ```text
//! chain's store   flat rows ‖ block ‖ head ‖ trail        all reads, one atomic write a block
//! other store     the same rows under other keys          the commitment and proofs, behind or level
//! ```
//!
//! Such a layer is a [`ForeignLayer`] of a type that implements [`Foreign`]:
//!
//! - `layer.rs`: the seam,
//! - `step.rs`: the result of a block, and of taking it back,
//! - `keys.rs`: the key of a row in the other store, and the changes that a write set makes there,
//! - `undo.rs`: undo records that hold the position of the other store,
//! - `waiting.rs`: the steps that the other store does not have yet,
//! - `proof.rs`, `check.rs`: proofs, and the search for damage.

mod check;
mod keys;
mod layer;
mod proof;
mod step;
mod undo;
mod waiting;

pub use keys::{Changes, Key, Row, changed, current, row_words, rows_by_key, slot_key, sorter};
pub use layer::ForeignLayer;
pub use proof::{Way, verify};
pub use step::Next;
pub use waiting::{Limits, Waiting, Waits, due, is_full, make_durable};

use crate::{CheckReport, Horizon, Mark, Result, Trail, TrailStep, WriteSet, flat::FlatTables};
use polytrie_kv::{Sorter, Store};
use std::{fmt::Debug, sync::Arc};

/// A store that commits by itself, as a layer drives it. In memory it is at the end of the trail, whatever its files
/// have already: the files follow what is durable in the chain's store, and are never ahead of it.
///
/// It may be called from any thread. Where a method takes `trail`, it is that of the head, and the rows of `store`
/// are of the same state. Both are needed to open the files, which may be delayed until a method needs them.
pub trait Foreign: Debug + Send + Sync + Sized + 'static {
    /// The name of the layer.
    const NAME: &'static str;
    /// The layer's tables of flat rows.
    const FLAT: FlatTables;
    /// Whether the digest depends on the state alone. If it depends on the history too, undo records hold the mark
    /// before the block.
    const TELLS_STATE: bool;
    /// The entry of [`Self::figures`] that a check reports as the number of nodes.
    const NODES: &'static str;

    /// The settings of the layer.
    type Options;
    /// The mark of a position: which commit of the other store it is, with its digest.
    type Mark: Mark;
    /// The part of a step that the trail stores.
    type Step: TrailStep;
    /// The work that is done when a step is accepted.
    type Work: Debug + Send + 'static;
    /// The proof of a key.
    type Way: Way;

    /// Creates a store that is not open.
    fn new(options: Self::Options) -> Self;

    /// Whether the store should be opened at once: its files are kept, and may be behind.
    fn follows_on_disk(&self) -> bool;

    /// Opens the store if it is not open, and brings it level with the trail.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](crate::StateError::Corrupt) if the files are damaged, or do not belong to the chain's store and
    /// cannot be created again; or if they cannot be opened.
    fn open(&self, trail: &Trail<Self::Mark>, store: &Store) -> Result<()>;

    /// Prepares a new, unfilled place for the files and returns its mark. The place is not that of the old files, or
    /// [`Self::clear`] will remove those first. No old file is removed yet.
    ///
    /// # Errors
    ///
    /// [`Protocol`](crate::StateError::Protocol) if there are forks; or if files cannot be created.
    fn reserve(&self, old: &Self::Mark) -> Result<Self::Mark>;

    /// Removes the files at this mark, which the trail already calls unfilled.
    ///
    /// # Errors
    ///
    /// If files cannot be removed.
    fn clear(&self, old: &Self::Mark) -> Result<()>;

    /// Fills the reserved place from the flat rows of a store, durably. If this fails, the store is closed.
    ///
    /// # Errors
    ///
    /// If this store or the chain's store fails.
    fn fill(&self, store: &Store, reserved: &Self::Mark) -> Result<Self::Mark>;

    /// Computes the step of a block; `None` if the block changes nothing.
    ///
    /// # Errors
    ///
    /// Those of [`Self::open`].
    fn forward(
        &self,
        from: &Trail<Self::Mark>,
        store: &Store,
        number: u64,
        writes: &WriteSet,
    ) -> Result<Option<Next<Self>>>;

    /// Computes one step of undoing a block. `to` is the mark at the end of the whole undo; the last step
    /// gets it, if undo records hold marks.
    ///
    /// # Errors
    ///
    /// Those of [`Self::open`].
    fn back(
        &self,
        from: &Trail<Self::Mark>,
        store: &Store,
        writes: &WriteSet,
        to: Option<Self::Mark>,
    ) -> Result<Option<Next<Self>>> {
        let _ = to;
        self.forward(from, store, 0, writes)
    }

    /// Applies step number `step` of the trail after its batch was written to `store`, and commits if a commit is due.
    ///
    /// # Errors
    ///
    /// If the store fails. The layer is poisoned then.
    fn accept(&self, store: &Store, step: u64, work: Self::Work) -> Result<()>;

    /// Returns the number of the last step that the files hold durably.
    fn done(&self) -> u64;

    /// Returns a separate store that begins with the present content; neither sees later changes of the other.
    ///
    /// # Errors
    ///
    /// Those of [`Self::open`]; [`Unsupported`](crate::StateError::Unsupported) if the existing forks have to end
    /// first.
    fn fork(self: &Arc<Self>, trail: &Trail<Self::Mark>, store: &Store) -> Result<Self>;

    /// Proves the value of each key, or its absence, at the end of the trail; `None` if another step was accepted
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// Those of [`Self::open`].
    fn prove(
        &self,
        trail: &Trail<Self::Mark>,
        store: &Store,
        keys: Vec<Key>,
    ) -> Result<Option<Vec<Self::Way>>>;

    /// Compares the store with these rows, and reports every difference.
    ///
    /// # Errors
    ///
    /// Those of [`Self::open`].
    fn scrub(
        &self,
        trail: &Trail<Self::Mark>,
        store: &Store,
        rows: Sorter<Row>,
        report: &mut CheckReport,
    ) -> Result<()>;

    /// Notes the horizon of the chain, after every accepted block.
    fn advance(&self, horizon: Horizon) {
        let _ = horizon;
    }

    /// Returns the counters of the store, by name.
    fn figures(&self) -> Vec<(&'static str, u64)>;
}
