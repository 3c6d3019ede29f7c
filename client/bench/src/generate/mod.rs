//! Generation of a workload's chain: `genesis.json` and `chain.rlp`.
//!
//! A workload gives a [`GenesisPlan`](polytrie_chainspec::GenesisPlan) and [`BlockPlan`]s, before anything is
//! executed. [`Producer`] executes the plans and fills in the results; [`PreparedChain`] keeps a whole chain;
//! [`generate`] writes it to a directory that the user names.

mod chain;
mod plan;
mod producer;

pub use chain::{ChainFigures, GeneratedHead};
pub use plan::{BlockPlan, Planned};
pub use producer::{ProduceError, Produced, Producer};

use super::{
    WorkloadSpec,
    fixture::{Base, CHAIN_FILE, Cache, CacheError, FixtureError, PreparedChain, base::wallet},
    mainnet::{MainnetShape, Parts},
};
use polytrie_chainspec::ChainSpecError;
use polytrie_files::{ExportError, OutputFile};
use serde::Serialize;
use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};
use tempfile::TempDir;
use thiserror::Error;

/// Name of the genesis file.
pub const GENESIS_FILE: &str = "genesis.json";

/// Figures of a generated chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Generated {
    /// Bytes of `genesis.json`.
    pub genesis_bytes: u64,
    /// Figures of the blocks.
    #[serde(flatten)]
    pub chain: ChainFigures,
}

/// The reason why a chain could not be generated. No unfinished file is left behind.
#[derive(Debug, Error)]
pub enum GenerateError {
    /// A file or directory cannot be written.
    #[error(transparent)]
    Disk(#[from] CacheError),
    /// The genesis or the blocks cannot be written.
    #[error(transparent)]
    Write(#[from] ExportError),
    /// The state in which the blocks are executed cannot be kept.
    #[error(transparent)]
    Fixture(#[from] FixtureError),
    /// The workload's genesis is not that of a chain: a mistake in this program.
    #[error("the workload's genesis is not valid: {0}")]
    Genesis(#[from] ChainSpecError),
    /// A block could not be made.
    #[error(transparent)]
    Produce(#[from] ProduceError),
    /// The user asked to stop.
    #[error("interrupted after block {blocks}; nothing was written")]
    Interrupted {
        /// Number of blocks that were made.
        blocks: u64,
    },
}

/// Writes the chain of a workload to `dir`, which is created if it does not exist. Files of an earlier chain are
/// replaced when the new one is complete.
///
/// The genesis state is built in one pass over the accounts sorted by hash. It is on disk, as is the state in which
/// the blocks are executed; memory is needed for the addresses (24 bytes an account), and for the slots of one
/// contract (64 bytes each). Results that took long stay in `cache`.
///
/// # Errors
///
/// If the disk or the state fails, `interrupt` is set, or the workload plans an invalid block.
pub fn generate(
    spec: &WorkloadSpec,
    dir: &Path,
    cache: &Arc<Cache>,
    interrupt: &AtomicBool,
) -> Result<Generated, GenerateError> {
    fs::create_dir_all(dir).map_err(CacheError::at("create", dir))?;
    let work =
        TempDir::with_prefix_in(".generate-", dir).map_err(CacheError::at("write to", dir))?;
    let (genesis, chain) = (work.path().join(GENESIS_FILE), work.path().join(CHAIN_FILE));
    let base = Base::of_workload(spec, Arc::clone(cache));
    let prepared = PreparedChain::of(spec, cache, &base, interrupt)?;
    let start = Instant::now();
    write_genesis(spec, cache, &genesis, interrupt)?;
    if interrupt.load(Ordering::Relaxed) {
        return Err(GenerateError::Interrupted { blocks: prepared.length()?.blocks });
    }
    tracing::info!("wrote the genesis in {:.1} s", start.elapsed().as_secs_f64());
    let blocks = prepared.blocks();
    fs::copy(&blocks, &chain).map_err(CacheError::at("write", &chain))?;
    let genesis_bytes = fs::metadata(&genesis).map_or(0, |data| data.len());

    // The old blocks are removed first: after a crash, the two files never belong to different chains.
    let (old, new) = (dir.join(CHAIN_FILE), dir.join(GENESIS_FILE));
    if old.exists() {
        fs::remove_file(&old).map_err(CacheError::at("replace", &old))?;
    }
    fs::rename(&genesis, &new).map_err(CacheError::at("write", &new))?;
    fs::rename(&chain, &old).map_err(CacheError::at("write", &old))?;
    work.close().map_err(CacheError::at("remove the temporary directory in", dir))?;
    Ok(Generated { genesis_bytes, chain: prepared.figures()? })
}

/// Figures of a generated state without blocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GeneratedState {
    /// Bytes of `genesis.json`.
    pub genesis_bytes: u64,
    /// Counts of the state, without the system contracts.
    #[serde(flatten)]
    pub parts: Parts,
}

/// Writes a genesis of mainnet's shape to `dir`, which is created if it does not exist. Memory does not depend on its
/// size. Blocks of an earlier chain in `dir` are removed.
///
/// # Errors
///
/// If the disk fails, or `interrupt` is set.
pub fn generate_state(
    shape: MainnetShape,
    dir: &Path,
    interrupt: &AtomicBool,
) -> Result<GeneratedState, GenerateError> {
    fs::create_dir_all(dir).map_err(CacheError::at("create", dir))?;
    let (path, blocks) = (dir.join(GENESIS_FILE), dir.join(CHAIN_FILE));
    let mut out = OutputFile::create(&path)?;
    let accounts = shape.accounts().take_while(|_| !interrupt.load(Ordering::Relaxed));
    shape.genesis().write(accounts, &mut out).map_err(CacheError::at("write", &path))?;
    if interrupt.load(Ordering::Relaxed) {
        return Err(GenerateError::Interrupted { blocks: 0 });
    }
    if blocks.exists() {
        fs::remove_file(&blocks).map_err(CacheError::at("replace", &blocks))?;
    }
    out.finish()?;
    let genesis_bytes = fs::metadata(&path).map_or(0, |data| data.len());
    Ok(GeneratedState { genesis_bytes, parts: shape.parts() })
}

/// Writes the genesis with its accounts, which end early if `interrupt` is set.
fn write_genesis(
    spec: &WorkloadSpec,
    cache: &Cache,
    path: &Path,
    interrupt: &AtomicBool,
) -> Result<(), GenerateError> {
    let workload = spec.open(wallet(cache, spec.seed, spec.accounts())?)?;
    let mut out = OutputFile::create(path)?;
    let accounts = workload.accounts().take_while(|_| !interrupt.load(Ordering::Relaxed));
    workload.genesis().write(accounts, &mut out).map_err(CacheError::at("write", path))?;
    Ok(out.finish()?)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{Popularity, Shape, WorkloadKind};
    use polytrie_layers::LayerOptions;
    use polytrie_node::datadir::{DataDir, OpenOptions};
    use polytrie_node::import::{ImportOptions, import};

    const SHAPE: Shape = Shape {
        accounts: 50,
        txs: 95,
        block_txs: 10,
        popularity: Popularity::Hot,
        new_recipients: 20,
        senders: 0,
    };

    fn names(dir: &Path) -> Vec<String> {
        let entries = dir.read_dir().unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn spec(workload: WorkloadKind, seed: u64) -> WorkloadSpec {
        WorkloadSpec { workload, seed, shape: SHAPE }
    }

    fn make(spec: &WorkloadSpec, dir: &Path, stop: bool) -> Result<Generated, GenerateError> {
        let cache = tempfile::tempdir().unwrap();
        let cache = Arc::new(Cache::open(cache.path()).unwrap());
        generate(spec, dir, &cache, &AtomicBool::new(stop))
    }

    /// Imports the chain from its files under every layer; canonical layers find the roots of its headers.
    fn imports(workload: WorkloadKind) -> ChainFigures {
        let dir = tempfile::tempdir().unwrap();
        let generated = make(&spec(workload, 7), dir.path(), false).unwrap().chain;
        assert_eq!(names(dir.path()), [CHAIN_FILE, GENESIS_FILE]);
        assert_eq!((generated.blocks, generated.transactions), (10, 95));
        assert_eq!(generated.failed_transactions, 0);
        for state in polytrie_layers::LAYERS {
            let options = OpenOptions {
                kv: Some("memory".into()),
                state: Some(state.name.into()),
                chain: Some(dir.path().join(GENESIS_FILE).display().to_string()),
                layer: LayerOptions::for_tests(),
                ..Default::default()
            };
            let (mut chain, _dir) = DataDir::open(&options, true).unwrap().into_chain().unwrap();
            let options = ImportOptions::plain(vec![dir.path().join(CHAIN_FILE)]);
            let end = import(&mut chain, options);
            assert!(end.error.is_none(), "{:?}", end.error);
            assert_eq!(chain.head().hash(), generated.head.hash);
        }
        generated
    }

    #[test]
    fn transfers_import() {
        assert_eq!(imports(WorkloadKind::Transfer).gas, 95 * 21_000);
    }

    #[test]
    fn token_transfers_import() {
        let gas = imports(WorkloadKind::Erc20).gas / 95;
        assert!((30_000..55_000).contains(&gas), "{gas}");
    }

    #[test]
    fn payments_and_calls_import() {
        let gas = imports(WorkloadKind::Mixed).gas / 95;
        assert!((21_000..30_000).contains(&gas), "{gas}");
    }

    /// The test is skipped if the contracts are not here.
    #[test]
    fn swaps_import() {
        for workload in [WorkloadKind::Swap, WorkloadKind::SwapEth, WorkloadKind::SwapToken] {
            let wallet = crate::Wallet::new(7, SHAPE.accounts);
            if let Err(error) = spec(workload, 7).open(wallet) {
                return polytrie_kv_testing::skipped(error);
            }
            let gas = imports(workload).gas / 95;
            assert!((90_000..160_000).contains(&gas), "{workload:?}: {gas}");
        }
    }

    #[test]
    fn the_same_parameters_give_the_same_bytes() {
        for workload in [WorkloadKind::Transfer, WorkloadKind::Erc20] {
            let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            // The second chain is written over an older one.
            make(&spec(workload, 8), other.path(), false).unwrap();
            let first = make(&spec(workload, 7), one.path(), false).unwrap();
            assert_eq!(first, make(&spec(workload, 7), other.path(), false).unwrap());
            for name in [CHAIN_FILE, GENESIS_FILE] {
                let read = |dir: &Path| fs::read(dir.join(name)).unwrap();
                assert!(read(one.path()) == read(other.path()), "{name}");
            }
        }
    }

    #[test]
    fn an_interrupt_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let error = make(&spec(WorkloadKind::Transfer, 7), dir.path(), true).unwrap_err();
        assert!(matches!(error, GenerateError::Interrupted { blocks: 0 }), "{error}");
        assert!(names(dir.path()).is_empty());
    }

    /// A chain that is in the cache is there at once, but a genesis of many accounts takes minutes.
    #[test]
    fn an_interrupt_ends_the_writing_of_the_genesis() {
        let (kept, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let cache = Arc::new(Cache::open(kept.path()).unwrap());
        let spec = spec(WorkloadKind::Transfer, 7);
        let out = dir.path().join("out");
        generate(&spec, &dir.path().join("first"), &cache, &AtomicBool::new(false)).unwrap();
        let error = generate(&spec, &out, &cache, &AtomicBool::new(true)).unwrap_err();
        assert!(matches!(error, GenerateError::Interrupted { blocks: 10 }), "{error}");
        assert!(names(&out).is_empty());
    }
}
