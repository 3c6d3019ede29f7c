//! Tests of a crash at each write to the engine, one after the other.

use crate::{
    branches::{Branch, branch, empty_chain},
    fixtures::fixture,
};
use alloy_primitives::{Address, Bytes, U256};
use polytrie::{
    chain::{Chain, ChainError, ChainOptions, TABLES, check_state},
    consensus::decode::{decode_block, decode_header},
    import::{ImportOptions, import},
    layers::{LAYERS, LayerKind, LayerOptions},
};
use polytrie_chainspec::ChainSpec;
use polytrie_kv::{Engine, Entry, KeyRange, MemoryEngine, Store, StoreOptions, Table};
use polytrie_kv_testing::{Fault, FaultEngine, entries};
use polytrie_state::TRAIL_TABLE;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// The files of an import and its options.
struct Case {
    kind: &'static LayerKind,
    spec: Arc<ChainSpec>,
    files: Vec<PathBuf>,
    flush_every: u64,
    verify_every: u64,
}

impl Case {
    fn tables(&self) -> Vec<Table> {
        [self.kind.tables, TABLES].concat()
    }

    fn open(&self, engine: Arc<dyn Engine>) -> Result<Chain, ChainError> {
        let options = StoreOptions {
            flush_every: self.flush_every,
            background: false,
            counters: false,
            ..StoreOptions::default()
        };
        let store = Store::open(engine, &self.tables(), options)?;
        let layer = (self.kind.open)(store.clone().into(), &LayerOptions::for_tests())?;
        let options = ChainOptions { verify_every: self.verify_every, ..ChainOptions::default() };
        Chain::open(Arc::clone(&self.spec), store, layer, options)
    }

    /// Opens the chain and imports the files up to block `to`. Returns the error of the import if it failed.
    fn run(&self, engine: Arc<dyn Engine>, to: Option<u64>) -> Result<Chain, String> {
        let mut chain = self.open(engine).map_err(|e| e.to_string())?;
        let options = ImportOptions { to, ..ImportOptions::plain(self.files.clone()) };
        let end = import(&mut chain, options);
        end.error.map_or(Ok(chain), |error| Err(error.to_string()))
    }

    /// Returns all rows of a chain without the trail, which depends on when blocks became durable.
    fn rows(&self, chain: &Chain) -> Vec<Vec<Entry>> {
        let rows = |table: &Table| entries(chain.db().store(), *table, KeyRange::ALL);
        self.tables().iter().filter(|table| **table != TRAIL_TABLE).map(rows).collect()
    }

    /// Returns all rows that a crash has left. The next import depends on them alone. A crash before a write mostly leaves
    /// the rows of a crash after the previous write, and these are tried once.
    fn left(&self, engine: &dyn Engine) -> Vec<Vec<Entry>> {
        let view = engine.view().unwrap();
        self.tables().iter().map(|table| entries(&*view, *table, KeyRange::ALL)).collect()
    }

    /// Checks that the durable rows fit together. The state is checked only if there is a genesis block.
    fn check(&self, engine: Arc<dyn Engine>, context: &str) {
        let store = Store::open(engine, &self.tables(), StoreOptions::default()).unwrap();
        let layer = (self.kind.open)(store.clone().into(), &LayerOptions::for_tests()).unwrap();
        let db = polytrie::chain::ChainDb::new(store);
        let report = db.check(&self.spec, &mut |_| {}).unwrap();
        assert_eq!(report.problems, Vec::<String>::new(), "{context}");
        if report.head.is_some() {
            let state = layer.check(&mut |_| {}).unwrap();
            assert_eq!(state.problems, Vec::<String>::new(), "{context}");
            assert_eq!(check_state(&db, &*layer).unwrap(), Vec::<String>::new(), "{context}");
        }
    }
}

/// Imports half of the file, unwinds, and imports all of it, with a crash at each write in turn.
fn crash_everywhere(
    kind: &'static LayerKind,
    genesis: &Path,
    file: &Path,
    (flush_every, verify_every): (u64, u64),
) {
    let spec = ChainSpec::load(genesis.to_str().unwrap()).unwrap();
    let mut case = Case { kind, spec, files: vec![file.to_owned()], flush_every, verify_every: 1 };
    let straight = case.run(Arc::new(MemoryEngine::new()), None).unwrap();
    // The interval of verification does not change the stored rows.
    case.verify_every = verify_every;
    let (head, commitment) = (straight.head().clone(), straight.layer().commitment());
    let rows = case.rows(&straight);
    let half = head.number() / 2;
    let mut seen = None;
    for (at, fault) in (1..).flat_map(|at| [(at, Fault::Before), (at, Fault::After)]) {
        let name = kind.name;
        let context = format!(
            "{name}, flushed every {flush_every}, verified every {verify_every}, crash at write {at} ({fault:?})"
        );
        let memory: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let faulty = Arc::new(FaultEngine::new(Arc::clone(&memory), fault, at));
        // Import to the half, unwind to the quarter, and import to the end.
        let ended = case.run(faulty.clone(), Some(half)).and_then(|mut chain| {
            chain.unwind_to(half / 2).and_then(|_| chain.flush()).map_err(|e| e.to_string())?;
            drop(chain);
            case.run(faulty.clone(), None).map(drop)
        });
        assert_eq!(ended.is_err(), faulty.fired(), "{context}: a failed write was swallowed");
        if let Err(error) = &ended {
            assert!(error.contains("a fault was injected"), "{context}: {error}");
        }
        let left = Some(case.left(&*memory));
        if left != seen {
            case.check(Arc::clone(&memory), &context);
            let chain = case.run(memory, None).unwrap_or_else(|e| panic!("{context}: {e}"));
            assert_eq!(*chain.head(), head, "{context}");
            assert_eq!(chain.layer().commitment(), commitment, "{context}");
            // The positions of the logs and checkpoints of `rain` depend also on the unwound blocks.
            if kind.name != "rain" {
                assert!(case.rows(&chain) == rows, "{context}: other rows than without a crash");
            }
            seen = left;
        }
        if !faulty.fired() {
            break;
        }
    }
}

/// Imports a chain and a branch of it, whose last block is valid or not, with a crash at each write in turn. The same
/// import after the crash must end as it does without a crash.
fn crash_between_branches(case: &Case) {
    let end = |engine: &Arc<dyn Engine>| {
        let ended = case.run(Arc::clone(engine), None).map(drop);
        let chain = case.open(Arc::clone(engine)).unwrap();
        (ended, chain.head().clone(), case.rows(&chain))
    };
    let expected = end(&(Arc::new(MemoryEngine::new()) as _));
    let mut seen = None;
    for (at, fault) in (1..).flat_map(|at| [(at, Fault::Before), (at, Fault::After)]) {
        let (name, every) = (case.kind.name, case.flush_every);
        let context = format!("{name}, flushed every {every}, crash at write {at} ({fault:?})");
        let memory: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let faulty = Arc::new(FaultEngine::new(Arc::clone(&memory), fault, at));
        let _ = case.run(faulty.clone(), None);
        let left = Some(case.left(&*memory));
        if left != seen {
            case.check(Arc::clone(&memory), &context);
            let found = end(&memory);
            case.check(Arc::clone(&memory), &context);
            assert_eq!((&found.0, &found.1), (&expected.0, &expected.1), "{context}");
            if name != "rain" {
                assert!(found.2 == expected.2, "{context}: other rows than without a crash");
            }
            seen = left;
        }
        if !faulty.fired() {
            break;
        }
    }
}

#[test]
fn a_crash_between_branches_is_survived() {
    let (genesis, empty) = empty_chain(12);
    let spec = Arc::new(ChainSpec::parse("empty", genesis.as_bytes()).unwrap());
    let mined = |blocks: &[Bytes], fork, tip, seconds| {
        let beneficiary = Address::with_last_byte(seconds);
        branch(&spec, blocks, Branch { fork, tip, seconds: seconds.into(), beneficiary })
    };
    let Some(main) = mined(&empty, 0, 6, 1) else { return };
    let blocks = [&main, &empty[6..]].concat();
    let Some(mut other) = mined(&blocks, 2, 12, 50) else { return };
    // Only the last block makes the branch heavier than the chain.
    let weight = |blocks: &[Bytes]| -> U256 {
        blocks.iter().map(|rlp| decode_header(rlp).unwrap().difficulty).sum()
    };
    let length = (1..other.len()).find(|n| weight(&other[..*n]) > weight(&main[2..])).unwrap();
    assert!(length > main.len() - 2);
    other.truncate(length);
    // A branch whose second block is invalid, with rebuilt blocks on top of it.
    let mut wrong = other.clone();
    let mut parent = None;
    for (index, rlp) in wrong.iter_mut().enumerate().skip(1) {
        let mut block = decode_block(rlp).unwrap();
        block.header.parent_hash = parent.unwrap_or(block.header.parent_hash);
        block.header.gas_used = u64::from(index == 1);
        parent = Some(block.header.hash_slow());
        *rlp = alloy_rlp::encode(&block).into();
    }
    let temp = tempfile::tempdir().unwrap();
    let write = |name: &str, blocks: &[Bytes]| {
        let path = temp.path().join(name);
        std::fs::write(&path, blocks.concat()).unwrap();
        path
    };
    let main = write("main", &main);
    for (other, tip) in [(write("other", &other), 2 + length as u64), (write("wrong", &wrong), 6)] {
        for (kind, flush_every) in LAYERS.iter().flat_map(|kind| [(kind, 1), (kind, 5)]) {
            let files = vec![main.clone(), other.clone()];
            let case = Case { kind, spec: Arc::clone(&spec), files, flush_every, verify_every: 1 };
            let engine = Arc::new(MemoryEngine::new());
            let ended = case.run(engine.clone(), None);
            assert_eq!(ended.is_ok(), tip != 6);
            drop(ended);
            assert_eq!(case.open(engine).unwrap().head().number(), tip);
            crash_between_branches(&case);
        }
    }
}

/// Imports a chain of the fixtures under every layer, flushed and verified every so many blocks.
fn crash_under_every_layer(genesis: &str, file: &str, every: (u64, u64)) {
    let (Some(genesis), Some(file)) = (fixture(genesis), fixture(file)) else { return };
    for kind in LAYERS {
        crash_everywhere(kind, &genesis, &file, every);
    }
}

/// The genesis file and the blocks of a chain.
const CHAIN: [&str; 2] = ["chains/rpc-compat/genesis.json", "chains/rpc-compat/chain.rlp"];

#[test]
fn a_crash_at_every_write_is_survived_on_london() {
    let genesis = "chains/london/testLondonGenesis.json";
    crash_under_every_layer(genesis, "chains/london/testLondonBlockchain.blocks", (1, 1));
}

// One test for each, so that they run at the same time.

#[test]
fn a_crash_at_every_write_is_survived() {
    crash_under_every_layer(CHAIN[0], CHAIN[1], (1, 1));
}

#[test]
fn a_crash_at_every_write_is_survived_where_blocks_are_flushed_together() {
    crash_under_every_layer(CHAIN[0], CHAIN[1], (7, 1));
}

#[test]
fn a_crash_at_every_write_is_survived_where_blocks_are_verified_together() {
    crash_under_every_layer(CHAIN[0], CHAIN[1], (1, 4));
}
