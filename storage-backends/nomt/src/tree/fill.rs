//! The building of the trie from all flat rows: for a genesis, and if the files are lost.

use super::{State, Tree};
use crate::FLAT;
use alloy_primitives::B256;
use polytrie_kv::Store;
use polytrie_state::{
    Result,
    foreign::{Changes, Row, rows_by_key},
};
use std::{mem, sync::Arc};

/// Number of keys of one commit.
const CHUNK: usize = 1 << 15;

impl Tree {
    /// Builds the trie from flat rows, or an empty one. Returns the root.
    pub(super) fn make(&self, state: &mut State, rows: Option<&Store>) -> Result<B256> {
        // The database is closed before its files are removed.
        state.close();
        state.db = Some(Arc::new(self.files.open_anew()?));
        let Some(rows) = rows else { return Ok(state.root()) };
        let (mut rows, mut changes) = (rows_by_key(&FLAT, rows)?, Changes::new());
        for row in rows.drain()? {
            let Row(key, row) = row?;
            changes.insert(key, Some(row));
            if changes.len() >= CHUNK {
                self.write(state, mem::take(&mut changes))?;
            }
        }
        self.write(state, changes)?;
        Ok(state.root())
    }
}
