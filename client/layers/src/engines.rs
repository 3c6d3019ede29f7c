//! The engines that the rows of a layer can be kept in.

use super::UnknownKind;
use polytrie_kv::{Engine, KvError, MdbxEngine, MdbxOptions, MemoryEngine, StoreOptions, Table};
use serde::{Deserialize, Serialize};
use std::{path::Path, sync::Arc};
use thiserror::Error;

type OpenEngine = fn(&Path, &[Table], EngineOptions) -> Result<Arc<dyn Engine>, KvError>;

/// An engine that `--kv` may name.
#[derive(Debug, Clone, Copy)]
pub struct EngineKind {
    /// Its name.
    pub name: &'static str,
    /// A description in one line, for `--help`.
    pub about: &'static str,
    /// Opens it in a directory; `None` if it is not part of this build.
    open: Option<OpenEngine>,
}

impl EngineKind {
    /// Whether it is part of this build.
    pub const fn is_compiled_in(&self) -> bool {
        self.open.is_some()
    }
}

/// Every engine that `--kv` may name in some build.
pub const ENGINES: &[EngineKind] = &[
    EngineKind { name: "mdbx", about: "a B+ tree in one mapped file", open: Some(mdbx) },
    EngineKind {
        name: "rocksdb",
        about: "a log-structured merge tree",
        #[cfg(feature = "rocksdb")]
        open: Some(rocksdb),
        #[cfg(not(feature = "rocksdb"))]
        open: None,
    },
    EngineKind {
        name: "cassandra",
        about: "a replicated cluster of other machines",
        #[cfg(feature = "cassandra")]
        open: Some(cassandra),
        #[cfg(not(feature = "cassandra"))]
        open: None,
    },
    EngineKind {
        name: "memory",
        about: "nothing on any disk: for tests and throw-away devnets",
        open: Some(|_, _, _| Ok(Arc::new(MemoryEngine::new()))),
    },
];

/// Whether an engine has other machines keep the rows.
#[cfg(feature = "rain")]
pub(crate) fn is_elsewhere(name: &str) -> bool {
    name == "cassandra"
}

/// The engine a new data directory gets by default.
pub const DEFAULT_ENGINE: &str = "mdbx";

/// Fails with a sentence if this build has no engine of this name.
///
/// # Errors
///
/// [`UnknownKind`].
pub fn expect_engine(name: &str) -> Result<(), UnknownKind> {
    opener(name).map(drop)
}

fn opener(name: &str) -> Result<OpenEngine, UnknownKind> {
    let Some(kind) = ENGINES.iter().find(|kind| kind.name == name) else {
        return Err(UnknownKind::Engine { name: name.to_owned(), available: available() });
    };
    let missing = || UnknownKind::NotCompiledIn { what: "the engine", name: name.to_owned() };
    kind.open.ok_or_else(missing)
}

/// The engines of this build, in words, with what would add the others.
fn available() -> String {
    let (here, missing): (Vec<&EngineKind>, _) =
        ENGINES.iter().partition(|kind| kind.is_compiled_in());
    let names: Vec<_> = here.iter().map(|kind| kind.name).collect();
    let mut words = names.join(", ");
    for EngineKind { name, .. } in missing {
        words += &format!(" (and {name} with `--features {name}`)");
    }
    words
}

/// What a user can set about engines.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineOptions {
    /// Open for reading only.
    pub read_only: bool,
    /// Open it even if something is missing that was confirmed: for `polytrie db repair`.
    #[serde(skip)]
    pub repair: bool,
    /// Look at all that is stored before it is open: for `polytrie db check`. Of MDBX only: others find damage as they read.
    #[serde(skip)]
    pub check: bool,
    /// No write waits until it is on the disk, and a loss of power may take any of them: for benchmarks that repeat what was
    /// measured so. No option of a command sets it.
    #[serde(default)]
    pub unsynced: bool,
    /// `--kv.direct-io`: RocksDB reads and writes past the page cache.
    pub direct_io: bool,
    /// `--kv.cache`: bytes of RocksDB's caches, or of the rows that are kept of what Cassandra answered; `None` for the default.
    pub cache: Option<usize>,
    /// `--kv.buffer`: bytes of blocks in memory that make a flush begin; `None` for the store's default.
    pub buffer: Option<usize>,
    /// `--kv.nodes`: some nodes of the cluster, as `host:port`; none for those that the directory remembers.
    pub nodes: Vec<String>,
    /// `--kv.keyspace`: where in the cluster stores are.
    pub keyspace: Option<String>,
    /// `--kv.patience`: seconds for which a request to the cluster is repeated; `None` for the engine's default.
    pub patience: Option<u64>,
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
    Ok(opener(name)?(dir, tables, options)?)
}

fn mdbx(dir: &Path, tables: &[Table], options: EngineOptions) -> Result<Arc<dyn Engine>, KvError> {
    let EngineOptions { read_only, repair, check, unsynced, .. } = options;
    let durable = !unsynced;
    let options =
        MdbxOptions { read_only, repair, check, durable, ..MdbxOptions::new(dir, tables) };
    Ok(Arc::new(MdbxEngine::open(options)?))
}

#[cfg(feature = "rocksdb")]
fn rocksdb(
    dir: &Path,
    tables: &[Table],
    options: EngineOptions,
) -> Result<Arc<dyn Engine>, KvError> {
    use polytrie_kv_rocksdb::{RocksEngine, RocksOptions};
    let mut rocks = RocksOptions::new(dir, tables);
    rocks.read_only = options.read_only;
    rocks.direct_io = options.direct_io;
    rocks.durable = !options.unsynced;
    if let Some(bytes) = options.cache {
        rocks.cache_bytes = bytes;
    }
    Ok(Arc::new(RocksEngine::open(rocks)?))
}

#[cfg(feature = "cassandra")]
fn cassandra(
    dir: &Path,
    tables: &[Table],
    options: EngineOptions,
) -> Result<Arc<dyn Engine>, KvError> {
    use polytrie_kv_cassandra::{CassandraEngine, CassandraOptions};
    let mut cassandra = CassandraOptions::new(dir, tables);
    cassandra.read_only = options.read_only;
    cassandra.nodes = options.nodes;
    cassandra.keyspace = options.keyspace;
    if let Some(seconds) = options.patience {
        cassandra.patience = std::time::Duration::from_secs(seconds);
    }
    if let Some(bytes) = options.cache {
        cassandra.cache_bytes = bytes;
    }
    Ok(Arc::new(CassandraEngine::open(cassandra)?))
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
