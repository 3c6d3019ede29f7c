//! One trie, read and changed by the library.
//!
//! The library reads nodes from a [`HashDBRef`] and writes changed ones to a [`HashDB`]. Both can only report that a
//! node is missing, so the store's error is stored aside here.

use crate::{
    changes::{Changed, NodeChanges},
    codec::{EMPTY_NODE, Ethereum, Keccak, Malformed},
    nodes::{Nodes, row_key},
};
use alloy_primitives::{B256, keccak256};
use hash_db::{AsHashDB, HashDB, HashDBRef, Prefix};
use polytrie_state::{HashVisit, Result, StateError, corrupt};
use polytrie_trie::{EMPTY_ROOT, LeafValue};
use std::sync::OnceLock;
use trie_db::{
    DBValue, Trie as _, TrieDBBuilder, TrieDBIterator, TrieDBMutBuilder, TrieDBNodeIterator,
    TrieError, TrieIterator as _, TrieMut as _,
};

type LibraryError = Box<TrieError<B256, Malformed>>;

/// A trie of one state: the account trie, or the storage trie of `owner`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trie<'a> {
    nodes: &'a dyn Nodes,
    owner: Option<B256>,
    pub(crate) root: B256,
}

impl<'a> Trie<'a> {
    pub(crate) const fn of_accounts(nodes: &'a dyn Nodes, root: B256) -> Self {
        Self { nodes, owner: None, root }
    }

    pub(crate) const fn of_storage(nodes: &'a dyn Nodes, owner: B256, root: B256) -> Self {
        Self { nodes, owner: Some(owner), root }
    }

    /// Returns the value of a key; `None` if it is absent.
    ///
    /// # Errors
    ///
    /// If the store fails, or nodes are missing or damaged; as in the methods below.
    pub(crate) fn get<V: LeafValue>(&self, key: &B256) -> Result<Option<V>> {
        if self.root == EMPTY_ROOT {
            return Ok(None);
        }
        let source = Source::of(self);
        let trie = TrieDBBuilder::<Ethereum>::new(&source, &self.root).build();
        let found = trie.get_with(key.as_slice(), |value: &[u8]| V::decode(value));
        let found = found.map_err(|error| source.failure(error))?;
        found.transpose().map_err(|reason| self.wrong_leaf(key, reason))
    }

    /// Visits the leaves in order of their keys, beginning at `from`.
    pub(crate) fn leaves<V: LeafValue>(
        &self,
        from: &B256,
        visit: &mut HashVisit<'_, V>,
    ) -> Result<()> {
        if self.root == EMPTY_ROOT {
            return Ok(());
        }
        let source = Source::of(self);
        let failure = |error| source.failure(error);
        let trie = TrieDBBuilder::<Ethereum>::new(&source, &self.root).build();
        let mut leaves = TrieDBIterator::new(&trie).map_err(failure)?;
        if !from.is_zero() {
            leaves.seek(from.as_slice()).map_err(failure)?;
        }
        for leaf in leaves {
            let (key, value) = leaf.map_err(failure)?;
            let key = B256::try_from(&*key).map_err(|_| {
                let place = self.place();
                corrupt!("a key of {place} has {} bytes", key.len())
            })?;
            let value = V::decode(&value).map_err(|reason| self.wrong_leaf(&key, reason))?;
            if visit(key, value)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Removes all nodes of the trie, which costs memory for each of them in `changes`.
    pub(crate) fn remove(&self, changes: &mut NodeChanges) -> Result<()> {
        if self.root == EMPTY_ROOT {
            return Ok(());
        }
        let mut keys = Vec::new();
        {
            let nodes = &Changed { changes: &*changes, below: self.nodes };
            let source = Source::of(&Trie { nodes, ..*self });
            let failure = |error| source.failure(error);
            let trie = TrieDBBuilder::<Ethereum>::new(&source, &self.root).build();
            for node in TrieDBNodeIterator::new(&trie).map_err(failure)? {
                let (_, hash, _) = node.map_err(failure)?;
                keys.extend(hash.map(|hash| row_key(self.owner.as_ref(), &hash)));
            }
        }
        keys.into_iter().for_each(|key| changes.remove(key));
        Ok(())
    }

    /// Sets or removes leaves, and notes the nodes that this adds and removes. Returns the root.
    pub(crate) fn update<V: LeafValue>(
        &self,
        changes: &mut NodeChanges,
        leaves: impl IntoIterator<Item = (B256, Option<V>)>,
    ) -> Result<B256> {
        let mut root = self.root;
        let mut sink = Sink { source: Source::of(self), changes };
        let updated = change(&mut sink, &mut root, leaves);
        updated.map_err(|error| sink.source.failure(error))?;
        Ok(root)
    }

    /// Describes the trie in words.
    fn place(&self) -> String {
        match &self.owner {
            None => "the account trie".to_owned(),
            Some(owner) => format!("the storage trie of account {owner}"),
        }
    }

    fn wrong_leaf(&self, key: &B256, reason: &str) -> StateError {
        corrupt!("the leaf {key} of {} does not decode: {reason}", self.place())
    }
}

fn change<V: LeafValue>(
    sink: &mut Sink<'_>,
    root: &mut B256,
    leaves: impl IntoIterator<Item = (B256, Option<V>)>,
) -> Result<(), LibraryError> {
    // An incomplete update is dropped without a commit.
    let trie = TrieDBMutBuilder::<Ethereum>::from_existing(sink, root).disable_commit_on_drop();
    let mut trie = trie.build();
    let mut value = Vec::new();
    for (key, leaf) in leaves {
        match leaf {
            Some(leaf) => {
                value.clear();
                leaf.encode(&mut value);
                trie.insert(key.as_slice(), &value)?;
            }
            None => {
                trie.remove(key.as_slice())?;
            }
        }
    }
    trie.commit();
    Ok(())
}

/// The nodes that the library reads.
#[derive(Debug)]
struct Source<'a> {
    trie: Trie<'a>,
    /// The first error of reading a node.
    failure: OnceLock<StateError>,
}

impl<'a> Source<'a> {
    const fn of(trie: &Trie<'a>) -> Self {
        Self { trie: *trie, failure: OnceLock::new() }
    }

    fn node(&self, found: Result<Option<Vec<u8>>>) -> Option<DBValue> {
        found.unwrap_or_else(|error| {
            // Later errors follow from the first.
            let _ = self.failure.set(error);
            None
        })
    }

    /// Converts the library's error to that of the seam.
    #[expect(clippy::boxed_local, reason = "the library boxes its errors")]
    fn failure(&self, error: LibraryError) -> StateError {
        if let Some(failure) = self.failure.get() {
            return failure.clone();
        }
        let place = self.trie.place();
        StateError::Corrupt(match *error {
            TrieError::InvalidStateRoot(hash) | TrieError::IncompleteDatabase(hash) => {
                format!("the node {hash} of {place} is not there, and something refers to it")
            }
            TrieError::DecoderError(hash, reason) => {
                format!("the node {hash} of {place} does not decode: {reason}")
            }
            error => format!("{place} does not fit together: {error}"),
        })
    }
}

impl HashDBRef<Keccak, DBValue> for Source<'_> {
    fn get(&self, hash: &B256, _: Prefix<'_>) -> Option<DBValue> {
        if *hash == EMPTY_ROOT {
            return Some(EMPTY_NODE.to_vec());
        }
        self.node(self.trie.nodes.node(self.trie.owner.as_ref(), hash))
    }

    fn contains(&self, hash: &B256, prefix: Prefix<'_>) -> bool {
        <Self as HashDBRef<Keccak, DBValue>>::get(self, hash, prefix).is_some()
    }
}

/// The changes that the library makes. The trie without keys has no row.
#[derive(Debug)]
struct Sink<'a> {
    source: Source<'a>,
    changes: &'a mut NodeChanges,
}

impl Sink<'_> {
    fn key(&self, hash: &B256) -> B256 {
        row_key(self.source.trie.owner.as_ref(), hash)
    }
}

impl HashDB<Keccak, DBValue> for Sink<'_> {
    fn get(&self, hash: &B256, _: Prefix<'_>) -> Option<DBValue> {
        if *hash == EMPTY_ROOT {
            return Some(EMPTY_NODE.to_vec());
        }
        let Trie { nodes, owner, .. } = self.source.trie;
        let changed = Changed { changes: &*self.changes, below: nodes };
        self.source.node(changed.node(owner.as_ref(), hash))
    }

    fn contains(&self, hash: &B256, prefix: Prefix<'_>) -> bool {
        <Self as HashDB<Keccak, DBValue>>::get(self, hash, prefix).is_some()
    }

    fn insert(&mut self, prefix: Prefix<'_>, node: &[u8]) -> B256 {
        let hash = keccak256(node);
        self.emplace(hash, prefix, node.to_vec());
        hash
    }

    fn emplace(&mut self, hash: B256, _: Prefix<'_>, node: DBValue) {
        if hash != EMPTY_ROOT {
            self.changes.add(self.key(&hash), node);
        }
    }

    fn remove(&mut self, hash: &B256, _: Prefix<'_>) {
        if *hash != EMPTY_ROOT {
            self.changes.remove(self.key(hash));
        }
    }
}

impl AsHashDB<Keccak, DBValue> for Sink<'_> {
    fn as_hash_db(&self) -> &dyn HashDB<Keccak, DBValue> {
        self
    }

    fn as_hash_db_mut<'b>(&'b mut self) -> &'b mut (dyn HashDB<Keccak, DBValue> + 'b) {
        self
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloy_primitives::U256;
    use polytrie_trie::SlotValue;

    #[derive(Debug)]
    struct Nowhere;

    impl Nodes for Nowhere {
        fn node(&self, _: Option<&B256>, _: &B256) -> Result<Option<Vec<u8>>> {
            Ok(None)
        }
    }

    fn slot(n: u64, value: u64) -> (B256, Option<SlotValue>) {
        let value = (value > 0).then(|| SlotValue(U256::from(value)));
        (keccak256(n.to_be_bytes()), value)
    }

    #[test]
    fn what_changed_and_changed_back_is_no_change() {
        let owner = B256::repeat_byte(7);
        let mut changes = NodeChanges::default();
        let trie = Trie::of_storage(&Nowhere, owner, EMPTY_ROOT);
        let first = trie.update(&mut changes, (1..100).map(|n| slot(n, n))).unwrap();
        let (came, went) = changes.came_and_went();
        assert!(came > 100 && went == 0, "{came} {went}");
        let there = Trie { root: first, ..trie };
        let other = there.update(&mut changes, [slot(5, 6), slot(7, 0)]).unwrap();
        assert_ne!(other, first);
        let there = Trie { root: other, ..trie };
        assert_eq!(there.update(&mut changes, [slot(5, 5), slot(7, 7)]).unwrap(), first);
        assert_eq!(changes.came_and_went(), (came, 0));
        let there = Trie { root: first, ..trie };
        let none = there.update(&mut changes, (1..100).map(|n| slot(n, 0))).unwrap();
        assert_eq!((none, changes.came_and_went()), (EMPTY_ROOT, (0, 0)));
    }

    #[test]
    fn a_node_that_is_missing_is_named() {
        let root = B256::repeat_byte(9);
        let trie = Trie::of_accounts(&Nowhere, root);
        let missing = trie.get::<SlotValue>(&B256::ZERO).unwrap_err().to_string();
        assert!(
            missing.contains(&root.to_string()) && missing.contains("account trie"),
            "{missing}"
        );
        assert!(trie.update(&mut NodeChanges::default(), [slot(1, 1)]).is_err());
        assert!(trie.remove(&mut NodeChanges::default()).is_err());
        assert!(trie.leaves::<SlotValue>(&B256::ZERO, &mut |_, _| unreachable!()).is_err());
        let empty = Trie::of_accounts(&Nowhere, EMPTY_ROOT);
        assert_eq!(empty.get::<SlotValue>(&B256::ZERO).unwrap(), None);
    }
}
