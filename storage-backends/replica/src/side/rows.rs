//! Rows that a block changes, as they come together.

use polytrie_kv::Batch;

/// The rows of a block under way.
///
/// They have room for as many as the block before had: what grows step by step is copied at each of them, and all
/// that memory is touched for nothing.
#[derive(Debug, Default)]
pub(super) struct BlockRows {
    rows: Batch,
    /// Changes and bytes of the last block.
    usual: (usize, usize),
}

impl BlockRows {
    /// The rows so far, to add to; they come back with [`Self::put`].
    pub(super) fn take(&mut self) -> Batch {
        match self.rows.is_empty() {
            true => {
                let (changes, bytes) = self.usual;
                Batch::with_capacity(changes, bytes)
            }
            false => std::mem::take(&mut self.rows),
        }
    }

    pub(super) fn put(&mut self, rows: Batch) {
        self.rows = rows;
    }

    /// The rows of the block, which is over.
    pub(super) fn end(&mut self) -> Batch {
        // Blocks differ, and whoever gets the rows adds some.
        self.usual = (self.rows.len() * 5 / 4, self.rows.byte_len() * 5 / 4);
        std::mem::take(&mut self.rows)
    }

    /// What came together is void.
    pub(super) fn clear(&mut self) {
        self.rows = Batch::new();
    }
}
