//! Options that several commands share.

use crate::{
    access_lists::AccessListMode,
    chain::ChainOptions,
    datadir::OpenOptions,
    executor::Prefetch,
    layers::values::parse_bytes,
    layers::{ENGINES, EngineOptions, LAYERS, LayerNeeds, LayerOptions},
};
use clap::{
    Arg, Args, Command,
    builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser},
};
use std::{ffi::OsStr, path::PathBuf, thread, time::Duration};

/// Which data directory, and how to open it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Data directory")]
pub(super) struct DataArgs {
    /// Directory of chain and state; made if it is not there.
    #[arg(long, value_name = "DIR")]
    pub(super) datadir: Option<PathBuf>,
    /// State layer: what keeps and authenticates the state. A new directory gets `mpt`; one that holds
    /// something keeps its layer.
    #[arg(long, value_name = "LAYER", value_parser = LAYER_NAME)]
    state: Option<String>,
    /// Key-value engine. A new directory gets `mdbx`; `memory` keeps nothing, and is refused
    /// for a directory that holds a chain.
    #[arg(long, value_name = "ENGINE", value_parser = ENGINE_NAME)]
    kv: Option<String>,
    /// Separate directory for the flat state of the layer `replica`, for example on another disk. It must be empty at first,
    /// and belongs to one data directory, which remembers it.
    #[arg(long = "replica.path", value_name = "DIR")]
    replica_path: Option<PathBuf>,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    layer: LayerOptions,
}

impl DataArgs {
    /// Options that open the directory. They name no chain.
    pub(super) fn options(&self) -> OpenOptions {
        OpenOptions {
            datadir: self.datadir.clone(),
            chain: None,
            state: self.state.clone(),
            kv: self.kv.clone(),
            layer: LayerOptions { replica_path: self.replica_path.clone(), ..self.layer.clone() },
            engine: self.engine.options(),
            store: self.engine.options().store(),
            flush_every: None,
            chain_options: ChainOptions::default(),
            first_block: None,
        }
    }
}

/// Blocks that take long.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct SlowBlockArg {
    /// Log a line of JSON for each block that takes at least so many milliseconds, 0 for every block: its time and gas, its
    /// reads and writes of accounts, slots and code, and repeated reads, under the names of geth's --debug.logslowblock.
    #[arg(long, value_name = "MS", help_heading = "Logging")]
    log_slow_block: Option<u64>,
}

impl SlowBlockArg {
    /// Time from which on a block gets a log line; `None` if no block gets one.
    pub(super) fn least(self) -> Option<Duration> {
        self.log_slow_block.map(Duration::from_millis)
    }
}

/// Values of `--prefetch`.
pub(super) fn prefetch() -> impl TypedValueParser<Value = Prefetch> {
    let value = |name, help| PossibleValue::new(name).help(help);
    let values = [
        value("auto", "While the store is slow: while transactions wait for a disk"),
        value("on", "Always"),
        value("off", "Never"),
    ];
    PossibleValuesParser::new(values).map(|name| match name.as_str() {
        "auto" => Prefetch::Auto,
        "on" => Prefetch::On,
        _ => Prefetch::Off,
    })
}

/// Values of `--bal`.
pub(super) fn access_list_mode() -> impl TypedValueParser<Value = AccessListMode> {
    let value = |name, help| PossibleValue::new(name).help(help);
    let values = [
        value("off", "They are not read"),
        value(
            "hints",
            "Their accounts and slots are announced to the state layer, and may be read ahead",
        ),
        value("trie", "The commitment is also computed from the values in them, while blocks run"),
        value("parallel", "Transactions also run at the same time"),
    ];
    PossibleValuesParser::new(values).map(|name| match name.as_str() {
        "hints" => AccessListMode::Hints,
        "trie" => AccessListMode::Trie,
        "parallel" => AccessListMode::Parallel,
        _ => AccessListMode::Off,
    })
}

/// Number of cores that this process may use; 1 where the system does not report it.
pub(super) fn core_count() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Threads that run transactions: the number asked for, or one for each core.
pub(super) fn access_list_threads(asked: Option<u16>) -> usize {
    asked.map_or_else(core_count, usize::from)
}

/// Settings of the engines.
#[derive(Debug, Args)]
pub(super) struct EngineArgs {
    /// Let RocksDB read and write past the page cache.
    #[arg(long = "kv.direct-io")]
    direct_io: bool,
    /// Bytes of RocksDB's caches [default: 256M], or of the cache of rows from Cassandra [default: 64M] (k, M, G may follow).
    #[arg(long = "kv.cache", value_name = "BYTES", value_parser = parse_bytes)]
    kv_cache: Option<usize>,
    /// Bytes of blocks that gather in memory before they are made durable together (k, M, G may follow); meanwhile as many
    /// may gather again. The engine rewrites fewer pages if more gather [default: 128M]
    #[arg(long = "kv.buffer", value_name = "BYTES", value_parser = parse_bytes)]
    kv_buffer: Option<usize>,
    /// Some nodes of the cluster of Cassandra, which name the others. A directory remembers them.
    #[arg(long = "kv.nodes", value_name = "HOST:PORT,…", value_delimiter = ',')]
    kv_nodes: Vec<String>,
    /// The keyspace of Cassandra for the stores. A directory remembers it [default: polytrie]
    #[arg(long = "kv.keyspace", value_name = "NAME")]
    kv_keyspace: Option<String>,
    /// Seconds for which a request to Cassandra is repeated while nodes are slow, or too few of them answer, before the command
    /// fails [default: 60]
    #[arg(long = "kv.patience", value_name = "SECONDS")]
    kv_patience: Option<u64>,
    /// The role that logs in to Cassandra, if its nodes ask for one. A directory remembers it.
    #[arg(long = "kv.user", value_name = "NAME", requires = "kv_password_file")]
    kv_user: Option<String>,
    /// File that holds the password of that role on one line. A directory remembers the path of the file, and never the password.
    #[arg(long = "kv.password-file", value_name = "FILE", requires = "kv_user")]
    kv_password_file: Option<PathBuf>,
    /// Connect to Cassandra with TLS: PEM file with the certificate of the authority that signed those of the nodes, which name
    /// their IP addresses. A directory remembers the path of the file.
    #[arg(long = "kv.tls-ca", value_name = "FILE")]
    kv_tls_ca: Option<PathBuf>,
}

impl EngineArgs {
    /// Options of the engine. Those without a setting here keep their defaults.
    pub(super) fn options(&self) -> EngineOptions {
        EngineOptions {
            direct_io: self.direct_io,
            cache: self.kv_cache,
            buffer: self.kv_buffer,
            nodes: self.kv_nodes.clone(),
            keyspace: self.kv_keyspace.clone(),
            patience: self.kv_patience,
            login: self.kv_user.clone().zip(self.kv_password_file.clone()),
            tls_ca: self.kv_tls_ca.clone(),
            ..EngineOptions::default()
        }
    }
}

/// A data directory that exists.
#[derive(Debug, Args)]
#[command(next_help_heading = "Data directory")]
pub(super) struct StoredArgs {
    /// Directory of chain and state.
    #[arg(long, value_name = "DIR")]
    pub(super) datadir: PathBuf,
    /// The state layer that is expected in it [default: whatever it holds]
    #[arg(long, value_name = "LAYER", value_parser = LAYER_NAME)]
    state: Option<String>,
    #[command(flatten)]
    needs: LayerNeeds,
}

impl StoredArgs {
    /// Options that open the directory. They name no chain.
    pub(super) fn options(&self, read_only: bool) -> OpenOptions {
        OpenOptions {
            datadir: Some(self.datadir.clone()),
            state: self.state.clone(),
            layer: self.needs.clone().into(),
            engine: EngineOptions { read_only, ..EngineOptions::default() },
            ..OpenOptions::default()
        }
    }
}

/// Which chain.
#[derive(Debug, Args)]
pub(super) struct ChainArg {
    /// mainnet, sepolia, holesky, hoodi, dev, or the path of a genesis.json as geth writes it. A directory
    /// that holds a chain knows its own.
    #[arg(long, value_name = "CHAIN")]
    pub(super) chain: Option<String>,
}

/// A name whose help lists the names of this build. The parser accepts any text, since the code that opens a layer or
/// an engine also knows the names of other builds and gives the better error.
#[derive(Debug, Clone, Copy)]
pub(super) struct Name(fn() -> Vec<PossibleValue>);

/// The name of a state layer.
pub(super) const LAYER_NAME: Name =
    Name(|| LAYERS.iter().map(|kind| PossibleValue::new(kind.name).help(kind.about)).collect());

/// The name of an engine.
pub(super) const ENGINE_NAME: Name = Name(|| {
    let here = ENGINES.iter().filter(|engine| engine.is_compiled_in());
    here.map(|engine| PossibleValue::new(engine.name).help(engine.about)).collect()
});

impl TypedValueParser for Name {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter()))
    }
}
