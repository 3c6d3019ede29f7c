//! Options that several commands share.

#[cfg(feature = "lvmt")]
use crate::layers::lvmt::LvmtSettings;
use crate::{
    chain::ChainOptions,
    datadir::OpenOptions,
    layers::{ENGINES, EngineOptions, LAYERS, LayerOptions},
};
use clap::{
    Arg, Args, Command,
    builder::{PossibleValue, RangedU64ValueParser, StringValueParser, TypedValueParser},
};
use std::{ffi::OsStr, path::PathBuf};

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
    /// Directory of its own for the flat state of the layer `replica`, on another disk perhaps. It must be empty at first,
    /// and belongs to one data directory, which remembers it.
    #[arg(long = "replica.path", value_name = "DIR")]
    replica_path: Option<PathBuf>,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    layer: LayerArgs,
}

impl DataArgs {
    /// What to ask of the directory; the chain is left open.
    pub(super) fn options(&self) -> OpenOptions {
        OpenOptions {
            datadir: self.datadir.clone(),
            chain: None,
            state: self.state.clone(),
            kv: self.kv.clone(),
            layer: LayerOptions { replica_path: self.replica_path.clone(), ..self.layer.options() },
            engine: self.engine.options(),
            store: self.engine.options().store(),
            chain_options: ChainOptions::default(),
            first_block: None,
        }
    }
}

/// Settings of the engines.
#[derive(Debug, Args)]
pub(super) struct EngineArgs {
    /// RocksDB reads and writes past the page cache.
    #[arg(long = "kv.direct-io")]
    direct_io: bool,
    /// Bytes of RocksDB's caches (k, M, G may follow).
    #[arg(long = "kv.cache", value_name = "BYTES", value_parser = parse_bytes)]
    kv_cache: Option<usize>,
    /// Bytes of blocks that gather in memory before they are made durable together (k, M, G may follow); while that
    /// happens, as many may gather again. The more there are, the fewer pages the engine rewrites [default: 128M]
    #[arg(long = "kv.buffer", value_name = "BYTES", value_parser = parse_bytes)]
    kv_buffer: Option<usize>,
}

impl EngineArgs {
    /// What to ask of the engine.
    pub(super) fn options(&self) -> EngineOptions {
        EngineOptions {
            read_only: false,
            direct_io: self.direct_io,
            cache: self.kv_cache,
            buffer: self.kv_buffer,
        }
    }
}

/// Settings of the layers; each reads its own.
#[derive(Debug, Args)]
#[command(next_help_heading = "State layers")]
pub(super) struct LayerArgs {
    /// Bytes of trie nodes kept in memory between blocks (k, M, G may follow).
    #[arg(long = "trie.cache", value_name = "BYTES", value_parser = parse_bytes, default_value = "1G")]
    trie_cache: usize,
    /// Blocks after which the delta of `lmpt` becomes its intermediate. Belongs to the data: a new directory gets
    /// 1000, one that holds something keeps its own.
    #[arg(long = "lmpt.interval", value_name = "BLOCKS", value_parser = clap::value_parser!(u64).range(1..))]
    lmpt_interval: Option<u64>,
    /// Bytes of delta and intermediate of `lmpt` kept in memory (k, M, G may follow); what is above goes to a
    /// scratch directory.
    #[arg(long = "lmpt.memory", value_name = "BYTES", value_parser = parse_bytes, default_value = "1G")]
    lmpt_memory: usize,
    /// Levels of the account trie that `rain` always keeps in memory; those below share --trie.cache.
    #[arg(long = "rain.retain", value_name = "LEVELS", default_value_t = 4)]
    rain_retain: usize,
    #[command(flatten)]
    replica: ReplicaArgs,
    #[cfg(feature = "lvmt")]
    #[command(flatten)]
    lvmt: LvmtArgs,
}

/// Settings of the layer `replica`.
#[derive(Debug, Args)]
#[command(next_help_heading = "State layer replica")]
struct ReplicaArgs {
    /// Threads that keep the tries; with 0 the trie is built when the block ends [default: one a core but one]
    #[arg(long = "replica.workers", value_name = "N", value_parser = at_most(MOST_THREADS))]
    workers: Option<usize>,
    /// Threads that read rows ahead of the workers where the store is slow [default: 8]
    #[arg(long = "replica.readers", value_name = "N", value_parser = at_most(MOST_THREADS))]
    readers: Option<usize>,
    /// Hints that may wait for each worker; what comes while the queue is full is dropped [default: 4096]
    #[arg(long = "replica.queue", value_name = "N", value_parser = at_most(1 << 20))]
    queue: Option<usize>,
    /// Blocks that may be executed on top of one whose root is still being computed; nothing is written before its
    /// root is verified; 0 waits for each root, as in the paper [default: 4]
    #[arg(long = "replica.depth", value_name = "N", value_parser = at_most(1024))]
    depth: Option<usize>,
}

/// Settings of `lvmt`.
#[cfg(feature = "lvmt")]
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "LVMT")]
pub(super) struct LvmtArgs {
    /// What the layer can prove: `none`; `full`, every key; or I/N, the keys of shard I of N (a power of two).
    #[arg(long = "lvmt.proofs", value_name = "WHAT", default_value = "none")]
    proofs: polytrie_lvmt::Proofs,
    #[command(flatten)]
    setup: LvmtSetupArg,
}

/// Where the setup of `lvmt` is.
#[cfg(feature = "lvmt")]
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "LVMT")]
pub(super) struct LvmtSetupArg {
    /// Directory of the setup, as `polytrie setup lvmt` makes it [default: polytrie/lvmt in the user's cache]
    #[arg(long = "lvmt.setup", value_name = "DIR", env = "POLYTRIE_LVMT_SETUP")]
    setup: Option<PathBuf>,
}

#[cfg(feature = "lvmt")]
impl LvmtSetupArg {
    /// The settings, with as many proofs as are asked for.
    pub(super) fn settings(&self, proofs: polytrie_lvmt::Proofs) -> LvmtSettings {
        LvmtSettings { setup: self.setup.clone(), proofs }
    }
}

impl LayerArgs {
    /// What to ask of the layer.
    pub(super) fn options(&self) -> LayerOptions {
        LayerOptions {
            trie_cache: self.trie_cache,
            lmpt_interval: self.lmpt_interval,
            lmpt_memory: self.lmpt_memory,
            rain_retain: self.rain_retain,
            replica_workers: self.replica.workers,
            replica_readers: self.replica.readers,
            replica_queue: self.replica.queue,
            replica_depth: self.replica.depth,
            #[cfg(feature = "lvmt")]
            lvmt: self.lvmt.setup.settings(self.lvmt.proofs),
            ..LayerOptions::default()
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
    #[cfg(feature = "lvmt")]
    #[command(flatten)]
    lvmt: LvmtSetupArg,
}

impl StoredArgs {
    /// What to ask of the directory; the chain is left open.
    pub(super) fn options(&self, read_only: bool) -> OpenOptions {
        OpenOptions {
            datadir: Some(self.datadir.clone()),
            state: self.state.clone(),
            #[cfg(feature = "lvmt")]
            layer: LayerOptions {
                lvmt: self.lvmt.settings(polytrie_lvmt::Proofs::None),
                ..LayerOptions::default()
            },
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

/// A name of which the help lists those of this build. Any text is taken, as what opens a layer or an engine knows those
/// of other builds as well.
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

/// Most threads that may be asked for.
pub(super) const MOST_THREADS: u64 = 1024;

/// A number with an upper bound: more takes the machine's memory or its threads, and gains nothing.
pub(super) fn at_most(most: u64) -> impl TypedValueParser<Value = usize> {
    RangedU64ValueParser::<usize>::new().range(..=most)
}

/// A number of at least 1 with an upper bound.
pub(super) fn some_at_most(most: u64) -> impl TypedValueParser<Value = usize> {
    RangedU64ValueParser::<usize>::new().range(1..=most)
}

/// The same as [`parse_bytes`], where nothing at all makes no sense.
pub(super) fn parse_some_bytes(text: &str) -> Result<usize, String> {
    match parse_bytes(text)? {
        0 => Err("nothing fits into 0 bytes; choose more".to_owned()),
        bytes => Ok(bytes),
    }
}

/// A number of bytes: digits, then k, M or G (powers of 1024) if wanted.
pub(super) fn parse_bytes(text: &str) -> Result<usize, String> {
    let wrong = || format!("`{text}` is not a number of bytes; write for example 512M or 2G");
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return Err(wrong()),
    };
    let number: usize = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::parse_bytes;

    #[test]
    fn bytes_are_written_as_people_write_them() {
        assert_eq!(parse_bytes("0"), Ok(0));
        assert_eq!(parse_bytes("512"), Ok(512));
        assert_eq!(parse_bytes("64k"), Ok(64 << 10));
        assert_eq!(parse_bytes("512M"), Ok(512 << 20));
        assert_eq!(parse_bytes("2GiB"), Ok(2 << 30));
        for wrong in ["", "M", "12x", "-1", "1.5G", "99999999999G", "5ib", "5ibib", "5mibib"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }
}
