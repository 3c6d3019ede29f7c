//! The making of proofs.
//!
//! For proofs on request, nothing is maintained while blocks are executed. A tree below the root has few entries, and
//! its nodes are summed from the versions when they are needed. The nodes of the root tree stay in memory and are
//! updated when they are used again. If witnesses are kept, nodes are read, and only those of the share are there:
//! keys of other shares are refused.

mod resolve;
mod vector;

pub(crate) use vector::{entries, no_tables};

use crate::{
    ENTRIES, NAME, Proofs,
    account::AccountState,
    kept::{self, Share},
    key::Key,
    log::{Chunk, Epoch, chunk_of, epoch_node},
    merkle,
    path::{Path, entry_index, entry_row_key},
    read::{number_of, read_record, state_of},
    record::{KeyRecord, Position},
    trees::{LvmtHead, Tree},
    verify::{ClaimedAccount, Elsewhere, LvmtProof},
    witness::{EntryWitness, EpochWitness, Owner, TreeWitness, Witness},
};
use alloy_primitives::{Address, B256, U256};
use parking_lot::Mutex;
use polytrie_amt::{Entry, ProofTree, Setup};
use polytrie_kv::Read;
use polytrie_state::{Proof, Result, SlotClaim, StateError, hash_address, hash_slot};
use std::collections::{BTreeMap, BTreeSet, btree_map::Entry as MapEntry};

/// The state and the tables from which proofs are made.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) store: &'a dyn Read,
    pub(crate) setup: &'a Setup,
    pub(crate) head: &'a LvmtHead,
    pub(crate) root_proofs: &'a Mutex<Option<ProofTree>>,
    pub(crate) proofs: Proofs,
}

/// Proves an account and some of its slots.
pub(crate) fn prove(source: Source<'_>, address: &Address, slots: &[U256]) -> Result<Proof> {
    if source.proofs == Proofs::None {
        let reason = "was opened without proofs; use `--lvmt.proofs on-request`";
        return Err(crate::unsupported(reason));
    }
    let mut prover = Prover { source, witness: Witness::default(), vectors: BTreeMap::new() };
    let account = hash_address(address);
    let key = Key::Account(account);
    // Slots of an account in another client's share are proven for its present incarnation, which the proof of the
    // account shows.
    let other = source.other(&account).filter(|_| !slots.is_empty());
    let record = match other {
        None => prover.add(&key)?,
        Some(_) => read_record(source.store, &key)?,
    };
    let AccountState { account: found, incarnation } = state_of(record.as_ref())?;
    if found.is_none() {
        source.expect_own(&key, &account)?;
    }
    let mut claimed = Vec::new();
    for slot in slots {
        let value = if found.is_some() {
            let key = Key::Slot { account, incarnation, slot: hash_slot(slot) };
            number_of(prover.add(&key)?.as_ref())?
        } else {
            U256::ZERO
        };
        claimed.push(SlotClaim { key: *slot, value });
    }
    let witness = prover.finish()?;
    let many = slots.len();
    let encoded = witness.encode(source.setup.height()).ok_or_else(|| {
        crate::unsupported(format!("makes no proof of {many} slots at once; ask for fewer"))
    })?;
    let proof = LvmtProof {
        setup: source.setup.id(),
        insecure: source.setup.is_insecure(),
        address: *address,
        elsewhere: other.map(|share| Elsewhere { shard: share.to_string(), incarnation }),
        account: found.filter(|_| other.is_none()).map(|account| ClaimedAccount {
            nonce: account.nonce,
            balance: account.balance,
            code_hash: account.code_hash,
            incarnation,
        }),
        slots: claimed,
        witness: encoded.into(),
        parts: Vec::new(),
    };
    Proof::of(NAME, &proof)
}

impl Source<'_> {
    /// Returns the share of a key, if another client keeps it.
    fn other(&self, position: &B256) -> Option<Share> {
        let share = self.proofs.share()?;
        let own = share.of_key(self.setup.height(), position);
        (own != share).then_some(own)
    }

    /// Refuses a key of another share.
    fn expect_own(&self, key: &Key, position: &B256) -> Result<()> {
        let Some(other) = self.other(position) else { return Ok(()) };
        let what = match key {
            Key::Account(hash) => format!("the account with the hash {hash}"),
            Key::Slot { slot, .. } => format!("the slot with the hash {slot}"),
        };
        Err(crate::unsupported(format!(
            "keeps the witnesses of shard {} here, and {what} is of shard {other}; ask a node with `--lvmt.proofs {other}`, or one with `on-request` or `full`",
            self.proofs
        )))
    }
}

/// A proof in progress.
struct Prover<'a> {
    source: Source<'a>,
    witness: Witness,
    /// The opened entries of the trees below the root.
    vectors: BTreeMap<Path, Vec<Entry>>,
}

impl Prover<'_> {
    /// Adds the proof of a key, present or absent, and returns its record.
    fn add(&mut self, key: &Key) -> Result<Option<KeyRecord>> {
        let height = self.source.setup.height();
        let position = key.position();
        self.source.expect_own(key, &position)?;
        let record = read_record(self.source.store, key)?;
        let mut level = 0;
        loop {
            let owners = self.open(level, &position)?;
            let path = Path::of(height, level, &position);
            let shown: Vec<(u8, &Key, &KeyRecord)> = match &record {
                Some(record) if record.place.level == level => {
                    vec![(record.place.slot, key, record)]
                }
                Some(_) => Vec::new(),
                // The key is absent: each owner of a slot on its path is shown.
                None => {
                    (1..).zip(&owners).map(|(slot, (key, record))| (slot, key, record)).collect()
                }
            };
            for (slot, key, record) in shown {
                let owner =
                    Owner { position: key.position(), at: record.at, value: record.value.clone() };
                self.entry(&path, &position)?.owners.insert(slot, owner);
            }
            let ends = match &record {
                Some(record) => record.place.level == level,
                None => {
                    let free = level > 0 && owners.len() < crate::allocation::KEY_SLOTS;
                    free || self.entry(&path, &position)?.versions[0] == 0
                }
            };
            if ends {
                return Ok(record);
            }
            level += 1;
        }
    }

    /// Opens the entry of a key on a level; returns the owners of its slots.
    fn open(&mut self, level: u8, position: &B256) -> Result<Vec<(Key, KeyRecord)>> {
        let Source { store, setup, head, .. } = self.source;
        let height = setup.height();
        let path = Path::of(height, level, position);
        let index = entry_index(height, level, position);
        let owners = if level == 0 {
            Vec::new()
        } else {
            let entry = entry_row_key(height, level, position);
            let row = store.get(ENTRIES, &entry)?.unwrap_or_default();
            resolve::owners(store, height, level, &entry, &row)?
        };
        let opened = self.witness.trees.get(&path).and_then(|tree| tree.entries.get(&index));
        if opened.is_some() {
            return Ok(owners);
        }
        let below = head.tree(store, height, &Path::of(height, level + 1, position))?;
        let mut versions = [0; polytrie_amt::SLOTS];
        versions[0] = below.version;
        for (slot, (_, record)) in (1..).zip(&owners) {
            versions[slot] = record.version;
        }
        let opening = if self.source.proofs.are_kept() {
            kept::open(store, setup, &path, index)?
        } else if level == 0 {
            vector::open_root(self.source, index)?
        } else {
            let vector = match self.vectors.entry(path) {
                MapEntry::Occupied(found) => found.into_mut(),
                MapEntry::Vacant(vacant) => vacant.insert(entries(store, height, &path)?),
            };
            polytrie_amt::open(setup, vector, index).ok_or_else(no_tables)?
        };
        let Tree { at, commitment, .. } = head.tree(store, height, &path)?;
        let tree = self.witness.trees.entry(path).or_insert_with(|| {
            let (at, commitment) = if level == 0 {
                (Position::default(), polytrie_amt::identity())
            } else {
                (at, commitment)
            };
            TreeWitness { at, commitment, entries: BTreeMap::new() }
        });
        tree.entries.insert(index, EntryWitness { versions, opening, owners: BTreeMap::new() });
        Ok(owners)
    }

    fn entry(&mut self, path: &Path, position: &B256) -> Result<&mut EntryWitness> {
        let index = entry_index(self.source.setup.height(), path.level, position);
        let tree = self.witness.trees.get_mut(path);
        tree.and_then(|tree| tree.entries.get_mut(&index))
            .ok_or(StateError::Protocol("an entry was used before it was opened"))
    }

    fn finish(mut self) -> Result<Witness> {
        show_tuples(self.source.store, self.source.head, &mut self.witness)?;
        Ok(self.witness)
    }
}

/// Adds the Merkle nodes of all tuples that a witness names.
pub(crate) fn show_tuples(store: &dyn Read, head: &LvmtHead, witness: &mut Witness) -> Result<()> {
    let mut tuples: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for (path, tree) in &witness.trees {
        let owners = tree.entries.values().flat_map(|entry| entry.owners.values());
        let own = (*path != Path::ROOT).then_some(tree.at);
        for at in owners.map(|owner| owner.at).chain(own) {
            tuples.entry(at.epoch).or_default().insert(at.leaf.into());
        }
    }
    witness.epochs.clear();
    for (number, leaves) in &tuples {
        let epoch = Epoch::read(store, *number)?;
        let leaves: Vec<u64> = leaves.iter().copied().collect();
        let mut cache: Option<(u32, Chunk)> = None;
        let nodes = merkle::prove(&leaves, epoch.count.into(), |level, index| {
            epoch_node(store, *number, &epoch, &mut cache, level, index)
        })?;
        witness.epochs.insert(*number, EpochWitness { count: epoch.count, nodes });
    }
    let numbers: Vec<u64> = tuples.into_keys().collect();
    witness.history = if numbers.is_empty() {
        Vec::new()
    } else {
        merkle::prove(&numbers, head.history.size(), |level, index| {
            head.history.node(store, level, index)
        })?
    };
    Ok(())
}

/// Returns the hash of a tuple, if it was not collected.
pub(crate) fn leaf_at(
    store: &dyn Read,
    at: &Position,
    cache: &mut Option<((u64, u32), Chunk)>,
) -> Result<Option<B256>> {
    let (chunk, leaf) = chunk_of(at);
    if cache.as_ref().is_none_or(|(known, _)| *known != (at.epoch, chunk)) {
        let epoch = Epoch::read(store, at.epoch)?;
        let read = Chunk::read(store, at.epoch, chunk, epoch.chunk_len(chunk as usize))?;
        *cache = Some(((at.epoch, chunk), read));
    }
    Ok(cache.as_ref().and_then(|(_, chunk)| chunk.node(0, leaf)))
}
