//! The one place that names every state layer and every engine. Adding one is an entry here, a line in
//! `Cargo.toml` and a crate.

use polytrie_kv::{Engine, KvError, MdbxEngine, MdbxOptions, MemoryEngine, Table};
use polytrie_state::{Commitment, Proof, ProofError, Stamp, StampError, StateError, StateLayer};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::Path, sync::Arc};
use thiserror::Error;

/// What a user can set about layers; each layer reads its own part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerOptions {
    /// `--trie.cache`: bytes of trie nodes kept in memory between blocks.
    pub trie_cache: usize,
    /// `--lmpt.interval`: blocks between two rotations; `None` for what the data was made with, or the default.
    pub lmpt_interval: Option<u64>,
    /// `--lmpt.memory`: bytes of delta and intermediate kept in memory.
    pub lmpt_memory: usize,
    /// `--rain.retain`: levels of the account trie that always stay in memory.
    pub rain_retain: usize,
}

impl Default for LayerOptions {
    /// Suits 2 cores and 8 GiB.
    fn default() -> Self {
        Self { trie_cache: 1 << 30, lmpt_interval: None, lmpt_memory: 1 << 30, rain_retain: 4 }
    }
}

type OpenLayer = fn(polytrie_kv::Store, &LayerOptions) -> Result<Arc<dyn StateLayer>, StateError>;
type VerifyProof = fn(&Commitment, &Proof) -> Result<serde_json::Value, ProofError>;

/// A state layer that is compiled in.
#[derive(Debug, Clone, Copy)]
pub struct LayerKind {
    /// Its name for `--state`.
    pub name: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
    /// Whether its commitment is the state root of the headers.
    pub canonical: bool,
    /// The tables it needs in its store.
    pub tables: &'static [Table],
    /// Opens it on a store.
    pub open: OpenLayer,
    /// Checks one of its proofs and returns what it proves; `None` if it makes none.
    pub verify: Option<VerifyProof>,
}

/// Every name that `--state` may have in some build, with its Cargo feature.
const NAMES: &[&str] = &["raw", "mpt", "replica", "lmpt", "lvmt", "rain"];

/// The layers of this build.
pub const LAYERS: &[LayerKind] = &[
    #[cfg(feature = "lmpt")]
    LayerKind {
        name: "lmpt",
        about: "layered tries: new writes in small tries in memory, merged into one on disk in the background",
        canonical: false,
        tables: polytrie_lmpt::LmptLayer::TABLES,
        open: |store, options| {
            let options = polytrie_lmpt::LmptOptions {
                interval: options.lmpt_interval.unwrap_or(DEFAULT_LMPT_INTERVAL),
                memory_bytes: options.lmpt_memory,
                undo_blocks: crate::chain::UNDO_BLOCKS,
                ..polytrie_lmpt::LmptOptions::default()
            };
            Ok(polytrie_lmpt::LmptLayer::open(store, options)?)
        },
        verify: Some(|commitment, proof| {
            let proven = polytrie_lmpt::verify(commitment.digest(), proof)?;
            serde_json::to_value(proven).map_err(|e| ProofError::Malformed(e.to_string()))
        }),
    },
    #[cfg(feature = "mpt")]
    LayerKind {
        name: "mpt",
        about: "the Merkle Patricia trie as Ethereum specifies it, read and written through the trie",
        canonical: true,
        tables: polytrie_mpt::MptLayer::TABLES,
        open: |store, options| {
            let options = polytrie_mpt::MptOptions { cache_bytes: options.trie_cache };
            Ok(polytrie_mpt::MptLayer::open(store, options)?)
        },
        verify: Some(|commitment, proof| {
            let account = polytrie_mpt::verify(commitment.digest(), proof)?;
            serde_json::to_value(account).map_err(|e| ProofError::Malformed(e.to_string()))
        }),
    },
    #[cfg(feature = "rain")]
    LayerKind {
        name: "rain",
        about: "the same trie in versions of shared nodes, in shards with a log and checkpoints each",
        canonical: true,
        tables: polytrie_rain::RainLayer::TABLES,
        open: |store, options| {
            let options = polytrie_rain::RainOptions {
                retain: options.rain_retain,
                cache_bytes: options.trie_cache,
                ..polytrie_rain::RainOptions::default()
            };
            Ok(polytrie_rain::RainLayer::open(store, options)?)
        },
        verify: Some(|commitment, proof| {
            let account = polytrie_rain::verify(commitment.digest(), proof)?;
            serde_json::to_value(account).map_err(|e| ProofError::Malformed(e.to_string()))
        }),
    },
    #[cfg(feature = "raw")]
    LayerKind {
        name: "raw",
        about: "flat key-value state without authentication: the ceiling",
        canonical: false,
        tables: polytrie_raw::RawLayer::TABLES,
        open: |store, _| Ok(polytrie_raw::RawLayer::open(store)?),
        verify: None,
    },
];

/// The layer a new data directory gets unless told otherwise.
pub const DEFAULT_LAYER: &str = "mpt";

/// Engine names for `--kv`.
pub const ENGINES: &[&str] = &["mdbx", "rocksdb", "memory"];

/// The engine a new data directory gets unless told otherwise.
pub const DEFAULT_ENGINE: &str = "mdbx";

/// A layer or an engine that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UnknownKind {
    /// No such layer.
    #[error("there is no state layer `{name}`; this build has {available}")]
    Layer {
        /// Asked for.
        name: String,
        /// What there is.
        available: String,
    },
    /// No such engine.
    #[error("there is no engine `{name}`; there are mdbx, memory and (with the feature) rocksdb")]
    Engine {
        /// Asked for.
        name: String,
    },
    /// Left out of this build.
    #[error(
        "{what} `{name}` is not compiled in; build with `cargo build --release --features {name}`"
    )]
    NotCompiledIn {
        /// `the state layer` or `the engine`.
        what: &'static str,
        /// Its name.
        name: String,
    },
}

/// The layer of this name.
///
/// # Errors
///
/// If there is none in this build.
pub fn layer(name: &str) -> Result<&'static LayerKind, UnknownKind> {
    if let Some(kind) = LAYERS.iter().find(|kind| kind.name == name) {
        return Ok(kind);
    }
    let name = name.to_owned();
    if NAMES.contains(&name.as_str()) {
        return Err(UnknownKind::NotCompiledIn { what: "the state layer", name });
    }
    let available: Vec<_> = LAYERS.iter().map(|kind| kind.name).collect();
    Err(UnknownKind::Layer { name, available: available.join(", ") })
}

/// What a user can set about engines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineOptions {
    /// Open for reading only.
    pub read_only: bool,
    /// `--kv.direct-io`: RocksDB reads and writes past the page cache.
    pub direct_io: bool,
    /// `--kv.cache`: bytes of RocksDB's block cache; `None` for its default.
    pub cache: Option<usize>,
}

/// Opens an engine in a directory, creating it where it is not there; `memory` ignores the directory.
///
/// # Errors
///
/// If the name is unknown, or the engine cannot be opened.
pub fn open_engine(
    name: &str,
    dir: &Path,
    tables: &[Table],
    options: EngineOptions,
) -> Result<Arc<dyn Engine>, EngineError> {
    match name {
        "memory" => Ok(Arc::new(MemoryEngine::new())),
        "mdbx" => {
            let options =
                MdbxOptions { read_only: options.read_only, ..MdbxOptions::new(dir, tables) };
            Ok(Arc::new(MdbxEngine::open(options)?))
        }
        #[cfg(feature = "rocksdb")]
        "rocksdb" => rocksdb(dir, tables, options),
        #[cfg(not(feature = "rocksdb"))]
        "rocksdb" => {
            Err(UnknownKind::NotCompiledIn { what: "the engine", name: name.to_owned() }.into())
        }
        _ => Err(UnknownKind::Engine { name: name.to_owned() }.into()),
    }
}

#[cfg(feature = "rocksdb")]
fn rocksdb(
    dir: &Path,
    tables: &[Table],
    options: EngineOptions,
) -> Result<Arc<dyn Engine>, EngineError> {
    use polytrie_kv_rocksdb::{RocksEngine, RocksOptions};
    let mut rocks = RocksOptions::new(dir, tables);
    rocks.read_only = options.read_only;
    rocks.direct_io = options.direct_io;
    if let Some(bytes) = options.cache {
        rocks.block_cache_bytes = bytes;
    }
    Ok(Arc::new(RocksEngine::open(rocks)?))
}

/// An engine could not be opened.
#[derive(Debug, Clone, Error)]
pub enum EngineError {
    /// There is none of that name.
    #[error(transparent)]
    Unknown(#[from] UnknownKind),
    /// It failed.
    #[error(transparent)]
    Store(#[from] KvError),
}

/// Blocks between two rotations unless told otherwise, as in the paper.
pub const DEFAULT_LMPT_INTERVAL: u64 = 1_000;

/// The name of the setting that an `lmpt` state is built with.
const LMPT_INTERVAL: &str = "lmpt.interval";

/// The settings of a layer that its data depends on, for the stamp.
pub fn baked_parameters(kind: &LayerKind, options: &LayerOptions) -> BTreeMap<String, String> {
    let mut parameters = BTreeMap::new();
    if kind.name == "lmpt" {
        let interval = options.lmpt_interval.unwrap_or(DEFAULT_LMPT_INTERVAL);
        parameters.insert(LMPT_INTERVAL.to_owned(), interval.to_string());
    }
    parameters
}

/// Takes over the settings that a data directory was made with.
///
/// # Errors
///
/// If another value was asked for.
pub fn adopt_parameters(
    options: &mut LayerOptions,
    stamp: &Stamp,
    dir: &Path,
) -> Result<(), StampError> {
    if let Some(found) = stamp.parameters.get(LMPT_INTERVAL) {
        let asked = options.lmpt_interval.map(|asked| asked.to_string());
        stamp.expect(dir, "data of --lmpt.interval", found, asked.as_deref())?;
        options.lmpt_interval = found.parse().ok();
    }
    Ok(())
}
