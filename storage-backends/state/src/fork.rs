//! A layer that goes its own way, to see what the state was at an earlier block.

use crate::{StateError, StateLayer, undo_in_steps};
use polytrie_kv::Store;
use std::sync::Arc;

/// A layer of its own that begins where another one stands, and the store that takes what it writes, in memory.
/// Neither of the two sees what happens to the other.
#[derive(Debug)]
pub struct Fork {
    /// The store.
    pub store: Store,
    /// The layer on it.
    pub layer: Arc<dyn StateLayer>,
}

impl Fork {
    /// One block back, given its undo record.
    ///
    /// # Errors
    ///
    /// As [`StateLayer::undo`].
    pub fn undo(&self, record: &[u8]) -> Result<(), StateError> {
        // If it ends on the way, so does the fork.
        let outcome = undo_in_steps(&*self.layer, &self.store, record, 0, &mut |_, _| {})?;
        outcome.write(&self.store).map(drop)
    }
}
