//! The engines that can keep the rows of a layer.

use super::UnknownKind;
use polytrie_kv::{Engine, KvError, MdbxEngine, MdbxOptions, MemoryEngine, StoreOptions, Table};
use serde::{Deserialize, Serialize};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use thiserror::Error;

type OpenEngine = fn(&Path, &[Table], EngineOptions) -> Result<Arc<dyn Engine>, KvError>;

/// Description of an engine that `--kv` may name.
#[derive(Debug, Clone, Copy)]
pub struct EngineKind {
    /// Name for `--kv`.
    pub name: &'static str,
    /// Description in one line, for `--help`.
    pub about: &'static str,
    /// Function that opens the engine in a directory; `None` if this build does not have the engine.
    open: Option<OpenEngine>,
}

impl EngineKind {
    /// Whether this build has the engine.
    pub const fn is_compiled_in(&self) -> bool {
        self.open.is_some()
    }
}

/// Engines that `--kv` may name in some build.
pub const ENGINES: &[EngineKind] = &[
    EngineKind { name: "mdbx", about: "a B+ tree in one mapped file", open: Some(mdbx) },
    EngineKind {
        name: ROCKSDB,
        about: "a log-structured merge tree",
        #[cfg(feature = "rocksdb")]
        open: Some(rocksdb),
        #[cfg(not(feature = "rocksdb"))]
        open: None,
    },
    EngineKind {
        name: CLUSTER,
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

/// Name of the engine with caches of its own.
const ROCKSDB: &str = "rocksdb";

/// Name of the engine on other machines.
const CLUSTER: &str = "cassandra";

/// Returns whether the rows of this engine are on other machines.
pub fn is_elsewhere(name: &str) -> bool {
    name == CLUSTER
}

/// Name of the engine that a new data directory gets by default.
pub const DEFAULT_ENGINE: &str = "mdbx";

/// Checks that this build has an engine of this name.
///
/// # Errors
///
/// Fails with [`UnknownKind`], whose message lists the engines of this build.
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

/// Returns the names of this build's engines in words, and the features that would add the others.
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

/// Settings of an engine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineOptions {
    /// Whether the engine is opened for reading only.
    pub read_only: bool,
    /// Whether the engine is opened even if data are missing that it had confirmed: for `polytrie db repair`.
    #[serde(skip)]
    pub repair: bool,
    /// Whether all stored data are read and checked while the engine is opened: for `polytrie db check`. Only MDBX does
    /// so; other engines find damage as they read.
    #[serde(skip)]
    pub check: bool,
    /// Whether writes return before they are on the disk, so that a loss of power may take any of them: for benchmarks
    /// that repeat a measurement made in this way. No option of a command sets it.
    #[serde(default)]
    pub unsynced: bool,
    /// `--kv.direct-io`: whether RocksDB bypasses the page cache.
    pub direct_io: bool,
    /// `--kv.cache`: bytes of RocksDB's caches, or of the cache for rows from Cassandra; `None` for the default.
    pub cache: Option<usize>,
    /// `--kv.buffer`: bytes of blocks in memory at which a flush starts; `None` for the store's default.
    pub buffer: Option<usize>,
    /// `--kv.nodes`: some nodes of the cluster, as `host:port`; empty for those that the directory remembers.
    pub nodes: Vec<String>,
    /// `--kv.keyspace`: the keyspace of the cluster that holds the stores.
    pub keyspace: Option<String>,
    /// `--kv.patience`: seconds for which a request to the cluster is repeated; `None` for the engine's default.
    pub patience: Option<u64>,
    /// `--kv.user` and `--kv.password-file`: the role that logs in to the cluster, and the file of its password. As the
    /// next one it is no part of a report, since benchmarks use no cluster.
    #[serde(skip)]
    pub login: Option<(String, PathBuf)>,
    /// `--kv.tls-ca`: the file of the authority that signed the certificates of the nodes; `None` for connections without
    /// TLS, unless the directory remembers one.
    #[serde(skip)]
    pub tls_ca: Option<PathBuf>,
}

impl EngineOptions {
    /// Checks that the options of the cluster are given to the engine that connects to one. Another engine would ignore them,
    /// and the rows would be on this machine, or go there without the protection that was asked for.
    ///
    /// # Errors
    ///
    /// Fails with [`UnknownKind`], which names the first such option.
    pub fn expect_for(&self, engine: &str) -> Result<(), UnknownKind> {
        let of_cluster = [
            ("--kv.nodes", !self.nodes.is_empty()),
            ("--kv.keyspace", self.keyspace.is_some()),
            ("--kv.patience", self.patience.is_some()),
            ("--kv.user", self.login.is_some()),
            ("--kv.tls-ca", self.tls_ca.is_some()),
        ];
        match of_cluster.into_iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) if !is_elsewhere(engine) => {
                Err(UnknownKind::OtherEngine { option, of: CLUSTER, engine: engine.to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// Checks that the engine has every option that a user gave. A benchmark gives some to engines that have none of them, so
    /// the opening of an engine does not check this.
    ///
    /// # Errors
    ///
    /// Fails with [`UnknownKind`], which names the first option that has no effect.
    pub fn expect_used(&self, engine: &str) -> Result<(), UnknownKind> {
        self.expect_for(engine)?;
        let (option, of) = match engine {
            ROCKSDB => return Ok(()),
            _ if self.direct_io => ("--kv.direct-io", ROCKSDB),
            _ if self.cache.is_some() && !is_elsewhere(engine) => {
                ("--kv.cache", "rocksdb or cassandra")
            }
            _ => return Ok(()),
        };
        Err(UnknownKind::OtherEngine { option, of, engine: engine.to_owned() })
    }

    /// Returns the options of the store on top of the engine.
    pub fn store(&self) -> StoreOptions {
        let default = StoreOptions::default();
        StoreOptions { overlay_bytes: self.buffer.unwrap_or(default.overlay_bytes), ..default }
    }
}

/// Opens an engine in a directory, and creates it if it is not there. `memory` ignores the directory.
///
/// # Errors
///
/// Fails if the name is unknown, if the options are for another engine, or if the engine cannot be opened.
pub fn open_engine(
    name: &str,
    dir: &Path,
    tables: &[Table],
    options: EngineOptions,
) -> Result<Arc<dyn Engine>, EngineError> {
    let open = opener(name)?;
    options.expect_for(name)?;
    Ok(open(dir, tables, options)?)
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
    use polytrie_kv_cassandra::{Access, CassandraEngine, CassandraOptions, Login};
    let mut cassandra = CassandraOptions::new(dir, tables);
    cassandra.read_only = options.read_only;
    cassandra.nodes = options.nodes;
    cassandra.keyspace = options.keyspace;
    let login = options.login.map(|(user, password_file)| Login { user, password_file });
    cassandra.access = Access { login, tls_ca: options.tls_ca };
    if let Some(seconds) = options.patience {
        cassandra.patience = std::time::Duration::from_secs(seconds);
    }
    if let Some(bytes) = options.cache {
        cassandra.cache_bytes = bytes;
    }
    Ok(Arc::new(CassandraEngine::open(cassandra)?))
}

/// Error of an engine that cannot be opened.
#[derive(Debug, Clone, Error)]
pub enum EngineError {
    /// A name that no engine of this build has.
    #[error(transparent)]
    Unknown(#[from] UnknownKind),
    /// An error of the engine itself.
    #[error(transparent)]
    Store(#[from] KvError),
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn options_without_effect_are_refused() {
        let none = EngineOptions::default;
        let direct = EngineOptions { direct_io: true, ..none() };
        let cache = EngineOptions { cache: Some(1 << 20), ..none() };
        let nodes = EngineOptions { nodes: vec!["10.0.0.1:9042".to_owned()], ..none() };
        let buffer = EngineOptions { buffer: Some(1 << 20), ..none() };
        for engine in ENGINES.iter().map(|engine| engine.name) {
            let refused = |options: &EngineOptions| match options.expect_used(engine) {
                Ok(()) => String::new(),
                Err(error) => error.to_string(),
            };
            assert_eq!(refused(&none()), "");
            assert_eq!(refused(&buffer), "");
            assert_eq!(refused(&direct).is_empty(), engine == ROCKSDB, "{engine}");
            assert_eq!(
                refused(&cache).is_empty(),
                [ROCKSDB, CLUSTER].contains(&engine),
                "{engine}"
            );
            assert_eq!(refused(&nodes).is_empty(), engine == CLUSTER, "{engine}");
        }
        let error = cache.expect_used("mdbx").unwrap_err().to_string();
        assert!(error.contains("--kv.cache goes with --kv rocksdb or cassandra"), "{error}");
    }

    #[test]
    fn options_of_the_cluster_are_for_the_cluster() {
        let none = EngineOptions::default;
        let login = Some(("importer".to_owned(), "password".into()));
        let each = [
            ("--kv.nodes", EngineOptions { nodes: vec!["10.0.0.1:9042".to_owned()], ..none() }),
            ("--kv.keyspace", EngineOptions { keyspace: Some("chains".to_owned()), ..none() }),
            ("--kv.patience", EngineOptions { patience: Some(5), ..none() }),
            ("--kv.user", EngineOptions { login, ..none() }),
            ("--kv.tls-ca", EngineOptions { tls_ca: Some("ca".into()), ..none() }),
        ];
        for engine in ENGINES.iter().map(|engine| engine.name) {
            none().expect_for(engine).unwrap();
            for (name, options) in &each {
                match options.expect_for(engine) {
                    Ok(()) => assert!(is_elsewhere(engine)),
                    Err(error) => {
                        let error = error.to_string();
                        assert!(error.contains(name) && error.contains("cassandra"), "{error}");
                        assert!(error.contains(engine) && !is_elsewhere(engine), "{error}");
                    }
                }
            }
        }
    }
}
