//! Crashes at every write that reaches the engine, one after the other.

use crate::fixtures::fixture;
use polytrie::{
    chain::{Chain, ChainError, ChainOptions, TABLES, check_state},
    import::{ImportOptions, import},
    layers::{LAYERS, LayerKind, LayerOptions},
};
use polytrie_chainspec::ChainSpec;
use polytrie_kv::{
    Engine, Entry, KeyRange, MemoryEngine, Store, StoreOptions, Table,
    testing::{Fault, FaultEngine, entries},
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Settings under which every layer opens, with intervals that end within the chains.
fn layer_options() -> LayerOptions {
    LayerOptions {
        lmpt_interval: Some(5),
        #[cfg(feature = "lvmt")]
        lvmt: polytrie::lvmt::LvmtSettings {
            setup: Some(crate::testsetup::dir()),
            ..Default::default()
        },
        ..LayerOptions::default()
    }
}

/// What is imported, and how.
struct Case {
    kind: &'static LayerKind,
    spec: Arc<ChainSpec>,
    file: PathBuf,
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
        let layer = (self.kind.open)(store.clone(), &layer_options())?;
        let options = ChainOptions { verify_every: self.verify_every, ..ChainOptions::default() };
        Chain::open(Arc::clone(&self.spec), store, layer, options)
    }

    /// Opens what is there and imports the file; says whether that came to its end.
    fn run(&self, engine: Arc<dyn Engine>, to: Option<u64>) -> Result<Chain, String> {
        let mut chain = self.open(engine).map_err(|e| e.to_string())?;
        let options = ImportOptions { to, ..ImportOptions::plain(vec![self.file.clone()]) };
        let end = import(&mut chain, options);
        end.error.map_or(Ok(chain), |error| Err(error.to_string()))
    }

    /// All rows of a chain.
    fn rows(&self, chain: &Chain) -> Vec<Vec<Entry>> {
        let rows = |table: &Table| entries(chain.db().store(), *table, KeyRange::ALL);
        self.tables().iter().map(rows).collect()
    }

    /// What is durable fits together. Without a genesis block there is nothing to look at yet.
    fn check(&self, engine: Arc<dyn Engine>, context: &str) {
        let store = Store::open(engine, &self.tables(), StoreOptions::default()).unwrap();
        let layer = (self.kind.open)(store.clone(), &layer_options()).unwrap();
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

/// Imports, and unwinds and imports again, with a crash at every write in turn.
fn crash_everywhere(
    kind: &'static LayerKind,
    genesis: &Path,
    file: &Path,
    (flush_every, verify_every): (u64, u64),
) {
    let spec = ChainSpec::load(genesis.to_str().unwrap()).unwrap();
    let mut case = Case { kind, spec, file: file.to_owned(), flush_every, verify_every: 1 };
    let straight = case.run(Arc::new(MemoryEngine::new()), None).unwrap();
    // However it is verified, the same is stored.
    case.verify_every = verify_every;
    let (head, commitment) = (straight.head().clone(), straight.layer().commitment());
    let rows = case.rows(&straight);
    let half = head.number() / 2;
    for (at, fault) in (1..).flat_map(|at| [(at, Fault::Before), (at, Fault::After)]) {
        let name = kind.name;
        let context = format!(
            "{name}, flushed every {flush_every}, verified every {verify_every}, crash at write {at} ({fault:?})"
        );
        let memory: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let faulty = Arc::new(FaultEngine::new(Arc::clone(&memory), fault, at));
        // To the half, back to the quarter, and on to the end.
        let ended = case.run(faulty.clone(), Some(half)).and_then(|mut chain| {
            chain.unwind_to(half / 2).and_then(|_| chain.flush()).map_err(|e| e.to_string())?;
            drop(chain);
            case.run(faulty.clone(), None).map(drop)
        });
        assert_eq!(ended.is_err(), faulty.fired(), "{context}: a failed write was swallowed");
        if let Err(error) = &ended {
            assert!(error.contains("a fault was injected"), "{context}: {error}");
        }
        case.check(Arc::clone(&memory), &context);
        let chain = case.run(memory, None).unwrap_or_else(|e| panic!("{context}: {e}"));
        assert_eq!(*chain.head(), head, "{context}");
        assert_eq!(chain.layer().commitment(), commitment, "{context}");
        // Where the logs and checkpoints of `rain` stand depends on the blocks that were taken back, too.
        if kind.name != "rain" {
            assert!(case.rows(&chain) == rows, "{context}: other rows than without a crash");
        }
        if !faulty.fired() {
            break;
        }
    }
}

#[test]
fn a_crash_at_every_write_is_survived() {
    let chains = [
        (
            "chains/london/testLondonGenesis.json",
            "chains/london/testLondonBlockchain.blocks",
            (1, 1),
        ),
        ("chains/rpc-compat/genesis.json", "chains/rpc-compat/chain.rlp", (1, 1)),
        ("chains/rpc-compat/genesis.json", "chains/rpc-compat/chain.rlp", (7, 1)),
        ("chains/rpc-compat/genesis.json", "chains/rpc-compat/chain.rlp", (1, 4)),
    ];
    for (genesis, file, every) in chains {
        let (Some(genesis), Some(file)) = (fixture(genesis), fixture(file)) else { return };
        for kind in LAYERS {
            crash_everywhere(kind, &genesis, &file, every);
        }
    }
}
