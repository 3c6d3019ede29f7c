//! Rows: the stored form of a node. The row of a branch has its leaves, so that they are read and written with it.
//!
//! ```text
//! leaf        0xff, key (32), value
//! extension   0xfe, length of the prefix in nibbles (1), prefix packed, reference of the child
//! branch      as in the other row format of this crate, without a prefix before it
//! ```
//!
//! A branch with a prefix, as the other format has it, is read as an extension and the branch below it.
//!
//! Inner nodes have rows of their own. So may leaves below a branch: a trie made from a witness does not know which of
//! its references lead to leaves. Leaves are not hashed in advance.
//!
//! The RLP of a node can be read as its row, too, because it begins with another byte: a witness has only RLP.

use super::{
    children::{Child, Children, Item},
    node::{self, Kind, Leaf, Link, Node},
};
use crate::{
    LeafValue, Nibbles, Result, TrieError,
    codec::ChildRef,
    row::{self, Row, RowChild, RowChildren, SHORT},
};
use alloy_primitives::{B256, keccak256};
use polytrie_kv::take_array;

const LEAF: u8 = 0xff;
/// A byte that begins no branch: no prefix is as long.
const EXTENSION: u8 = 0xfe;

/// The last first byte of an RLP list that is read: no row is as long as 65,536 bytes.
const RLP_LIST_LAST: u8 = 0xf9;

/// Appends the row of a node that stands at `depth` to `out`.
pub(super) fn encode<V: LeafValue>(kind: &Kind<V>, depth: usize, out: &mut Vec<u8>) {
    match kind {
        Kind::Leaf(leaf) => row::encode_leaf(&leaf.key, &leaf.value, out),
        Kind::Extension { prefix, child } => {
            out.push(EXTENSION);
            row::put_prefix(prefix, out);
            out.extend_from_slice(child.reference(depth + prefix.len()).bytes());
        }
        Kind::Branch(children) => {
            let child = |n| match children.get(n as u8) {
                None => row::Child::None,
                Some(Child::Leaf(leaf)) => row::Child::Leaf(&leaf.key, &leaf.value),
                Some(Child::Inner(link)) => row::Child::Inner(link.reference(depth + 1)),
            };
            row::encode_branch(&Nibbles::new(), depth, child, out);
        }
    }
}

/// Decodes the row at a path, as a node that the change `now` touched.
pub(super) fn read<V: LeafValue>(path: &Nibbles, row: &[u8], now: u64) -> Result<Node<V>> {
    let kind = decode(path, row).map_err(|reason| TrieError::Malformed { path: *path, reason })?;
    Ok(Node::stored(kind, now))
}

/// Decodes a row with the right [`hash_of_row`]. It may be wrong about which children are leaves.
pub(super) fn read_given<V: LeafValue>(path: &Nibbles, row: &[u8], now: u64) -> Result<Node<V>> {
    let mut node = read(path, row, now)?;
    if let Kind::Branch(children) = &mut node.kind {
        children.doubt();
    }
    Ok(node)
}

/// Returns the hash of the node in a row at a path, by which the row can be given to a trie that needs the node
/// ([`RowSource::given`](crate::RowSource::given)).
///
/// # Errors
///
/// If the bytes are not a row as this trie writes it.
pub fn hash_of_row<V: LeafValue>(path: &Nibbles, row: &[u8]) -> Result<B256> {
    let node = read::<V>(path, row, 0)?;
    let mut again = Vec::with_capacity(row.len());
    encode(&node.kind, path.len(), &mut again);
    // The RLP of a node is refused, because its leaves are references, and so is a branch with an extension.
    if again != row {
        let reason = "it is not in the one form in which nodes are given";
        return Err(TrieError::Malformed { path: *path, reason });
    }
    let mut rlp = again;
    rlp.clear();
    node.encode(path.len(), &mut rlp, &mut Vec::new());
    Ok(keccak256(&rlp))
}

fn decode<V: LeafValue>(path: &Nibbles, row: &[u8]) -> Result<Kind<V>, &'static str> {
    let mut rest = row;
    let [first] = take_array(&mut rest).ok_or(SHORT)?;
    match first {
        0xc0..=RLP_LIST_LAST => node::decode(path, row),
        LEAF => {
            let key = B256::new(take_array(&mut rest).ok_or(SHORT)?);
            if !Nibbles::unpack_array(&key.0).starts_with(path) {
                return Err("a leaf that stands elsewhere");
            }
            Ok(Kind::Leaf(Box::new(Leaf::new(key, V::decode_row(rest)?, 0))))
        }
        EXTENSION => {
            let [len] = take_array(&mut rest).ok_or(SHORT)?;
            let len = usize::from(len);
            if len == 0 || path.len() + len >= 64 {
                return Err("an extension that leads nowhere, or beyond the keys");
            }
            let prefix = row::take_prefix(len, &mut rest)?;
            let child = ChildRef::from_bytes(rest).ok_or("a reference that is none")?;
            Ok(Kind::Extension { prefix, child: Box::new(Link::stored(child)) })
        }
        _ => {
            let mut found = RowChildren::new();
            // A row that begins with the byte of a leaf was read above.
            let Row::Branch { prefix } = row::decode::<V>(path, row, &mut found)? else {
                return Err("a leaf that is none");
            };
            let inner = |(_, child): &&(u8, RowChild<V>)| matches!(child, RowChild::Inner(_));
            let inner = found.iter().filter(inner).count();
            let count = (inner, found.len() - inner);
            let children = found.into_iter().map(|(n, child)| match child {
                RowChild::Leaf(key, value) => (n, Item::Leaf(Leaf::new(key, value, 0))),
                RowChild::Inner(reference) => (n, Item::Inner(Link::stored(reference))),
            });
            let branch = Kind::Branch(Children::in_order(count, children));
            if prefix.is_empty() {
                return Ok(branch);
            }
            let child = Box::new(Link::new(Node::stored(branch, 0)));
            Ok(Kind::Extension { prefix, child })
        }
    }
}
