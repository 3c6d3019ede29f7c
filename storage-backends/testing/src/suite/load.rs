//! Tests of filling a layer from a genesis.

use super::{
    Driver, Ground, LayerFactory, STORE_IN_STEP,
    compare::{assert_commitment, assert_rows, assert_state},
    driver::empty_engine,
};
use crate::{Block, History, Oracle, Seed};
use alloy_primitives::{B256, Bytes, U256, keccak256};
use polytrie_kv::{Changes, Engine, KvError};
use polytrie_kv_testing::{Fault, FaultEngine, Wrapped};
use polytrie_state::{Account, GenesisAccount, GenesisSlots, StateError, TxWrites};
use std::{
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

/// Number of slots of a large contract.
const LARGE: u64 = 600_000;
/// Number of slots that a layer may take before it writes.
const LARGEST_PORTION: u64 = 540_000;
/// Number of bytes of keys and values that a layer may write at once.
const LARGEST_WRITE: usize = 40 << 20;

/// Checks that a genesis of no, one, two, a few and many accounts that is loaded in one pass equals the state that
/// blocks build from an empty one, and that blocks can follow it.
pub fn loading_equals_building(factory: &dyn LayerFactory) {
    let seed = Seed::or(13);
    for accounts in [0, 1, 2, 17, 5_000] {
        let history = History::with_genesis_of(seed.value(), accounts);
        let context = format!("a genesis of {accounts} accounts");
        let mut loaded = Driver::in_memory(factory, history.genesis());
        assert_state(&loaded, history.genesis(), &context);

        let mut built = Driver::in_memory(factory, &Oracle::default());
        for accounts in history.genesis.accounts.chunks(500) {
            let txs = vec![TxWrites { accounts: accounts.to_vec() }];
            let block = Block { label: context.clone(), txs };
            built.run(&block).unwrap_or_else(|e| panic!("{context}: {e}"));
        }
        assert_state(&built, history.genesis(), &context);
        same(&loaded, &built, &context);
        for (block, state) in history.blocks.iter().zip(&history.states[1..]) {
            for driver in [&mut loaded, &mut built] {
                driver.run(block).unwrap_or_else(|e| panic!("{context}: {e}"));
                assert_state(driver, state, &context);
            }
        }
        same(&loaded, &built, &context);
    }
}

fn same(loaded: &Driver<'_>, built: &Driver<'_>, context: &str) {
    if loaded.factory().state_decides_rows() {
        assert_eq!(loaded.layer().commitment(), built.layer().commitment(), "{context}");
        let rows = |driver: &Driver<'_>| driver.rows().unwrap_or_else(|e| panic!("{context}: {e}"));
        assert_rows(&rows(loaded), &rows(built), &context);
    }
}

/// Checks that a load that ends in an error, or is interrupted at any of its writes, can be repeated, also over
/// existing rows, and that nothing is read before that.
pub fn an_interrupted_load_is_repeated(factory: &dyn LayerFactory) {
    let seed = Seed::or(14);
    let large = History::with_genesis_of(seed.value(), 2_000);
    let small = History::with_genesis_of(seed.value() ^ 1, 40);
    let straight = Driver::in_memory(factory, small.genesis());

    for stop in [0, 1, 1_000, 1_999] {
        let ground = Ground::of(factory);
        let driver = open(factory, &ground);
        let mine = StateError::Protocol("an error of the source");
        driver.put_preimages(large.genesis()).unwrap_or_else(|e| panic!("{e}"));
        let accounts = large.genesis().genesis().map(Ok).take(stop);
        let found = driver.layer().load(&mut accounts.chain([Err(mine.clone())]));
        let Err(found) = found else { panic!("the source's error was swallowed") };
        assert_eq!(found.to_string(), mine.to_string());
        for used in [driver.layer().reader().map(drop), driver.begin().map(drop)] {
            assert!(used.is_err(), "what is half there is used, after {stop} accounts");
        }
        drop(driver);
        again(factory, &ground, &small, &straight, &format!("stopped after {stop} accounts"));
    }

    for (at, fault) in (1..).flat_map(|at| [(at, Fault::Before), (at, Fault::After)]) {
        let memory = empty_engine(factory);
        let faulty = Arc::new(FaultEngine::new(memory.clone(), fault, at));
        let mut driver = Driver::open_on(factory, faulty.clone(), &STORE_IN_STEP)
            .unwrap_or_else(|e| panic!("{e}"));
        let loaded = driver.load(large.genesis());
        drop(driver);
        assert_eq!(loaded.is_err(), faulty.fired(), "a failed write was swallowed");
        let context = format!("cut off at write {at} ({fault:?})");
        again(factory, &Ground::Memory(memory), &small, &straight, &context);
        if !faulty.fired() {
            break;
        }
    }
}

/// Loads another genesis over the rows of an interrupted load.
fn again(
    factory: &dyn LayerFactory,
    ground: &Ground,
    history: &History,
    straight: &Driver<'_>,
    context: &str,
) {
    let mut driver = open(factory, ground);
    let found = driver.load(history.genesis()).unwrap_or_else(|e| panic!("{context}: {e}"));
    assert_commitment(factory, &found, history.genesis(), &context);
    assert_eq!(found, straight.layer().commitment(), "{context}");
    let mut driver = driver.reopen(ground).unwrap_or_else(|e| panic!("{context}: {e}"));
    assert_state(&driver, history.genesis(), &context);
    let rows = |driver: &Driver<'_>| driver.rows().unwrap_or_else(|e| panic!("{context}: {e}"));
    assert_rows(&rows(&driver), &rows(straight), &context);
    for (block, state) in history.blocks.iter().zip(&history.states[1..]) {
        driver.run(block).unwrap_or_else(|e| panic!("{context}: {e}"));
        assert_state(&driver, state, &context);
    }
}

/// Checks the load of a contract with more slots than a layer may hold: the layer writes while it takes them, a
/// bounded number of bytes at once, and has all of them at the end. The same applies to code. Not part of
/// [`layer_suite!`](crate::layer_suite), because it takes some seconds and no setting affects it.
pub fn a_large_contract_is_loaded_in_portions(factory: &dyn LayerFactory) {
    codes_are_loaded_in_portions(factory);
    let ground = Ground::disk();
    let (portions, driver) = in_portions(factory, &ground);

    // Ordered hashes, as evenly distributed as real ones, and values of the greatest length.
    let step = u64::MAX / LARGE;
    let slot = |n: u64| {
        let mut hash = U256::from(n).wrapping_mul(!U256::ZERO / U256::from(7)).to_be_bytes();
        hash[..8].copy_from_slice(&(n * step).to_be_bytes());
        (B256::new(hash), !U256::from(n))
    };
    let slots = (0..LARGE).map(|n| {
        portions.taken.fetch_add(1, Relaxed);
        Ok(slot(n))
    });
    let account = |hash: u8, slots| GenesisAccount {
        hash: B256::repeat_byte(hash),
        account: Account { nonce: 1, ..Account::default() },
        code: None,
        slots,
    };
    let accounts = [
        account(0x41, GenesisSlots::default()),
        account(0x42, GenesisSlots::new(slots)),
        account(0x43, vec![slot(1)].into()),
    ];
    driver.layer().load(&mut accounts.into_iter().map(Ok)).unwrap_or_else(|e| panic!("{e}"));
    let most = portions.most.load(Relaxed);
    assert!(most <= LARGEST_PORTION, "{most} slots were taken before a write");
    portions.expect_small_writes();

    drop(portions);
    let driver = driver.reopen(&ground).unwrap_or_else(|e| panic!("{e}"));
    let mut next = 0;
    let visit = &mut |hash, value| {
        assert_eq!((hash, value), slot(next));
        next += 1;
        Ok(ControlFlow::Continue(()))
    };
    let layer = driver.layer();
    layer.slots(B256::repeat_byte(0x42), B256::ZERO, visit).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(next, LARGE);
    let report = layer.check(&mut |_| {}).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(report.problems, Vec::<String>::new());
}

/// Checks the load of few accounts with far more code than may be written at once.
fn codes_are_loaded_in_portions(factory: &dyn LayerFactory) {
    const CODE: usize = 1 << 20;
    let (portions, driver) = in_portions(factory, &Ground::of(factory));
    let mut accounts = (0..2 * LARGEST_WRITE / CODE).map(|n| {
        let byte = n as u8;
        let code = Bytes::from(vec![byte; CODE]);
        Ok(GenesisAccount {
            hash: B256::repeat_byte(byte),
            account: Account { nonce: 1, code_hash: keccak256(&code), ..Account::default() },
            code: Some(code),
            slots: GenesisSlots::default(),
        })
    });
    driver.layer().load(&mut accounts).unwrap_or_else(|e| panic!("{e}"));
    portions.expect_small_writes();
}

/// Opens a layer over an engine that records the size of its writes.
fn in_portions<'f>(factory: &'f dyn LayerFactory, ground: &Ground) -> (Arc<Portions>, Driver<'f>) {
    let engine = ground.engine(factory).unwrap_or_else(|e| panic!("{e}"));
    let portions = Arc::new(Portions::new(engine));
    let driver = Driver::open_on(factory, portions.clone(), &STORE_IN_STEP)
        .unwrap_or_else(|e| panic!("{e}"));
    (portions, driver)
}

/// An engine that records the size of each write, and the number of slots taken between writes.
#[derive(Debug)]
struct Portions {
    inner: Arc<dyn Engine>,
    largest: AtomicUsize,
    taken: AtomicU64,
    most: AtomicU64,
}

impl Portions {
    const fn new(inner: Arc<dyn Engine>) -> Self {
        let (largest, taken, most) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicU64::new(0));
        Self { inner, largest, taken, most }
    }

    fn expect_small_writes(&self) {
        let largest = self.largest.load(Relaxed);
        assert!(largest <= LARGEST_WRITE, "{largest} bytes were written at once");
    }
}

polytrie_kv_testing::wrapped!(Portions);

impl Wrapped for Portions {
    fn inner(&self) -> &dyn Engine {
        &*self.inner
    }

    fn on_write(&self, changes: &dyn Changes) -> Result<(), KvError> {
        self.largest.fetch_max(changes.size_hint().1, Relaxed);
        self.most.fetch_max(self.taken.swap(0, Relaxed), Relaxed);
        self.inner.write(changes)
    }
}

fn open<'f>(factory: &'f dyn LayerFactory, ground: &Ground) -> Driver<'f> {
    Driver::open(factory, ground, &STORE_IN_STEP).unwrap_or_else(|e| panic!("{e}"))
}
