//! The one place that names every state layer and every engine. Adding one is an entry here, a line in
//! `Cargo.toml` and a crate.

use polytrie_kv::{Engine, KvError, MdbxEngine, MdbxOptions, MemoryEngine, StoreOptions, Table};
use polytrie_state::{Commitment, Proof, ProofError, Stamp, StampError, StateError, StateLayer};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};
use thiserror::Error;

/// What a user can set about layers; each layer reads its own part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerOptions {
    /// `--trie.cache`: bytes of trie nodes kept in memory between blocks.
    pub trie_cache: usize,
    /// `--lmpt.interval`: blocks between two rotations; `None` for what the data was made with, or the default.
    pub lmpt_interval: Option<u64>,
    /// `--lmpt.memory`: bytes of delta and intermediate kept in memory.
    pub lmpt_memory: usize,
    /// `--rain.retain`: levels of the account trie that always stay in memory.
    pub rain_retain: usize,
    /// `--replica.workers`: threads that keep the tries; `None` for one a core but one.
    pub replica_workers: Option<usize>,
    /// `--replica.readers`: threads that read rows ahead where the store is slow; `None` for the default.
    pub replica_readers: Option<usize>,
    /// `--replica.queue`: hints that may wait for each worker; `None` for the default.
    pub replica_queue: Option<usize>,
    /// `--replica.depth`: blocks that may be executed on top of one whose root is not known; `None` for the default.
    pub replica_depth: Option<usize>,
    /// `--replica.path`: a directory of its own for the flat state.
    pub replica_path: Option<PathBuf>,
    /// Whether the data directory is opened for reading only.
    pub read_only: bool,
    /// `--lvmt.setup` and `--lvmt.proofs`.
    #[cfg(feature = "lvmt")]
    pub lvmt: crate::lvmt::LvmtSettings,
}

impl Default for LayerOptions {
    /// Suits 2 cores and 8 GiB.
    fn default() -> Self {
        Self {
            trie_cache: 1 << 30,
            lmpt_interval: None,
            lmpt_memory: 1 << 30,
            rain_retain: 4,
            replica_workers: None,
            replica_readers: None,
            replica_queue: None,
            replica_depth: None,
            replica_path: None,
            read_only: false,
            #[cfg(feature = "lvmt")]
            lvmt: crate::lvmt::LvmtSettings::default(),
        }
    }
}

impl LayerOptions {
    /// The same with caches that leave room for everything else in so many bytes of memory: none is larger than a
    /// quarter of them.
    #[must_use]
    pub fn within(self, bytes: usize) -> Self {
        let quarter = bytes / 4;
        Self {
            trie_cache: self.trie_cache.min(quarter),
            lmpt_memory: self.lmpt_memory.min(quarter),
            ..self
        }
    }
}

#[cfg(test)]
impl LayerOptions {
    /// The defaults, with what a layer needs that no test should take from the user's directories, and intervals that
    /// end within short chains.
    pub(crate) fn for_tests() -> Self {
        Self {
            lmpt_interval: Some(5),
            #[cfg(feature = "lvmt")]
            lvmt: crate::lvmt::LvmtSettings {
                setup: Some(crate::testsetup::dir()),
                ..Default::default()
            },
            ..Self::default()
        }
    }
}

type OpenLayer = fn(polytrie_kv::Store, &LayerOptions) -> Result<Arc<dyn StateLayer>, StateError>;
type VerifyProof = fn(&LayerOptions, &Commitment, &Proof) -> Result<serde_json::Value, VerifyError>;

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
                cache_bytes: options.trie_cache,
                ..polytrie_lmpt::LmptOptions::default()
            };
            Ok(polytrie_lmpt::LmptLayer::open(store, options)?)
        },
        verify: Some(|_, commitment, proof| {
            let proven = polytrie_lmpt::verify(commitment.digest(), proof)?;
            Ok(serde_json::to_value(proven).map_err(|e| ProofError::Malformed(e.to_string()))?)
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
        verify: Some(|_, commitment, proof| {
            let account = polytrie_mpt::verify(commitment.digest(), proof)?;
            Ok(serde_json::to_value(account).map_err(|e| ProofError::Malformed(e.to_string()))?)
        }),
    },
    #[cfg(feature = "lvmt")]
    LayerKind {
        name: polytrie_lvmt::LvmtLayer::NAME,
        about: "multi-layer versioned multipoint trie: versions in vector commitments over BN254, values in append-only Merkle trees",
        canonical: false,
        tables: polytrie_lvmt::LvmtLayer::TABLES,
        open: |store, options| {
            let setup = crate::lvmt::open(&options.lvmt, polytrie_lvmt::stored_setup(&store)?)?;
            let options = polytrie_lvmt::LvmtOptions { proofs: options.lvmt.proofs };
            Ok(polytrie_lvmt::LvmtLayer::open(store, setup, options)?)
        },
        verify: Some(|options, commitment, proof| {
            let wanted = proof.proof.get("setup").and_then(|id| id.as_str()?.parse().ok());
            let (dir, key) = crate::lvmt::find(&options.lvmt, wanted)?;
            crate::lvmt::warn_if_insecure(key.is_insecure(), &dir);
            let proven = polytrie_lvmt::verify(&key, commitment, proof)?;
            Ok(serde_json::to_value(proven).map_err(|e| ProofError::Malformed(e.to_string()))?)
        }),
    },
    #[cfg(feature = "replica")]
    LayerKind {
        name: "replica",
        about: "flat state to read from, beside the trie that workers build while the block executes",
        canonical: true,
        tables: polytrie_replica::ReplicaLayer::TABLES,
        open: replica,
        verify: Some(|_, commitment, proof| {
            let account = polytrie_replica::verify(commitment.digest(), proof)?;
            Ok(serde_json::to_value(account).map_err(|e| ProofError::Malformed(e.to_string()))?)
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
        verify: Some(|_, commitment, proof| {
            let account = polytrie_rain::verify(commitment.digest(), proof)?;
            Ok(serde_json::to_value(account).map_err(|e| ProofError::Malformed(e.to_string()))?)
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

/// An engine that `--kv` may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineKind {
    /// Its name.
    pub name: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
    /// Whether it is part of this build.
    pub is_compiled_in: bool,
}

/// Every engine that `--kv` may name in some build.
pub const ENGINES: &[EngineKind] = &[
    EngineKind { name: "mdbx", about: "a B+ tree in one mapped file", is_compiled_in: true },
    EngineKind {
        name: "rocksdb",
        about: "a log-structured merge tree",
        is_compiled_in: cfg!(feature = "rocksdb"),
    },
    EngineKind {
        name: "memory",
        about: "nothing on any disk: for tests and throw-away devnets",
        is_compiled_in: true,
    },
];

/// The engines of this build, in words.
const AVAILABLE_ENGINES: &str = match cfg!(feature = "rocksdb") {
    true => "mdbx, rocksdb, memory",
    false => "mdbx, memory (and rocksdb with `--features rocksdb`)",
};

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
    #[error("there is no engine `{name}`; this build has {}", AVAILABLE_ENGINES)]
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
    /// `--kv.cache`: bytes of RocksDB's caches; `None` for its default.
    pub cache: Option<usize>,
    /// `--kv.buffer`: bytes of blocks in memory that make a flush begin; `None` for the store's default.
    pub buffer: Option<usize>,
}

impl EngineOptions {
    /// What to ask of the store on top of the engine.
    pub fn store(&self) -> StoreOptions {
        let default = StoreOptions::default();
        StoreOptions { overlay_bytes: self.buffer.unwrap_or(default.overlay_bytes), ..default }
    }
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
        rocks.cache_bytes = bytes;
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

/// Blocks between two rotations of `lmpt` unless told otherwise, as in the paper.
pub const DEFAULT_LMPT_INTERVAL: u64 = 1_000;

/// The name of the setting that an `lmpt` state is built with.
const LMPT_INTERVAL: &str = "lmpt.interval";

/// Opens `replica`; its flat state may have a store of its own, under the same engine.
#[cfg(feature = "replica")]
fn replica(
    store: polytrie_kv::Store,
    options: &LayerOptions,
) -> Result<Arc<dyn StateLayer>, StateError> {
    use polytrie_kv::Store;
    use polytrie_replica::{FlatStore, ReplicaLayer, ReplicaOptions};
    let flat = match &options.replica_path {
        None => None,
        Some(dir) => {
            let tables = ReplicaLayer::FLAT_TABLES;
            let access = EngineOptions { read_only: options.read_only, ..EngineOptions::default() };
            let engine = open_engine(store.engine_name(), dir, tables, access);
            let engine = engine.map_err(|error| match error {
                EngineError::Store(error) => StateError::Store(error),
                EngineError::Unknown(error) => StateError::Corrupt(error.to_string()),
            })?;
            // The layer says when it is flushed: never before the store of the trie.
            let flush = StoreOptions {
                flush_every: u64::MAX,
                overlay_bytes: usize::MAX,
                ..StoreOptions::default()
            };
            Some(FlatStore(Store::open(engine, tables, flush)?))
        }
    };
    let default = ReplicaOptions::default();
    let options = ReplicaOptions {
        cache_bytes: options.trie_cache,
        workers: options.replica_workers.unwrap_or(default.workers),
        readers: options.replica_readers.unwrap_or(default.readers),
        queue: options.replica_queue.unwrap_or(default.queue),
        depth: options.replica_depth.unwrap_or(default.depth),
        flat,
    };
    Ok(ReplicaLayer::open(store, options)?)
}

/// The name of the setting that says where a `replica` keeps its flat state.
const REPLICA_PATH: &str = "replica.path";

/// Where the flat state of a data directory is, if that is elsewhere.
pub fn replica_path(stamp: &Stamp) -> Option<PathBuf> {
    stamp.parameters.get(REPLICA_PATH).map(PathBuf::from)
}

/// A path as it is kept and compared: absolute, as a relative one would mean another directory in another working
/// directory, and without what changes nothing (`.`, a slash at the end).
pub(crate) fn normal(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute.components().collect()
}

/// The same in words, for the stamp.
fn absolute(dir: &Path) -> String {
    normal(dir).display().to_string()
}

/// Whether two paths name the same directory, which need not be there.
fn is_same(a: &Path, b: &Path) -> bool {
    let canonical = |path| std::fs::canonicalize(path).ok();
    normal(a) == normal(b) || canonical(a).is_some_and(|a| Some(a) == canonical(b))
}

/// Takes over where the flat state of a data directory is.
///
/// # Errors
///
/// If another place was asked for.
pub fn adopt_replica_path(
    options: &mut LayerOptions,
    stamp: &Stamp,
    dir: &Path,
) -> Result<(), StampError> {
    let found = replica_path(stamp);
    let asked = match (options.replica_path.take(), &found) {
        (Some(asked), Some(found)) if is_same(&asked, found) => None,
        (asked, _) => asked.as_deref().map(absolute),
    };
    let words = found.as_deref().map_or_else(|| "beside the trie".to_owned(), absolute);
    stamp.expect(dir, "a flat state (--replica.path)", &words, asked.as_deref())?;
    options.replica_path = found;
    Ok(())
}

/// A proof could not be verified, or does not hold.
#[derive(Debug, Clone, Error)]
pub enum VerifyError {
    /// It does not hold.
    #[error(transparent)]
    Proof(#[from] ProofError),
    /// What is needed to verify it is not there.
    #[error(transparent)]
    Unable(#[from] StateError),
}

/// Settles the settings of a layer that its data depends on, and returns them for the stamp. A directory that
/// has a stamp already (`stamped`) gets the settings it was made with, where they can be found.
///
/// # Errors
///
/// If what the layer needs is not there, or it has nothing to put where another one has.
pub fn settle_parameters(
    kind: &LayerKind,
    options: &mut LayerOptions,
    stamped: Option<&BTreeMap<String, String>>,
) -> Result<BTreeMap<String, String>, StateError> {
    if stamped.is_none() && kind.name != "replica" && options.replica_path.is_some() {
        let reason = "keeps no flat state in a directory of its own; leave out --replica.path, or use --state replica";
        return Err(StateError::Unsupported { layer: kind.name, reason: reason.to_owned() });
    }
    #[cfg(feature = "lvmt")]
    if kind.name == polytrie_lvmt::LvmtLayer::NAME {
        let wanted =
            stamped.and_then(|parameters| parameters.get(crate::lvmt::SETUP)?.parse().ok());
        let (dir, key) = crate::lvmt::find(&options.lvmt, wanted)?;
        options.lvmt.setup = Some(dir);
        return Ok(crate::lvmt::parameters(&key));
    }
    if kind.name == "lmpt" {
        let made_with = stamped.and_then(|parameters| parameters.get(LMPT_INTERVAL)?.parse().ok());
        let interval = options.lmpt_interval.or(made_with).unwrap_or(DEFAULT_LMPT_INTERVAL);
        options.lmpt_interval = Some(interval);
        return Ok(BTreeMap::from([(LMPT_INTERVAL.to_owned(), interval.to_string())]));
    }
    if let Some(stamped) = stamped.filter(|_| kind.name == "replica") {
        // What was asked for is compared by `adopt_replica_path`.
        return Ok(stamped.clone());
    }
    let mut parameters = BTreeMap::new();
    if let ("replica", Some(dir)) = (kind.name, &options.replica_path) {
        parameters.insert(REPLICA_PATH.to_owned(), absolute(dir));
    }
    Ok(parameters)
}
