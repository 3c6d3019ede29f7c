//! Groups: several blocks that a layer takes as one.
//!
//! A commitment costs most where tries are deep and blocks are small: many nodes change in every block. The blocks of
//! a group together cost one commitment, and a value that changes and changes back costs nothing. Reads, write sets
//! and undo records are still those of each block by itself: the group answers reads from the writes of its earlier
//! blocks, and from the layer's head below them.

use crate::{
    Access, Account, AccountWrite, LayerSession, Outcome, Result, Session, SessionCounters,
    SlotWrite, StateError, StateLayer, UndoRecord, Wants, WriteSet, any_slot,
    layer::{BlockRef, SlotVisit},
    visit_over,
    writes::is_change,
};
use alloy_primitives::{
    Address, B256, Bytes, U256,
    map::{B256Map, hash_map::Entry},
};
use parking_lot::Mutex;
use polytrie_kv::Store;
use std::sync::Arc;

/// Bytes that a group counts for an account in memory, with its entry in the map; an estimate.
const ACCOUNT_BYTES: usize = 384;
/// Bytes that a group counts for a slot; an estimate.
const SLOT_BYTES: usize = 192;

/// Blocks in progress that end with one commitment.
///
/// For layers with content that follows from the state alone, and with plain [`UndoRecord`]s: rows
/// and records are then the same as if each block had been taken by itself.
#[derive(Debug)]
pub struct Group {
    merged: Arc<Mutex<Merged>>,
    store: Store,
    /// Number of the last block.
    number: u64,
}

/// A block of a group.
#[derive(Debug)]
pub struct GroupedBlock {
    /// The block's write set.
    pub writes: Arc<WriteSet>,
    /// The block's undo record.
    pub undo: Vec<u8>,
    /// The counts of the block's calls to the layer and the earlier blocks.
    pub counters: SessionCounters,
}

impl Group {
    /// Begins a group on top of `parent`, which must be the head of a layer on `store`. It has no blocks yet.
    ///
    /// # Errors
    ///
    /// Those of [`StateLayer::begin`].
    pub fn begin(layer: Arc<dyn StateLayer>, store: Store, parent: BlockRef) -> Result<Self> {
        let session = layer.begin(parent)?;
        let (accounts, codes) = Default::default();
        let merged = Merged { layer, session, accounts, codes, bytes: 0 };
        Ok(Self { merged: Arc::new(Mutex::new(merged)), store, number: parent.number })
    }

    /// Begins the next block. There can be one at a time: [`Self::add`] it before beginning another. If it is dropped
    /// instead, the layer may have seen some of its writes, and the group cannot go on.
    pub fn session(&self) -> Session {
        Session::on(Box::new(GroupedSession(Arc::clone(&self.merged))))
    }

    /// Adds an executed block.
    ///
    /// # Errors
    ///
    /// If the layer fails.
    pub fn add(&mut self, block: Session) -> Result<GroupedBlock> {
        let (writes, counters) = block.into_writes()?;
        let mut merged = self.merged.lock();
        self.number += 1;
        let slots = |account: &B256, visit: &mut SlotVisit<'_>| merged.slots(account, visit);
        let undo = UndoRecord::of(&writes, (&self.store, self.number), slots)?.encode();
        merged.add(&writes);
        Ok(GroupedBlock { writes: Arc::new(writes), undo, counters })
    }

    /// Bytes of memory that the group takes, estimated.
    pub fn bytes(&self) -> usize {
        self.merged.lock().bytes
    }

    /// Ends the group. The outcome is that of all its blocks together, and so is its undo record; [`Self::add`] has
    /// returned the record of each block.
    ///
    /// # Errors
    ///
    /// If the layer fails, or a block is still in progress.
    pub fn finish(self) -> Result<Outcome> {
        let merged = Arc::into_inner(self.merged)
            .ok_or(StateError::Protocol("a group was finished while a block of it was under way"))?
            .into_inner();
        let Merged { mut session, accounts, codes, .. } = merged;
        let writes = write_set(&mut *session, accounts, codes)?;
        session.finish(&writes)
    }
}

/// The layer's head, and the merged changes of the group's blocks.
#[derive(Debug)]
struct Merged {
    layer: Arc<dyn StateLayer>,
    session: Box<dyn LayerSession>,
    accounts: B256Map<MergedAccount>,
    codes: B256Map<Bytes>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct MergedAccount {
    address: Option<Address>,
    before: Option<Account>,
    now: Option<Account>,
    /// Whether the slots from before the group were removed.
    wiped: bool,
    slots: B256Map<SlotWrite>,
}

impl Merged {
    /// Visits all slots of an account in the order of their hashes.
    fn slots(&self, account: &B256, visit: &mut SlotVisit<'_>) -> Result<()> {
        let known = self.accounts.get(account);
        let written = known.into_iter().flat_map(|known| known.slots.values());
        let present = |value: U256| (!value.is_zero()).then_some(value);
        let mut written: Vec<_> = written.map(|s| (s.hash, present(s.after))).collect();
        written.sort_unstable_by_key(|(hash, _)| *hash);
        let is_wiped = known.is_some_and(|known| known.wiped);
        visit_over(
            written.into_iter().map(Ok),
            |below| if is_wiped { Ok(()) } else { self.layer.slots(*account, B256::ZERO, below) },
            visit,
        )
    }

    /// Adds the writes of the next block.
    fn add(&mut self, writes: &WriteSet) {
        for write in writes.accounts() {
            let account = self.accounts.entry(write.hash).or_insert_with(|| {
                self.bytes += ACCOUNT_BYTES;
                let AccountWrite { address, before, .. } = *write;
                MergedAccount { address, before, ..MergedAccount::default() }
            });
            account.now = write.after;
            if write.clears_slots() {
                account.wiped = true;
                self.bytes -= account.slots.len() * SLOT_BYTES;
                account.slots.clear();
            }
            for slot in &write.slots {
                match account.slots.entry(slot.hash) {
                    Entry::Occupied(mut known) => known.get_mut().after = slot.after,
                    Entry::Vacant(new) => {
                        self.bytes += SLOT_BYTES;
                        new.insert(*slot);
                    }
                }
            }
        }
        for (hash, code) in writes.codes() {
            if self.codes.insert(*hash, code.clone()).is_none() {
                self.bytes += code.len();
            }
        }
    }
}

/// Returns the merged changes of all blocks.
fn write_set(
    layer: &mut dyn LayerSession,
    accounts: B256Map<MergedAccount>,
    codes: B256Map<Bytes>,
) -> Result<WriteSet> {
    let mut merged = Vec::with_capacity(accounts.len());
    for (hash, account) in accounts {
        let MergedAccount { address, before, now, wiped, slots } = account;
        let wipe = match address {
            Some(address) if wiped && before.is_some() => layer.has_storage(&address, &hash)?,
            _ => false,
        };
        let slots = slots.into_values().filter(|s| is_change(wipe, s.before, s.after)).collect();
        merged.push(AccountWrite { hash, address, before, after: now, wipe, slots });
    }
    // Codes of accounts that were created and removed again are kept, too: undo leads back to the blocks in between.
    Ok(WriteSet::of(merged, codes.into_iter().collect()))
}

/// One block of a group in progress.
#[derive(Debug)]
struct GroupedSession(Arc<Mutex<Merged>>);

impl LayerSession for GroupedSession {
    fn account(&mut self, address: &Address, hash: &B256) -> Result<Option<Account>> {
        let Merged { accounts, session, .. } = &mut *self.0.lock();
        match accounts.get(hash) {
            Some(account) => Ok(account.now),
            None => session.account(address, hash),
        }
    }

    fn slot(
        &mut self,
        address: &Address,
        account: &B256,
        slot: &U256,
        hash: &B256,
    ) -> Result<U256> {
        let Merged { accounts, session, .. } = &mut *self.0.lock();
        if let Some(known) = accounts.get(account) {
            match known.slots.get(hash) {
                Some(slot) => return Ok(slot.after),
                None if known.wiped => return Ok(U256::ZERO),
                None => {}
            }
        }
        session.slot(address, account, slot, hash)
    }

    fn code(&mut self, code_hash: &B256) -> Result<Option<Bytes>> {
        let Merged { codes, session, .. } = &mut *self.0.lock();
        match codes.get(code_hash) {
            Some(code) => Ok(Some(code.clone())),
            None => session.code(code_hash),
        }
    }

    fn has_storage(&mut self, address: &Address, hash: &B256) -> Result<bool> {
        let merged = &mut *self.0.lock();
        if merged.accounts.contains_key(hash) {
            return any_slot(|visit| merged.slots(hash, visit));
        }
        merged.session.has_storage(address, hash)
    }

    /// Requests writes from the beginning: the layer sees all blocks as one, and needs all of its writes or none.
    fn wants(&self) -> Wants {
        let wants = self.0.lock().session.wants();
        Wants { writes_from: wants.writes_from.map(|_| 0), ..wants }
    }

    fn hint(&mut self, access: Access) {
        self.0.lock().session.hint(access);
    }

    fn expect(&mut self, accounts: &[B256]) {
        self.0.lock().session.expect(accounts);
    }

    fn stream_hashed(&mut self, writes: Vec<AccountWrite>) -> Result<()> {
        self.0.lock().session.stream_hashed(writes)
    }

    fn finish(self: Box<Self>, _: &WriteSet) -> Result<Outcome> {
        Err(StateError::Protocol("a block of a group was finished by itself"))
    }
}
