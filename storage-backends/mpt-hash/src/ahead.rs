//! Reading ahead: the nodes on the paths to many keys, one level of all paths at a time.

use crate::{
    codec::Rlp,
    nodes::{Stored, row_key},
};
use alloy_primitives::B256;
use polytrie_kv::Read;
use polytrie_state::{Result, Touched};
use polytrie_trie::{AccountLeaf, EMPTY_ROOT, LeafValue};
use std::mem;
use trie_db::{
    NibbleSlice, NodeCodec,
    node::{Node, NodeHandle, Value},
};

/// The next node on the path to a key.
#[derive(Debug, Clone, Copy)]
struct Way {
    /// The account whose storage trie it is; `None` for the account trie.
    owner: Option<B256>,
    key: B256,
    /// Number of nibbles of the key above the node.
    depth: usize,
    hash: B256,
}

/// What a node leads to on the path to a key.
#[derive(Debug)]
enum Next<'a> {
    Node(Way),
    /// The value of the key.
    Value(&'a [u8]),
}

impl Way {
    fn row_key(&self) -> B256 {
        row_key(self.owner.as_ref(), &self.hash)
    }

    /// Returns what the node with this RLP leads to; `None` if the key is absent, or the node is damaged.
    fn next<'a>(&self, rlp: &'a [u8]) -> Option<Next<'a>> {
        let (mut depth, mut node) = (self.depth, rlp);
        loop {
            let rest = NibbleSlice::new_offset(self.key.as_slice(), depth);
            let child = match Rlp::decode(node).ok()? {
                Node::Leaf(path, Value::Inline(value)) if rest == path => {
                    return Some(Next::Value(value));
                }
                Node::Extension(path, child) if rest.starts_with(&path) => {
                    depth += path.len();
                    child
                }
                Node::Branch(children, _) if !rest.is_empty() => {
                    depth += 1;
                    children[usize::from(rest.at(0))]?
                }
                _ => return None,
            };
            match child {
                NodeHandle::Hash(hash) => {
                    return Some(Next::Node(Self { depth, hash: B256::from_slice(hash), ..*self }));
                }
                NodeHandle::Inline(embedded) => node = embedded,
            }
        }
    }
}

/// Reads the nodes on the paths to accounts and slots into the cache of nodes and that of the store. A damaged path is
/// followed no further.
pub(crate) fn look_at<R: Read>(nodes: &Stored<R>, root: B256, touched: &Touched) -> Result<()> {
    let first = |owner, key, hash| Way { owner, key, depth: 0, hash };
    let mut ways: Vec<Way> = touched.keys().map(|account| first(None, *account, root)).collect();
    ways.retain(|way| way.hash != EMPTY_ROOT);
    while !ways.is_empty() {
        let mut keys: Vec<B256> = ways.iter().map(Way::row_key).collect();
        keys.sort_unstable();
        keys.dedup();
        let found = nodes.many(&keys)?;
        for way in mem::take(&mut ways) {
            let rlp = keys.binary_search(&way.row_key()).ok().and_then(|at| found[at].as_deref());
            match rlp.and_then(|rlp| way.next(rlp)) {
                Some(Next::Node(next)) => ways.push(next),
                Some(Next::Value(value)) if way.owner.is_none() => {
                    let slots = touched.get(&way.key).into_iter().flatten();
                    let leaf = AccountLeaf::decode(value);
                    if let Some(leaf) = leaf.ok().filter(|leaf| leaf.storage_root != EMPTY_ROOT) {
                        let owner = Some(way.key);
                        ways.extend(slots.map(|slot| first(owner, *slot, leaf.storage_root)));
                    }
                }
                Some(Next::Value(_)) | None => {}
            }
        }
    }
    Ok(())
}
