//! The index at the end of a file: the place of every record of every block.

use super::{
    error::E2StoreProblem,
    record::{Kind, RecordHead},
};

/// Content of a file's index:
///
/// ```text
/// first block | places of its records | places of the next block's | … | (records a block) | blocks
/// ```
///
/// Each entry is 8 bytes, little-endian. Places are relative to the index record, so they are negative. Only the index
/// of ere has the number of records per block; the index of era1 has the place of the header alone.
#[derive(Debug)]
pub(crate) struct Index<'a> {
    /// Number of the first block.
    pub(crate) first: u64,
    /// For each kind of record in the index, the offset of that record of each block.
    pub(crate) columns: &'a [(Kind, &'a [u64])],
    /// Whether the index has the number of records per block, as in ere.
    pub(crate) is_dynamic: bool,
}

impl Index<'_> {
    fn blocks(&self) -> usize {
        self.columns.first().map_or(0, |(_, places)| places.len())
    }

    /// Returns the content of the index record that starts at offset `at`.
    pub(crate) fn encode(&self, at: u64) -> Vec<u8> {
        let mut index = self.first.to_le_bytes().to_vec();
        for block in 0..self.blocks() {
            for (_, places) in self.columns {
                let relative = places.get(block).copied().unwrap_or_default().wrapping_sub(at);
                index.extend_from_slice(&relative.to_le_bytes());
            }
        }
        if self.is_dynamic {
            index.extend_from_slice(&(self.columns.len() as u64).to_le_bytes());
        }
        index.extend_from_slice(&(self.blocks() as u64).to_le_bytes());
        index
    }

    /// Checks the content of an index record against this index.
    pub(crate) fn check(&self, head: RecordHead, data: &[u8]) -> Result<(), E2StoreProblem> {
        let expected = self.blocks() as u64;
        let (words, _) = data.as_chunks::<8>();
        let [start, words @ .., count] = words else {
            return Err(E2StoreProblem::IndexCount { found: 0, expected });
        };
        let count = u64::from_le_bytes(*count);
        if count != expected {
            return Err(E2StoreProblem::IndexCount { found: count, expected });
        }
        let mut places = words;
        if self.is_dynamic {
            let expected = self.columns.len() as u64;
            let [before @ .., components] = words else {
                return Err(E2StoreProblem::IndexComponents { found: 0, expected });
            };
            let found = u64::from_le_bytes(*components);
            if found != expected {
                return Err(E2StoreProblem::IndexComponents { found, expected });
            }
            places = before;
        }
        let (found, expected) = (data.len() as u64, self.encode(head.offset).len() as u64);
        if found != expected {
            return Err(E2StoreProblem::IndexLength { found, expected });
        }
        let found = u64::from_le_bytes(*start);
        if found != self.first {
            return Err(E2StoreProblem::IndexStart { found, expected: self.first });
        }
        for (block, row) in places.chunks(self.columns.len().max(1)).enumerate() {
            for (relative, (kind, column)) in row.iter().zip(self.columns) {
                let found = i128::from(head.offset) + i128::from(i64::from_le_bytes(*relative));
                let expected = column.get(block).copied().unwrap_or_default();
                if found != i128::from(expected) {
                    let (record, block) = (kind.name(), self.first.saturating_add(block as u64));
                    return Err(E2StoreProblem::IndexOffset { record, block, found, expected });
                }
            }
        }
        Ok(())
    }
}
