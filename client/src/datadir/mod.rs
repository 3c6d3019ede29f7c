//! The data directory: whose it is, and opening what is in it.
//!
//! ```text
//! D/polytrie.json   the stamp: layer, engine, chain, format; written before anything else
//! D/chain.json      the genesis without its accounts, if it came from a file
//! D/genesis.json    the genesis of a chain that `polytrie devnet` made
//! D/flat.json       which directory of --replica.path is this one's
//! D/LOCK            held while a process works here
//! D/db/             the engine's files
//! D/shadow-LAYER/   a data directory of its own: what `import --shadow LAYER` compares with
//! ```

mod flat;
mod outline;

use flat::FlatDir;
pub use flat::{FlatError, forget_flat, remove_flat};
use outline::FileState;
pub use outline::OUTLINE_FILE;

use crate::{
    chain::{Chain, ChainDb, ChainError, ChainOptions, TABLES},
    layers::{
        self, DEFAULT_ENGINE, DEFAULT_LAYER, EngineError, EngineOptions, LayerKind, LayerOptions,
        UnknownKind,
    },
};
use alloy_consensus::{Header, Sealed};
use alloy_primitives::B256;
use polytrie_chainspec::{ChainSpec, ChainSpecError, Difference};
use polytrie_kv::{DirLock, KvError, Store, StoreOptions};
use polytrie_state::{Stamp, StampError, StateError, StateLayer};
use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};
use thiserror::Error;

/// The program that writes a stamp.
const CREATED_BY: &str = concat!("polytrie ", env!("CARGO_PKG_VERSION"));
/// Name of the genesis file within a data directory whose chain was put together by `polytrie devnet`.
pub const GENESIS_FILE: &str = "genesis.json";

/// What is asked of a data directory; `None` means whatever it holds, or the default for a new one.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// The directory; not needed by the memory engine, under which it must not hold a chain.
    pub datadir: Option<PathBuf>,
    /// `--chain`.
    pub chain: Option<String>,
    /// `--state`.
    pub state: Option<String>,
    /// `--kv`.
    pub kv: Option<String>,
    /// Settings of the layer.
    pub layer: LayerOptions,
    /// Settings of the engine.
    pub engine: EngineOptions,
    /// Settings of the store above it.
    pub store: StoreOptions,
    /// What the chain checks and keeps.
    pub chain_options: ChainOptions,
    /// The first block that is to come, with the file that it is in: no directory is made for another chain than its own.
    pub first_block: Option<(PathBuf, Sealed<Header>)>,
}

impl OpenOptions {
    /// Whether there is nothing to be opened yet: in memory, or in a directory without a stamp.
    pub fn is_new(&self) -> bool {
        if self.kv.as_deref() == Some("memory") {
            return true;
        }
        self.datadir.as_deref().is_some_and(|dir| matches!(Stamp::read(dir), Ok(None)))
    }
}

/// An open data directory.
#[derive(Debug)]
pub struct DataDir {
    /// Its stamp.
    pub stamp: Stamp,
    /// Its state layer's kind.
    pub kind: &'static LayerKind,
    /// The store.
    pub store: Store,
    /// The state layer.
    pub layer: Arc<dyn StateLayer>,
    chain_options: ChainOptions,
    /// The rules, if they were needed to open it.
    spec: Option<Arc<ChainSpec>>,
    /// The rules without the genesis accounts, if it remembers them.
    outline: Option<Arc<ChainSpec>>,
    /// Keeps other processes out until everything else is closed (fields drop in this order).
    _lock: Option<DirLock>,
    /// The same for the flat state, if that is elsewhere.
    _flat: Option<FlatDir>,
}

/// A data directory that is open without its state layer.
#[derive(Debug)]
pub struct Rows {
    /// Its stamp.
    pub stamp: Stamp,
    /// The store.
    pub store: Store,
    outline: Option<Arc<ChainSpec>>,
}

impl Rows {
    /// What is kept of the chain.
    pub fn chain_db(&self) -> ChainDb {
        ChainDb::new(self.store.clone())
    }

    /// The chain's rules, as [`DataDir::spec`] has them.
    ///
    /// # Errors
    ///
    /// If they cannot be loaded.
    pub fn spec(&self) -> Result<Arc<ChainSpec>, OpenError> {
        remembered(self.outline.as_ref(), &self.stamp, &self.chain_db())
    }
}

/// A data directory cannot be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// No directory was named.
    #[error(
        "--datadir is needed: the directory where chain and state are kept (or use --kv memory to keep nothing)"
    )]
    NoDirectory,
    /// No chain was named.
    #[error(
        "--chain is needed for a new data directory: mainnet, sepolia, holesky, hoodi, dev, or the path of a genesis.json"
    )]
    NoChain,
    /// There is nothing in the directory.
    #[error("there is no data of polytrie in {}; make some with `polytrie import` or `polytrie init`", .0.display())]
    Empty(PathBuf),
    /// There is something in the directory that is not ours.
    #[error("{} is not empty and holds no {stamp}; choose an empty directory", path.display(), stamp = polytrie_state::STAMP_FILE)]
    Foreign {
        /// The directory.
        path: PathBuf,
    },
    /// The directory for something new holds data already.
    #[error("{} holds data of polytrie already; choose an empty directory", path.display())]
    Taken {
        /// The directory.
        path: PathBuf,
    },
    /// The blocks for something new are not of its chain.
    #[error(
        "{} begins with blocks on genesis block {found}, the chain {chain} has {expected}; name the right one with --chain",
        file.display()
    )]
    OtherChain {
        /// The file of the blocks.
        file: PathBuf,
        /// Their genesis hash.
        found: B256,
        /// Genesis hash of the chain.
        expected: B256,
        /// Name of the chain.
        chain: String,
    },
    /// Its blocks came in by other rules.
    #[error(
        "the data directory {} holds {number} blocks of a chain with {} {}, --chain says {}: leave --chain out to use what is there, go back to before that with `polytrie db unwind`, or choose another --datadir",
        path.display(), difference.rule, difference.values[0], difference.values[1]
    )]
    Rules {
        /// The directory.
        path: PathBuf,
        /// Number of its head.
        number: u64,
        /// The first rule that differs: the directory's, and the one asked for.
        difference: Box<Difference>,
    },
    /// The directory cannot be created or read.
    #[error("cannot {action} {}: {source}; check the path, its permissions and the disk", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The directory.
        path: PathBuf,
        /// The operating system's words.
        source: io::Error,
    },
    /// No such layer or engine.
    #[error(transparent)]
    Unknown(#[from] UnknownKind),
    /// It holds something else.
    #[error(transparent)]
    Stamp(#[from] StampError),
    /// The chain's rules cannot be loaded.
    #[error(transparent)]
    Spec(#[from] ChainSpecError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] KvError),
    /// The layer failed.
    #[error(transparent)]
    State(#[from] StateError),
    /// The chain cannot be opened.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// The flat state's own directory cannot be used.
    #[error(transparent)]
    Flat(#[from] FlatError),
}

impl From<EngineError> for OpenError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Unknown(error) => error.into(),
            EngineError::Store(error) => error.into(),
        }
    }
}

impl DataDir {
    /// Opens a data directory, making it if `create` says so and it is empty.
    ///
    /// # Errors
    ///
    /// If it holds something else than what was asked for, is in use, or cannot be read or created.
    pub fn open(options: &OpenOptions, create: bool) -> Result<Self, OpenError> {
        if options.kv.as_deref() == Some("memory") {
            Self::expect_unused(options)?;
            return Self::in_memory(options);
        }
        let dir = options.datadir.as_deref().ok_or(OpenError::NoDirectory)?;
        let stamp = if dir.exists() { Stamp::read(dir)? } else { None };
        match stamp {
            Some(stamp) => Self::reopen(options, dir, stamp),
            None if create => Self::create(options, dir),
            None => Err(OpenError::Empty(dir.to_owned())),
        }
    }

    /// The rows of a data directory without its state layer, for reading only: whoever asks nothing of the state does without
    /// what the layer needs (as `lvmt` its setup).
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn open_rows(options: &OpenOptions) -> Result<Rows, OpenError> {
        let dir = options.datadir.as_deref().ok_or(OpenError::NoDirectory)?;
        let stamp = Stamp::read(dir)?.ok_or_else(|| OpenError::Empty(dir.to_owned()))?;
        stamp.expect(dir, "the state layer", &stamp.state, options.state.as_deref())?;
        let tables = tables(layers::layer(&stamp.state)?);
        let access = EngineOptions { read_only: true, ..options.engine };
        let engine = layers::open_engine(&stamp.kv, &dir.join("db"), &tables, access)?;
        let store = Store::open(engine, &tables, options.store.clone())?;
        let outline = outline::read(dir, &stamp).map(|(_, outline)| outline);
        Ok(Rows { stamp, store, outline })
    }

    /// Makes a new data directory for the chain of a `genesis.json` that is at hand. The file is kept in the directory,
    /// so that any later command finds the same chain.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn create_with(options: &OpenOptions, genesis: &[u8]) -> Result<Self, OpenError> {
        let kind = layers::layer(options.state.as_deref().unwrap_or(DEFAULT_LAYER))?;
        if options.kv.as_deref() == Some("memory") {
            Self::expect_unused(options)?;
            let spec = Arc::new(ChainSpec::parse("dev", genesis)?);
            let mut options = options.clone();
            let stamp = Self::stamp(&mut options, kind, "memory", &spec)?;
            let specs = Specs::loaded(spec);
            return Self::assemble(&options, Path::new(""), stamp, kind, specs, None);
        }
        let dir = options.datadir.as_deref().ok_or(OpenError::NoDirectory)?;
        let lock = Self::claim(dir)?;
        let path = dir.join(GENESIS_FILE);
        fs::write(&path, genesis).map_err(|source| OpenError::Io {
            action: "write the genesis into",
            path: dir.to_owned(),
            source,
        })?;
        let loaded = outline::load(&path.display().to_string())?;
        Self::fill(options, dir, kind, loaded, lock)
    }

    /// A directory for the chain of `source`, which is in `from`, under the layer and engine that `options` names, without
    /// a stamp: nothing takes it for a data directory until [`Self::seal`].
    ///
    /// # Errors
    ///
    /// If it is not empty or cannot be made.
    pub fn create_beside(
        source: &Self,
        from: &Path,
        options: &OpenOptions,
    ) -> Result<Self, OpenError> {
        let dir = options.datadir.as_deref().ok_or(OpenError::NoDirectory)?;
        let kind = layers::layer(options.state.as_deref().unwrap_or(DEFAULT_LAYER))?;
        if Stamp::read(dir)?.is_some() {
            return Err(OpenError::Taken { path: dir.to_owned() });
        }
        let mut options = options.clone();
        let parameters = layers::settle_parameters(kind, &mut options.layer, None)?;
        let lock = Self::claim(dir)?;
        let kv = options.kv.as_deref().unwrap_or(DEFAULT_ENGINE);
        let chain = Self::copy_genesis(from, dir)?.unwrap_or_else(|| source.stamp.chain.clone());
        let stamp = Stamp {
            chain,
            state: kind.name.to_owned(),
            kv: kv.to_owned(),
            parameters,
            created_by: CREATED_BY.to_owned(),
            ..source.stamp.clone()
        };
        Self::claim_flat(&stamp, dir)?;
        let specs = Specs { spec: None, outline: None };
        Self::assemble(&options, dir, stamp, kind, specs, Some(lock))
    }

    /// Writes the stamp of a directory that was made by [`Self::create_beside`], whose chain must be durable.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn seal(&self, dir: &Path, source: &Path) -> Result<(), OpenError> {
        self.stamp.write(dir)?;
        // It only saves time, so it comes after the stamp: nothing but the stamp makes a data directory.
        match fs::copy(source.join(OUTLINE_FILE), dir.join(OUTLINE_FILE)) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                let path = dir.join(OUTLINE_FILE);
                Err(OpenError::Io { action: "write", path, source })
            }
            _ => Ok(()),
        }
    }

    /// Whether a directory keeps the genesis of its chain itself. It holds nothing else before it has a stamp, so what
    /// the stamp names there is ours.
    pub fn keeps_genesis(dir: &Path, stamp: &Stamp) -> bool {
        fs::canonicalize(dir.join(GENESIS_FILE)).is_ok_and(|path| path == Path::new(&stamp.chain))
    }

    /// Takes the genesis that a directory keeps itself into another one, and returns where it is then.
    fn copy_genesis(from: &Path, to: &Path) -> Result<Option<String>, OpenError> {
        let path = to.join(GENESIS_FILE);
        let copied = fs::copy(from.join(GENESIS_FILE), &path).and_then(|_| fs::canonicalize(&path));
        match copied {
            Ok(path) => Ok(Some(path.display().to_string())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(OpenError::Io { action: "write the genesis into", path, source }),
        }
    }

    /// Makes a directory, which must not hold anything yet, and keeps others out.
    fn claim(dir: &Path) -> Result<DirLock, OpenError> {
        let io = |action| move |source| OpenError::Io { action, path: dir.to_owned(), source };
        if dir.exists() && !is_left_over(dir).map_err(io("read"))? {
            return Err(OpenError::Foreign { path: dir.to_owned() });
        }
        fs::create_dir_all(dir).map_err(io("create the data directory"))?;
        Ok(DirLock::acquire(dir)?)
    }

    /// The same for the directory of the flat state, if there is one.
    fn claim_flat(stamp: &Stamp, dir: &Path) -> Result<(), OpenError> {
        match layers::replica_path(stamp) {
            Some(path) => Ok(flat::claim(&path, dir)?),
            None => Ok(()),
        }
    }

    /// The chain in it; begins with the genesis block where there is none.
    ///
    /// # Errors
    ///
    /// If the rules cannot be loaded or the store fails.
    pub fn into_chain(self) -> Result<(Chain, Self), OpenError> {
        let (spec, options) = (self.spec()?, self.chain_options);
        let chain = Chain::open(spec, self.store.clone(), Arc::clone(&self.layer), options)?;
        Ok((chain, self))
    }

    /// The chain's rules: those the directory was opened with, else those it remembers, else those its stamp names. Once
    /// the genesis block stands they may come [without accounts](ChainSpec::has_accounts).
    ///
    /// # Errors
    ///
    /// If they cannot be loaded.
    pub fn spec(&self) -> Result<Arc<ChainSpec>, OpenError> {
        if let Some(spec) = &self.spec {
            return Ok(Arc::clone(spec));
        }
        remembered(self.outline.as_ref(), &self.stamp, &self.chain_db())
    }

    /// What is kept of the chain, without its rules.
    pub fn chain_db(&self) -> ChainDb {
        ChainDb::new(self.store.clone())
    }

    fn reopen(options: &OpenOptions, dir: &Path, stamp: Stamp) -> Result<Self, OpenError> {
        let kind = layers::layer(&stamp.state);
        stamp.expect(dir, "the state layer", &stamp.state, options.state.as_deref())?;
        stamp.expect(dir, "the engine", &stamp.kv, options.kv.as_deref())?;
        let kind = kind?;
        let (known_file, outline) = outline::read(dir, &stamp).unzip();
        let mut loaded = None;
        // The file that is remembered need not be read again; any other one is compared.
        if let Some(chain) = options.chain.as_deref()
            && (known_file.is_none() || FileState::of(chain) != known_file)
        {
            loaded = Some(outline::load(chain)?);
        }
        if let Some((_, spec)) = &loaded
            && spec.genesis_hash() != stamp.genesis_hash
        {
            let found = format!("{} (genesis {})", stamp.chain, stamp.genesis_hash);
            let asked = format!("{} (genesis {})", spec.name(), spec.genesis_hash());
            stamp.expect(dir, "the chain", &found, Some(&asked))?;
        }
        let lock = if options.engine.read_only { None } else { Some(DirLock::acquire(dir)?) };
        let (file, spec) = loaded.unzip();
        let mut options = options.clone();
        let found = layers::settle_parameters(kind, &mut options.layer, Some(&stamp.parameters))?;
        for (name, value) in &stamp.parameters {
            stamp.expect(
                dir,
                &format!("the parameter {name}"),
                value,
                found.get(name).map(String::as_str),
            )?;
        }
        let opened = Self::assemble(&options, dir, stamp, kind, Specs { spec, outline }, lock)?;
        opened.expect_rules(dir)?;
        if let (Some(Some(file)), Some(spec), false) =
            (file, &opened.spec, options.engine.read_only)
        {
            outline::write(dir, file, spec)?;
        }
        Ok(opened)
    }

    /// What `--chain` names must have the rules by which the blocks came in that are there.
    fn expect_rules(&self, dir: &Path) -> Result<(), OpenError> {
        let Some(asked) = &self.spec else { return Ok(()) };
        let known = match &self.outline {
            Some(outline) => Arc::clone(outline),
            None if asked.name() == self.stamp.chain => return Ok(()),
            // Where its file is gone, nobody knows any more.
            None => match ChainSpec::load(&self.stamp.chain) {
                Ok(spec) => spec,
                Err(_) => return Ok(()),
            },
        };
        // A head that is damaged is for others to report.
        let Ok(Some(head)) = self.chain_db().head() else { return Ok(()) };
        let parent_total_difficulty = head.total_difficulty.saturating_sub(head.header.difficulty);
        let (number, time) = (head.number(), head.header.timestamp);
        match known.difference(asked, number, time, parent_total_difficulty) {
            Some(difference) => Err(OpenError::Rules {
                path: dir.to_owned(),
                number,
                difference: difference.into(),
            }),
            None => Ok(()),
        }
    }

    fn create(options: &OpenOptions, dir: &Path) -> Result<Self, OpenError> {
        let kind = layers::layer(options.state.as_deref().unwrap_or(DEFAULT_LAYER))?;
        let loaded = outline::load(options.chain.as_deref().ok_or(OpenError::NoChain)?)?;
        if let Some((file, header)) = &options.first_block {
            expect_chain(&loaded.1, file, header)?;
        }
        Self::fill(options, dir, kind, loaded, Self::claim(dir)?)
    }

    /// Makes a new data directory of one that was claimed.
    fn fill(
        options: &OpenOptions,
        dir: &Path,
        kind: &'static LayerKind,
        (file, spec): (Option<FileState>, Arc<ChainSpec>),
        lock: DirLock,
    ) -> Result<Self, OpenError> {
        let kv = options.kv.as_deref().unwrap_or(DEFAULT_ENGINE);
        let mut options = options.clone();
        let stamp = Self::stamp(&mut options, kind, kv, &spec)?;
        let options = &options;
        // The engine first: a stamp must not stand beside an engine that cannot be opened at all.
        let engine = layers::open_engine(kv, &dir.join("db"), &tables(kind), options.engine)?;
        let store = Store::open(engine, &tables(kind), StoreOptions::default())?;
        if ChainDb::new(store).head()?.is_some() {
            // A chain whose stamp somebody removed: nobody knows any more under which layer.
            return Err(OpenError::Foreign { path: dir.to_owned() });
        }
        Self::claim_flat(&stamp, dir)?;
        stamp.write(dir)?;
        if let Some(file) = file {
            outline::write(dir, file, &spec)?;
        }
        Self::assemble(options, dir, stamp, kind, Specs::loaded(spec), Some(lock))
    }

    /// What is kept in memory takes nothing from a directory that is named all the same, so there must be nothing in it:
    /// whoever names one that holds a chain means that chain.
    fn expect_unused(options: &OpenOptions) -> Result<(), OpenError> {
        let Some(dir) = options.datadir.as_deref() else { return Ok(()) };
        match Stamp::read(dir)? {
            Some(stamp) => Ok(stamp.expect(dir, "the engine", &stamp.kv, Some("memory"))?),
            None => Ok(()),
        }
    }

    fn in_memory(options: &OpenOptions) -> Result<Self, OpenError> {
        let kind = layers::layer(options.state.as_deref().unwrap_or(DEFAULT_LAYER))?;
        let spec = ChainSpec::load(options.chain.as_deref().ok_or(OpenError::NoChain)?)?;
        let mut options = options.clone();
        let stamp = Self::stamp(&mut options, kind, "memory", &spec)?;
        Self::assemble(&options, Path::new(""), stamp, kind, Specs::loaded(spec), None)
    }

    fn stamp(
        options: &mut OpenOptions,
        kind: &LayerKind,
        kv: &str,
        spec: &ChainSpec,
    ) -> Result<Stamp, OpenError> {
        // A relative path would mean another file in another working directory.
        let chain = match fs::canonicalize(spec.name()) {
            Ok(path) if Path::new(spec.name()).is_file() => path.display().to_string(),
            _ => spec.name().to_owned(),
        };
        Ok(Stamp {
            format: Stamp::FORMAT,
            state: kind.name.to_owned(),
            kv: kv.to_owned(),
            parameters: layers::settle_parameters(kind, &mut options.layer, None)?,
            chain,
            chain_id: spec.chain_id(),
            genesis_hash: spec.genesis_hash(),
            created_by: CREATED_BY.to_owned(),
        })
    }

    fn assemble(
        options: &OpenOptions,
        dir: &Path,
        stamp: Stamp,
        kind: &'static LayerKind,
        specs: Specs,
        lock: Option<DirLock>,
    ) -> Result<Self, OpenError> {
        let mut settings = options.layer.clone();
        layers::adopt_replica_path(&mut settings, &stamp, dir)?;
        settings.read_only = options.engine.read_only;
        let flat = match &settings.replica_path {
            Some(path) if stamp.kv != "memory" => {
                Some(FlatDir::open(path, dir, settings.read_only)?)
            }
            _ => None,
        };
        if let Some(flat) = &flat {
            settings.replica_path = Some(flat.store());
        }
        let tables = tables(kind);
        let engine = layers::open_engine(&stamp.kv, &dir.join("db"), &tables, options.engine)?;
        let mut chain_options = options.chain_options;
        let mut store_options = options.store.clone();
        if !kind.canonical {
            chain_options.verify_every = 1;
        }
        // Blocks that share a root are one write.
        let writes = store_options.flush_every / chain_options.verify_every.max(1);
        store_options.flush_every = writes.max(1);
        let store = Store::open(engine, &tables, store_options)?;
        if let Some(flat) = &flat
            && ChainDb::new(store.clone()).head()?.is_none()
        {
            flat.expect_marked()?;
        }
        let layer = (kind.open)(store.clone(), &settings)?;
        if let Some(flat) = &flat {
            // The layer compared what is in it.
            flat.belongs()?;
        }
        let Specs { spec, outline } = specs;
        Ok(Self {
            stamp,
            kind,
            store,
            layer,
            chain_options,
            spec,
            outline,
            _lock: lock,
            _flat: flat,
        })
    }
}

/// The first two blocks say of which chain they are.
fn expect_chain(spec: &ChainSpec, file: &Path, first: &Sealed<Header>) -> Result<(), OpenError> {
    let genesis = spec.genesis_header();
    let found = match first.number.checked_sub(genesis.number) {
        Some(0) => first.hash(),
        Some(1) => first.parent_hash,
        _ => return Ok(()),
    };
    let (expected, chain) = (genesis.hash(), spec.name().to_owned());
    match found == expected {
        true => Ok(()),
        false => Err(OpenError::OtherChain { file: file.to_owned(), found, expected, chain }),
    }
}

/// What is at hand of the chain's rules.
#[derive(Debug)]
struct Specs {
    /// Read from where `--chain` says.
    spec: Option<Arc<ChainSpec>>,
    /// Remembered, without accounts.
    outline: Option<Arc<ChainSpec>>,
}

impl Specs {
    const fn loaded(spec: Arc<ChainSpec>) -> Self {
        Self { spec: Some(spec), outline: None }
    }
}

/// The rules that a directory remembers, else those that its stamp names.
fn remembered(
    outline: Option<&Arc<ChainSpec>>,
    stamp: &Stamp,
    db: &ChainDb,
) -> Result<Arc<ChainSpec>, OpenError> {
    match outline {
        // Without a genesis block its accounts are still needed. A head that is damaged is for others to report.
        Some(spec) if !matches!(db.head(), Ok(None)) => Ok(Arc::clone(spec)),
        _ => Ok(ChainSpec::load(&stamp.chain)?),
    }
}

/// Whether there is nothing in a directory without a stamp but what an attempt leaves that ended before the stamp was
/// written.
fn is_left_over(dir: &Path) -> io::Result<bool> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        names.push(entry?.file_name());
    }
    let has_lock = names.iter().any(|name| name == "LOCK");
    let temporary = format!("{}.tmp", polytrie_state::STAMP_FILE);
    let is_ours = |name: &OsString| {
        name == "LOCK"
            || flat::is_left_over(name)
            || name == temporary.as_str()
            || ((name == "db" || name == GENESIS_FILE) && has_lock)
    };
    Ok(names.iter().all(is_ours))
}

fn tables(kind: &LayerKind) -> Vec<polytrie_kv::Table> {
    let mut tables = kind.tables.to_vec();
    tables.extend_from_slice(TABLES);
    tables
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
