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
    hash::{BuildHasher, Hasher, RandomState},
    io::ErrorKind,
};

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

#[derive(Debug, Default, Clone, Copy)]
struct Progress {
    /// Number of the last change in the flat store.
    written: u64,
    /// Number of the last change that is durable there.
    durable: u64,
    /// Number of changes that were prepared and not accepted yet.
    prepared: u64,
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
                let progress = Progress { written, durable, prepared: 0, batch: 0 };
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
        progress.prepared += 1;
        let seq = (progress.written + progress.prepared).to_be_bytes();
        batch.put(JOURNAL, &seq, &journal::encode(&rows));
        batch.put(META, SEQ, &seq);
        if let Some(gone) = progress.durable.checked_add(1) {
            batch.delete_range(JOURNAL, &[], Some(&gone.to_be_bytes()));
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
        progress.prepared = progress.prepared.saturating_sub(1);
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
            own.progress.lock().prepared = 0;
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
    for seq in durable + 1..=last {
        let Some(row) = main.get(JOURNAL, &seq.to_be_bytes())? else { return Ok(None) };
        let mut batch =
            journal::decode(&row).ok_or_else(|| corrupt!("journal row {seq} does not decode"))?;
        batch.put(META, SEQ, &seq.to_be_bytes());
        flat.write(batch)?;
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
