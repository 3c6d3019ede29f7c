//! The rows of kept nodes: one row for the nodes of four depths below a node.
//!
//! ```text
//! key     the key of the tree's row ‖ the path to the bundle, then zeros (as many bytes as an index needs)
//!         ‖ number of the bundle on that path
//! value   (8 · number of the node + slot ‖ the node's sum in that slot, raw)…, in order, without sums of nothing
//! ```
//!
//! The two nodes of the first depth have the numbers 0 and 1, the four of the next 2 to 5, and so on. The bundles on
//! the path to an entry are neighbours as soon as no other entry lies below them.

use crate::path::Path;
use arrayvec::ArrayVec;
use polytrie_amt::{G1Affine, RAW_BYTES, encode_raw, identity};
use polytrie_state::{Result, corrupt};
use std::ops::RangeInclusive;

/// Number of depths of a bundle.
pub(crate) const DEPTHS: u8 = 4;

/// Bytes of a node in a row.
const STRIDE: usize = 1 + RAW_BYTES;

/// The key of a bundle's row.
pub(crate) type BundleKey = ArrayVec<u8, 37>;

/// Returns the number of bundles on the path to an entry.
pub(crate) const fn bundles(height: u8) -> u8 {
    height.div_ceil(DEPTHS)
}

/// Returns the depths of a bundle's nodes.
pub(crate) fn depths(height: u8, bundle: u8) -> RangeInclusive<u8> {
    bundle * DEPTHS + 1..=(bundle * DEPTHS + DEPTHS).min(height)
}

/// Returns the key of a bundle's row; `way` is the path to it, with as many bits as there are depths above it.
pub(crate) fn key(height: u8, path: &Path, bundle: u8, way: u32) -> BundleKey {
    let mut key: BundleKey = path.row_key(height).into_iter().collect();
    let bytes = height.div_ceil(8);
    // The path has fewer bits than the index, which has at most 20.
    let aligned = way << (8 * bytes - bundle * DEPTHS);
    key.extend(aligned.to_be_bytes().into_iter().skip(4 - usize::from(bytes)));
    key.push(bundle);
    key
}

/// Returns the tag that precedes a node's sum in a slot, given the node's depth and the path to it.
pub(crate) const fn tag(depth: u8, way: u32, slot: u8) -> u8 {
    let local = (depth - 1) % DEPTHS + 1;
    let nodes = 1u32 << local;
    // A bundle has 30 nodes, so the tag fits a byte.
    ((nodes - 2 + way % nodes) as u8) << 3 | slot
}

/// The nodes of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nodes<'a>(&'a [[u8; STRIDE]]);

impl<'a> Nodes<'a> {
    /// The nodes of a missing row.
    pub(crate) const NONE: Self = Self(&[]);

    pub(crate) fn read(row: &'a [u8]) -> Result<Self> {
        let (nodes, rest) = row.as_chunks();
        let ordered = nodes.windows(2).all(|pair| pair[0][0] < pair[1][0]);
        if rest.is_empty() && ordered {
            return Ok(Self(nodes));
        }
        Err(corrupt!("a row of {} bytes holds no kept nodes", row.len()))
    }

    /// Returns the sum with this tag.
    pub(crate) fn get(&self, tag: u8) -> Option<&'a [u8; RAW_BYTES]> {
        let at = self.0.binary_search_by_key(&tag, |node| node[0]).ok()?;
        let [_, sum @ ..] = &self.0[at];
        Some(sum)
    }

    /// Returns the row after new sums, which are in order, have replaced the old ones.
    pub(crate) fn with(&self, new: &[(u8, G1Affine)]) -> Vec<u8> {
        let mut row = Vec::with_capacity((self.0.len() + new.len()) * STRIDE);
        let mut old = self.0.iter().peekable();
        for (tag, sum) in new {
            while let Some(before) = old.next_if(|node| node[0] < *tag) {
                row.extend_from_slice(before);
            }
            let _replaced = old.next_if(|node| node[0] == *tag);
            if *sum != identity() {
                row.push(*tag);
                row.extend_from_slice(&encode_raw(sum));
            }
        }
        row.extend(old.flatten());
        row
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use polytrie_amt::decode_raw;

    #[test]
    fn sums_are_put_in_and_taken_out() {
        let setup = crate::tests::setup(4, "bundle");
        let sum = |n| setup.point(0, n);
        let row = Nodes::NONE.with(&[(3, sum(1)), (9, sum(2)), (40, sum(3))]);
        let nodes = Nodes::read(&row).unwrap();
        assert_eq!(nodes.get(9).map(decode_raw), Some(sum(2)));
        assert_eq!(nodes.get(8), None);
        let other = nodes.with(&[(2, sum(4)), (9, identity()), (40, sum(5)), (41, sum(6))]);
        let expected = Nodes::NONE.with(&[(2, sum(4)), (3, sum(1)), (40, sum(5)), (41, sum(6))]);
        assert_eq!(other, expected);
        let empty = nodes.with(&[(3, identity()), (9, identity()), (40, identity())]);
        assert_eq!(empty, Vec::<u8>::new());
        assert!(Nodes::read(&row[1..]).is_err());
        assert!(Nodes::read(&[&row[65..], &row[..65]].concat()).is_err());
    }

    #[test]
    fn nodes_have_places_of_their_own() {
        for height in [1, 4, 5, 16, 20] {
            let mut depth = 1;
            for bundle in 0..bundles(height) {
                let mut tags = Vec::new();
                for at in depths(height, bundle) {
                    assert_eq!(at, depth);
                    depth += 1;
                    let local = at - bundle * DEPTHS;
                    tags.extend((0..1 << local).map(|way| tag(at, way, 5)));
                }
                assert!(tags.is_sorted_by(|a, b| a < b), "{tags:?}");
            }
            assert_eq!(depth, height + 1);
        }
        let path = Path { level: 1, prefix: alloy_primitives::B256::repeat_byte(0xff) };
        let path = Path::of(16, 1, &path.prefix);
        assert_eq!(key(16, &path, 0, 0)[..], [1, 0xff, 0xff, 0, 0, 0]);
        assert_eq!(key(16, &path, 2, 0xab)[..], [1, 0xff, 0xff, 0xab, 0, 2]);
        assert_eq!(key(5, &Path::ROOT, 1, 0xa)[..], [0, 0xa0, 1]);
    }
}
