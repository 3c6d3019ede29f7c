//! The encoding of nodes, for the library: the RLP of the Yellow Paper, appendix D.

use alloy_primitives::{B256, keccak256};
use alloy_rlp::{Encodable, Header};
use arrayvec::ArrayVec;
use hash_db::Hasher;
use polytrie_trie::EMPTY_ROOT;
use std::{borrow::Borrow, collections::hash_map::DefaultHasher, ops::Range};
use trie_db::{
    ChildReference, NodeCodec, TrieLayout,
    node::{NibbleSlicePlan, NodeHandlePlan, NodePlan, Value, ValuePlan},
};

/// The trie without any keys, as RLP.
pub(crate) const EMPTY_NODE: &[u8] = &[0x80];
/// Number of nibbles of a key.
const KEY_NIBBLES: usize = 64;

/// Ethereum's kind of tries, as a type parameter of the library.
#[derive(Debug)]
pub(crate) struct Ethereum;

impl TrieLayout for Ethereum {
    const USE_EXTENSION: bool = true;
    const MAX_INLINE_VALUE: Option<u32> = None;
    type Hash = Keccak;
    type Codec = Rlp;
}

/// Keccak-256.
#[derive(Debug)]
pub(crate) struct Keccak;

impl Hasher for Keccak {
    type Out = B256;
    type StdHasher = DefaultHasher;
    const LENGTH: usize = 32;

    fn hash(bytes: &[u8]) -> B256 {
        keccak256(bytes)
    }
}

/// The reason why the bytes of a node do not decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Malformed(&'static str);

/// The codec of nodes as RLP.
#[derive(Debug)]
pub(crate) struct Rlp;

impl NodeCodec for Rlp {
    type Error = Malformed;
    type HashOut = B256;

    fn hashed_null_node() -> B256 {
        EMPTY_ROOT
    }

    fn decode_plan(node: &[u8]) -> Result<NodePlan, Malformed> {
        if Self::is_empty_node(node) {
            return Ok(NodePlan::Empty);
        }
        match &*Item::all_of(node)? {
            [path, content] => path_and_content(node, path, content),
            [children @ .., value] if children.len() == 16 => branch(children, value),
            _ => Err(Malformed("a node is a list of 2 or 17 items")),
        }
    }

    fn is_empty_node(node: &[u8]) -> bool {
        node == EMPTY_NODE
    }

    fn empty_node() -> &'static [u8] {
        EMPTY_NODE
    }

    fn leaf_node(partial: impl Iterator<Item = u8>, nibbles: usize, value: Value<'_>) -> Vec<u8> {
        let path = hex_prefix(partial, nibbles, true);
        let value = bytes_of(value);
        let payload_length = path.as_slice().length() + value.length();
        let mut node = Vec::with_capacity(payload_length + 3);
        Header { list: true, payload_length }.encode(&mut node);
        path.as_slice().encode(&mut node);
        value.encode(&mut node);
        node
    }

    fn extension_node(
        partial: impl Iterator<Item = u8>,
        nibbles: usize,
        child: ChildReference<B256>,
    ) -> Vec<u8> {
        let mut payload = Vec::with_capacity(70);
        hex_prefix(partial, nibbles, false).as_slice().encode(&mut payload);
        encode_child(Some(&child), &mut payload);
        list(&payload)
    }

    fn branch_node(
        children: impl Iterator<Item = impl Borrow<Option<ChildReference<B256>>>>,
        value: Option<Value<'_>>,
    ) -> Vec<u8> {
        let mut payload = Vec::with_capacity(16 * 33 + 1);
        for child in children {
            encode_child(child.borrow().as_ref(), &mut payload);
        }
        value.map_or(&[][..], bytes_of).encode(&mut payload);
        list(&payload)
    }

    fn branch_node_nibbled(
        _: impl Iterator<Item = u8>,
        _: usize,
        _: impl Iterator<Item = impl Borrow<Option<ChildReference<B256>>>>,
        _: Option<Value<'_>>,
    ) -> Vec<u8> {
        unreachable!("the branches of a trie with extensions have no paths")
    }
}

/// An item of a node's list, by its position.
#[derive(Debug)]
struct Item {
    is_list: bool,
    whole: Range<usize>,
    payload: Range<usize>,
}

impl Item {
    /// Returns the items of a node.
    fn all_of(node: &[u8]) -> Result<ArrayVec<Self, 17>, Malformed> {
        let mut rest = node;
        let body =
            Header::decode_bytes(&mut rest, true).map_err(|_| Malformed("not an RLP list"))?;
        if !rest.is_empty() {
            return Err(Malformed("bytes after the node"));
        }
        let mut rest = body;
        let mut items = ArrayVec::new();
        while !rest.is_empty() {
            let at = |rest: &[u8]| node.len() - rest.len();
            let start = at(rest);
            let wrong = Malformed("an item that is no RLP");
            let header = Header::decode(&mut rest).map_err(|_| wrong)?;
            let content = at(rest);
            rest = rest.get(header.payload_length..).ok_or(wrong)?;
            let (whole, payload) = (start..at(rest), content..at(rest));
            let item = Self { is_list: header.list, whole, payload };
            items.try_push(item).map_err(|_| Malformed("a node of more than 17 items"))?;
        }
        Ok(items)
    }

    /// Returns the child that the item refers to, if it does.
    fn child(&self) -> Result<Option<NodeHandlePlan>, Malformed> {
        match (self.is_list, self.payload.len()) {
            (false, 0) => Ok(None),
            (false, 32) => Ok(Some(NodeHandlePlan::Hash(self.payload.clone()))),
            (true, _) if self.whole.len() < 32 => {
                Ok(Some(NodeHandlePlan::Inline(self.whole.clone())))
            }
            _ => Err(Malformed("a child reference that is neither a hash nor an embedded node")),
        }
    }
}

/// Decodes a leaf or an extension.
fn path_and_content(node: &[u8], path: &Item, content: &Item) -> Result<NodePlan, Malformed> {
    let wrong = Malformed("a path without a proper hex prefix");
    let bytes = &node[path.payload.clone()];
    let first = *bytes.first().filter(|_| !path.is_list).ok_or(wrong)?;
    let is_odd = first & 0x10 != 0;
    if first & 0xc0 != 0 || (!is_odd && first & 0x0f != 0) {
        return Err(wrong);
    }
    let start = path.payload.start + usize::from(!is_odd);
    let partial = NibbleSlicePlan::new(start..path.payload.end, usize::from(is_odd));
    if partial.len() > KEY_NIBBLES {
        return Err(Malformed("a path that is longer than a key"));
    }
    if first & 0x20 == 0 {
        let child = content.child()?.filter(|_| partial.len() > 0);
        let child = child.ok_or(Malformed("an extension without path or child"))?;
        return Ok(NodePlan::Extension { partial, child });
    }
    if content.is_list || content.payload.is_empty() {
        return Err(Malformed("a leaf value that is no string, or empty"));
    }
    Ok(NodePlan::Leaf { partial, value: ValuePlan::Inline(content.payload.clone()) })
}

fn branch(items: &[Item], value: &Item) -> Result<NodePlan, Malformed> {
    if value.is_list || !value.payload.is_empty() {
        return Err(Malformed("a branch with a value"));
    }
    let mut children = [const { None }; 16];
    for (child, item) in children.iter_mut().zip(items) {
        *child = item.child()?;
    }
    if children.iter().flatten().count() < 2 {
        return Err(Malformed("a branch with fewer than two children"));
    }
    Ok(NodePlan::Branch { value: None, children })
}

/// Returns the bytes of a value. All values are in their nodes: no threshold moves them out.
const fn bytes_of(value: Value<'_>) -> &[u8] {
    match value {
        Value::Inline(bytes) | Value::Node(bytes) => bytes,
    }
}

/// Encodes a path with the nibble that shows its kind. `partial` holds two nibbles a byte; if their number is odd, the
/// first one is alone.
fn hex_prefix(mut partial: impl Iterator<Item = u8>, nibbles: usize, is_leaf: bool) -> Vec<u8> {
    let mut path = Vec::with_capacity(1 + nibbles / 2);
    let odd = if nibbles % 2 == 1 { 0x10 | partial.next().unwrap_or_default() } else { 0 };
    path.push(u8::from(is_leaf) << 5 | odd);
    path.extend(partial);
    path
}

fn encode_child(child: Option<&ChildReference<B256>>, payload: &mut Vec<u8>) {
    match child {
        None => payload.push(0x80),
        Some(ChildReference::Hash(hash)) => hash.encode(payload),
        Some(ChildReference::Inline(bytes, length)) => payload.extend_from_slice(&bytes[..*length]),
    }
}

fn list(payload: &[u8]) -> Vec<u8> {
    let mut node = Vec::with_capacity(payload.len() + 3);
    Header { list: true, payload_length: payload.len() }.encode(&mut node);
    node.extend_from_slice(payload);
    node
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::hex;
    use trie_db::node::{Node, NodeHandle};

    #[test]
    fn nodes_have_the_bytes_of_the_yellow_paper() {
        let leaf = Rlp::leaf_node([0x0a, 0xbc].into_iter(), 3, Value::Inline(b"verb"));
        assert_eq!(leaf, hex!("c8823abc8476657262"));
        let Ok(Node::Leaf(path, Value::Inline(value))) = Rlp::decode(&leaf) else { panic!() };
        assert_eq!((path.iter().collect::<Vec<_>>(), value), (vec![0xa, 0xb, 0xc], &b"verb"[..]));

        let child = ChildReference::Hash(B256::repeat_byte(7));
        let extension = Rlp::extension_node([0xab].into_iter(), 2, child);
        assert_eq!(extension, [&hex!("e48200aba0")[..], &[7; 32]].concat());
        let Ok(Node::Extension(path, NodeHandle::Hash(hash))) = Rlp::decode(&extension) else {
            panic!()
        };
        assert_eq!((path.iter().collect::<Vec<_>>(), hash), (vec![0xa, 0xb], &[7; 32][..]));

        let mut embedded = B256::ZERO;
        embedded[..9].copy_from_slice(&leaf);
        let mut children = [None; 16];
        (children[0], children[15]) = (Some(child), Some(ChildReference::Inline(embedded, 9)));
        let branch = Rlp::branch_node(children.iter(), None);
        let expected = [&hex!("f839a0")[..], &[7; 32], &[0x80; 14], &leaf, &[0x80]].concat();
        assert_eq!(branch, expected);
        let Ok(Node::Branch(children, None)) = Rlp::decode(&branch) else { panic!() };
        assert_eq!(children[15], Some(NodeHandle::Inline(&leaf)));
        assert_eq!(children.iter().flatten().count(), 2);
    }

    #[test]
    fn what_is_no_node_is_refused() {
        assert_eq!(Rlp::decode_plan(EMPTY_NODE), Ok(NodePlan::Empty));
        let one_child = [&hex!("d3c22001")[..], &[0x80; 16]].concat();
        let of_18 = [&[0xd2][..], &[0x80; 18]].concat();
        let no_path = [&hex!("e200a0")[..], &[7; 32]].concat();
        let all_wrong: [&[u8]; 13] = [
            &[],
            &[0xc0],
            &[0x01],
            // The cases are an empty path, a prefix of another kind, and a path with a stray nibble.
            &hex!("c28001"),
            &hex!("c24001"),
            &hex!("c22101"),
            // These leaves have no value, or a list as a value.
            &hex!("c22080"),
            &hex!("c220c0"),
            // These extensions have no path, or no child.
            &no_path,
            &hex!("c21180"),
            // This node is followed by further bytes.
            &hex!("c2200100"),
            &one_child,
            &of_18,
        ];
        for wrong in all_wrong {
            assert!(Rlp::decode_plan(wrong).is_err(), "{}", hex::encode(wrong));
        }
        assert!(Rlp::decode_plan(&hex!("c22001")).is_ok());
    }
}
