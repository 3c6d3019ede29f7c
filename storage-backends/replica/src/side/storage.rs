//! The storage tries of one worker.

use super::{
    ahead::{Ahead, missing_from},
    effort::Effort,
    message::Part,
};
use alloy_primitives::{
    B256, U256,
    map::{B256HashMap, B256HashSet},
};
use polytrie_kv::{Batch, Store};
use polytrie_state::{SlotWrite, StateError};
use polytrie_trie::{EMPTY_ROOT, ReadPace, RowsAhead, SlotValue, Trie, state_error, stored_root};
use rayon::prelude::*;

/// Fewer changes than this, beside those of the trie with most of them, are not worth a second thread.
const PARALLEL_SLOTS: usize = 64;

/// Rows of a small block and their bytes, with what others add to them: the block, its receipts, flat rows. Growing step
/// by step would take longer than to make some of them.
const SMALL_BLOCK: (usize, usize) = (64, 8 << 10);

#[derive(Debug, Default)]
pub(super) struct Storages {
    tries: B256HashMap<Storage>,
    /// Bytes of memory all tries take.
    bytes: usize,
    /// Tries that the block under way changes.
    changed: B256HashSet,
    /// Of these, those with writes that were not taken in yet.
    unapplied: B256HashSet,
    /// Tries for which something was asked of readers in this block.
    asked: B256HashSet,
    turn: u32,
}

/// One storage trie.
#[derive(Debug)]
pub(super) struct Storage {
    /// `None` as long as nobody has looked whether there are rows.
    trie: Option<Trie<SlotValue>>,
    /// There were rows when the block began.
    had_rows: bool,
    /// Writes that were not taken in yet, in order.
    log: Vec<(B256, U256)>,
    /// Rows of the block that were made ahead of its end.
    rows: Batch,
    ahead: Ahead,
    effort: Effort,
    touched: u32,
    /// The bytes that [`Storages::bytes`] has for it.
    counted: usize,
}

impl Storage {
    fn new(touched: u32) -> Self {
        Self {
            trie: None,
            had_rows: false,
            log: Vec::new(),
            rows: Batch::new(),
            ahead: Ahead::default(),
            effort: Effort::default(),
            touched,
            counted: 0,
        }
    }

    /// The same, if the root is known.
    fn of_root(root: Option<B256>, touched: u32) -> Self {
        let had_rows = root.is_some_and(|root| root != EMPTY_ROOT);
        Self { trie: root.map(Trie::stored), had_rows, ..Self::new(touched) }
    }

    /// Brings the sum of all tries' bytes up to date.
    fn count(&mut self, sum: &mut usize) {
        let nodes = |trie: &Trie<SlotValue>| trie.bytes() - size_of_val(trie);
        let bytes = self.trie.as_ref().map_or(0, nodes) + size_of::<Self>();
        *sum = *sum - self.counted + bytes;
        self.counted = bytes;
    }

    /// The trie, looked for in the store if that was not done yet.
    fn open(
        &mut self,
        account: B256,
        store: &Store,
        pace: &ReadPace,
    ) -> Result<&mut Trie<SlotValue>, StateError> {
        if self.trie.is_none() {
            let source = self.ahead.over(store, Some(account), pace);
            let root = stored_root::<SlotValue>(&source).map_err(state_error)?;
            self.had_rows = root != EMPTY_ROOT;
            self.trie = Some(Trie::stored(root));
        }
        let trie = self.trie.get_or_insert_with(Trie::empty);
        trie.set_block(self.touched);
        Ok(trie)
    }

    fn wipe(&mut self, account: B256, store: &Store, pace: &ReadPace) -> Result<(), StateError> {
        self.log.clear();
        self.open(account, store, pace)?;
        let had_rows = self.had_rows;
        // What was made of the block so far is void; a range deletion does not reach it.
        self.rows = Batch::new();
        self.effort.clear();
        match &mut self.trie {
            Some(trie) if had_rows => trie.clear(),
            trie => *trie = Some(Trie::empty()),
        }
        Ok(())
    }

    /// Takes in what was written. With `ready_only`, what needs rows that others are reading stays.
    fn apply(
        &mut self,
        account: B256,
        store: &Store,
        pace: &ReadPace,
        ready_only: bool,
    ) -> Result<(), StateError> {
        if self.log.is_empty() {
            return Ok(());
        }
        self.open(account, store, pace)?;
        let Self { trie: Some(trie), log, ahead, effort, .. } = self else { return Ok(()) };
        let mut changes = latest(log);
        if ready_only {
            // A key stays while a reader is on its way to it.
            changes.retain(|(key, value)| {
                let waits = ahead.asked.contains(key)
                    && missing_from(Some(&mut *trie), key, &ahead.rows).is_some();
                if waits {
                    log.push((*key, value.map_or(U256::ZERO, |v| v.0)));
                }
                !waits
            });
        }
        effort.add(changes.len());
        let source = ahead.over(store, Some(account), pace);
        trie.update(&changes, &source).map_err(state_error)
    }

    /// Takes in everything and computes the root; at the end of the block rows are added to `rows`.
    fn seal(
        &mut self,
        account: B256,
        store: &Store,
        pace: &ReadPace,
        rows: Option<&mut Batch>,
    ) -> Result<B256, StateError> {
        self.apply(account, store, pace, false)?;
        self.open(account, store, pace)?;
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
        self.ahead.clear();
        Ok(root)
    }
}

/// The writes of a log as a sorted batch, the last of each key.
fn latest(log: &mut Vec<(B256, U256)>) -> Vec<(B256, Option<SlotValue>)> {
    // Stable: of several writes of one key the last one stays the last.
    log.sort_by_key(|(key, _)| *key);
    let mut changes: Vec<(B256, Option<SlotValue>)> = Vec::with_capacity(log.len());
    for (key, value) in log.drain(..) {
        let value = (!value.is_zero()).then_some(SlotValue(value));
        match changes.last_mut() {
            Some(last) if last.0 == key => last.1 = value,
            _ => changes.push((key, value)),
        }
    }
    changes
}

impl Storages {
    pub(super) fn begin(&mut self, turn: u32) {
        // A hint may have overtaken the beginning of its block. Readers drop what was asked for it, and nobody may wait.
        self.drop_ahead();
        self.turn = turn;
    }

    /// Notes writes; they are taken in later. `root` tells the root from before the block if that takes no reading.
    pub(super) fn write(
        &mut self,
        (account, wipe, slots): (B256, bool, &[SlotWrite]),
        root: impl FnOnce() -> Option<B256>,
        store: &Store,
        pace: &ReadPace,
    ) -> Result<(), StateError> {
        let turn = self.turn;
        let storage = self.tries.entry(account).or_insert_with(|| Storage::of_root(root(), turn));
        storage.touched = turn;
        self.changed.insert(account);
        if wipe {
            storage.wipe(account, store, pace)?;
        }
        if !slots.is_empty() {
            self.unapplied.insert(account);
            storage.log.extend(slots.iter().map(|slot| (slot.hash, slot.after)));
        }
        Ok(())
    }

    /// From where the way to a slot must be read, if it must and nobody was asked yet.
    pub(super) fn ask_from(&mut self, account: B256, slot: &B256) -> Option<usize> {
        let turn = self.turn;
        let storage = self.tries.entry(account).or_insert_with(|| Storage::new(turn));
        storage.touched = turn;
        storage.count(&mut self.bytes);
        if let Some(trie) = &mut storage.trie {
            trie.set_block(turn);
        }
        let from = missing_from(storage.trie.as_mut(), slot, &storage.ahead.rows)?;
        self.asked.insert(account);
        storage.ahead.asked.insert(*slot).then_some(from)
    }

    /// The same for everything that is written and not taken in, whether asked for or not.
    pub(super) fn still_missing(&mut self) -> Vec<(B256, B256, usize)> {
        let mut missing = Vec::new();
        for account in &self.changed {
            let Some(storage) = self.tries.get_mut(account) else { continue };
            for (slot, _) in &storage.log {
                let from = missing_from(storage.trie.as_mut(), slot, &storage.ahead.rows);
                missing.extend(from.map(|from| (*account, *slot, from)));
            }
        }
        missing
    }

    /// Whether readers are on their way to a slot.
    pub(super) fn is_asked(&self, account: &B256, slot: &B256) -> bool {
        self.tries.get(account).is_some_and(|storage| storage.ahead.asked.contains(slot))
    }

    /// A path was not taken by the readers after all.
    pub(super) fn not_asked(&mut self, account: &B256, slot: &B256) {
        if let Some(storage) = self.tries.get_mut(account) {
            storage.ahead.asked.remove(slot);
        }
    }

    /// Rows that were read ahead.
    pub(super) fn arrived(&mut self, account: &B256, slot: &B256, rows: RowsAhead) {
        if let Some(storage) = self.tries.get_mut(account) {
            storage.ahead.rows.extend(rows);
            // Not waited for any more, whatever it brought.
            storage.ahead.asked.remove(slot);
        }
    }

    /// The value of a slot, if the way to it is in memory.
    pub(super) fn known(&mut self, account: &B256, slot: &B256) -> Option<U256> {
        let storage = self.tries.get_mut(account)?;
        let trie = storage.trie.as_mut()?;
        storage.touched = self.turn;
        trie.set_block(self.turn);
        Some(trie.known(slot)?.map_or(U256::ZERO, |value| value.0))
    }

    /// Reads a slot's path into memory.
    pub(super) fn resolve(
        &mut self,
        account: B256,
        slot: &B256,
        store: &Store,
        pace: &ReadPace,
    ) -> Result<(), StateError> {
        let turn = self.turn;
        let storage = self.tries.entry(account).or_insert_with(|| Storage::new(turn));
        storage.touched = turn;
        storage.open(account, store, pace)?;
        if let Storage { trie: Some(trie), ahead, .. } = storage {
            trie.get(slot, &ahead.over(store, Some(account), pace)).map_err(state_error)?;
        }
        storage.count(&mut self.bytes);
        Ok(())
    }

    /// Takes in the writes of one trie that are ready, and makes rows of what will hardly change again in
    /// this block. Returns whether there was anything to do.
    pub(super) fn work_ahead(
        &mut self,
        store: &Store,
        pace: &ReadPace,
    ) -> Result<bool, StateError> {
        let Some(account) = self.unapplied.iter().next().copied() else { return Ok(false) };
        self.unapplied.remove(&account);
        let Some(storage) = self.tries.get_mut(&account) else { return Ok(true) };
        storage.apply(account, store, pace, true)?;
        if let Storage { trie: Some(trie), rows, effort, .. } = storage
            && let Some(depth) = effort.depth()
        {
            let taken = crate::TRIE.storage_sink(std::mem::take(rows), account);
            *rows = trie.commit_below(depth, taken).into_inner();
        }
        storage.count(&mut self.bytes);
        Ok(true)
    }

    /// Keys wait for readers: looks at them again when something has arrived.
    pub(super) fn retry(&mut self, account: &B256) {
        if self.tries.get(account).is_some_and(|storage| !storage.log.is_empty()) {
            self.unapplied.insert(*account);
        }
    }

    /// Completes what the block has changed so far.
    pub(super) fn seal(
        &mut self,
        store: &Store,
        pace: &ReadPace,
        end: bool,
    ) -> Result<Part, StateError> {
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
            let root = storage.seal(*account, store, pace, end.then_some(rows))?;
            Ok((*account, root))
        };
        let mut part = Part::default();
        if others >= PARALLEL_SLOTS {
            let run = |job: &mut _| {
                let mut rows = Batch::new();
                run(job, &mut rows).map(|root| (root, rows))
            };
            let sealed: Vec<Result<_, StateError>> =
                jobs.par_iter_mut().with_max_len(16).map(run).collect();
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
            // Also one that is empty now: its rows may be there until the blocks that wait are written.
            storage.count(&mut self.bytes);
            self.tries.insert(account, storage);
        }
        Ok(part)
    }

    /// The block is over; returns what it changed.
    pub(super) fn end(&mut self) -> B256HashSet {
        self.drop_ahead();
        std::mem::take(&mut self.changed)
    }

    fn drop_ahead(&mut self) {
        for account in self.asked.drain() {
            if let Some(storage) = self.tries.get_mut(&account) {
                storage.ahead.clear();
            }
        }
    }

    /// Forgets tries that hold what is void now.
    pub(super) fn forget(&mut self, void: impl IntoIterator<Item = B256>) {
        for account in void.into_iter().chain(std::mem::take(&mut self.changed)) {
            if let Some(storage) = self.tries.remove(&account) {
                self.bytes -= storage.counted;
            }
        }
        self.unapplied.clear();
        self.drop_ahead();
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Lets go of what was not touched in the last `keep` turns; what is not in the store yet must be
    /// younger.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_before_a_block_began_is_not_waited_for_in_it() {
        let (account, slot) = (B256::repeat_byte(1), B256::repeat_byte(2));
        let mut storages = Storages::default();
        storages.begin(1);
        assert_eq!(storages.ask_from(account, &slot), Some(0));
        assert!(storages.is_asked(&account, &slot));
        storages.begin(2);
        assert!(!storages.is_asked(&account, &slot));
        assert_eq!(storages.ask_from(account, &slot), Some(0));
    }
}
