//! Target that compares a store with overlay and journal with a sorted map. The bytes choose the actions, and the
//! call that fails.
//!
//! Two kinds of calls fail: a write of the engine, which then has done nothing or all of it; and a write of a file,
//! which is then cut off by a limit of the process. After a crash the store must hold whole batches, in order, and
//! everything that was durable.

#![no_main]

use libfuzzer_sys::{
    arbitrary::{Result, Unstructured},
    fuzz_target,
};
use polytrie_fuzz::{
    files,
    kv::{Journaled, batch, key, table},
};
use polytrie_kv::{
    Batch, Durability, KeyRange, KvError, MemoryEngine, Read, Snapshot, Store, StoreOptions,
};
use polytrie_kv_testing::{Fault, FaultEngine, Model, TABLES, entries};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{
    path::PathBuf,
    sync::{Arc, Once},
};

/// Most actions of one run.
const MOST: usize = 60;

fuzz_target!(|data: &[u8]| {
    _ = run(&mut Unstructured::new(data));
});

struct Run {
    /// The engine, whose content outlives the store.
    engine: Arc<MemoryEngine>,
    dir: Option<PathBuf>,
    options: StoreOptions,
    store: Store,
    /// Content of the store after each write since the last one known to be durable. That one comes first.
    history: Vec<Model>,
    snapshots: Vec<(Snapshot, Model)>,
    /// Whether a call has failed.
    failed: bool,
}

fn run(bytes: &mut Unstructured<'_>) -> Result<()> {
    let dir = files::directory([]);
    let durability =
        *bytes.choose(&[Durability::EveryWrite, Durability::Deferred, Durability::ByHand])?;
    let (flush_every, overlay_bytes) =
        *bytes.choose(&[(1, 1 << 20), (3, 1 << 20), (1_000, 8_000)])?;
    let options =
        StoreOptions { durability, flush_every, overlay_bytes, background: false, counters: true };
    let dir_of_journal = bytes.ratio(3, 4)?.then(|| dir.path().to_owned());
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine, &dir_of_journal, &options, Fault::Before, 0);
    let (history, snapshots) = (vec![Model::default()], Vec::new());
    let mut run =
        Run { engine, dir: dir_of_journal, options, store, history, snapshots, failed: false };
    for _ in 0..MOST {
        if bytes.is_empty() {
            break;
        }
        match bytes.int_in_range(0..=15)? {
            0..=5 => run.write(bytes, None)?,
            6 => {
                let limit = bytes.int_in_range(0..=4_000)?;
                run.write(bytes, Some(limit))?;
            }
            7 => run.durably(|store| store.flush()),
            8 => run.durably(|store| store.checkpoint()),
            9 => run.write_to_engine(bytes)?,
            10 => run.step(|store| store.begin_flush()),
            11 if run.snapshots.len() < 4 => run.snapshots.push((run.store.snapshot(), run.seen())),
            12 => drop(run.snapshots.pop()),
            13 => run.crash(bytes)?,
            _ => run.check(bytes)?,
        }
    }
    run.crash(bytes)
}

fn open(
    engine: &Arc<MemoryEngine>,
    dir: &Option<PathBuf>,
    options: &StoreOptions,
    fault: Fault,
    at: u64,
) -> Store {
    let faulty = Arc::new(FaultEngine::new(engine.clone(), fault, at));
    let journaled = Arc::new(Journaled { engine: faulty, dir: dir.clone() });
    Store::open(journaled, &TABLES, options.clone()).expect("what a crash leaves can be opened")
}

impl Run {
    /// Reads the content of the store, and checks that it is the newest of the history. After a failed write it may
    /// also be the one before.
    fn seen(&self) -> Model {
        let seen = Model::read(&self.store);
        let newest = self.history.len() - 1;
        let from = newest.saturating_sub(usize::from(self.failed));
        assert!(self.history[from..].contains(&seen), "a store shows what was written");
        seen
    }

    /// Adds to the history a batch that is in the store, or may be.
    fn apply(&mut self, batch: &Batch) {
        // A write that is refused changes nothing.
        if self.store.poisoned().is_none() {
            let mut model = self.history.last().expect("never empty").clone();
            model.apply(batch);
            self.history.push(model);
        }
    }

    fn write(&mut self, bytes: &mut Unstructured<'_>, limit: Option<u64>) -> Result<()> {
        let batch = batch(bytes)?;
        self.apply(&batch);
        let is_durable = self.options.durability == Durability::EveryWrite;
        let write = |store: &Store| match limit {
            None => store.write(batch),
            Some(limit) => limited(limit, || store.write(batch)),
        };
        if is_durable {
            self.durably(write)
        } else {
            self.step(write)
        }
        Ok(())
    }

    fn write_to_engine(&mut self, bytes: &mut Unstructured<'_>) -> Result<()> {
        let batch = batch(bytes)?;
        self.apply(&batch);
        self.durably(|store| store.engine_write(&batch));
        Ok(())
    }

    /// Does an action that may fail if a call failed. After a failure all later actions must fail.
    fn step(&mut self, action: impl FnOnce(&Store) -> std::result::Result<(), KvError>) {
        let was_poisoned = self.store.poisoned().is_some();
        match action(&self.store) {
            Ok(()) => assert!(!was_poisoned, "nothing is written after a failure"),
            Err(error) => {
                assert!(!error.to_string().is_empty());
                assert!(self.store.poisoned().is_some(), "a failure stays: {error}");
                assert_eq!(was_poisoned, matches!(error, KvError::Poisoned(_)), "{error}");
                self.failed = true;
            }
        }
    }

    /// Does an action as [`Self::step`] does. If nothing failed, everything is durable afterwards.
    fn durably(&mut self, action: impl FnOnce(&Store) -> std::result::Result<(), KvError>) {
        self.step(action);
        if !self.failed {
            self.history = self.history.split_off(self.history.len() - 1);
        }
    }

    /// Drops the store without a flush and opens it again, with a fault at a random write of the engine.
    fn crash(&mut self, bytes: &mut Unstructured<'_>) -> Result<()> {
        self.check_snapshots();
        self.snapshots.clear();
        self.seen();
        let (fault, at) =
            (*bytes.choose(&[Fault::Before, Fault::After])?, bytes.int_in_range(0..=6)?);
        // The old store and its failing engine must be dropped before the new ones are opened.
        let nothing = Store::memory(&TABLES).expect("memory does not fail");
        drop(std::mem::replace(&mut self.store, nothing));
        self.store = open(&self.engine, &self.dir, &self.options, fault, at);
        let found = Model::read(&self.store);
        assert!(self.history.contains(&found), "after a crash there are whole batches, in order");
        (self.history, self.failed) = (vec![found], false);
        Ok(())
    }

    fn check_snapshots(&self) {
        for (snapshot, model) in &self.snapshots {
            assert_eq!(Model::read(snapshot), *model, "a snapshot stays");
        }
    }

    fn check(&self, bytes: &mut Unstructured<'_>) -> Result<()> {
        let model = self.seen();
        let (table, from, to) = (table(bytes)?, key(bytes)?, key(bytes)?);
        assert_eq!(
            self.store.get(table, &from).expect("memory does not fail").as_ref(),
            model.get(table, &from)
        );
        let to = if bytes.arbitrary()? { Some(to.as_slice()) } else { None };
        let range = KeyRange { from: &from, to, reverse: bytes.arbitrary()? };
        assert_eq!(entries(&self.store, table, range), model.entries(table, range));
        self.check_snapshots();
        Ok(())
    }
}

/// Does an action while no file of this process may grow beyond `limit` bytes.
fn limited<T>(limit: u64, action: impl FnOnce() -> T) -> T {
    static IGNORED: Once = Once::new();
    IGNORED.call_once(|| {
        // SAFETY: no handler is installed; the write that causes the signal returns an error as well.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    });
    let before = getrlimit(Resource::Fsize);
    let limits = Rlimit { current: Some(limit), ..before.clone() };
    setrlimit(Resource::Fsize, limits).expect("a limit may be lowered");
    let done = action();
    setrlimit(Resource::Fsize, before).expect("and raised again");
    done
}
