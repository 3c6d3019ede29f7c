//! The sources of nodes, which are found by the reference that leads to them.

use crate::{HEAD, NODES, ROOT_KEY, cache::NodeCache};
use alloy_primitives::{B256, keccak256};
use polytrie_kv::{Batch, Read};
use polytrie_state::{Result, StateError, corrupt};
use polytrie_trie::{EMPTY_ROOT, Nibbles, RowSource, TrieError};
use std::{
    fmt::Debug,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Number of bytes at the front of a node's key that are those of the node's own hash.
pub(crate) const OWN_BYTES: usize = 12;

/// Returns the key of a node's row. In the key of a storage trie's node the last 20 bytes are combined with the hash
/// of its account, so that equal nodes of two accounts have separate rows: a node that one account removes stays for
/// the other.
pub(crate) fn row_key(owner: Option<&B256>, hash: &B256) -> B256 {
    let mut key = *hash;
    if let Some(owner) = owner {
        let last = key.0[OWN_BYTES..].iter_mut().zip(&owner.0[OWN_BYTES..]);
        last.for_each(|(byte, of_owner)| *byte ^= of_owner);
    }
    key
}

/// Reads the state root of the head.
pub(crate) fn stored_root(rows: &dyn Read) -> Result<B256> {
    let Some(row) = rows.get(HEAD, ROOT_KEY)? else { return Ok(EMPTY_ROOT) };
    B256::try_from(&*row)
        .map_err(|_| corrupt!("the row of the state root has {} bytes, expected 32", row.len()))
}

/// Sets the state root of the head.
pub(crate) fn put_root(batch: &mut Batch, root: &B256) {
    batch.put(HEAD, ROOT_KEY, root.as_slice());
}

/// A source of nodes.
pub(crate) trait Nodes: Debug + Send + Sync {
    /// Returns the RLP of the node with this hash, of the account trie or of the storage trie of an account; `None`
    /// if it is missing.
    ///
    /// # Errors
    ///
    /// If the store fails.
    fn node(&self, owner: Option<&B256>, hash: &B256) -> Result<Option<Vec<u8>>>;
}

/// The nodes of a store or of a snapshot. Nodes never change, so one cache serves all of them.
#[derive(Debug, Clone)]
pub(crate) struct Stored<R> {
    pub(crate) rows: R,
    pub(crate) cache: Arc<NodeCache>,
}

impl<R: Read> Stored<R> {
    /// Reads many nodes by the keys of their rows: those that are not cached together.
    pub(crate) fn many(&self, keys: &[B256]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut nodes: Vec<_> = keys.iter().map(|key| self.cache.nodes.get(key)).collect();
        let rest: Vec<usize> = (0..keys.len()).filter(|at| nodes[*at].is_none()).collect();
        let wanted: Vec<&[u8]> = rest.iter().map(|at| keys[*at].as_slice()).collect();
        for (at, row) in rest.into_iter().zip(self.rows.get_many(NODES, &wanted)?) {
            if let Some(rlp) = &row {
                self.cache.put_read(keys[at], rlp);
            }
            nodes[at] = row;
        }
        Ok(nodes)
    }
}

impl<R: Read + Debug> Nodes for Stored<R> {
    fn node(&self, owner: Option<&B256>, hash: &B256) -> Result<Option<Vec<u8>>> {
        let key = row_key(owner, hash);
        if let Some(rlp) = self.cache.nodes.get(&key) {
            return Ok(Some(rlp));
        }
        let found = self.rows.get(NODES, key.as_slice())?;
        if let Some(rlp) = &found {
            self.cache.put_read(key, rlp);
        }
        Ok(found)
    }
}

/// The nodes of rows, each compared with its hash, and counted.
#[derive(Debug)]
pub(crate) struct Verified<R> {
    rows: R,
    count: AtomicU64,
}

impl<R: Read + Debug> Verified<R> {
    pub(crate) const fn new(rows: R) -> Self {
        Self { rows, count: AtomicU64::new(0) }
    }

    /// Returns the number of nodes read.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }
}

impl<R: Read + Debug> Nodes for Verified<R> {
    fn node(&self, owner: Option<&B256>, hash: &B256) -> Result<Option<Vec<u8>>> {
        let key = row_key(owner, hash);
        let found = self.rows.get(NODES, key.as_slice())?;
        if let Some(rlp) = &found {
            self.count.fetch_add(1, Relaxed);
            let made = keccak256(rlp);
            if made != *hash {
                return Err(corrupt!(
                    "the node kept under {key} has the hash {made}, expected {hash}"
                ));
            }
        }
        Ok(found)
    }
}

/// The nodes of one trie, for the tries of [`cow`](polytrie_trie::cow): these say the hash of each node that they ask for.
#[derive(Debug)]
pub(crate) struct ByHash<'a> {
    nodes: &'a dyn Nodes,
    owner: Option<B256>,
    /// The first error of reading a node, which only the next call can report.
    failure: OnceLock<StateError>,
}

impl<'a> ByHash<'a> {
    /// The nodes of the account trie, or of the storage trie of `owner`.
    pub(crate) const fn new(nodes: &'a dyn Nodes, owner: Option<B256>) -> Self {
        Self { nodes, owner, failure: OnceLock::new() }
    }
}

impl RowSource for ByHash<'_> {
    fn load(&self, _: &Nibbles, _: &mut Vec<u8>) -> Result<bool, TrieError> {
        self.failure.get().map_or(Ok(false), |failure| Err(failure.clone().into()))
    }

    fn given(&self, _: &Nibbles, hash: &B256, out: &mut Vec<u8>) -> bool {
        let found = self.nodes.node(self.owner.as_ref(), hash).unwrap_or_else(|error| {
            // Later errors follow from the first.
            let _ = self.failure.set(error);
            None
        });
        out.extend_from_slice(found.as_deref().unwrap_or_default());
        found.is_some()
    }

    fn leaves_out_embedded(&self) -> bool {
        true
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{
        changes::{Changed, NodeChanges},
        trie::Trie,
    };
    use alloy_primitives::U256;
    use polytrie_kv::Store;
    use polytrie_trie::{SlotValue, cow::CowTrie, verify_key};

    #[test]
    fn equal_nodes_of_two_accounts_have_two_rows() {
        let hash = keccak256("node");
        let (a, b) = (keccak256("a"), keccak256("b"));
        assert_eq!(row_key(None, &hash), hash);
        assert_ne!(row_key(Some(&a), &hash), row_key(Some(&b), &hash));
        assert_eq!(row_key(Some(&a), &hash)[..OWN_BYTES], hash[..OWN_BYTES]);
    }

    #[test]
    fn nodes_that_are_embedded_are_read_from_their_parents() {
        let near = |last| {
            let mut key = B256::repeat_byte(0x11);
            key.0[31] = last;
            key
        };
        let value = Some(SlotValue(U256::from(1)));
        let keys = [near(0x11), near(0x12), B256::repeat_byte(0x22)];
        let (owner, mut changes) = (B256::repeat_byte(7), NodeChanges::default());
        let below = Verified::new(Store::memory(&[NODES]).unwrap());
        let trie = Trie::of_storage(&below, owner, EMPTY_ROOT);
        let root = trie.update(&mut changes, keys.map(|key| (key, value))).unwrap();
        // The root, the leaf and the extension below it; the branch below that, with its leaves, is embedded.
        assert_eq!(changes.came_and_went(), (3, 0));
        let nodes = Changed { changes: &changes, below: &below };
        let trie = CowTrie::<SlotValue>::stored(root);
        for key in &keys {
            let (found, proof) = trie.prove(key, &ByHash::new(&nodes, Some(owner)), 0).unwrap();
            assert_eq!(found.copied(), value);
            assert_eq!(verify_key::<SlotValue>(root, key, &proof).unwrap(), value);
        }
    }
}
