//! A driver that runs a layer through a history as the client does.

use super::{LayerFactory, sessions::finish};
use crate::{Block, Oracle};
use alloy_primitives::{B256, keccak256};
use polytrie_kv::{
    Batch, Durability, Engine, KeyRange, MdbxEngine, MdbxOptions, MemoryEngine, Read, Store,
    StoreOptions, Table,
};
use polytrie_state::{
    BlockRef, CODE_TABLE, Commitment, Finished, Fork, Group, Outcome, PREIMAGE_TABLE, Session,
    StateError, StateLayer, TRAIL_TABLE, WIPED_TABLE, remove_wiped, undo_in_steps,
};
use std::{ops::ControlFlow, sync::Arc};
use tempfile::TempDir;

/// `head` → number of the head (8 bytes) ‖ digest of its commitment.
const HEAD: Table = Table::new(250, "SuiteHead", 4);
/// Number of a block (8 bytes) → its undo record.
const UNDO: Table = Table::new(251, "SuiteUndo", 8);
const HEAD_KEY: &[u8] = b"head";
/// Key of the number of steps of an undo from the head that are done, while an undo is in progress.
const STEPS_KEY: &[u8] = b"back";

/// Tables with rows that are valid in any state: they remain when nothing needs them any more.
pub(super) const NEVER_DELETED: [Table; 2] = [CODE_TABLE, PREIMAGE_TABLE];

/// Store options under which all work is done within the call that requests it.
pub const STORE_IN_STEP: StoreOptions = StoreOptions {
    durability: Durability::Deferred,
    flush_every: 1,
    overlay_bytes: 64 << 20,
    background: false,
    counters: false,
};

/// The place of a store's rows, which outlives the store.
#[derive(Debug)]
pub enum Ground {
    /// Memory.
    Memory(Arc<dyn Engine>),
    /// A directory that is deleted with this value.
    Disk(TempDir),
}

impl Ground {
    /// Creates an empty store in memory.
    pub fn memory() -> Self {
        Self::Memory(Arc::new(MemoryEngine::new()))
    }

    /// Creates the engine of [`LayerFactory::memory`]: usually memory.
    pub fn of(factory: &dyn LayerFactory) -> Self {
        Self::Memory(empty_engine(factory))
    }

    /// Creates an empty directory.
    #[expect(clippy::missing_panics_doc, reason = "a suite panics when it cannot go on")]
    pub fn disk() -> Self {
        Self::Disk(tempfile::tempdir().expect("a temporary directory can be made"))
    }

    /// Opens an engine with the tables of a layer and of its driver.
    pub(super) fn engine(&self, factory: &dyn LayerFactory) -> Result<Arc<dyn Engine>, StateError> {
        Ok(match self {
            Self::Memory(engine) => engine.clone(),
            Self::Disk(dir) => Arc::new(MdbxEngine::open(MdbxOptions {
                // The tests end processes, not machines.
                durable: false,
                // Each opening checks the pages and rows that the earlier writes have left.
                check: true,
                ..MdbxOptions::new(dir.path(), &tables_of(factory))
            })?),
        })
    }
}

/// Creates the engine of [`LayerFactory::memory`] with the tables of a layer and of its driver.
pub(super) fn empty_engine(factory: &dyn LayerFactory) -> Arc<dyn Engine> {
    factory.memory(&tables_of(factory))
}

/// Returns the tables of a layer and of its driver.
fn tables_of(factory: &dyn LayerFactory) -> Vec<Table> {
    [factory.tables(), vec![HEAD, UNDO]].concat()
}

/// A row: table name, key, value.
pub type Row = (&'static str, Vec<u8>, Vec<u8>);

/// A layer on a store, driven as the client drives it: the head and the undo records are written together
/// with the layer's own rows.
#[derive(Debug)]
pub struct Driver<'f> {
    factory: &'f dyn LayerFactory,
    options: StoreOptions,
    store: Store,
    layer: Arc<dyn StateLayer>,
    head: Option<(u64, B256)>,
}

impl<'f> Driver<'f> {
    /// Opens the layer on the rows that exist.
    ///
    /// # Errors
    ///
    /// If the engine cannot be opened, or the layer on it.
    pub fn open(
        factory: &'f dyn LayerFactory,
        ground: &Ground,
        options: &StoreOptions,
    ) -> Result<Self, StateError> {
        Self::open_on(factory, ground.engine(factory)?, options)
    }

    /// Opens the layer on an engine.
    ///
    /// # Errors
    ///
    /// Those of [`Self::open`].
    pub fn open_on(
        factory: &'f dyn LayerFactory,
        engine: Arc<dyn Engine>,
        options: &StoreOptions,
    ) -> Result<Self, StateError> {
        let store = Store::open(engine, &tables_of(factory), options.clone())?;
        let layer = factory.open(store.clone())?;
        let head = read_head(&store)?;
        let mut driver = Self { factory, options: options.clone(), store, layer, head };
        if driver.steps_done()? > 0 {
            driver.undo()?;
        }
        Ok(driver)
    }

    /// Creates a layer in memory with this state as its genesis.
    #[expect(clippy::missing_panics_doc, reason = "a suite panics when it cannot go on")]
    pub fn in_memory(factory: &'f dyn LayerFactory, genesis: &Oracle) -> Self {
        let mut driver = Self::open(factory, &Ground::of(factory), &STORE_IN_STEP)
            .expect("a layer opens on an empty store");
        driver.load(genesis).expect("a genesis loads");
        driver
    }

    /// Fills the layer with a genesis, durably.
    ///
    /// # Errors
    ///
    /// If the layer or the store fails.
    pub fn load(&mut self, genesis: &Oracle) -> Result<Commitment, StateError> {
        self.put_preimages(genesis)?;
        let commitment = self.layer.load(&mut genesis.genesis().map(Ok))?;
        let mut batch = Batch::new();
        let head = put_head(&mut batch, 0, &commitment);
        self.store.write(batch)?;
        self.store.flush()?;
        self.head = Some(head);
        Ok(commitment)
    }

    /// Writes the addresses and slots that a genesis has, if the layer needs them.
    pub(super) fn put_preimages(&self, genesis: &Oracle) -> Result<(), StateError> {
        if self.layer.needs_preimages() {
            let mut batch = Batch::new();
            genesis.put_preimages(&mut batch);
            self.store.write(batch)?;
        }
        Ok(())
    }

    /// Runs one block.
    ///
    /// # Errors
    ///
    /// Those of [`Self::load`].
    pub fn run(&mut self, block: &Block) -> Result<Commitment, StateError> {
        self.commit(finish(self.begin()?, &block.txs)?)
    }

    /// Runs blocks on a store that is flushed by hand, and flushes it as soon as it is full. Returns the number of
    /// flushes. No block may be durable before its flush.
    ///
    /// # Panics
    ///
    /// If a block is durable before its flush, or anything fails.
    pub fn run_by_hand(&mut self, blocks: &[Block]) -> usize {
        let (mut durable, mut flushes) = (self.store.progress().durable, 0);
        for block in blocks {
            self.run(block).expect("a block");
            assert_eq!(self.store.progress().durable, durable);
            if self.store.is_full() {
                self.store.begin_flush().expect("it flushes");
                durable = self.store.progress().durable;
                flushes += 1;
            }
        }
        flushes
    }

    /// Runs some blocks together.
    ///
    /// # Errors
    ///
    /// Those of [`Self::load`].
    pub fn run_group(&mut self, blocks: &[Block]) -> Result<Commitment, StateError> {
        let mut group =
            Group::begin(Arc::clone(&self.layer), self.store.clone(), self.block_ref())?;
        let mut rows = Batch::new();
        let mut number = self.number();
        for block in blocks {
            let mut session = group.session();
            for tx in &block.txs {
                session.apply(tx)?;
            }
            number += 1;
            rows.put(UNDO, &number.to_be_bytes(), &group.add(session)?.undo);
        }
        let mut outcome = group.finish()?;
        outcome.batch.absorb(rows);
        self.write(number, outcome)
    }

    /// Starts a block on top of the head.
    ///
    /// # Errors
    ///
    /// Those of [`Session::begin`].
    pub fn begin(&self) -> Result<Session, StateError> {
        Session::begin(&*self.layer, self.block_ref())
    }

    /// Writes a finished block, which becomes the head.
    ///
    /// # Errors
    ///
    /// Those of [`Self::load`].
    pub fn commit(&mut self, finished: Finished) -> Result<Commitment, StateError> {
        let number = self.number() + 1;
        let mut outcome = finished.outcome;
        outcome.batch.put(UNDO, &number.to_be_bytes(), &outcome.undo);
        self.write(number, outcome)
    }

    /// Makes an outcome the head.
    fn write(&mut self, number: u64, mut outcome: Outcome) -> Result<Commitment, StateError> {
        let head = put_head(&mut outcome.batch, number, &outcome.commitment);
        let commitment = outcome.write(&self.store)?;
        self.head = Some(head);
        Ok(commitment)
    }

    /// Undoes one block.
    ///
    /// # Errors
    ///
    /// Those of [`Self::load`]; [`StateError::Protocol`] if there is no block.
    pub fn undo(&mut self) -> Result<Commitment, StateError> {
        let number = self.number();
        let record = self.store.get(UNDO, &number.to_be_bytes())?;
        let record = record.ok_or(StateError::Protocol("there is no block to undo"))?;
        let note =
            &mut |batch: &mut Batch, done: u64| batch.put(HEAD, STEPS_KEY, &done.to_be_bytes());
        let done = self.steps_done()?;
        let mut outcome = undo_in_steps(&*self.layer, &self.store, &record, done, note)?;
        outcome.batch.delete(HEAD, STEPS_KEY);
        outcome.batch.delete(UNDO, &number.to_be_bytes());
        if self.factory.tables().contains(&WIPED_TABLE) {
            remove_wiped(&mut outcome.batch, number, None);
        }
        self.write(number - 1, outcome)
    }

    /// Returns a separate driver that continues from here in memory.
    ///
    /// # Errors
    ///
    /// Those of [`StateLayer::fork`].
    pub fn fork(&self) -> Result<Self, StateError> {
        let Fork { store, layer } = self.layer.fork()?;
        Ok(Self { store, layer, options: self.options.clone(), ..*self })
    }

    /// Writes a row without effect, durably.
    pub(super) fn touch(&self) -> Result<(), StateError> {
        let mut batch = Batch::new();
        batch.delete(HEAD, STEPS_KEY);
        self.store.write(batch)?;
        Ok(self.store.flush()?)
    }

    /// Makes all earlier writes durable.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn flush(&self) -> Result<(), StateError> {
        Ok(self.store.flush()?)
    }

    /// Flushes, closes and opens again.
    ///
    /// # Errors
    ///
    /// Those of [`Self::flush`] and [`Self::open`].
    pub fn reopen(self, ground: &Ground) -> Result<Self, StateError> {
        self.flush()?;
        let (factory, options) = (self.factory, self.options.clone());
        // A directory cannot be open twice: all handles of the old store are dropped first.
        drop(self);
        Self::open(factory, ground, &options)
    }

    /// Returns the layer.
    pub const fn layer(&self) -> &Arc<dyn StateLayer> {
        &self.layer
    }

    /// Returns the store.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the factory of the layer.
    pub const fn factory(&self) -> &'f dyn LayerFactory {
        self.factory
    }

    /// Returns the number and the digest of the head; `None` before a genesis is loaded.
    pub const fn head(&self) -> Option<(u64, B256)> {
        self.head
    }

    /// Returns the number of the head, 0 before a genesis is loaded.
    pub fn number(&self) -> u64 {
        self.head.map_or(0, |(number, _)| number)
    }

    /// Returns the number of steps of an undo from the head that are done.
    fn steps_done(&self) -> Result<u64, StateError> {
        let Some(row) = self.store.get(HEAD, STEPS_KEY)? else { return Ok(0) };
        let damaged = |_| StateError::Corrupt("the steps row of the suite".into());
        row.try_into().map(u64::from_be_bytes).map_err(damaged)
    }

    /// Returns all rows of the layer, except those that are never deleted, the rows beside undo records, the trail
    /// (which says which blocks are durable), and the driver's own.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn rows(&self) -> Result<Vec<Row>, StateError> {
        let mut rows = Vec::new();
        let is_beside = |table: &Table| {
            [TRAIL_TABLE, WIPED_TABLE].contains(table) || NEVER_DELETED.contains(table)
        };
        for table in self.factory.tables().into_iter().filter(|table| !is_beside(table)) {
            rows.extend(self.rows_of(table)?);
        }
        Ok(rows)
    }

    /// Returns the undo records of the blocks so far.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn undo_rows(&self) -> Result<Vec<Row>, StateError> {
        self.rows_of(UNDO)
    }

    /// Returns the rows beside undo records: the pieces of wiped accounts.
    pub(super) fn wiped_rows(&self) -> Result<Vec<Row>, StateError> {
        if !self.factory.tables().contains(&WIPED_TABLE) {
            return Ok(Vec::new());
        }
        self.rows_of(WIPED_TABLE)
    }

    /// Returns all rows of a table.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn rows_of(&self, table: Table) -> Result<Vec<Row>, StateError> {
        let mut rows = Vec::new();
        self.store.scan(table, KeyRange::ALL, &mut |key, value| {
            rows.push((table.name, key.to_vec(), value.to_vec()));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(rows)
    }

    fn block_ref(&self) -> BlockRef {
        let number = self.number();
        BlockRef { number, hash: keccak256(number.to_be_bytes()) }
    }
}

fn put_head(batch: &mut Batch, number: u64, commitment: &Commitment) -> (u64, B256) {
    let digest = commitment.digest();
    batch.put(HEAD, HEAD_KEY, &[&number.to_be_bytes()[..], digest.as_slice()].concat());
    (number, digest)
}

fn read_head(store: &Store) -> Result<Option<(u64, B256)>, StateError> {
    let Some(row) = store.get(HEAD, HEAD_KEY)? else { return Ok(None) };
    let head = row.split_first_chunk::<8>().and_then(|(number, digest)| {
        Some((u64::from_be_bytes(*number), B256::try_from(digest).ok()?))
    });
    head.map(Some).ok_or_else(|| StateError::Corrupt("the head row of the suite".into()))
}
