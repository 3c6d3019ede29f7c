//! Rows: the stored form of a trie.
//!
//! There is a row for each branch, under its path. It holds the branch's leaves, the references of its other
//! children, and the extension before it, if there is one; it is then stored under the extension's path. Leaves are
//! not hashed in advance: the code that needs their references computes them from their content. A trie with one key
//! has one row, the leaf.
//!
//! ```text
//! branch   length of the extension's prefix in nibbles (1), prefix packed,
//!          children that are inner nodes (2), children that are leaves (2), both as a bit a nibble,
//!          children in order: reference: length (1), bytes
//!                             leaf: rest of the key (from the byte with the nibble after the branch's),
//!                                   length (1, or 2 with the highest bit set from 128 on), value
//! leaf     0xff, key (32), value
//! ```

use crate::{LeafValue, Nibbles, codec::ChildRef};
use alloy_primitives::B256;
use arrayvec::ArrayVec;
use polytrie_kv::take_array;

const LEAF: u8 = 0xff;
/// Length from which on the length of a value takes two bytes; the bit of this number marks the longer form.
const LONG: usize = 0x80;
const LONGEST_VALUE: usize = 0x7fff;
pub(crate) const SHORT: &str = "a row that ends too early";

/// A child of a branch, as its row holds it.
#[derive(Debug, Clone)]
pub(crate) enum RowChild<V> {
    Leaf(B256, V),
    Inner(ChildRef),
}

/// The content of a row.
#[derive(Debug, Clone)]
pub(crate) enum Row<V> {
    /// The only leaf of its trie.
    Leaf(B256, V),
    /// A branch; its children are returned separately.
    Branch {
        /// Prefix of the extension before it; empty if there is none.
        prefix: Nibbles,
    },
}

pub(crate) fn encode_leaf<V: LeafValue>(key: &B256, value: &V, out: &mut Vec<u8>) {
    out.push(LEAF);
    out.extend_from_slice(key.as_slice());
    value.encode_row(out);
}

/// A child to be encoded in a row.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Child<'a, V> {
    None,
    Leaf(&'a B256, &'a V),
    Inner(&'a ChildRef),
}

/// The children of a branch by their nibbles, in order. They are on the stack, because rows are read by the thousand.
pub(crate) type RowChildren<V> = ArrayVec<(u8, RowChild<V>), 16>;

/// Encodes the row of a branch at nibble `depth` with its children.
pub(crate) fn encode_branch<'a, V: LeafValue + 'a>(
    prefix: &Nibbles,
    depth: usize,
    child: impl Fn(usize) -> Child<'a, V>,
    out: &mut Vec<u8>,
) {
    put_prefix(prefix, out);
    let maps = out.len();
    out.extend_from_slice(&[0; 4]);
    let (mut inner, mut leaves) = (0u16, 0u16);
    for n in 0..16 {
        match child(n) {
            Child::None => {}
            Child::Inner(reference) => {
                inner |= 1 << n;
                let bytes = reference.bytes();
                out.push(bytes.len() as u8);
                match <&[u8; 32]>::try_from(bytes) {
                    // Nearly all are hashes, and so many bytes are copied without a call.
                    Ok(hash) => out.extend_from_slice(hash),
                    Err(_) => out.extend_from_slice(bytes),
                }
            }
            Child::Leaf(key, value) => {
                leaves |= 1 << n;
                out.extend_from_slice(&key[depth.div_ceil(2)..]);
                let at = out.len();
                out.push(0);
                value.encode_row(out);
                let len = out.len() - at - 1;
                assert!(len <= LONGEST_VALUE, "a value of {len} bytes in a row of a trie");
                out[at] = len as u8;
                if len >= LONG {
                    out[at] = (len >> 8 | LONG) as u8;
                    out.insert(at + 1, len as u8);
                }
            }
        }
    }
    out[maps..maps + 2].copy_from_slice(&inner.to_be_bytes());
    out[maps + 2..maps + 4].copy_from_slice(&leaves.to_be_bytes());
}

/// Decodes the row at `path`. The children of a branch are appended to `children`, in order.
///
/// Every row that [`encode_branch`] and [`encode_leaf`] do not make is an error.
pub(crate) fn decode<V: LeafValue>(
    path: &Nibbles,
    mut row: &[u8],
    children: &mut RowChildren<V>,
) -> Result<Row<V>, &'static str> {
    children.clear();
    let rest = &mut row;
    let [kind] = take_array(rest).ok_or(SHORT)?;
    if kind == LEAF {
        let key = B256::new(take_array(rest).ok_or(SHORT)?);
        if !path.is_empty() {
            return Err("a leaf on its own that is not the root");
        }
        return Ok(Row::Leaf(key, V::decode_row(rest)?));
    }
    let len = usize::from(kind);
    let depth = path.len() + len;
    if depth >= 64 {
        return Err("a branch below the keys");
    }
    let prefix = take_prefix(len, rest)?;
    let inner = u16::from_be_bytes(take_array(rest).ok_or(SHORT)?);
    let leaves = u16::from_be_bytes(take_array(rest).ok_or(SHORT)?);
    if inner & leaves != 0 || (inner | leaves).count_ones() < 2 {
        return Err("a branch with fewer than two children, or two at one nibble");
    }
    let mut base = [0; 32];
    path.join(&prefix).pack_to(&mut base);
    for n in 0..16u8 {
        if inner & (1 << n) != 0 {
            let [len] = take_array(rest).ok_or(SHORT)?;
            let bytes = rest.split_off(..usize::from(len)).ok_or(SHORT)?;
            let reference = ChildRef::from_bytes(bytes).ok_or("a reference that is none")?;
            children.push((n, RowChild::Inner(reference)));
        } else if leaves & (1 << n) != 0 {
            let mut key = base;
            let from = depth.div_ceil(2);
            let tail = rest.split_off(..32 - from).ok_or(SHORT)?;
            if depth % 2 == 1 {
                key[depth / 2] |= n;
            } else if tail.first().is_none_or(|first| first >> 4 != n) {
                return Err("a leaf that stands at another nibble");
            }
            key[from..].copy_from_slice(tail);
            let [first] = take_array(rest).ok_or(SHORT)?;
            let mut len = usize::from(first);
            if len >= LONG {
                let [second] = take_array(rest).ok_or(SHORT)?;
                len = (len - LONG) << 8 | usize::from(second);
                if len < LONG {
                    return Err("a length of a value with a byte too many");
                }
            }
            let value = V::decode_row(rest.split_off(..len).ok_or(SHORT)?)?;
            children.push((n, RowChild::Leaf(B256::new(key), value)));
        }
    }
    if rest.is_empty() { Ok(Row::Branch { prefix }) } else { Err("bytes after the row") }
}

/// Appends the length of a prefix, and the packed prefix.
pub(crate) fn put_prefix(prefix: &Nibbles, out: &mut Vec<u8>) {
    out.push(prefix.len() as u8);
    let packed = out.len();
    out.resize(packed + prefix.len().div_ceil(2), 0);
    prefix.pack_to(&mut out[packed..]);
}

/// Takes a packed prefix of `len` nibbles, at most 64.
pub(crate) fn take_prefix(len: usize, rest: &mut &[u8]) -> Result<Nibbles, &'static str> {
    let packed = rest.split_off(..len.div_ceil(2)).ok_or(SHORT)?;
    if len % 2 == 1 && packed.last().is_some_and(|last| last & 0x0f != 0) {
        return Err("a prefix that is longer than it says");
    }
    let mut prefix = Nibbles::unpack(packed);
    prefix.truncate(len);
    Ok(prefix)
}
