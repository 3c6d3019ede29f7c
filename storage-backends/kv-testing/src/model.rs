//! The suite that compares a store with a sorted map, at random and after crashes.

use crate::{Fault, FaultEngine, KeepsRows, Random, SlowEngine, engine::TABLES, entries};
use polytrie_kv::{
    Batch, Durability, Engine, Entry, KeyRange, KvError, Op, Read, Snapshot, Store, StoreOptions,
    Table,
};
use std::{collections::BTreeMap, sync::Arc};

/// A slow, obvious model of a store: all tables in one sorted map.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Model(BTreeMap<(u8, Vec<u8>), Vec<u8>>);

impl Model {
    /// Applies the changes of a batch.
    pub fn apply(&mut self, batch: &Batch) {
        for (table, op) in batch.ops() {
            if let Op::DeleteRange { from, to } = op {
                let range = KeyRange { from, to, reverse: false };
                self.0.retain(|(id, key), _| *id != table.id || !range.contains(key));
            }
        }
        for (table, op) in batch.ops() {
            match op {
                Op::Put { key, value } => {
                    self.0.insert((table.id, key.to_vec()), value.to_vec());
                }
                Op::Delete { key } => {
                    self.0.remove(&(table.id, key.to_vec()));
                }
                Op::DeleteRange { .. } => {}
            }
        }
    }

    /// Returns the value of a key.
    pub fn get(&self, table: Table, key: &[u8]) -> Option<&Vec<u8>> {
        self.0.get(&(table.id, key.to_vec()))
    }

    /// Returns the entries of a range, in its order.
    pub fn entries(&self, table: Table, range: KeyRange<'_>) -> Vec<Entry> {
        let within =
            |((id, key), _): &(&(u8, Vec<u8>), &Vec<u8>)| *id == table.id && range.contains(key);
        let mut found: Vec<Entry> = (self.0.iter().filter(within))
            .map(|((_, key), value)| (key.clone(), value.clone()))
            .collect();
        if range.reverse {
            found.reverse();
        }
        found
    }

    /// Reads all rows of [`TABLES`] from a reader.
    ///
    /// # Panics
    ///
    /// If reading fails.
    pub fn read(reader: &impl Read) -> Self {
        let mut model = Self::default();
        for table in TABLES {
            for (key, value) in entries(reader, table, KeyRange::ALL) {
                model.0.insert((table.id, key), value);
            }
        }
        model
    }
}

/// The numbers of batches and bytes after which a flush starts, one pair a run.
const SIZES: [(u64, usize); 4] = [(1, 1 << 20), (4, 1 << 20), (20, 1 << 20), (1_000, 100_000)];

/// Runs every test of a store on an engine: random histories of writes, flushes, snapshots and reopening,
/// compared with a sorted map; crashes at every write of the engine.
///
/// `open` is as for [`engine_suite`](super::engine_suite). The seed is printed, and taken from
/// `POLYTRIE_TEST_SEED` if that is set.
///
/// # Panics
///
/// If the store and the map differ.
pub fn store_suite(open: impl Fn() -> Arc<dyn Engine>) {
    let seed = Random::seed();
    report(seed);
    let mut random = Random::new(seed);
    for durability in [Durability::Deferred, Durability::EveryWrite] {
        for background in [false, true] {
            for (flush_every, overlay_bytes) in SIZES {
                let counters = true;
                let options =
                    StoreOptions { durability, flush_every, overlay_bytes, background, counters };
                Run::new(&open, options, &mut random).random_history(150);
            }
        }
    }
    // While a slow flush runs there are two generations above the engine.
    let slow = || -> Arc<dyn Engine> { Arc::new(SlowEngine(open())) };
    // The cache has so few bytes that rows are dropped from it, too.
    let keeping = || -> Arc<dyn Engine> { Arc::new(KeepsRows(SlowEngine(open()), 16 << 10)) };
    for (flush_every, overlay_bytes) in SIZES {
        let options = StoreOptions { flush_every, overlay_bytes, ..StoreOptions::default() };
        Run::new(&slow, options.clone(), &mut random).random_history(150);
        Run::new(&keeping, options, &mut random).random_history(150);
    }
    for fault in [Fault::Before, Fault::After, Fault::Panic] {
        for durability in [Durability::Deferred, Durability::EveryWrite] {
            for background in [false, true] {
                crash_at_every_write(&open, fault, durability, background, random.next());
            }
        }
    }
}

#[expect(clippy::print_stderr, reason = "shown by the test harness, of failed tests only")]
fn report(seed: u64) {
    eprintln!("POLYTRIE_TEST_SEED={seed}");
}

fn open_store(engine: Arc<dyn Engine>, options: &StoreOptions) -> Store {
    Store::open(engine, &TABLES, options.clone()).expect("open")
}

/// Returns one of a small set of keys, with shared prefixes and extreme bytes.
fn key(random: &mut Random) -> Vec<u8> {
    const BYTES: [u8; 5] = [0, 1, 0x80, 0xfe, 0xff];
    let len = random.below(5);
    (0..len).map(|_| BYTES[random.below(BYTES.len())]).collect()
}

fn table(random: &mut Random) -> Table {
    TABLES[random.below(TABLES.len())]
}

pub(crate) fn batch(random: &mut Random) -> Batch {
    let mut batch = Batch::new();
    for _ in 0..random.below(40) {
        let table = table(random);
        let key = key(random);
        match random.below(12) {
            0 => {
                let to = (!random.one_in(8)).then(|| self::key(random));
                batch.delete_range(table, &key, to.as_deref());
            }
            1..=3 => batch.delete(table, &key),
            _ => {
                let len = if random.one_in(10) { random.below(3_000) } else { random.below(40) };
                batch.put(table, &key, &random.bytes(len));
            }
        }
    }
    batch
}

/// A run of one random history.
struct Run<'a, O> {
    open: &'a O,
    options: StoreOptions,
    random: &'a mut Random,
    store: Option<Store>,
    /// The content that the store must have.
    model: Model,
    /// The contents after each write since the last one known to be durable, starting with that one.
    history: Vec<Model>,
    snapshots: Vec<(Snapshot, Model)>,
}

impl<'a, O: Fn() -> Arc<dyn Engine>> Run<'a, O> {
    fn new(open: &'a O, options: StoreOptions, random: &'a mut Random) -> Self {
        let store = open_store(open(), &options);
        let model = Model::read(&store);
        let history = vec![model.clone()];
        Self { open, options, random, store: Some(store), model, history, snapshots: Vec::new() }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("open between actions")
    }

    fn random_history(mut self, steps: usize) {
        for _ in 0..steps {
            match self.random.below(100) {
                0..=49 => self.write(),
                50..=57 => self.snapshot(),
                58..=65 => self.forget_snapshot(),
                66..=71 => self.flush(),
                72..=73 => self.write_to_engine(),
                74 => self.reopen(),
                _ => self.check(),
            }
        }
        self.flush();
        assert_eq!(self.store().pending().batches, 0);
        self.compare_all();
        self.reopen();
        self.compare_all();
    }

    fn write(&mut self) {
        let batch = batch(self.random);
        self.model.apply(&batch);
        self.history.push(self.model.clone());
        self.store().write(batch).expect("write");
        if self.options.durability == Durability::EveryWrite {
            self.durable();
        }
    }

    fn write_to_engine(&mut self) {
        let batch = batch(self.random);
        self.model.apply(&batch);
        self.store().engine_write(&batch).expect("write");
        self.durable();
    }

    fn flush(&mut self) {
        self.store().flush().expect("flush");
        self.durable();
    }

    /// Notes that everything is durable now.
    fn durable(&mut self) {
        self.history = vec![self.model.clone()];
    }

    fn snapshot(&mut self) {
        if self.snapshots.len() < 6 {
            self.snapshots.push((self.store().snapshot(), self.model.clone()));
        }
    }

    fn forget_snapshot(&mut self) {
        if !self.snapshots.is_empty() {
            let i = self.random.below(self.snapshots.len());
            let (snapshot, model) = self.snapshots.swap_remove(i);
            assert_eq!(Model::read(&snapshot), model, "a snapshot before it is dropped");
        }
    }

    /// Closes the store without a flush, as a crash does.
    fn reopen(&mut self) {
        self.snapshots.clear();
        self.store = None;
        let store = open_store((self.open)(), &self.options);
        let found = Model::read(&store);
        assert!(self.history.contains(&found), "after a crash there are whole batches, in order");
        self.store = Some(store);
        self.model = found;
        self.durable();
    }

    fn check(&mut self) {
        let i = self.random.below(self.snapshots.len() + 1);
        let random = &mut *self.random;
        match self.snapshots.get(i) {
            Some((snapshot, model)) => check(snapshot, model, random),
            None => check(self.store.as_ref().expect("open"), &self.model, random),
        }
    }

    fn compare_all(&self) {
        assert_eq!(Model::read(self.store()), self.model);
        for (snapshot, model) in &self.snapshots {
            assert_eq!(Model::read(snapshot), *model);
        }
    }
}

/// Compares some reads of every kind.
fn check(reader: &impl Read, model: &Model, random: &mut Random) {
    for _ in 0..20 {
        let (table, key) = (table(random), key(random));
        let found = reader.get(table, &key).expect("get");
        assert_eq!(found.as_ref(), model.get(table, &key), "{key:02x?} of {}", table.name);
    }
    for _ in 0..3 {
        let table = table(random);
        let keys: Vec<_> = (0..random.below(30)).map(|_| key(random)).collect();
        let asked: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let expected: Vec<_> = keys.iter().map(|key| model.get(table, key).cloned()).collect();
        let found = reader.get_many(table, &asked).expect("get many");
        assert_eq!(found, expected, "{keys:02x?} of {}", table.name);
    }
    for _ in 0..5 {
        let (table, from, to) = (table(random), key(random), key(random));
        let to = (!random.one_in(3)).then_some(to.as_slice());
        let range = KeyRange { from: &from, to, reverse: random.one_in(2) };
        let expected = model.entries(table, range);
        assert_eq!(entries(reader, table, range), expected, "{range:?} of {}", table.name);
        assert_eq!(reader.first(table, range).expect("first"), expected.first().cloned());
    }
}

/// Runs a history again and again, failing at the first, second, … write of the engine.
fn crash_at_every_write(
    open: &impl Fn() -> Arc<dyn Engine>,
    fault: Fault,
    durability: Durability,
    background: bool,
    seed: u64,
) {
    let options =
        StoreOptions { durability, flush_every: 3, background, ..StoreOptions::default() };
    for at in 1.. {
        let mut random = Random::new(seed);
        let engine = Arc::new(FaultEngine::new(open(), fault, at));
        let store = open_store(engine.clone(), &options);
        store_is_like_new(&store);
        // Clearing the tables was the first write; only later ones are compared.
        let mut history = vec![Model::read(&store)];
        let mut durable = 0;
        let crashed = (0..30).try_for_each(|_| {
            let batch = batch(&mut random);
            let mut model = history.last().expect("not empty").clone();
            model.apply(&batch);
            history.push(model);
            store.write(batch)?;
            if random.one_in(7) {
                store.flush()?;
                durable = history.len() - 1;
            } else if durability == Durability::EveryWrite {
                durable = history.len() - 1;
            }
            Ok::<(), KvError>(())
        });
        if engine.fired() {
            // With flushes in the background the last write may have been taken before the fault.
            let flushed = store.flush();
            assert!(matches!(flushed, Err(KvError::Poisoned(_) | KvError::Engine { .. })));
            let again = store.write(Batch::new());
            assert!(matches!(again, Err(KvError::Poisoned(_))), "it stays so: {again:?}");
            assert!(store.poisoned().is_some());
            let seen = Model::read(&store);
            let newest = history.len() - 1;
            let taken = newest - usize::from(crashed.is_err());
            assert!(history[taken..].contains(&seen), "reads still see the unflushed blocks");
        } else {
            crashed.expect("no fault");
        }
        let fired = engine.fired();
        drop((store, engine));
        let store = open_store(open(), &options);
        let found = Model::read(&store);
        assert!(
            history[durable..].contains(&found),
            "fault {fault:?} at write {at}: whole batches in order, and nothing durable is lost",
        );
        if !fired {
            return;
        }
    }
}

/// Continues on the state that the run before has left; there is nothing to clear.
fn store_is_like_new(store: &Store) {
    assert_eq!(store.pending().batches, 0);
    assert!(store.poisoned().is_none());
}
