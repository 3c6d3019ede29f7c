//! Making witnesses: the nodes that a block needs, so that whoever holds nothing else can execute it and compute its root.
//!
//! A block is replayed on a version of which nothing is in memory, and every node that is asked for is noted: those on
//! the way to what it read and wrote, and those next to what it removed, which move up when a branch ends. Nodes
//! that a receiver is known to hold (the top levels) are left out, and each node is in the bag once.

use crate::{
    ACCOUNT_NODES, STORAGE_NODES,
    account::Entry,
    log::ShardWrite,
    shard::apply,
    version::{Part, Version, account_rows, shard_of, storage_rows},
};
use alloy_primitives::{
    B256, Bytes, keccak256,
    map::{B256Map, B256Set},
};
use parking_lot::Mutex;
use polytrie_kv::{KeyRange, KvError, Read, Table, Visit};
use polytrie_state::{AccountWrite, CODE_TABLE, StateError, Witness, WriteSet};
use polytrie_trie::{Nibbles, SlotValue, cow::CowTrie, state_error};
use std::collections::{BTreeMap, BTreeSet};

/// What a block asked for: accounts, slots of accounts, code, by hash.
#[derive(Debug, Default, Clone)]
pub(crate) struct Touched {
    pub(crate) accounts: B256Set,
    pub(crate) slots: Vec<(B256, B256)>,
    pub(crate) codes: B256Set,
    /// What was written between the state roots that were asked for within the block.
    pub(crate) steps: Vec<Vec<ShardWrite>>,
}

/// Makes the witness of a block on top of `parent`. Nodes of the first `levels` levels of the account trie are left out.
pub(crate) fn make(
    parent: &Version,
    store: &dyn Read,
    touched: &Touched,
    writes: &[ShardWrite],
    levels: u8,
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
    let mut within = bare.clone();
    for writes in &touched.steps {
        within = after(&within, writes, &recorder)?;
    }
    after(&bare, writes, &recorder)?;
    let mut nodes: B256Map<Bytes> = B256Map::default();
    for ((table, key), rlp) in recorder.seen.into_inner() {
        let is_top = table == ACCOUNT_NODES.id && key.len() < usize::from(levels);
        let is_root = table == STORAGE_NODES.id && key.len() == 32;
        if !is_top && (rlp.len() >= 32 || is_root) {
            nodes.insert(keccak256(&rlp), rlp.into());
        }
    }
    let joined = CowTrie::join(&parent.parts, &account_rows(store), bare.seq);
    if let Some(root) = joined.map_err(state_error)?.node {
        if let (_, Some((_, moved))) = CowTrie::<Entry>::split(&root).map_err(state_error)? {
            // The root node stands for it.
            nodes.remove(&keccak256(moved));
        }
        if levels == 0 {
            nodes.insert(keccak256(&root), root);
        }
    }
    let mut codes = Vec::new();
    let mut hashes: Vec<_> = touched.codes.iter().collect();
    hashes.sort_unstable();
    for hash in hashes {
        codes.extend(store.get(CODE_TABLE, hash.as_slice())?.map(Bytes::from));
    }
    let nodes: BTreeMap<B256, Bytes> = nodes.into_iter().collect();
    Ok(Witness { root: parent.root, levels, nodes: nodes.into_values().collect(), codes })
}

/// Makes the witness of a block that is not the last one, without code. `back` takes blocks back from `version` on, the
/// last of them the block itself; `touched` is what it read.
pub(crate) fn make_past(
    version: &Version,
    store: &dyn Read,
    back: &[WriteSet],
    touched: &BTreeMap<B256, BTreeSet<B256>>,
) -> Result<Witness, StateError> {
    let mut past = version.clone();
    let mut forward = Vec::new();
    for (n, undo) in back.iter().enumerate() {
        if n + 1 == back.len() {
            forward = undo
                .accounts()
                .iter()
                .map(|undo| redo(&past, store, undo))
                .collect::<Result<_, _>>()?;
        }
        let undo: Vec<ShardWrite> = undo.accounts().iter().map(ShardWrite::from).collect();
        past = after(&past, &undo, store)?;
    }
    let pairs = |(account, slots): (&B256, &BTreeSet<B256>)| {
        let account = *account;
        slots.iter().map(move |slot| (account, *slot)).collect::<Vec<_>>()
    };
    let touched = Touched {
        accounts: touched.keys().copied().collect(),
        slots: touched.iter().flat_map(pairs).collect(),
        ..Touched::default()
    };
    make(&past, store, &touched, &forward, 0)
}

/// What leads back to the state of an account as `version` has it, once it is undone.
fn redo(
    version: &Version,
    store: &dyn Read,
    undo: &AccountWrite,
) -> Result<ShardWrite, StateError> {
    let account = version.account(store, &undo.hash)?.map(|entry| entry.account);
    let slots = if undo.wipe {
        version.slots(store, &undo.hash)?
    } else {
        undo.slots
            .iter()
            .map(|slot| Ok((slot.hash, version.slot(store, &undo.hash, &slot.hash)?)))
            .collect::<Result<_, StateError>>()?
    };
    Ok(ShardWrite::new(undo.hash, account, undo.wipe, slots.into_iter()))
}

/// The version after some writes, its root included: the root node of the only part with keys has to be moved up.
fn after(from: &Version, writes: &[ShardWrite], rows: &dyn Read) -> Result<Version, StateError> {
    let mut parts = from.parts.clone();
    for part in writes.chunk_by(|a, b| shard_of(&a.hash) == shard_of(&b.hash)) {
        let shard = shard_of(&part[0].hash);
        apply(&mut parts[shard], part, rows, from.seq + 1)?;
    }
    Version::of(parts, rows, from.seq + 1)
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
        found.map_err(state_error)
    }
}

impl Read for Recorder<'_> {
    fn get_into(&self, table: Table, key: &[u8], out: &mut Vec<u8>) -> Result<bool, KvError> {
        let mut rlp = Vec::new();
        let failed = |error| match error {
            StateError::Store(error) => error,
            other => KvError::Corrupt(other.to_string()),
        };
        let found = self.find(table, key, &mut rlp).map_err(failed)?;
        if found {
            // As if its leaves had rows of their own: they are noted one by one.
            let row = if table == ACCOUNT_NODES {
                CowTrie::<Entry>::row_of(&Nibbles::from_nibbles(key), &rlp, out)
            } else {
                let path = Nibbles::from_nibbles(&key[32..]);
                CowTrie::<SlotValue>::row_of(&path, &rlp, out)
            };
            row.map_err(|error| failed(state_error(error)))?;
            self.seen.lock().insert((table.id, key.to_vec()), rlp);
        }
        Ok(found)
    }

    fn scan(&self, table: Table, _: KeyRange<'_>, _: &mut Visit<'_>) -> Result<(), KvError> {
        Err(KvError::UnknownTable(table.name))
    }
}
