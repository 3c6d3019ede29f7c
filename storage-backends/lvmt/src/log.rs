//! The tuples of each epoch: their hashes, in rows of a thousand.
//!
//! ```text
//! LvmtEpochs   epoch              number of tuples ‖ the root of each chunk
//! LvmtLeaves   epoch ‖ chunk      0x00 ‖ the hashes of up to 1,024 tuples
//!                            or   0x01 ‖ (level ‖ hash)…, the rest after collecting: subtrees from left to
//!                                 right, of which only the root is kept
//! ```

use crate::{
    EPOCHS, LEAVES,
    merkle::{IN_EPOCH, node, root},
    record::Position,
};
use alloy_primitives::{B256, Keccak256};
use polytrie_kv::Read;
use polytrie_state::{Result, corrupt};
use rayon::prelude::*;

/// Number of levels of the tree within a chunk.
pub(crate) const CHUNK_LEVELS: u32 = 10;
/// Number of tuples of a chunk.
pub(crate) const CHUNK: usize = 1 << CHUNK_LEVELS;

const FULL: u8 = 0;
const COLLECTED: u8 = 1;

/// The row of an epoch: its number of tuples, and the roots of its chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Epoch {
    pub(crate) count: u32,
    pub(crate) chunks: Vec<B256>,
}

impl Epoch {
    pub(crate) fn of(leaves: &[B256]) -> Self {
        let chunks = leaves.par_chunks(CHUNK).map(|chunk| root(IN_EPOCH, chunk)).collect();
        // A block changes far fewer than 2^32 keys.
        Self { count: leaves.len() as u32, chunks }
    }

    /// Returns the root of the epoch, which is a leaf of the history.
    pub(crate) fn root(&self) -> B256 {
        epoch_root(self.count, &root(IN_EPOCH, &self.chunks))
    }

    pub(crate) fn row(&self) -> Vec<u8> {
        let mut row = self.count.to_be_bytes().to_vec();
        for chunk in &self.chunks {
            row.extend_from_slice(chunk.as_slice());
        }
        row
    }

    /// Decodes the bytes of [`Self::row`].
    pub(crate) fn parse(row: &[u8]) -> Option<Self> {
        let (count, chunks) = row.split_first_chunk::<4>()?;
        let count = u32::from_be_bytes(*count);
        let expected = 32 * (count as usize).div_ceil(CHUNK);
        (count > 0 && chunks.len() == expected).then(|| Self {
            count,
            chunks: chunks.chunks_exact(32).map(B256::from_slice).collect(),
        })
    }

    pub(crate) fn read(store: &dyn Read, epoch: u64) -> Result<Self> {
        let row = store.get(EPOCHS, &epoch.to_be_bytes())?;
        row.and_then(|row| Self::parse(&row))
            .ok_or_else(|| corrupt!("the row of epoch {epoch} is missing or damaged"))
    }

    /// Returns the number of tuples in a chunk.
    pub(crate) fn chunk_len(&self, chunk: usize) -> usize {
        (self.count as usize).saturating_sub(chunk * CHUNK).min(CHUNK)
    }
}

/// Returns the root of an epoch: `keccak(0x03 ‖ number of tuples ‖ root of their tree)`.
pub(crate) fn epoch_root(count: u32, tuples: &B256) -> B256 {
    let mut hasher = Keccak256::new();
    hasher.update([3]);
    hasher.update(count.to_be_bytes());
    hasher.update(tuples);
    hasher.finalize()
}

/// Returns the key of a chunk's row.
pub(crate) fn chunk_key(epoch: u64, chunk: u32) -> [u8; 12] {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&epoch.to_be_bytes());
    key[8..].copy_from_slice(&chunk.to_be_bytes());
    key
}

/// Encodes the row of a chunk without collected tuples.
pub(crate) fn write_chunk(leaves: &[B256], row: &mut Vec<u8>) {
    row.push(FULL);
    for leaf in leaves {
        row.extend_from_slice(leaf.as_slice());
    }
}

/// The known nodes of a chunk, by level; those within collected subtrees are not known.
#[derive(Debug)]
pub(crate) struct Chunk {
    levels: Vec<Vec<Option<B256>>>,
}

impl Chunk {
    pub(crate) fn read(store: &dyn Read, epoch: u64, chunk: u32, len: usize) -> Result<Self> {
        let row = store.get(LEAVES, &chunk_key(epoch, chunk))?;
        row.and_then(|row| Self::parse(&row, len))
            .ok_or_else(|| corrupt!("chunk {chunk} of epoch {epoch} is missing or damaged"))
    }

    /// Decodes the row of a chunk of `len` tuples.
    pub(crate) fn parse(row: &[u8], len: usize) -> Option<Self> {
        let mut widths = vec![len];
        while let Some(width) = widths.last().copied().filter(|width| *width > 1) {
            widths.push(width.div_ceil(2));
        }
        let mut levels: Vec<Vec<Option<B256>>> =
            widths.iter().map(|width| vec![None; *width]).collect();
        let (form, rest) = row.split_first()?;
        match *form {
            FULL if rest.len() == 32 * len => {
                for (leaf, hash) in levels[0].iter_mut().zip(rest.chunks_exact(32)) {
                    *leaf = Some(B256::from_slice(hash));
                }
            }
            COLLECTED if rest.len().is_multiple_of(33) => {
                let mut at = 0;
                for entry in rest.chunks_exact(33) {
                    let level = usize::from(entry[0]);
                    // The subtree must begin where one of its level can, and belong to the tree.
                    if level >= levels.len() || at % (1 << level) != 0 || at >= len {
                        return None;
                    }
                    levels[level][at >> level] = Some(B256::from_slice(&entry[1..]));
                    at = (at + (1 << level)).min(len);
                }
                if at != len {
                    return None;
                }
            }
            _ => return None,
        }
        for level in 1..levels.len() {
            for index in 0..levels[level].len() {
                let below = &levels[level - 1];
                let parent = match (below[2 * index], below.get(2 * index + 1)) {
                    (Some(left), Some(Some(right))) => Some(node(IN_EPOCH, &left, right)),
                    (Some(left), None) => Some(left),
                    _ => None,
                };
                if let Some(parent) = parent {
                    levels[level][index] = Some(parent);
                }
            }
        }
        Some(Self { levels })
    }

    pub(crate) fn root(&self) -> Option<B256> {
        self.node(self.levels.len() as u32 - 1, 0)
    }

    /// Returns a node of the chunk. A level above the chunk's root gives the root, which moves up unchanged.
    pub(crate) fn node(&self, level: u32, index: usize) -> Option<B256> {
        let level = (level as usize).min(self.levels.len() - 1);
        self.levels[level].get(index).copied().flatten()
    }

    /// Encodes the row that keeps the nodes that prove the live tuples (`live[leaf]`), and as little else as
    /// possible.
    pub(crate) fn collected(&self, live: &[bool]) -> Option<Vec<u8>> {
        let mut row = vec![COLLECTED];
        self.keep(self.levels.len() - 1, 0, live, &mut row)?;
        Some(row)
    }

    fn keep(&self, level: usize, index: usize, live: &[bool], row: &mut Vec<u8>) -> Option<()> {
        let from = index << level;
        let to = ((index + 1) << level).min(live.len());
        if level == 0 || !live[from..to].contains(&true) {
            // A level has a number below 256.
            row.push(level as u8);
            row.extend_from_slice(self.levels[level][index]?.as_slice());
            return Some(());
        }
        self.keep(level - 1, 2 * index, live, row)?;
        if 2 * index + 1 < self.levels[level - 1].len() {
            self.keep(level - 1, 2 * index + 1, live, row)?;
        }
        Some(())
    }
}

/// Returns a node of the tree over an epoch's tuples.
pub(crate) fn epoch_node(
    store: &dyn Read,
    number: u64,
    epoch: &Epoch,
    cache: &mut Option<(u32, Chunk)>,
    level: u32,
    index: u64,
) -> Result<B256> {
    let missing = || corrupt!("node {index} of level {level} of epoch {number} is missing");
    if level >= CHUNK_LEVELS {
        let mut nodes = epoch.chunks.clone();
        for _ in CHUNK_LEVELS..level {
            nodes = crate::merkle::parents(IN_EPOCH, &nodes);
        }
        return nodes.get(index as usize).copied().ok_or_else(missing);
    }
    let chunk = (index >> (CHUNK_LEVELS - level)) as u32;
    if cache.as_ref().is_none_or(|(known, _)| *known != chunk) {
        let read = Chunk::read(store, number, chunk, epoch.chunk_len(chunk as usize))?;
        *cache = Some((chunk, read));
    }
    let within = (index & ((1 << (CHUNK_LEVELS - level)) - 1)) as usize;
    let found = cache.as_ref().and_then(|(_, chunk)| chunk.node(level, within));
    found.ok_or_else(missing)
}

/// Returns the chunk of a position, and the leaf's index within it.
pub(crate) const fn chunk_of(at: &Position) -> (u32, usize) {
    (at.leaf >> CHUNK_LEVELS, at.leaf as usize % CHUNK)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloy_primitives::keccak256;

    fn chunk_row(leaves: &[B256]) -> Vec<u8> {
        let mut row = Vec::new();
        write_chunk(leaves, &mut row);
        row
    }

    #[test]
    fn what_is_live_stays_provable() {
        for len in [1usize, 2, 3, 7, 64, 100, CHUNK] {
            let leaves: Vec<B256> =
                (0..len).map(|n| keccak256([n as u8, (n >> 8) as u8])).collect();
            let full = Chunk::parse(&chunk_row(&leaves), len).unwrap();
            assert_eq!(full.root(), Some(root(IN_EPOCH, &leaves)));
            for step in [1, 2, 5, 50, len + 1] {
                let live: Vec<bool> = (0..len).map(|n| n % step == step / 2).collect();
                let row = full.collected(&live).unwrap();
                let kept = Chunk::parse(&row, len).unwrap();
                assert_eq!(kept.root(), full.root());
                for (leaf, _) in live.iter().enumerate().filter(|(_, live)| **live) {
                    for level in 0..full.levels.len() as u32 {
                        let (own, sibling) = (leaf >> level, (leaf >> level) ^ 1);
                        assert_eq!(kept.node(level, own), full.node(level, own));
                        assert_eq!(kept.node(level, sibling), full.node(level, sibling));
                    }
                }
                assert_eq!(kept.collected(&live).unwrap(), row, "collecting again changes nothing");
            }
            assert_eq!(full.collected(&vec![false; len]).unwrap().len(), 34);
        }
    }

    #[test]
    fn rows_that_are_no_chunk_are_refused() {
        let leaves = vec![B256::repeat_byte(7); 5];
        let full = chunk_row(&leaves);
        let row = Chunk::parse(&full, 5).unwrap().collected(&[false, true, false, false, false]);
        let row = row.unwrap();
        for len in [0, 4, 6] {
            assert!(Chunk::parse(&full, len).is_none());
        }
        assert!(Chunk::parse(&row[..row.len() - 33], 5).is_none());
        assert!(Chunk::parse(&[&row[..], &[0; 33]].concat(), 5).is_none());
        assert!(Chunk::parse(&[&[2], &full[1..]].concat(), 5).is_none());
        assert!(Chunk::parse(&[], 5).is_none());
    }
}
