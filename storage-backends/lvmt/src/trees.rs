//! The trees: their commitments and versions, and the tuples that bind the two.

use crate::{
    TREES,
    history::History,
    path::Path,
    record::{Position, WIDE, from_wide, wide},
};
use alloy_primitives::{B256, keccak256, map::HashMap};
use polytrie_amt::{G1Affine, POINT_BYTES, decode_point, encode_point, identity};
use polytrie_kv::{KeyRange, Read};
use polytrie_state::{Result, corrupt, each_row};
use std::collections::BTreeSet;

/// The present state of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tree {
    /// Number of epochs in which it changed, counted in slot 0 of the entry above; 0 for a tree that never existed.
    pub(crate) version: u64,
    /// The position of the tuple of this version. The root tree has none: the commitment of the layer holds it.
    pub(crate) at: Position,
    pub(crate) commitment: G1Affine,
}

impl Tree {
    pub(crate) const NEVER: Self =
        Self { version: 0, at: Position { epoch: 0, leaf: 0 }, commitment: identity() };

    /// Appends the row: version, epoch and leaf (14 bytes, not for the root), then the commitment.
    pub(crate) fn write(&self, path: &Path, out: &mut Vec<u8>) {
        if *path != Path::ROOT {
            out.extend_from_slice(&wide(self.version));
            self.at.write(out);
        }
        out.extend_from_slice(&encode_point(&self.commitment));
    }

    /// Decodes the bytes of [`Self::write`].
    pub(crate) fn read(path: &Path, row: &[u8]) -> Result<Self> {
        Self::parse(path, row).ok_or_else(|| corrupt!("a row of {} bytes is no tree", row.len()))
    }

    fn parse(path: &Path, row: &[u8]) -> Option<Self> {
        let point = |bytes: &[u8]| decode_point(bytes.try_into().ok()?);
        if *path == Path::ROOT {
            return Some(Self { commitment: point(row)?, ..Self::NEVER });
        }
        let (version, rest) = row.split_at_checked(WIDE)?;
        let (at, rest) = rest.split_first_chunk::<{ Position::BYTES }>()?;
        let version = from_wide(version);
        let at = Position::read(at);
        (version > 0 && rest.len() == POINT_BYTES).then_some(Self {
            version,
            at,
            commitment: point(rest)?,
        })
    }

    /// Appends the bytes of the tree's tuple.
    pub(crate) fn write_tuple(&self, path: &Path, out: &mut Vec<u8>) {
        write_tree_tuple(path, self.version, &self.commitment, out);
    }

    /// Returns the hash of the tree's tuple.
    pub(crate) fn leaf(&self, path: &Path) -> B256 {
        tree_leaf(path, self.version, &self.commitment)
    }
}

/// Returns the hash of a tree's tuple.
pub(crate) fn tree_leaf(path: &Path, version: u64, commitment: &G1Affine) -> B256 {
    let mut bytes = Vec::with_capacity(103);
    write_tree_tuple(path, version, commitment, &mut bytes);
    keccak256(bytes)
}

/// Appends a tree's tuple: `0x01 ‖ level ‖ prefix ‖ version ‖ x ‖ y`.
fn write_tree_tuple(path: &Path, version: u64, commitment: &G1Affine, out: &mut Vec<u8>) {
    out.extend_from_slice(&[1, path.level]);
    out.extend_from_slice(path.prefix.as_slice());
    out.extend_from_slice(&wide(version));
    out.extend_from_slice(&encode_point(commitment));
}

/// The part of the state in memory: the commitments of the first two levels, and the peaks of the history.
#[derive(Debug, Clone)]
pub(crate) struct LvmtHead {
    pub(crate) root: G1Affine,
    /// The trees of level 1 by their index in the root.
    pub(crate) first: Vec<Tree>,
    pub(crate) history: History,
}

/// The changes of the [`LvmtHead`] by a block.
#[derive(Debug, Clone)]
pub(crate) struct LvmtHeadUpdate {
    pub(crate) root: G1Affine,
    pub(crate) first: Vec<(u32, Tree)>,
    pub(crate) history: History,
}

impl LvmtHead {
    pub(crate) fn empty(height: u8) -> Self {
        Self {
            root: identity(),
            first: vec![Tree::NEVER; 1 << height],
            history: History::default(),
        }
    }

    /// Reads the head from a store.
    pub(crate) fn load(store: &dyn Read, height: u8, history: History) -> Result<Self> {
        let mut head = Self { history, ..Self::empty(height) };
        // The rows of the levels 0 and 1 form one range, because keys begin with the level.
        each_row(store, TREES, KeyRange::between(&[0], &[2]), |key, row| {
            let path = Path::from_row_key(height, key)?;
            let tree = Tree::read(&path, row)?;
            if path == Path::ROOT {
                head.root = tree.commitment;
            } else {
                head.first[crate::path::entry_index(height, 0, &path.prefix) as usize] = tree;
            }
            Ok(())
        })?;
        Ok(head)
    }

    /// Applies the changes of a block.
    pub(crate) fn apply(&mut self, update: LvmtHeadUpdate) {
        self.root = update.root;
        self.history = update.history;
        for (index, tree) in update.first {
            self.first[index as usize] = tree;
        }
    }

    /// Returns a tree, from memory if it is there.
    pub(crate) fn tree(&self, store: &dyn Read, height: u8, path: &Path) -> Result<Tree> {
        match path.level {
            0 => Ok(Tree { commitment: self.root, ..Tree::NEVER }),
            1 => {
                let index = crate::path::entry_index(height, 0, &path.prefix);
                Ok(self.first[index as usize])
            }
            _ => Ok(read_tree(store, height, path)?.unwrap_or(Tree::NEVER)),
        }
    }
}

/// Reads the rows of many trees together. A tree without a row never existed.
pub(crate) fn read_trees(
    store: &dyn Read,
    height: u8,
    paths: BTreeSet<Path>,
) -> Result<HashMap<Path, Tree>> {
    let keys: Vec<_> = paths.iter().map(|path| path.row_key(height)).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let rows = paths.into_iter().zip(store.get_many(TREES, &keys)?);
    let trees = rows.map(|(path, row)| {
        let tree = row.map_or(Ok(Tree::NEVER), |row| Tree::read(&path, &row))?;
        Ok((path, tree))
    });
    trees.collect()
}

/// Reads the row of a tree.
pub(crate) fn read_tree(store: &dyn Read, height: u8, path: &Path) -> Result<Option<Tree>> {
    let row = store.get(TREES, &path.row_key(height))?;
    row.map(|row| Tree::read(path, &row)).transpose()
}
