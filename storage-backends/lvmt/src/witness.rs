//! The witness of a proof: openings, tuples and Merkle nodes, as bytes.
//!
//! All numbers are big-endian; points are compressed. Everything is in strictly increasing order, so that a
//! witness has one encoding.
//!
//! ```text
//! u16 trees, each:
//!   level ‖ prefix (the bytes its bits need) ‖ unless it is the root: epoch (5), leaf (4), commitment (32)
//!   u16 entries, each:
//!     u32 index ‖ a bit for each slot whose version is not zero ‖ these versions (5 each)
//!     basis (32) ‖ nodes (height · 32)
//!     number of keys, each: slot ‖ position (32) ‖ epoch (5) ‖ leaf (4) ‖ length ‖ value
//! u16 epochs, each: number (5) ‖ tuples (4) ‖ u16 nodes ‖ nodes (32 each)
//! u16 nodes of the history ‖ nodes (32 each)
//! ```

use crate::{
    path::Path,
    record::{Position, Value, WIDE, from_wide, wide},
};
use alloy_primitives::B256;
use polytrie_amt::{
    COMPRESSED_BYTES, G1Affine, Opening, SLOTS, Versions, compress, decompress, identity,
};
use std::collections::BTreeMap;

/// The nodes and tuples that lead from keys to the commitment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Witness {
    pub(crate) trees: BTreeMap<Path, TreeWitness>,
    pub(crate) epochs: BTreeMap<u64, EpochWitness>,
    /// The nodes that lead from the epochs to the root of the history.
    pub(crate) history: Vec<B256>,
}

/// A tree with opened entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeWitness {
    /// The position of the tuple of its version; unused for the root.
    pub(crate) at: Position,
    /// The commitment; unused for the root, whose commitment is known.
    pub(crate) commitment: G1Affine,
    pub(crate) entries: BTreeMap<u32, EntryWitness>,
}

/// An opened entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EntryWitness {
    pub(crate) versions: Versions,
    pub(crate) opening: Opening,
    /// The owners of its slots, as far as the proof needs them.
    pub(crate) owners: BTreeMap<u8, Owner>,
}

/// The key that has a slot, with its latest tuple.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) position: B256,
    pub(crate) at: Position,
    pub(crate) value: Value,
}

/// An epoch with shown tuples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EpochWitness {
    pub(crate) count: u32,
    pub(crate) nodes: Vec<B256>,
}

impl Witness {
    /// Encodes the witness; `None` if a list in it is longer than its length field allows.
    pub(crate) fn encode(&self, height: u8) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        put_len(&mut out, self.trees.len())?;
        for (path, tree) in &self.trees {
            out.extend_from_slice(&path.row_key(height));
            if *path != Path::ROOT {
                tree.at.write(&mut out);
                out.extend_from_slice(&compress(&tree.commitment));
            }
            put_len(&mut out, tree.entries.len())?;
            for (index, entry) in &tree.entries {
                out.extend_from_slice(&index.to_be_bytes());
                entry.encode(&mut out);
            }
        }
        put_len(&mut out, self.epochs.len())?;
        for (number, epoch) in &self.epochs {
            out.extend_from_slice(&wide(*number));
            out.extend_from_slice(&epoch.count.to_be_bytes());
            put_nodes(&mut out, &epoch.nodes)?;
        }
        put_nodes(&mut out, &self.history)?;
        Some(out)
    }

    /// Decodes the bytes of [`Self::encode`]; `None` if they are not a witness in its only encoding.
    pub(crate) fn decode(height: u8, bytes: &[u8]) -> Option<Self> {
        let mut input = Input { rest: bytes, height };
        let trees = input.map(|input| {
            let path = input.path()?;
            Some((path, input.tree(&path)?))
        })?;
        let epochs = input.map(|input| {
            let number = from_wide(input.rest.split_off(..WIDE)?);
            let count = input.u32()?;
            Some((number, EpochWitness { count, nodes: input.nodes()? }))
        })?;
        let history = input.nodes()?;
        input.rest.is_empty().then_some(Self { trees, epochs, history })
    }
}

impl EntryWitness {
    fn encode(&self, out: &mut Vec<u8>) {
        let set = |slot: &usize| self.versions[*slot] != 0;
        out.push((0..SLOTS).filter(set).fold(0, |bits, slot| bits | 1 << slot));
        for slot in (0..SLOTS).filter(set) {
            out.extend_from_slice(&wide(self.versions[slot]));
        }
        for point in std::iter::once(&self.opening.basis).chain(&self.opening.nodes) {
            out.extend_from_slice(&compress(point));
        }
        // There are at most five owners, with at most 77 bytes each.
        out.push(self.owners.len() as u8);
        for (slot, owner) in &self.owners {
            out.push(*slot);
            out.extend_from_slice(owner.position.as_slice());
            owner.at.write(out);
            out.push(owner.value.len() as u8);
            out.extend_from_slice(&owner.value);
        }
    }
}

fn put_len(out: &mut Vec<u8>, length: usize) -> Option<()> {
    out.extend_from_slice(&u16::try_from(length).ok()?.to_be_bytes());
    Some(())
}

fn put_nodes(out: &mut Vec<u8>, nodes: &[B256]) -> Option<()> {
    put_len(out, nodes.len())?;
    out.extend(nodes.iter().flatten());
    Some(())
}

/// The bytes that are still to be decoded.
struct Input<'a> {
    rest: &'a [u8],
    height: u8,
}

impl<'a> Input<'a> {
    fn array<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        self.rest.split_off(..N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        Some(self.array::<1>()?[0])
    }

    fn len(&mut self) -> Option<usize> {
        Some(usize::from(u16::from_be_bytes(*self.array()?)))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(*self.array()?))
    }

    fn point(&mut self) -> Option<G1Affine> {
        decompress(self.array::<COMPRESSED_BYTES>()?)
    }

    fn position(&mut self) -> Option<Position> {
        Some(Position::read(self.array()?))
    }

    fn nodes(&mut self) -> Option<Vec<B256>> {
        let length = self.len()?;
        Some(self.rest.split_off(..32 * length)?.chunks_exact(32).map(B256::from_slice).collect())
    }

    /// Decodes a list of items in strictly increasing order of their keys.
    fn map<K: Ord + Copy, V>(
        &mut self,
        read: impl Fn(&mut Self) -> Option<(K, V)>,
    ) -> Option<BTreeMap<K, V>> {
        let length = self.len()?;
        self.ordered(length, read)
    }

    fn ordered<K: Ord + Copy, V>(
        &mut self,
        length: usize,
        read: impl Fn(&mut Self) -> Option<(K, V)>,
    ) -> Option<BTreeMap<K, V>> {
        let mut found = BTreeMap::new();
        for _ in 0..length {
            let (key, value) = read(self)?;
            if found.last_key_value().is_some_and(|(last, _)| *last >= key) {
                return None;
            }
            found.insert(key, value);
        }
        Some(found)
    }

    fn path(&mut self) -> Option<Path> {
        let level = *self.rest.first()?;
        let bits = usize::from(level) * usize::from(self.height);
        let key = self.rest.split_off(..1 + bits.div_ceil(8))?;
        Path::from_row_key(self.height, key).ok()
    }

    fn tree(&mut self, path: &Path) -> Option<TreeWitness> {
        let (at, commitment) = if *path == Path::ROOT {
            (Position::default(), identity())
        } else {
            (self.position()?, self.point()?)
        };
        let entries = self.map(|input| Some((input.u32()?, input.entry()?)))?;
        Some(TreeWitness { at, commitment, entries })
    }

    fn entry(&mut self) -> Option<EntryWitness> {
        let bits = self.u8()?;
        let mut versions = [0; SLOTS];
        for (slot, version) in versions.iter_mut().enumerate() {
            if bits >> slot & 1 == 1 {
                let found = from_wide(self.rest.split_off(..WIDE)?);
                *version = Some(found).filter(|version| *version > 0)?;
            }
        }
        if bits >> SLOTS != 0 {
            return None;
        }
        let basis = self.point()?;
        let nodes = (0..self.height).map(|_| self.point()).collect::<Option<_>>()?;
        let count = usize::from(self.u8()?);
        let owners = self.ordered(count, |input| {
            let slot = input.u8()?;
            let position = B256::from(*input.array::<32>()?);
            let at = input.position()?;
            let length = usize::from(input.u8()?);
            let value = input.rest.split_off(..length)?.try_into().ok()?;
            Some((slot, Owner { position, at, value }))
        })?;
        Some(EntryWitness { versions, opening: Opening { basis, nodes }, owners })
    }
}
