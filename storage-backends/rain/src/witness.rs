//! Witnesses: the nodes that a block needs, so that whoever holds nothing else can execute it and compute its root.
//!
//! A block is replayed on a version of which nothing is in memory, and every node that is asked for is noted: those on
//! the way to what it read and wrote, and those next to what it removed, which move up when a branch ends. Nodes
//! that a receiver is known to hold (the top levels) are left out, and each node is in the bag once.

use crate::{
    ACCOUNT_NODES, RainLayer, STORAGE_NODES,
    account::Entry,
    log::ShardWrite,
    meta::{Meta, write_shard},
    shard::apply,
    version::{Part, Version, account_rows, shard_of, storage_rows},
};
use alloy_primitives::{
    B256, Bytes, keccak256,
    map::{B256Map, B256Set},
};
use alloy_rlp::{RlpDecodable, RlpEncodable};
use parking_lot::Mutex;
use polytrie_kv::{Batch, KeyRange, KvError, Read, Store, Table, Visit};
use polytrie_state::{CODE_TABLE, StateError, WriteSet, write_codes};
use polytrie_trie::{EMPTY_ROOT, Nibbles, Rows, TrieError, cow::CowTrie};
use std::collections::BTreeMap;

/// What a block needs of the state before it.
#[derive(Debug, Clone, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Witness {
    /// The state root before the block.
    pub root: B256,
    /// Nodes of the account trie and of storage tries as RLP, each once, sorted by hash. Nodes that their parent embeds
    /// are not among them.
    pub nodes: Vec<Bytes>,
    /// The code that was executed or asked for, each once.
    pub codes: Vec<Bytes>,
}

/// What a block asked for: accounts, slots of accounts, code, by hash.
#[derive(Debug, Default, Clone)]
pub(crate) struct Touched {
    pub(crate) accounts: B256Set,
    pub(crate) slots: Vec<(B256, B256)>,
    pub(crate) codes: B256Set,
}

/// Makes the witness of a block on top of `parent`. Nodes of the first `levels` levels of the account trie are left out.
pub(crate) fn make(
    parent: &Version,
    store: &dyn Read,
    touched: &Touched,
    writes: &WriteSet,
    levels: usize,
) -> Result<Witness, StateError> {
    let recorder = Recorder { version: parent, store, seen: Mutex::default() };
    let mut bare = Version::empty();
    for (shard, part) in parent.parts.iter().enumerate() {
        let part = Part::stored_part(shard as u8, &part.root_reference());
        bare.parts[shard] = part.map_err(StateError::Protocol)?;
    }
    bare.seq = parent.seq;
    for account in &touched.accounts {
        bare.account(&recorder, account)?;
    }
    for (account, slot) in &touched.slots {
        bare.slot(&recorder, account, slot)?;
    }
    let seq = parent.seq + 1;
    for part in writes.accounts().chunk_by(|a, b| shard_of(&a.hash) == shard_of(&b.hash)) {
        let shard = shard_of(&part[0].hash);
        let writes: Vec<ShardWrite> = part.iter().map(ShardWrite::from).collect();
        bare.parts[shard] = apply(&bare.parts[shard], &writes, &recorder, seq)?;
    }
    // The only part left with keys has its root moved up.
    Version::of(bare.parts, &recorder, seq)?;
    let mut nodes: B256Map<Bytes> = B256Map::default();
    let joined = CowTrie::join(&parent.parts, &account_rows(store), seq)
        .map_err(crate::error::state_error)?;
    if let Some(root) = joined.node.filter(|_| levels == 0) {
        nodes.insert(joined.root, root);
    }
    for ((table, key), rlp) in recorder.seen.into_inner() {
        let is_top = table == ACCOUNT_NODES.id && key.len() < levels;
        let is_root = table == STORAGE_NODES.id && key.len() == 32;
        if !is_top && (rlp.len() >= 32 || is_root) {
            nodes.insert(keccak256(&rlp), rlp.into());
        }
    }
    let mut codes = Vec::new();
    let mut hashes: Vec<_> = touched.codes.iter().collect();
    hashes.sort_unstable();
    for hash in hashes {
        codes.extend(store.get(CODE_TABLE, hash.as_slice())?.map(Bytes::from));
    }
    let nodes: BTreeMap<B256, Bytes> = nodes.into_iter().collect();
    Ok(Witness { root: parent.root, nodes: nodes.into_values().collect(), codes })
}

/// The rows of a version, with a note of each that was asked for.
struct Recorder<'a> {
    version: &'a Version,
    store: &'a dyn Read,
    seen: Mutex<Seen>,
}

/// Nodes by table and key.
type Seen = BTreeMap<(u8, Vec<u8>), Vec<u8>>;

impl Recorder<'_> {
    fn find(&self, table: Table, key: &[u8], out: &mut Vec<u8>) -> Result<bool, StateError> {
        let (version, store) = (self.version, self.store);
        let found = if table == ACCOUNT_NODES {
            let path = Nibbles::from_nibbles(key);
            let part = &version.parts[usize::from(key[0])];
            part.node_at(&path, &account_rows(store), version.seq, out)
        } else {
            let (owner, path) = key.split_at(32);
            let owner = B256::from_slice(owner);
            let Some(entry) = version.account(store, &owner)? else { return Ok(false) };
            let rows = storage_rows(store, owner);
            entry.storage.node_at(&Nibbles::from_nibbles(path), &rows, version.seq, out)
        };
        found.map_err(crate::error::state_error)
    }
}

impl Read for Recorder<'_> {
    fn get_into(&self, table: Table, key: &[u8], out: &mut Vec<u8>) -> Result<bool, KvError> {
        let mut rlp = Vec::new();
        let found = self.find(table, key, &mut rlp).map_err(|error| match error {
            StateError::Store(error) => error,
            other => KvError::Corrupt(other.to_string()),
        })?;
        out.extend_from_slice(&rlp);
        if found {
            self.seen.lock().insert((table.id, key.to_vec()), rlp);
        }
        Ok(found)
    }

    fn scan(&self, table: Table, _: KeyRange<'_>, _: &mut Visit<'_>) -> Result<(), KvError> {
        Err(KvError::UnknownTable(table.name))
    }
}

impl Witness {
    /// Puts what the witness holds into an empty store, on which [`RainLayer::open`] then gives a layer that knows
    /// nothing else: asked for more it fails, and a block that needs no more leads to the true root. Nodes that were left
    /// out are taken from `holder`, a layer that has them at the same places.
    ///
    /// Every node is found by its hash, so nothing in a witness has to be trusted but its root.
    ///
    /// # Errors
    ///
    /// [`StateError::Corrupt`] if the root node is not there, or a node is none; whatever the store reports.
    pub fn fill(&self, store: &Store, holder: Option<&RainLayer>) -> Result<(), StateError> {
        let bag: B256Map<&Bytes> = self.nodes.iter().map(|node| (keccak256(node), node)).collect();
        let held = holder.map(RainLayer::head_reader);
        let lookup = |path: &Nibbles, hash: &B256| -> Option<Bytes> {
            if let Some(node) = bag.get(hash) {
                return Some((*node).clone());
            }
            let held = held.as_ref()?;
            let mut rlp = Vec::new();
            if path.is_empty() {
                let rows = account_rows(&held.rows);
                let joined = CowTrie::join(&held.version.parts, &rows, held.version.seq).ok()?;
                return joined.node.filter(|_| joined.root == *hash);
            }
            let part = &held.version.parts[usize::from(path.get_unchecked(0))];
            let found =
                part.node_at(path, &account_rows(&held.rows), held.version.seq, &mut rlp).ok()?;
            (found && keccak256(&rlp) == *hash).then(|| rlp.into())
        };
        let damaged = |error: TrieError| StateError::Corrupt(format!("the witness: {error}"));
        let mut batch = Batch::new();
        if self.root != EMPTY_ROOT {
            let root = lookup(&Nibbles::new(), &self.root).ok_or_else(|| {
                StateError::Corrupt(format!("the witness has no root node {}", self.root))
            })?;
            let (parts, moved) = CowTrie::<Entry>::split(&root).map_err(damaged)?;
            let mut storages = Vec::new();
            for (shard, part) in parts.iter().enumerate().filter(|(_, part)| !part.is_empty()) {
                let lookup = |path: &Nibbles, hash: &B256| match &moved {
                    Some((at, node)) if at == path => Some(node.clone()),
                    _ => lookup(path, hash),
                };
                let mut sink = Rows::new(Batch::new(), ACCOUNT_NODES);
                part.put_found(&lookup, &mut sink, &mut |hash, entry| {
                    storages.push((*hash, entry.storage.clone()));
                })
                .map_err(damaged)?;
                batch.append(&sink.into_inner());
                write_shard(&mut batch, shard, 0, &part.root_reference());
            }
            let in_bag = |_: &Nibbles, hash: &B256| bag.get(hash).map(|node| (*node).clone());
            for (owner, storage) in storages {
                let mut sink = Rows::owned(Batch::new(), STORAGE_NODES, owner);
                storage.put_found(&in_bag, &mut sink, &mut |_, _| {}).map_err(damaged)?;
                batch.append(&sink.into_inner());
            }
        }
        let codes: Vec<_> = self.codes.iter().map(|code| (keccak256(code), code.clone())).collect();
        write_codes(&mut batch, &codes);
        Meta { seq: 0, root: self.root }.write(&mut batch);
        Ok(store.write(batch)?)
    }
}
