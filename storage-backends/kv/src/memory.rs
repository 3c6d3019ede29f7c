//! An engine in memory, for tests and throw-away devnets.

use crate::{
    Changes, Engine, KeyRange, Live, LiveSet, Op, Read, Result, Table, Ticket, Values, Versions,
    View, Visit,
    chunk::{Chunk, scan_in_chunks},
};
use parking_lot::{Mutex, RwLock};
use std::{
    collections::{BTreeMap, VecDeque, btree_map::Entry},
    ops::Bound,
    sync::Arc,
};

/// Number of changes made before the lock is released, so that readers wait microseconds for a large batch.
const STEP: usize = 512;

/// An engine that keeps everything in memory and nothing on disk; its content is freed with its last handle.
///
/// It has ordered maps of values that carry the number of the write that made them. So a view costs nothing, and a
/// batch becomes visible at one moment. Old versions are removed by a write that comes after the last view that needed
/// them is dropped.
#[derive(Default)]
pub struct MemoryEngine {
    inner: Arc<Inner>,
}

// The content is left out, because it may be gigabytes.
crate::debug_fields!(MemoryEngine {});

#[derive(Default)]
struct Inner {
    state: RwLock<State>,
    live: Arc<LiveSet>,
    writing: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    /// The versions of each key, by table.
    tables: BTreeMap<u8, BTreeMap<Box<[u8]>, Kept>>,
    /// Number of the last complete write.
    head: u64,
    /// Keys with versions to remove once no view is older than the write of this number; each key once.
    stale: VecDeque<(u64, u8, Box<[u8]>)>,
}

/// The versions of a key.
#[derive(Debug)]
struct Kept {
    /// A version is `None` if its write removed the key.
    versions: Versions<Value>,
    /// Whether the key is in [`State::stale`].
    is_stale: bool,
}

type Value = Option<Box<[u8]>>;

impl MemoryEngine {
    /// The engine's name.
    pub const NAME: &'static str = "memory";

    /// Creates an empty engine.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Engine for MemoryEngine {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn view(&self) -> Result<Box<dyn View>> {
        // The lock is held, so that no write discards a version that this view needs before the view is registered.
        let state = self.inner.state.read();
        let ticket = self.inner.live.enter(state.head);
        Ok(Box::new(MemoryView { inner: self.inner.clone(), ticket }))
    }

    fn write(&self, changes: &dyn Changes) -> Result<()> {
        changes.ops().try_for_each(|(table, op)| op.check(table))?;
        let inner = &*self.inner;
        let _writing = inner.writing.lock();
        // The current versions stay until the batch is complete, as for any view.
        let head = inner.state.read().head;
        let before = inner.live.enter(head);
        let seq = head + 1;

        for (table, range) in changes.deleted_ranges() {
            inner.state.write().delete_range(table.id, range, seq, &inner.live.lock());
        }
        let mut ops = changes.ops().peekable();
        while ops.peek().is_some() {
            let mut state = inner.state.write();
            let live = inner.live.lock();
            for (table, op) in ops.by_ref().take(STEP) {
                match op {
                    Op::Put { key, value } => state.set(table.id, key, Some(value), seq, &live),
                    Op::Delete { key } => state.set(table.id, key, None, seq, &live),
                    Op::DeleteRange { .. } => {}
                }
            }
        }
        inner.state.write().head = seq;
        drop(before);
        let oldest = inner.live.lock().oldest().unwrap_or(seq);
        while inner.state.write().collect(oldest, &inner.live.lock()) {}
        Ok(())
    }

    fn disk_bytes(&self) -> Result<u64> {
        Ok(0)
    }
}

impl State {
    fn set(&mut self, table: u8, key: &[u8], value: Option<&[u8]>, seq: u64, live: &Live<'_>) {
        let entries = self.tables.entry(table).or_default();
        let value: Value = value.map(Into::into);
        // The map is searched once for new keys and for old ones; an old key costs an allocation for this.
        match entries.entry(key.into()) {
            Entry::Vacant(new) if value.is_some() => {
                new.insert(Kept { versions: Versions::new(value, seq), is_stale: false });
            }
            Entry::Vacant(_) => {}
            Entry::Occupied(mut known) => {
                if known.get_mut().set(value, seq, live) {
                    self.stale.push_back((seq, table, key.into()));
                }
            }
        }
    }

    fn delete_range(&mut self, table: u8, range: KeyRange<'_>, seq: u64, live: &Live<'_>) {
        if range.is_empty() {
            return;
        }
        let Some(entries) = self.tables.get_mut(&table) else { return };
        for (key, kept) in entries.range_mut::<[u8], _>(bounds(range)) {
            if kept.set(None, seq, live) {
                self.stale.push_back((seq, table, key.clone()));
            }
        }
    }

    /// Removes up to [`STEP`] keys' versions that no view sees when the oldest view is number `oldest`. Returns
    /// whether there may be more.
    fn collect(&mut self, oldest: u64, live: &Live<'_>) -> bool {
        for _ in 0..STEP {
            let Some((_, table, key)) = self.stale.pop_front_if(|(seq, ..)| *seq <= oldest) else {
                return false;
            };
            let Some(entries) = self.tables.get_mut(&table) else { continue };
            let Some(kept) = entries.get_mut(&key) else { continue };
            kept.versions.forget(live);
            kept.is_stale = !kept.versions.older().is_empty();
            if kept.is_stale {
                // Later views see some of them.
                self.stale.push_back((self.head, table, key));
            } else if kept.versions.newest().is_none() {
                entries.remove(&key);
            }
        }
        true
    }
}

impl Kept {
    /// Sets the value as write `seq`. Returns whether the key must be added to [`State::stale`].
    fn set(&mut self, value: Value, seq: u64, live: &Live<'_>) -> bool {
        self.versions.set(value, seq, live);
        let is_stale = !self.versions.older().is_empty() || self.versions.newest().is_none();
        is_stale && !std::mem::replace(&mut self.is_stale, true)
    }
}

/// Returns the value that is seen after write `seq`.
fn seen(kept: &Kept, seq: u64) -> Option<&[u8]> {
    kept.versions.at(seq)?.1.as_deref()
}

struct MemoryView {
    inner: Arc<Inner>,
    ticket: Ticket,
}

crate::debug_fields!(MemoryView { ticket });

impl Read for MemoryView {
    fn get_into(&self, table: Table, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        table.check_key(key)?;
        let state = self.inner.state.read();
        let kept = state.tables.get(&table.id).and_then(|entries| entries.get(key));
        let value = kept.and_then(|kept| seen(kept, self.ticket.seq()));
        out.extend_from_slice(value.unwrap_or_default());
        Ok(value.is_some())
    }

    /// Reads all keys under one lock.
    fn read_many(&self, table: Table, keys: &[&[u8]], _: bool) -> Result<Values> {
        let state = self.inner.state.read();
        let entries = state.tables.get(&table.id);
        let get = |key: &&[u8]| {
            table.check_key(key)?;
            let kept = entries.and_then(|entries| entries.get(*key));
            Ok(kept.and_then(|kept| seen(kept, self.ticket.seq())).map(<[u8]>::to_vec))
        };
        keys.iter().map(get).collect()
    }

    fn scan(&self, table: Table, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<()> {
        table.check_range(range.from, range.to)?;
        scan_in_chunks(range, visit, |range, chunk| {
            let state = self.inner.state.read();
            if let Some(entries) = state.tables.get(&table.id) {
                let entries = entries.range::<[u8], _>(bounds(range));
                if range.reverse {
                    fill(entries.rev(), self.ticket.seq(), chunk);
                } else {
                    fill(entries, self.ticket.seq(), chunk);
                }
            }
            Ok(())
        })
    }
}

fn fill<'a>(entries: impl Iterator<Item = (&'a Box<[u8]>, &'a Kept)>, seq: u64, chunk: &mut Chunk) {
    for (key, kept) in entries {
        if let Some(value) = seen(kept, seq)
            && !chunk.push(key, value)
        {
            break;
        }
    }
}

/// Converts a range that is not empty to bounds. `BTreeMap` panics at empty ranges.
fn bounds(range: KeyRange<'_>) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (Bound::Included(range.from), range.to.map_or(Bound::Unbounded, Bound::Excluded))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Batch;

    #[test]
    fn keeps_nothing_that_no_view_sees() {
        let table = Table::new(0, "t", 8);
        let engine = MemoryEngine::new();
        let write = |fill: &dyn Fn(&mut Batch)| {
            let mut batch = Batch::new();
            fill(&mut batch);
            assert!(engine.write(&batch).is_ok());
        };
        write(&|batch| (0..2_000_u32).for_each(|i| batch.put(table, &i.to_be_bytes(), b"old")));
        let view = engine.view();
        write(&|batch| (0..2_000_u32).for_each(|i| batch.put(table, &i.to_be_bytes(), b"new")));
        write(&|batch| batch.delete_range(table, &[], None));
        let kept = |state: &State| {
            state
                .tables
                .values()
                .flatten()
                .map(|(_, kept)| kept.versions.older().len() + 1)
                .sum::<usize>()
        };
        assert_eq!(kept(&engine.inner.state.read()), 6_000);
        drop(view);
        write(&|_| {});
        assert_eq!(kept(&engine.inner.state.read()), 0);
        assert!(engine.inner.state.read().stale.is_empty());
    }

    /// A view may live long, and others come and go meanwhile.
    #[test]
    fn a_key_that_is_written_time_and_again_waits_once() {
        let table = Table::new(0, "t", 8);
        let engine = MemoryEngine::new();
        let write = |value: u32| {
            let mut batch = Batch::new();
            batch.put(table, b"key", &value.to_be_bytes());
            assert!(engine.write(&batch).is_ok());
        };
        write(0);
        let Ok(first) = engine.view() else { panic!("there is no view") };
        for value in 1..100 {
            let view = engine.view();
            write(value);
            drop(view);
            write(value);
        }
        assert_eq!(engine.inner.state.read().stale.len(), 1);
        assert_eq!(first.get(table, b"key").ok().flatten(), Some(vec![0; 4]));
        drop(first);
        write(100);
        assert!(engine.inner.state.read().stale.is_empty());
    }
}
