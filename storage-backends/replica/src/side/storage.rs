//! The storage tries of one worker.

use super::{effort::Effort, message::Part};
use alloy_primitives::{
    B256, U256,
    map::{B256HashMap, B256HashSet},
};
use polytrie_kv::Batch;
use polytrie_state::{Result, SlotWrite};
use polytrie_trie::{EMPTY_ROOT, Prefetcher, SlotValue, Trie, stored_root};
use rayon::prelude::*;

/// Number of changes, those of the largest trie not counted, below which no second thread is used.
const PARALLEL_SLOTS: usize = 64;

/// The number of rows of a small block and their bytes, including what others add: the block, its receipts, flat
/// rows. Growing a batch step by step would take longer than making some of the rows.
const SMALL_BLOCK: (usize, usize) = (64, 8 << 10);

#[derive(Debug, Default)]
pub(super) struct Storages {
    tries: B256HashMap<Storage>,
    /// Bytes of memory of all tries.
    bytes: usize,
    /// The accounts whose tries the block in progress changes.
    changed: B256HashSet,
    /// The accounts among these with writes that their tries do not have yet.
    unapplied: B256HashSet,
    turn: u32,
}

/// A storage trie.
#[derive(Debug, Default)]
pub(super) struct Storage {
    /// The trie; `None` until the store was searched for its rows.
    trie: Option<Trie<SlotValue>>,
    /// Whether there were rows when the block began.
    had_rows: bool,
    /// The writes that the trie does not have yet, in order.
    log: Vec<(B256, U256)>,
    /// Rows of the block that were made ahead of its end.
    rows: Batch,
    effort: Effort,
    touched: u32,
    /// The bytes that [`Storages::bytes`] includes for it.
    counted: usize,
}

impl Storage {
    /// Creates the storage from its root, if the root is known.
    fn of_root(root: Option<B256>, touched: u32) -> Self {
        let had_rows = root.is_some_and(|root| root != EMPTY_ROOT);
        Self { trie: root.map(Trie::stored), had_rows, touched, ..Self::default() }
    }

    /// Updates the sum of all tries' bytes.
    fn count(&mut self, sum: &mut usize) {
        let nodes = |trie: &Trie<SlotValue>| trie.bytes() - size_of_val(trie);
        let bytes = self.trie.as_ref().map_or(0, nodes) + size_of::<Self>();
        *sum = *sum - self.counted + bytes;
        self.counted = bytes;
    }

    /// Returns the trie; searches the store for it if that was not done yet.
    fn open(&mut self, account: B256, source: &Prefetcher) -> Result<&mut Trie<SlotValue>> {
        if self.trie.is_none() {
            let rows = source.rows(Some(account));
            let root = stored_root::<SlotValue>(&rows)?;
            self.had_rows = root != EMPTY_ROOT;
            self.trie = Some(Trie::stored(root));
        }
        let trie = self.trie.get_or_insert_with(Trie::empty);
        trie.set_block(self.touched);
        Ok(trie)
    }

    fn wipe(&mut self, account: B256, source: &Prefetcher) -> Result<()> {
        self.log.clear();
        self.open(account, source)?;
        let had_rows = self.had_rows;
        // The rows made for the block so far are void; a range deletion does not cover them.
        self.rows = Batch::new();
        self.effort.clear();
        match &mut self.trie {
            Some(trie) if had_rows => trie.clear(),
            trie => *trie = Some(Trie::empty()),
        }
        Ok(())
    }

    /// Updates the trie with the logged writes.
    fn apply(&mut self, account: B256, source: &Prefetcher) -> Result<()> {
        if self.log.is_empty() {
            return Ok(());
        }
        self.open(account, source)?;
        let Self { trie: Some(trie), log, effort, .. } = self else { return Ok(()) };
        let changes = latest(log);
        effort.add(changes.len());
        Ok(trie.update(&changes, &source.rows(Some(account)))?)
    }

    /// Updates the trie with all writes and computes the root; at the end of the block rows are added to `rows`.
    fn seal(
        &mut self,
        account: B256,
        source: &Prefetcher,
        rows: Option<&mut Batch>,
    ) -> Result<B256> {
        self.apply(account, source)?;
        self.open(account, source)?;
        let Some(trie) = &mut self.trie else { return Ok(EMPTY_ROOT) };
        let Some(rows) = rows else { return Ok(trie.root()) };
        if !self.rows.is_empty() {
            rows.absorb(std::mem::take(&mut self.rows));
        }
        let all = crate::TRIE.storage_sink(std::mem::take(rows), account);
        let (root, all) = trie.commit(all);
        *rows = all.into_inner();
        self.effort.end();
        self.had_rows = root != EMPTY_ROOT;
        Ok(root)
    }
}

/// Returns the last write of each key in a log, sorted.
fn latest(log: &mut Vec<(B256, U256)>) -> Vec<(B256, Option<SlotValue>)> {
    // The sort is stable: of several writes of one key the last one stays the last.
    log.sort_by_key(|(key, _)| *key);
    let mut changes: Vec<(B256, Option<SlotValue>)> = Vec::with_capacity(log.len());
    for (key, value) in log.drain(..) {
        let value = SlotValue::of(value);
        match changes.last_mut() {
            Some(last) if last.0 == key => last.1 = value,
            _ => changes.push((key, value)),
        }
    }
    changes
}

impl Storages {
    pub(super) const fn begin(&mut self, turn: u32) {
        self.turn = turn;
    }

    /// Logs writes; the trie is updated later. `root` returns the root from before the block if that needs no
    /// reading.
    pub(super) fn write(
        &mut self,
        (account, wipe, slots): (B256, bool, &[SlotWrite]),
        root: impl FnOnce() -> Option<B256>,
        source: &Prefetcher,
    ) -> Result<()> {
        let turn = self.turn;
        let storage = self.tries.entry(account).or_insert_with(|| Storage::of_root(root(), turn));
        storage.touched = turn;
        self.changed.insert(account);
        if wipe {
            storage.wipe(account, source)?;
        }
        if !slots.is_empty() {
            self.unapplied.insert(account);
            storage.log.extend(slots.iter().map(|slot| (slot.hash, slot.after)));
        }
        Ok(())
    }

    /// Returns the nibble from which on the path to a slot is missing in memory; `None` if nothing is missing.
    pub(super) fn missing(&mut self, account: &B256, slot: &B256) -> Option<usize> {
        let turn = self.turn;
        let Some(storage) = self.tries.get_mut(account) else { return Some(0) };
        let Some(trie) = &mut storage.trie else { return Some(0) };
        trie.set_block(turn);
        trie.missing(slot)
    }

    /// Returns the written slots that their tries do not have yet and whose paths are not completely in memory, with
    /// the nibble from which on each is missing.
    pub(super) fn still_missing(&mut self) -> Vec<(B256, B256, usize)> {
        let mut missing = Vec::new();
        for account in &self.unapplied {
            let Some(storage) = self.tries.get_mut(account) else { continue };
            let Storage { trie, log, .. } = storage;
            missing.extend(log.iter().filter_map(|(slot, _)| {
                let from = trie.as_mut().map_or(Some(0), |trie| trie.missing(slot))?;
                Some((*account, *slot, from))
            }));
        }
        missing
    }

    /// Returns the value of a slot, if the path to it is in memory.
    pub(super) fn known(&mut self, account: &B256, slot: &B256) -> Option<U256> {
        let storage = self.tries.get_mut(account)?;
        let trie = storage.trie.as_mut()?;
        storage.touched = self.turn;
        trie.set_block(self.turn);
        Some(trie.known(slot)?.map_or(U256::ZERO, |value| value.0))
    }

    /// Returns the value of a slot, and reads the path to it into memory. `root` is the root from before the block, if it
    /// is known.
    pub(super) fn get(
        &mut self,
        account: B256,
        root: Option<B256>,
        slot: &B256,
        source: &Prefetcher,
    ) -> Result<U256> {
        let turn = self.turn;
        let storage = self.tries.entry(account).or_insert_with(|| Storage::of_root(root, turn));
        storage.touched = turn;
        let trie = storage.open(account, source)?;
        let value = trie.get(slot, &source.rows(Some(account)))?;
        let value = value.map_or(U256::ZERO, |value| value.0);
        storage.count(&mut self.bytes);
        Ok(value)
    }

    /// Updates one trie with its logged writes, and makes rows of subtrees that will hardly change again in this
    /// block. Returns whether there was anything to do.
    pub(super) fn work_ahead(&mut self, source: &Prefetcher) -> Result<bool> {
        let Some(account) = self.unapplied.iter().next().copied() else { return Ok(false) };
        self.unapplied.remove(&account);
        let Some(storage) = self.tries.get_mut(&account) else { return Ok(true) };
        storage.apply(account, source)?;
        if let Storage { trie: Some(trie), rows, effort, .. } = storage
            && let Some(depth) = effort.depth()
        {
            let taken = crate::TRIE.storage_sink(std::mem::take(rows), account);
            *rows = trie.commit_below(depth, taken).into_inner();
        }
        storage.count(&mut self.bytes);
        Ok(true)
    }

    /// Completes the tries that the block has changed so far; returns their roots and, at its end, their rows, for which
    /// it uses the memory of `rows`.
    pub(super) fn seal(&mut self, source: &Prefetcher, rows: Batch, end: bool) -> Result<Part> {
        let mut jobs: Vec<(B256, Storage)> = Vec::with_capacity(self.changed.len());
        for account in &self.changed {
            if let Some(storage) = self.tries.remove(account) {
                jobs.push((*account, storage));
            }
        }
        self.unapplied.clear();
        let changes = |(_, s): &(B256, Storage)| s.log.len() + s.effort.changes();
        let largest = jobs.iter().map(changes).max().unwrap_or_default();
        let others = jobs.iter().map(changes).sum::<usize>() - largest;
        let run = |(account, storage): &mut (B256, Storage), rows: &mut Batch| {
            let root = storage.seal(*account, source, end.then_some(rows))?;
            Ok((*account, root))
        };
        let mut part = Part { rows, ..Part::default() };
        if others >= PARALLEL_SLOTS {
            let run = |job: &mut _| {
                let mut rows = Batch::new();
                run(job, &mut rows).map(|root| (root, rows))
            };
            let sealed: Vec<Result<_>> = jobs.par_iter_mut().with_max_len(16).map(run).collect();
            for sealed in sealed {
                let (root, rows) = sealed?;
                part.roots.push(root);
                part.rows.absorb(rows);
            }
        } else {
            if end {
                part.rows.reserve(SMALL_BLOCK.0, SMALL_BLOCK.1);
            }
            for job in &mut jobs {
                part.roots.push(run(job, &mut part.rows)?);
            }
        }
        for (account, mut storage) in jobs {
            // An empty trie stays as well: its rows may be in the store until the waiting blocks are written.
            storage.count(&mut self.bytes);
            self.tries.insert(account, storage);
        }
        Ok(part)
    }

    /// Ends the block; returns the accounts whose tries it changed.
    pub(super) fn end(&mut self) -> B256HashSet {
        std::mem::take(&mut self.changed)
    }

    /// Drops tries whose content is void.
    pub(super) fn forget(&mut self, void: impl IntoIterator<Item = B256>) {
        for account in void.into_iter().chain(std::mem::take(&mut self.changed)) {
            if let Some(storage) = self.tries.remove(&account) {
                self.bytes -= storage.counted;
            }
        }
        self.unapplied.clear();
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Drops from memory the nodes that were not touched in the last `keep` turns; nodes that are not in the store
    /// yet must be younger.
    pub(super) fn evict(&mut self, keep: u32) {
        let turn = self.turn;
        let mut bytes = 0;
        self.tries.retain(|_, storage| {
            if turn.wrapping_sub(storage.touched) > keep {
                return false;
            }
            if let Some(trie) = &mut storage.trie {
                trie.set_block(turn);
                trie.evict(keep);
            }
            storage.counted = 0;
            storage.count(&mut bytes);
            true
        });
        self.bytes = bytes;
    }
}
