//! The building of the database from all flat rows.
//!
//! The root after filling depends on how the rows are cut into commits: in the order of their keys, a fixed number at
//! a time.

use super::{
    State, Tree,
    database::{Database, log_of},
};
use crate::{FLAT, mark::Log};
use polytrie_kv::Store;
use polytrie_state::{
    Result,
    foreign::{Changes, Row, rows_by_key},
};
use std::{mem, sync::Arc};

/// Number of rows of one commit. Another number would give other roots.
const CHUNK: usize = 1 << 15;
/// Number of commits after which all of them go to the files: the crate keeps in memory what these do not have yet.
const SYNC_EVERY: u64 = 32;

impl Tree {
    /// Builds the files of this number, which must be reserved, from the flat rows of a store, which must not change
    /// meanwhile. Returns the log.
    pub(super) fn make(&self, state: &mut State, store: &Store, files: u64) -> Result<Log> {
        *state = State::default();
        let mut rows = rows_by_key(&FLAT, store)?;
        state.open_files(&self.files, files, None)?;
        let (mut changes, mut commits) = (Changes::new(), 0u64);
        for row in rows.drain()? {
            let Row(key, row) = row?;
            changes.insert(key, Some(row));
            if changes.len() >= CHUNK {
                let changes = mem::take(&mut changes);
                state.at = append(state.database()?, Arc::new(changes))?;
                commits += 1;
                if commits.is_multiple_of(SYNC_EVERY) {
                    state.database()?.sync(None)?;
                }
            }
        }
        if !changes.is_empty() {
            state.at = append(state.database()?, Arc::new(changes))?;
        }
        state.first = state.database()?.sync(None)?;
        state.base = state.at;
        Ok(state.at)
    }
}

/// Appends changes to the database; returns the log.
pub(super) fn append(database: &Database, changes: Arc<Changes>) -> Result<Log> {
    let overlay = database.compute(None, changes)?;
    let log = log_of(&overlay);
    database.apply(overlay)?;
    Ok(log)
}
