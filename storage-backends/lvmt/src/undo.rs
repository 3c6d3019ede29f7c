//! Taking a block back: the rows it changed, as they were.
//!
//! ```text
//! (table ‖ length of the key ‖ key ‖ u16 (0: there was none; else 1 + length) ‖ old value)…
//! SHA-256 of all before it
//! ```

use crate::{ACCOUNTS, ENTRIES, EPOCHS, HISTORY, LEAVES, META, SLOTS, TREES};
use polytrie_kv::{Batch, Table};
use polytrie_state::StateError;
use sha2::{Digest, Sha256};

const CHECKSUM: usize = 32;

/// Rows to write, and what they were before.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) batch: Batch,
    undo: Vec<u8>,
    /// Whether nobody will take this back.
    forget: bool,
}

impl Rows {
    pub(crate) fn new(rows: usize, remember: bool) -> Self {
        Self {
            batch: Batch::with_capacity(rows, rows * 128),
            undo: Vec::with_capacity(if remember { rows * 128 } else { 0 }),
            forget: !remember,
        }
    }

    pub(crate) fn put(&mut self, table: Table, key: &[u8], value: &[u8], old: Option<&[u8]>) {
        self.batch.put(table, key, value);
        if self.forget {
            return;
        }
        // Keys have at most 68 bytes, and no row that is ever overwritten has more than 200.
        self.undo.extend_from_slice(&[table.id, key.len() as u8]);
        self.undo.extend_from_slice(key);
        let length = old.map_or(0, |old| old.len() as u16 + 1);
        self.undo.extend_from_slice(&length.to_be_bytes());
        self.undo.extend_from_slice(old.unwrap_or_default());
    }

    /// The batch and the undo record.
    pub(crate) fn finish(mut self) -> (Batch, Vec<u8>) {
        if !self.forget {
            let checksum = Sha256::digest(&self.undo);
            self.undo.extend_from_slice(&checksum);
        }
        (self.batch, self.undo)
    }
}

/// A row as it was.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OldRow<'a> {
    pub(crate) table: Table,
    pub(crate) key: &'a [u8],
    pub(crate) value: Option<&'a [u8]>,
}

/// The rows of an undo record.
pub(crate) fn read(record: &[u8]) -> Result<Vec<OldRow<'_>>, StateError> {
    parse(record).ok_or_else(|| StateError::Corrupt("an undo record does not decode".into()))
}

fn parse(record: &[u8]) -> Option<Vec<OldRow<'_>>> {
    let (mut rest, checksum) = record.split_at_checked(record.len().checked_sub(CHECKSUM)?)?;
    if Sha256::digest(rest)[..] != *checksum {
        return None;
    }
    let mut rows = Vec::new();
    while let Some(([table, length], after)) = rest.split_first_chunk::<2>() {
        let tables = [ACCOUNTS, SLOTS, ENTRIES, TREES, LEAVES, EPOCHS, HISTORY, META];
        let table = tables.into_iter().find(|known| known.id == *table)?;
        let (key, after) = after.split_at_checked(usize::from(*length))?;
        let (length, after) = after.split_first_chunk::<2>()?;
        let length = u16::from_be_bytes(*length);
        let (value, after) = after.split_at_checked(usize::from(length.saturating_sub(1)))?;
        rows.push(OldRow { table, key, value: (length > 0).then_some(value) });
        rest = after;
    }
    rest.is_empty().then_some(rows)
}
