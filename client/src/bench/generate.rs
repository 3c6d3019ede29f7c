//! A workload becomes `genesis.json` and `chain.rlp`.

use super::{GenesisPlan, ProduceError, Producer, Workload};
use crate::{
    blocks::{ExportError, OutputFile, RlpWriter},
    datadir::{DataDir, OpenError, OpenOptions},
    layers::LayerOptions,
};
use alloy_primitives::B256;
use serde::Serialize;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};
use tempfile::TempDir;
use thiserror::Error;

/// Name of the genesis file.
pub const GENESIS_FILE: &str = "genesis.json";
/// Name of the file of blocks; it begins with block 1.
pub const CHAIN_FILE: &str = "chain.rlp";

/// Bytes of trie nodes kept in memory while blocks are made.
const TRIE_CACHE: usize = 512 << 20;
/// Progress is reported after so much time.
const PROGRESS: Duration = Duration::from_secs(8);

/// What was generated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Generated {
    /// Chain id.
    pub chain_id: u64,
    /// Hash of the genesis block.
    pub genesis_hash: B256,
    /// Bytes of `genesis.json`.
    pub genesis_bytes: u64,
    /// Bytes of `chain.rlp`.
    pub chain_bytes: u64,
    /// Blocks beside the genesis block.
    pub blocks: u64,
    /// Transactions.
    pub transactions: u64,
    /// Transactions that did not succeed.
    pub failed_transactions: u64,
    /// Gas used by all of them.
    pub gas: u64,
    /// The last block.
    pub head: GeneratedHead,
}

/// The last block of a generated chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GeneratedHead {
    /// Number.
    pub number: u64,
    /// Hash.
    pub hash: B256,
    /// State root.
    pub state_root: B256,
}

/// A chain could not be generated. Nothing is left behind that looks like one.
#[derive(Debug, Error)]
pub enum GenerateError {
    /// A file or directory cannot be written.
    #[error("cannot {action} {}: {source}; check the path, its permissions, and the free space", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// The operating system's words.
        source: io::Error,
    },
    /// The genesis or the blocks cannot be written.
    #[error(transparent)]
    Write(#[from] ExportError),
    /// The state in which the blocks are executed cannot be kept.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A block could not be made.
    #[error(transparent)]
    Produce(#[from] ProduceError),
    /// The user asked to stop.
    #[error("interrupted after block {blocks}; nothing was written")]
    Interrupted {
        /// Blocks made by then.
        blocks: u64,
    },
}

/// Writes the chain of a workload to `dir`, which is made if it is not there; files of an earlier chain are replaced when
/// the new one is complete.
///
/// The state is kept in a temporary directory within `dir`, so that its size is bounded by the disk.
///
/// # Errors
///
/// If the disk or the state fails, `interrupt` was set, or the workload plans a block that is not valid.
pub fn generate(
    workload: &mut dyn Workload,
    dir: &Path,
    interrupt: &AtomicBool,
) -> Result<Generated, GenerateError> {
    let io = |action, path: &Path| {
        let path = path.to_owned();
        move |source| GenerateError::Io { action, path, source }
    };
    fs::create_dir_all(dir).map_err(io("create", dir))?;
    let work = TempDir::with_prefix_in(".generate-", dir).map_err(io("write to", dir))?;
    let (genesis, chain) = (work.path().join(GENESIS_FILE), work.path().join(CHAIN_FILE));

    write_genesis(workload, &genesis)?;
    let generated = write_chain(workload, &genesis, &chain, &work.path().join("state"), interrupt)?;
    // The old blocks go first: whatever happens in between, the two files never belong to different chains.
    let (old, new) = (dir.join(CHAIN_FILE), dir.join(GENESIS_FILE));
    if old.exists() {
        fs::remove_file(&old).map_err(io("replace", &old))?;
    }
    fs::rename(&genesis, &new).map_err(io("write", &new))?;
    fs::rename(&chain, &old).map_err(io("write", &old))?;
    work.close().map_err(io("remove the temporary directory in", dir))?;
    Ok(generated)
}

fn write_genesis(workload: &dyn Workload, path: &Path) -> Result<(), GenerateError> {
    let start = Instant::now();
    let mut out = OutputFile::create(path)?;
    let plan: GenesisPlan = workload.genesis();
    plan.write(workload.accounts(), &mut out).map_err(|source| GenerateError::Io {
        action: "write",
        path: path.to_owned(),
        source,
    })?;
    out.finish()?;
    tracing::info!("wrote the genesis in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn write_chain(
    workload: &mut dyn Workload,
    genesis: &Path,
    chain_file: &Path,
    state: &Path,
    interrupt: &AtomicBool,
) -> Result<Generated, GenerateError> {
    let start = Instant::now();
    // The genesis is read back, so that what is executed is what others will read.
    let options = OpenOptions {
        datadir: Some(state.to_owned()),
        chain: Some(genesis.display().to_string()),
        state: Some("mpt".to_owned()),
        layer: LayerOptions { trie_cache: TRIE_CACHE, ..LayerOptions::default() },
        ..OpenOptions::default()
    };
    let (chain, datadir) = DataDir::open(&options, true)?.into_chain()?;
    tracing::info!("built the genesis state in {:.1} s", start.elapsed().as_secs_f64());

    let start = Instant::now();
    let mut producer = Producer::new(&chain);
    let genesis_bytes = fs::metadata(genesis).map_or(0, |data| data.len());
    let mut generated = Generated {
        chain_id: chain.spec().chain_id(),
        genesis_hash: chain.spec().genesis_hash(),
        genesis_bytes,
        chain_bytes: 0,
        blocks: 0,
        transactions: 0,
        failed_transactions: 0,
        gas: 0,
        head: GeneratedHead { number: 0, hash: B256::ZERO, state_root: B256::ZERO },
    };
    let mut out = RlpWriter::create(chain_file)?;
    let mut reported = start;
    while let Some(plan) = workload.next_block(producer.parent()) {
        if interrupt.load(Ordering::Relaxed) {
            return Err(GenerateError::Interrupted { blocks: generated.blocks });
        }
        let produced = producer.produce(plan, workload.wallet())?;
        out.push(&produced.rlp)?;
        let receipts = &produced.executed.receipts;
        generated.blocks += 1;
        generated.transactions += receipts.len() as u64;
        generated.failed_transactions +=
            receipts.iter().filter(|receipt| !receipt.status()).count() as u64;
        generated.gas += produced.executed.gas_used;
        generated.chain_bytes += produced.rlp.len() as u64;
        if reported.elapsed() >= PROGRESS {
            reported = Instant::now();
            tracing::info!("{} blocks, {} transactions", generated.blocks, generated.transactions);
        }
    }
    out.finish()?;
    let head = producer.parent();
    generated.head =
        GeneratedHead { number: head.number, hash: head.hash(), state_root: head.state_root };
    tracing::info!(
        "made {} blocks with {} transactions in {:.1} s",
        generated.blocks,
        generated.transactions,
        start.elapsed().as_secs_f64()
    );
    drop((producer, chain, datadir));
    Ok(generated)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{
        bench::{Popularity, Size, Transfer},
        import::{Display, ImportOptions, import},
    };
    use std::sync::Arc;

    const SIZE: Size = Size {
        accounts: 50,
        txs: 95,
        block_txs: 10,
        popularity: Popularity::Hot,
        new_recipients: 20,
        seed: 7,
    };

    fn names(dir: &Path) -> Vec<String> {
        let entries = dir.read_dir().unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn transfer(dir: &Path, size: Size) -> Generated {
        generate(&mut Transfer::new(size), dir, &AtomicBool::new(false)).unwrap()
    }

    #[test]
    fn a_generated_chain_imports() {
        let dir = tempfile::tempdir().unwrap();
        let generated = transfer(dir.path(), SIZE);
        assert_eq!(names(dir.path()), [CHAIN_FILE, GENESIS_FILE]);
        assert_eq!((generated.blocks, generated.transactions), (10, 95));
        assert_eq!((generated.gas, generated.failed_transactions), (95 * 21_000, 0));
        for state in crate::layers::LAYERS {
            let options = OpenOptions {
                kv: Some("memory".into()),
                state: Some(state.name.into()),
                chain: Some(dir.path().join(GENESIS_FILE).display().to_string()),
                ..Default::default()
            };
            let (mut chain, _dir) = DataDir::open(&options, true).unwrap().into_chain().unwrap();
            let options = ImportOptions {
                files: vec![dir.path().join(CHAIN_FILE)],
                to: None,
                threads: 1,
                interrupt: Arc::default(),
                display: Display::Quiet,
                csv: None,
            };
            let end = import(&mut chain, options);
            assert!(end.error.is_none(), "{:?}", end.error);
            assert_eq!(chain.head().hash(), generated.head.hash);
        }
    }

    #[test]
    fn the_same_parameters_give_the_same_bytes() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        // The second time over an older chain.
        transfer(other.path(), Size { seed: 8, ..SIZE });
        assert_eq!(transfer(one.path(), SIZE), transfer(other.path(), SIZE));
        for name in [CHAIN_FILE, GENESIS_FILE] {
            let read = |dir: &Path| fs::read(dir.join(name)).unwrap();
            assert!(read(one.path()) == read(other.path()), "{name}");
        }
    }

    #[test]
    fn an_interrupt_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let error =
            generate(&mut Transfer::new(SIZE), dir.path(), &AtomicBool::new(true)).unwrap_err();
        assert!(matches!(error, GenerateError::Interrupted { blocks: 0 }), "{error}");
        assert!(names(dir.path()).is_empty());
    }
}
