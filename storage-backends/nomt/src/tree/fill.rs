//! The building of the trie from all flat rows: for a genesis, and if the files are lost.

use super::{State, Tree};
use crate::{ACCOUNTS, FLAT, SLOTS};
use alloy_primitives::B256;
use polytrie_kv::{KeyRange, Store};
use polytrie_state::{
    Result, each_row,
    foreign::{Changes, key_of},
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
        let rows = rows.snapshot();
        let mut changes = Changes::new();
        for table in [ACCOUNTS, SLOTS] {
            each_row(&rows, table, KeyRange::ALL, |key, row| {
                changes.insert(key_of(&FLAT, table, key), Some(row.to_vec()));
                if changes.len() >= CHUNK {
                    self.write(state, mem::take(&mut changes))?;
                }
                Ok(())
            })?;
        }
        self.write(state, changes)?;
        Ok(state.root())
    }
}
