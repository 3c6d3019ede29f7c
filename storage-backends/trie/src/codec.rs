//! The encoding of nodes: the RLP of the Yellow Paper, appendix D.

use crate::{LeafValue, Nibbles};
use alloy_primitives::{B256, keccak256};
use alloy_rlp::{Encodable, Header};

/// The reference of a parent to a child: the hash of the child's RLP, or the RLP itself if it is shorter than 32
/// bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChildRef {
    len: u8,
    bytes: [u8; 32],
}

impl ChildRef {
    pub(crate) const EMPTY: Self = Self { len: 0, bytes: [0; 32] };
    /// Bytes of the longest item of a node: that of a hash.
    pub(crate) const LONGEST: usize = 33;

    /// Creates the reference to a node.
    pub(crate) fn to(rlp: &[u8]) -> Self {
        Self::embedded(rlp).unwrap_or_else(|| Self::hashed(keccak256(rlp)))
    }

    /// Creates the reference to a node that is embedded in its parent; `None` if the node is not short enough.
    pub(crate) fn embedded(rlp: &[u8]) -> Option<Self> {
        let mut bytes = [0; 32];
        bytes.get_mut(..rlp.len()).filter(|_| rlp.len() < 32)?.copy_from_slice(rlp);
        Some(Self { len: rlp.len() as u8, bytes })
    }

    /// Creates the reference to a node with this hash.
    pub(crate) const fn hashed(hash: B256) -> Self {
        Self { len: 32, bytes: hash.0 }
    }

    /// Returns the hash, or the embedded node.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Decodes a reference from [`Self::bytes`]: a hash, or one list.
    pub(crate) fn from_bytes(from: &[u8]) -> Option<Self> {
        let mut bytes = [0; 32];
        bytes.get_mut(..from.len())?.copy_from_slice(from);
        // The RLP of a branch is its references one after the other. With any bytes as references it could be cut elsewhere,
        // into other children, and its hash would be right.
        let is_one = from.len() == 32 || is_one_list(from);
        is_one.then_some(Self { len: from.len() as u8, bytes })
    }

    /// Returns the hash of the node, embedded or not.
    pub(crate) fn hash(&self) -> B256 {
        self.as_hash().unwrap_or_else(|| keccak256(self.bytes()))
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the hash, unless the node is embedded.
    pub(crate) fn as_hash(&self) -> Option<B256> {
        (self.len == 32).then_some(B256::new(self.bytes))
    }

    /// Writes the reference as an item of a node to the beginning of `out`. Returns its length.
    pub(crate) fn write(&self, out: &mut [u8]) -> usize {
        match self.len {
            0 => {
                out[0] = 0x80;
                1
            }
            32 => {
                out[0] = 0xa0;
                out[1..Self::LONGEST].copy_from_slice(&self.bytes);
                Self::LONGEST
            }
            n => {
                let embedded = &self.bytes[..usize::from(n)];
                out[..embedded.len()].copy_from_slice(embedded);
                embedded.len()
            }
        }
    }

    /// Decodes one item of a node: a hash, an embedded list, or the empty string.
    pub(crate) fn decode(item: &mut &[u8]) -> Result<Self, &'static str> {
        const WRONG: &str = "a child reference that is neither a hash nor an embedded node";
        let whole = *item;
        let header = Header::decode(item).map_err(|_| WRONG)?;
        let header_len = whole.len() - item.len();
        if item.len() < header.payload_length {
            return Err(WRONG);
        }
        *item = &item[header.payload_length..];
        let raw = &whole[..header_len + header.payload_length];
        match (header.list, header.payload_length) {
            (false, 0) => Ok(Self::EMPTY),
            (false, 32) => Ok(Self::hashed(B256::from_slice(&raw[1..]))),
            (true, _) => Self::embedded(raw).ok_or(WRONG),
            _ => Err(WRONG),
        }
    }
}

/// Whether the bytes are one RLP list and nothing else.
fn is_one_list(mut bytes: &[u8]) -> bool {
    let header = Header::decode(&mut bytes);
    header.is_ok_and(|header| header.list && header.payload_length == bytes.len())
}

/// Encodes a leaf whose path within the node begins at nibble `depth` of `key`. `scratch` is a buffer.
pub(crate) fn encode_leaf<V: LeafValue>(
    key: &B256,
    depth: usize,
    value: &V,
    out: &mut Vec<u8>,
    scratch: &mut Vec<u8>,
) {
    scratch.clear();
    value.encode(scratch);
    // The path within a leaf ends where the key ends: after the byte with its flags, and a nibble, come whole bytes of
    // the key.
    let flags = if depth.is_multiple_of(2) { 0x20 } else { 0x30 | nibble(key, depth) };
    let path = &key[depth.div_ceil(2)..];
    let path_length = if path.is_empty() { 1 } else { 2 + path.len() };
    let payload_length = path_length + scratch.as_slice().length();
    Header { list: true, payload_length }.encode(out);
    if !path.is_empty() {
        out.push(0x81 + path.len() as u8);
    }
    out.push(flags);
    out.extend_from_slice(path);
    scratch.as_slice().encode(out);
}

pub(crate) fn encode_extension(prefix: &Nibbles, child: &ChildRef, out: &mut Vec<u8>) {
    let odd = prefix.len() % 2;
    let mut path = [0_u8; 33];
    if odd == 1 {
        path[0] = 0x10 | prefix.get_unchecked(0);
    }
    prefix.slice(odd..).pack_to(&mut path[1..]);
    let path = &path[..=prefix.len() / 2];
    let mut item = [0; ChildRef::LONGEST];
    let item_length = child.write(&mut item);
    Header { list: true, payload_length: path.length() + item_length }.encode(out);
    path.encode(out);
    out.extend_from_slice(&item[..item_length]);
}

pub(crate) fn encode_branch(refs: &[&ChildRef; 16], out: &mut Vec<u8>) {
    // They go to an array first, so that room is made in `out` once, and not for each of 32 pieces.
    let mut items = [0_u8; 16 * ChildRef::LONGEST + 1];
    let mut length = 0;
    for child in refs {
        length += child.write(&mut items[length..]);
    }
    // All keys have the same length, so no key ends at a branch.
    items[length] = 0x80;
    Header { list: true, payload_length: length + 1 }.encode(out);
    out.extend_from_slice(&items[..=length]);
}

/// A decoded node.
#[derive(Debug, Clone)]
pub(crate) enum Node<V> {
    Leaf { suffix: Nibbles, value: V },
    Extension { prefix: Nibbles, child: ChildRef },
    Branch { refs: Box<[ChildRef; 16]> },
}

pub(crate) fn decode_node<V: LeafValue>(mut rlp: &[u8]) -> Result<Node<V>, &'static str> {
    let mut body = Header::decode_bytes(&mut rlp, true).map_err(|_| "not an RLP list")?;
    if !rlp.is_empty() {
        return Err("bytes after the node");
    }
    let mut items = body;
    let mut count = 0;
    while !items.is_empty() {
        let header = Header::decode(&mut items).map_err(|_| "an item that is no RLP")?;
        items = items.get(header.payload_length..).ok_or("an item that ends too late")?;
        count += 1;
    }
    match count {
        17 => {
            let mut refs = Box::new([ChildRef::EMPTY; 16]);
            for child in refs.iter_mut() {
                *child = ChildRef::decode(&mut body)?;
            }
            if body != [0x80] {
                return Err("a branch with a value");
            }
            if refs.iter().filter(|r| !r.is_empty()).count() < 2 {
                return Err("a branch with fewer than two children");
            }
            Ok(Node::Branch { refs })
        }
        2 => {
            let path =
                Header::decode_bytes(&mut body, false).map_err(|_| "a path that is no string")?;
            let (path, is_leaf) = decode_hex_prefix(path)?;
            if is_leaf {
                let value = Header::decode_bytes(&mut body, false)
                    .map_err(|_| "a leaf value that is no string")?;
                Ok(Node::Leaf { suffix: path, value: V::decode(value)? })
            } else {
                let child = ChildRef::decode(&mut body)?;
                if child.is_empty() || path.is_empty() {
                    return Err("an extension without path or child");
                }
                Ok(Node::Extension { prefix: path, child })
            }
        }
        _ => Err("a node is a list of 2 or 17 items"),
    }
}

/// Returns the key of a leaf, from the path of its node and the path within it.
pub(crate) fn full_key(path: &Nibbles, suffix: &Nibbles) -> Result<B256, &'static str> {
    if path.len() + suffix.len() != 64 {
        return Err("a leaf whose key is not 32 bytes long");
    }
    let mut key = [0; 32];
    path.join(suffix).pack_to(&mut key);
    Ok(B256::new(key))
}

/// Returns nibble `index` of a key.
pub(crate) fn nibble(key: &B256, index: usize) -> u8 {
    let byte = key.0[index / 2];
    if index.is_multiple_of(2) { byte >> 4 } else { byte & 0x0f }
}

/// Returns the first `depth` nibbles of a key.
pub(crate) fn path_of(key: &B256, depth: usize) -> Nibbles {
    let mut path = Nibbles::unpack_array(&key.0);
    path.truncate(depth);
    path
}

/// Returns the path of the child at a nibble of the branch at `path`.
pub(crate) fn child_path(mut path: Nibbles, nibble: u8) -> Nibbles {
    path.push(nibble);
    path
}

/// Returns the number of leading nibbles that two keys share.
pub(crate) fn shared_nibbles(a: &B256, b: &B256) -> usize {
    Nibbles::unpack_array(&a.0).common_prefix_length(&Nibbles::unpack_array(&b.0))
}

fn decode_hex_prefix(bytes: &[u8]) -> Result<(Nibbles, bool), &'static str> {
    const WRONG: &str = "a path without a proper hex prefix";
    let (&first, rest) = bytes.split_first().ok_or(WRONG)?;
    let odd = first & 0x10 != 0;
    if first & 0xc0 != 0
        || (!odd && first & 0x0f != 0)
        || rest.len() > 32
        || (odd && rest.len() > 31)
    {
        return Err(WRONG);
    }
    let mut path = Nibbles::new();
    if odd {
        path.push_unchecked(first & 0x0f);
    }
    path.extend(&Nibbles::unpack(rest));
    Ok((path, first & 0x20 != 0))
}
