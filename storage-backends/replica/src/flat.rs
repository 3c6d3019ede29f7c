//! The place of the flat state: beside the trie, or in a second store.
//!
//! Beside the trie, its rows are part of the block's one atomic write. In a second store (the paper's arrangement:
//! another disk) there are two writes, and a crash may come between:
//!
//! ```text
//! main store   … trie rows ‖ block ‖ head ‖ journal row n: the flat rows of change n ‖ seq = n     first
//! flat store   flat rows of change n ‖ seq = n                                                     second
//! ```
//!
//! The flat store is made durable only after the main one, so it is never ahead. On opening it is brought up to date
//! from the journal. A journal row is removed once the flat store has its change durably. If one of the two stores was
//! repaired or replaced by an older copy, the journal does not lead from one to the other, and the flat store is filled
//! from the trie.

use crate::{ACCOUNTS, JOURNAL, META, ReplicaLayer, SLOTS, journal, options::FlatStore};
use parking_lot::Mutex;
use polytrie_kv::{Batch, KvError, Read, Store};
use polytrie_state::{Result, StateError, clear_tables, corrupt};
use std::{
    collections::VecDeque,
    hash::{BuildHasher, Hasher, RandomState},
    io::ErrorKind,
};

/// Number of journal rows that are read together.
const TOGETHER: usize = 64;
const SEQ: &[u8] = b"seq";
const ID: &[u8] = b"id";

/// The flat state.
#[derive(Debug)]
pub(crate) struct Flat {
    main: Store,
    own: Option<Own>,
}

#[derive(Debug)]
struct Own {
    store: Store,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    /// Number of the last change in the flat store.
    written: u64,
    /// Number of the last change that is durable there.
    durable: u64,
    /// The changes that were prepared and not accepted yet: for each the number up to which it removes the journal.
    prepared: VecDeque<u64>,
    /// Number up to which accepted changes have removed the journal since it was opened. An engine may look at each place in a
    /// range that ever had a row, so the next ones begin there.
    removed: u64,
    /// Number of the main store's batch that has the last change.
    batch: u64,
}

impl Own {
    /// Makes the whole flat store durable. Its changes must be durable in the main store already.
    fn checkpoint(&self, progress: &mut Progress) -> Result<()> {
        self.store.checkpoint()?;
        progress.durable = progress.written;
        Ok(())
    }
}

impl Flat {
    /// Opens the flat state of a main store; a second store is brought up to date. If the journal does not lead there,
    /// the second store is emptied, and `fill` writes the flat rows of the trie to it.
    pub(crate) fn open(
        main: Store,
        own: Option<FlatStore>,
        fill: impl FnOnce(&Store) -> Result<()>,
    ) -> Result<Self> {
        let own = match own {
            None => None,
            Some(FlatStore(store)) => {
                let written = sequence(&main)?;
                // The main store's content at opening is durable.
                let durable = match catch_up(&main, &store)? {
                    Some(durable) => durable,
                    None => {
                        fill_anew(&store, written, fill)?;
                        written
                    }
                };
                let progress = Progress { written, durable, ..Progress::default() };
                Some(Own { store, progress: Mutex::new(progress) })
            }
        };
        Ok(Self { main, own })
    }

    /// Returns the store of the trie.
    pub(crate) const fn main(&self) -> &Store {
        &self.main
    }

    /// Returns the store that the flat rows are read from.
    pub(crate) fn store(&self) -> &Store {
        self.own.as_ref().map_or(&self.main, |own| &own.store)
    }

    /// Prepares a change, whose flat rows `write` adds to a batch. Adds to the main store's batch what the change
    /// needs there; returns the rows that [`Self::accept`] writes after that batch.
    pub(crate) fn prepare(
        &self,
        batch: &mut Batch,
        write: impl FnOnce(&mut Batch),
    ) -> Option<Batch> {
        let Some(own) = &self.own else {
            write(batch);
            return None;
        };
        let mut rows = Batch::new();
        write(&mut rows);
        let mut progress = own.progress.lock();
        let (durable, removed) = (progress.durable, progress.removed);
        progress.prepared.push_back(durable);
        let seq = (progress.written + progress.prepared.len() as u64).to_be_bytes();
        batch.put(JOURNAL, &seq, &journal::encode(&rows));
        batch.put(META, SEQ, &seq);
        if durable > removed {
            let after = |seq: u64| seq.saturating_add(1).to_be_bytes();
            batch.delete_range(JOURNAL, &after(removed), Some(&after(durable)));
        }
        rows.put(META, SEQ, &seq);
        Some(rows)
    }

    /// Writes the flat rows of a change, after the main store has its batch.
    pub(crate) fn accept(&self, rows: Option<Batch>) -> Result<()> {
        let (Some(own), Some(rows)) = (&self.own, rows) else { return Ok(()) };
        let mut progress = own.progress.lock();
        // The flat store must not be durable before the main one. If that is flushed by hand, this runs before the
        // last change is durable there.
        let by_hand = self.main.is_flushed_by_hand();
        if by_hand && own.store.is_full() {
            if self.main.progress().durable >= progress.batch {
                own.checkpoint(&mut progress)?;
            } else {
                self.main.ask_flush();
            }
        }
        own.store.write(rows)?;
        progress.written += 1;
        let removed = progress.prepared.pop_front().unwrap_or_default();
        progress.removed = progress.removed.max(removed);
        progress.batch = self.main.progress().written;
        if !by_hand && own.store.is_full() {
            self.main.flush()?;
            own.checkpoint(&mut progress)?;
        }
        Ok(())
    }

    /// Discards the changes that were prepared and not accepted.
    pub(crate) fn discard(&self) {
        if let Some(own) = &self.own {
            own.progress.lock().prepared.clear();
        }
    }

    /// Empties the flat store before a genesis is filled in.
    pub(crate) fn clear(&self) -> Result<()> {
        let Some(own) = &self.own else { return clear_tables(&self.main, &[ACCOUNTS, SLOTS]) };
        clear_tables(&self.main, &[JOURNAL, META])?;
        *own.progress.lock() = Progress::default();
        clear_tables(&own.store, &[ACCOUNTS, SLOTS, META])
    }

    /// Ends the filling with a genesis: from now on the two stores belong together.
    pub(crate) fn loaded(&self) -> Result<()> {
        let Some(own) = &self.own else { return Ok(()) };
        let mut batch = Batch::new();
        let state = RandomState::new();
        let [a, b] = [0, 1].map(|n: u8| {
            let mut hasher = state.build_hasher();
            hasher.write_u8(n);
            hasher.finish().to_be_bytes()
        });
        batch.put(META, ID, &[a, b].concat());
        batch.put(META, SEQ, &[0; 8]);
        own.store.engine_write(&batch)?;
        Ok(self.main.engine_write(&batch)?)
    }

    /// Forks the second store, if there is one. The main store must be forked after it: a change that another thread
    /// accepts in between is in the journal there.
    pub(crate) fn fork_own(&self) -> Result<Option<FlatStore>> {
        let Some(own) = &self.own else { return Ok(None) };
        Ok(Some(FlatStore(own.store.fork()?)))
    }

    /// Whether the flat state is in a second store.
    pub(crate) const fn is_apart(&self) -> bool {
        self.own.is_some()
    }
}

/// Checks that a second store is given, if the flat state is in one.
///
/// # Errors
///
/// If it is not given, or the store fails.
pub(crate) fn expect_here(main: &Store, own: Option<&FlatStore>) -> Result<()> {
    if own.is_none() && main.get(META, ID)?.is_some() {
        return Err(StateError::Unsupported {
            layer: ReplicaLayer::NAME,
            reason: "keeps the flat state of this data directory elsewhere; name the directory with --replica.path".into(),
        });
    }
    Ok(())
}

/// Brings the flat store up to the main one; returns the number of the last change that it has durably, or `None` if
/// the journal does not lead there.
fn catch_up(main: &Store, flat: &Store) -> Result<Option<u64>> {
    let expected = main.get(META, ID)?;
    if expected.is_none() {
        // The store was never filled, or filling was interrupted: it will be filled again.
        return Ok(Some(0));
    }
    if flat.get(META, ID)? != expected {
        return Err(corrupt!(
            "the flat state in --replica.path does not belong to this data directory"
        ));
    }
    let (durable, last) = (sequence(flat)?, sequence(main)?);
    if durable > last {
        return Ok(None);
    }
    for first in (durable + 1..=last).step_by(TOGETHER) {
        let keys = first..=last.min(first + TOGETHER as u64 - 1);
        let keys: Vec<[u8; 8]> = keys.map(u64::to_be_bytes).collect();
        let wanted: Vec<&[u8]> = keys.iter().map(<[u8; 8]>::as_slice).collect();
        for (key, row) in keys.iter().zip(main.get_many(JOURNAL, &wanted)?) {
            let Some(row) = row else { return Ok(None) };
            let seq = u64::from_be_bytes(*key);
            let mut batch = journal::decode(&row)
                .ok_or_else(|| corrupt!("journal row {seq} does not decode"))?;
            batch.put(META, SEQ, key);
            flat.write(batch)?;
        }
    }
    Ok(Some(durable))
}

/// Fills the flat store from the trie, which has the changes up to `last`. All of them are durable.
fn fill_anew(flat: &Store, last: u64, fill: impl FnOnce(&Store) -> Result<()>) -> Result<()> {
    tracing::warn!(
        "the flat state in --replica.path has not the changes that the data directory has, as after `db repair`: it is made anew from the trie"
    );
    let mut batch = Batch::new();
    for table in [ACCOUNTS, SLOTS] {
        batch.delete_range(table, &[], None);
    }
    // No trie has so many changes: after a crash the store is filled anew again.
    batch.put(META, SEQ, &u64::MAX.to_be_bytes());
    flat.engine_write(&batch).map_err(refused)?;
    fill(flat)?;
    let mut batch = Batch::new();
    batch.put(META, SEQ, &last.to_be_bytes());
    Ok(flat.engine_write(&batch)?)
}

/// Converts the error of a flat store that cannot be emptied.
fn refused(error: KvError) -> StateError {
    let is_read_only = matches!(
        &error,
        KvError::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied
    );
    if !is_read_only {
        return StateError::Store(error);
    }
    let reason = "has to make the flat state in --replica.path anew, which a command that only reads does not; run one that writes, such as `import`, or ask again if one is running";
    StateError::Unsupported { layer: ReplicaLayer::NAME, reason: reason.to_owned() }
}

fn sequence(store: &dyn Read) -> Result<u64> {
    let Some(row) = store.get(META, SEQ)? else { return Ok(0) };
    let bytes = row.try_into().map_err(|_| corrupt!("the number of the last change is damaged"))?;
    Ok(u64::from_be_bytes(bytes))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use polytrie_kv::{Durability, MemoryEngine, Op, StoreOptions, Table};
    use std::sync::Arc;

    /// Returns the numbers of the rows that a batch removes from the journal.
    fn removed(batch: &Batch) -> u64 {
        let number = |key: &[u8]| u64::from_be_bytes(key.try_into().unwrap_or_default());
        let ranges = batch.ops().filter_map(|(table, op)| match op {
            Op::DeleteRange { from, to } if table == JOURNAL => Some(number(to?) - number(from)),
            _ => None,
        });
        ranges.sum()
    }

    #[test]
    fn each_row_of_the_journal_is_removed_by_one_change_that_is_accepted() {
        let open = |tables: &[Table], durability: Durability| {
            // Each is full after a change.
            let (flush_every, background) = (1, false);
            let options =
                StoreOptions { durability, flush_every, background, ..StoreOptions::default() };
            Store::open(Arc::new(MemoryEngine::new()), tables, options).unwrap()
        };
        let main = open(ReplicaLayer::TABLES, Durability::Deferred);
        let own = open(ReplicaLayer::FLAT_TABLES, Durability::ByHand);
        let flat = Flat::open(main.clone(), Some(FlatStore(own)), |_| Ok(())).unwrap();
        flat.loaded().unwrap();
        let change = || {
            let mut batch = Batch::new();
            let rows = flat.prepare(&mut batch, |rows| rows.put(ACCOUNTS, &[7; 32], b"account"));
            (batch, rows)
        };
        let mut sum = 0;
        for n in 1..=40 {
            if n % 3 == 0 {
                // This one is void.
                drop(change());
                flat.discard();
            }
            let (batch, rows) = change();
            sum += removed(&batch);
            main.write(batch).unwrap();
            flat.accept(rows).unwrap();
        }
        assert!((30..=40).contains(&sum), "{sum}");
    }
}
