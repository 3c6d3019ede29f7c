//! Forks: separate layers in memory that show the state at an earlier block.

use crate::{Result, StateLayer, undo_in_steps};
use polytrie_kv::Store;
use std::sync::Arc;

/// A separate layer that begins at the state of another one, and the store in memory that takes its writes. Neither
/// layer sees later changes of the other.
#[derive(Debug)]
pub struct Fork {
    /// The store.
    pub store: Store,
    /// The layer on it.
    pub layer: Arc<dyn StateLayer>,
}

impl Fork {
    /// Takes one block back, given its undo record.
    ///
    /// # Errors
    ///
    /// Those of [`StateLayer::undo`].
    pub fn undo(&self, record: &[u8]) -> Result<()> {
        // If this fails between two steps, the fork cannot be used any more.
        let outcome = undo_in_steps(&*self.layer, &self.store, record, 0, &mut |_, _| {})?;
        outcome.write(&self.store).map(drop)
    }
}
