//! Groups: the nodes of several levels in one row.
//!
//! A group begins at every inner node at a depth that is a multiple of the group depth, and at the root. Its row holds
//! the nodes at its lower edge; the hashes of the nodes between are computed from those.
//!
//! ```text
//! key      depth (1 byte) ‖ the first `depth` bits of the stems below, as many bytes as it takes, the last one filled with zeros
//! row      the nodes, each before its left and then its right child:
//!          0                              nothing
//!          1 ‖ stem (31) ‖ hash (32)      a stem
//!          2                              an inner node above the lower edge: its children follow
//!          3 ‖ hash (32)                  an inner node at the lower edge: it begins a separate group
//! ```

use crate::{GroupDepth, Stem, key::STEM_BITS, node::Node};
use alloy_primitives::B256;
use polytrie_kv::take_array;
use polytrie_state::{Result, corrupt};

const EMPTY: u8 = 0;
const STEM: u8 = 1;
const INNER: u8 = 2;
const BELOW: u8 = 3;

/// The key of a group: the depth and path of its first node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GroupKey {
    depth: u8,
    prefix: Stem,
}

impl GroupKey {
    /// The key of the root's group.
    pub(crate) const ROOT: Self = Self { depth: 0, prefix: Stem([0; 31]) };

    /// Returns the key of the group that begins at this depth on the path to a stem.
    pub(crate) fn on_way_to(stem: &Stem, depth: usize) -> Self {
        // The depth is at most 247, since a node at 248 is a stem.
        Self { depth: depth as u8, prefix: stem.prefix(depth) }
    }

    /// Encodes the row's key; returns the bytes and their number.
    pub(crate) fn bytes(&self) -> ([u8; 32], usize) {
        let mut bytes = [0; 32];
        bytes[0] = self.depth;
        bytes[1..].copy_from_slice(&self.prefix.0);
        (bytes, 1 + usize::from(self.depth).div_ceil(8))
    }
}

/// Appends the encoded row of a group.
pub(crate) fn encode(node: &Node, out: &mut Vec<u8>) {
    match node {
        Node::Empty => out.push(EMPTY),
        Node::Stem(stem, hash) => {
            out.push(STEM);
            out.extend_from_slice(&stem.0);
            out.extend_from_slice(hash.as_slice());
        }
        Node::Inner(inner) => {
            out.push(INNER);
            encode(&inner.left, out);
            encode(&inner.right, out);
        }
        Node::Below(hash) => {
            out.push(BELOW);
            out.extend_from_slice(hash.as_slice());
        }
    }
}

/// Decodes the row of a group.
///
/// # Errors
///
/// [`Corrupt`](polytrie_state::StateError::Corrupt) if it is not exactly what [`encode`] writes for a group with
/// this key.
pub(crate) fn decode(key: &GroupKey, levels: GroupDepth, row: &[u8]) -> Result<Node> {
    let mut parser = Parser { row, levels, first: usize::from(key.depth) };
    let node = parser.node(parser.first, key.prefix).filter(|node| {
        let belongs = match node {
            Node::Inner(_) => true,
            Node::Stem(..) => *key == GroupKey::ROOT,
            Node::Empty | Node::Below(_) => false,
        };
        belongs && parser.row.is_empty()
    });
    node.ok_or_else(|| {
        let GroupKey { depth, prefix } = key;
        corrupt!("the row of the tree at depth {depth} of {prefix} does not decode")
    })
}

struct Parser<'a> {
    /// The rest of the row.
    row: &'a [u8],
    levels: GroupDepth,
    /// The depth at which the group begins.
    first: usize,
}

impl Parser<'_> {
    /// Decodes the node at this depth; all stems below begin with the first bits of `path`, whose other bits are
    /// zero.
    fn node(&mut self, depth: usize, path: Stem) -> Option<Node> {
        let is_edge = depth == self.first + usize::from(self.levels.levels());
        let [kind] = take_array(&mut self.row)?;
        match kind {
            EMPTY => Some(Node::Empty),
            STEM => {
                let stem = Stem(take_array(&mut self.row)?);
                let hash = B256::new(take_array(&mut self.row)?);
                (stem.shares(&path, depth) && !hash.is_zero()).then_some(Node::Stem(stem, hash))
            }
            INNER if !is_edge && depth < STEM_BITS => {
                let left = self.node(depth + 1, path)?;
                let right = self.node(depth + 1, path.turned(depth))?;
                // A stem without a sibling would be here itself.
                let node = Node::above(left, right);
                matches!(node, Node::Inner(_)).then_some(node)
            }
            BELOW if is_edge && depth < STEM_BITS => {
                let hash = B256::new(take_array(&mut self.row)?);
                (!hash.is_zero()).then_some(Node::Below(hash))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn stem(first: u8) -> Node {
        let mut stem = Stem([9; 31]);
        stem.0[0] = first;
        Node::Stem(stem, B256::repeat_byte(first | 1))
    }

    #[test]
    fn rows_come_back_and_have_one_form() {
        let two = GroupDepth::new(2).unwrap();
        let left = Node::above(stem(0x00), Node::Below(B256::repeat_byte(5)));
        let node = Node::above(left, stem(0xc0));
        let mut row = Vec::new();
        encode(&node, &mut row);
        assert_eq!(row.len(), 2 + 64 + 33 + 64);
        let back = decode(&GroupKey::ROOT, two, &row).unwrap();
        assert_eq!((back.hash(), back.inner_count()), (node.hash(), 2));
        let wrong_kind = |at: usize, kind| {
            let mut row = row.clone();
            row[at] = kind;
            row
        };
        let longer = [&row[..], &[0]].concat();
        let wrong_path = [&row[..row.len() - 63], &[0x40], &row[row.len() - 62..]].concat();
        for wrong in
            [&row[1..], &row[..row.len() - 1], &longer, &wrong_kind(66, INNER), &wrong_path]
        {
            assert!(decode(&GroupKey::ROOT, two, wrong).is_err());
        }
        // With another group depth, the edge has another depth.
        assert!(decode(&GroupKey::ROOT, GroupDepth::new(3).unwrap(), &row).is_err());
        // Two stems should be one level further up, and one should not be in a row by itself.
        let mut alone = vec![INNER, EMPTY];
        encode(&stem(0xc0), &mut alone);
        assert!(decode(&GroupKey::ROOT, two, &alone).is_err());
        assert!(decode(&GroupKey::ROOT, two, &alone[2..]).is_ok());
        let elsewhere = GroupKey::on_way_to(&Stem([0xc0; 31]), 2);
        assert!(decode(&elsewhere, two, &alone[2..]).is_err());
        assert_eq!(elsewhere.bytes().0[..2], [2, 0xc0]);
        assert_eq!((elsewhere.bytes().1, GroupKey::ROOT.bytes().1), (2, 1));
    }
}
