//! The overlay: written changes that are not in the engine yet.
//!
//! Batches are added to the active [`Generation`]. When it is full it is frozen, a new one takes its place, and a
//! thread writes the frozen one to the engine. There are never more than these two. Every row carries the number of
//! the batch that wrote it, so a view of the past is a number and not a copy.
//!
//! ```text
//!   write ──► active generation        rows: hash index, versions, bytes in an arena
//!                 │ full               tombstones: deleted ranges
//!                 ▼
//!             frozen generation ──► one engine batch
//!                 │ written
//!                 ▼
//!             engine view              newest durable state
//! ```
//!
//! A key is looked up from top to bottom; the first layer that has a value or a removal of it decides.

mod arena;
mod generation;
mod merge;
mod rows;
mod sorted;
#[cfg(test)]
mod tests;
mod tombstones;

pub(crate) use generation::{Found, Generation, hash};
pub(crate) use merge::scan;

use std::sync::Arc;

/// Number of rows that are looked up before the first of them is used.
const AT_ONCE: usize = 16;

/// The generations, newest first; empty ones are left out.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layers {
    pub(crate) active: Option<Arc<Generation>>,
    pub(crate) frozen: Option<Arc<Generation>>,
}

impl Layers {
    fn iter(&self) -> impl Iterator<Item = &Generation> {
        [&self.active, &self.frozen].into_iter().flatten().map(|generation| &**generation)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.active.is_none() && self.frozen.is_none()
    }

    /// Looks up a key as it was after write `seq`; appends its value to `out`.
    #[inline]
    pub(crate) fn find(
        &self,
        table: usize,
        key: (&[u8], u64),
        seq: u64,
        out: &mut Vec<u8>,
    ) -> Found {
        self.iter()
            .map(|generation| generation.find(table, key, seq, out))
            .find(|found| *found != Found::Nothing)
            .unwrap_or(Found::Nothing)
    }
}
