//! Making a data directory: a new directory becomes a data directory when its stamp is written.

use super::{
    DataDir, FileState, OpenError, OpenOptions, Specs, UNFINISHED_FILE, attempt, flat, outline,
    tables,
};
use alloy_consensus::{Header, Sealed};
use polytrie_chain::ChainDb;
use polytrie_chainspec::ChainSpec;
use polytrie_kv::{
    DirLock, Engine, KvError, MemoryEngine, Store, StoreOptions, create_dir, disk::if_there,
    is_confirmed, write_whole,
};
use polytrie_layers::{
    self as layers, DEFAULT_ENGINE, DEFAULT_LAYER, EngineError, LayerKind, UnknownKind,
};
use polytrie_state::{STAMP_FILE, Stamp};
use std::{ffi::OsString, fs, io, path::Path, sync::Arc};

/// The name and version of the program, as the stamp has it.
const CREATED_BY: &str = concat!("polytrie ", env!("CARGO_PKG_VERSION"));
/// Name of the genesis file within a data directory that has the genesis of its chain, as `polytrie devnet` makes it.
pub const GENESIS_FILE: &str = "genesis.json";

impl DataDir {
    /// Makes a new data directory for the chain of a `genesis.json` in memory. The file is written into the directory,
    /// so that any later command finds the same chain.
    ///
    /// # Errors
    ///
    /// Those of [`Self::open`].
    pub fn create_with(options: &OpenOptions, genesis: &[u8]) -> Result<Self, OpenError> {
        let kind = layers::layer(options.state.as_deref().unwrap_or(DEFAULT_LAYER))?;
        if options.is_in_memory() {
            return Self::in_memory(options, || Ok(Arc::new(ChainSpec::parse("dev", genesis)?)));
        }
        let dir = options.datadir.as_deref().ok_or(OpenError::NoDirectory)?;
        Self::engine_of(options)?;
        let lock = Self::claim(dir)?;
        let path = dir.join(GENESIS_FILE);
        write_whole(&path, genesis)
            .map_err(|source| OpenError::write("write the genesis into", dir, source))?;
        let loaded = outline::load(&path.display().to_string())?;
        Self::fill(options, dir, kind, loaded, lock)
    }

    /// Makes a directory for the chain of `source`, which is in `from`, under the layer and engine that `options`
    /// names. It has no stamp, so it is no data directory before [`Self::seal`].
    ///
    /// # Errors
    ///
    /// If it is neither empty nor left by an attempt, or cannot be made.
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
        let kv = Self::engine_of(options)?;
        let mut options = options.clone();
        let parameters = kind.settle_parameters(&mut options.layer, None)?;
        let lock = Self::claim(dir)?;
        attempt::expect_free(dir)?;
        let mut stamp = Stamp {
            state: kind.name.to_owned(),
            kv: kv.to_owned(),
            parameters,
            created_by: CREATED_BY.to_owned(),
            ..source.stamp.clone()
        };
        attempt::begin(dir, &stamp)?;
        if Self::holds_genesis(from, &source.stamp)
            && let Some(chain) = Self::copy_genesis(from, dir)?
        {
            stamp.chain = chain;
        }
        Self::claim_flat(&stamp, dir)?;
        let specs = Specs { spec: None, outline: None };
        Self::assemble(&options, dir, stamp, kind, specs, Some(lock))
    }

    /// Writes the stamp of a directory made by [`Self::create_beside`]. Its chain must be durable.
    ///
    /// # Errors
    ///
    /// If the stamp cannot be written.
    pub fn seal(&self, dir: &Path, source: &Path) -> Result<(), OpenError> {
        self.stamp.write(dir)?;
        attempt::done(dir);
        // The outline only saves time, so it comes after the stamp, which makes the data directory.
        if let Some((file, spec)) = outline::read(source, &self.stamp) {
            // A copy of the genesis is another file.
            let copy = fs::canonicalize(dir.join(GENESIS_FILE)).ok();
            let copy = copy.filter(|path| path.as_path() == Path::new(&self.stamp.chain));
            let file = copy.and_then(|_| FileState::of(&self.stamp.chain)).unwrap_or(file);
            outline::write_if_possible(dir, file, &spec);
        }
        Ok(())
    }

    /// Whether a directory has the genesis of its chain as the program wrote it there. It wrote every file before the stamp,
    /// so a genesis that the stamp names there is its own. In a directory that was moved the stamp names the path of
    /// before, which is in a data directory or in none any more, and the file is the one that the outline was made from:
    /// a copy that the user put there is not.
    pub fn keeps_genesis(dir: &Path, stamp: &Stamp) -> bool {
        let named = Path::new(&stamp.chain);
        let is_data = |made: &Path| !made.exists() || made.join(STAMP_FILE).exists();
        let was_in_data = || named.ends_with(GENESIS_FILE) && named.parent().is_some_and(is_data);
        fs::canonicalize(dir.join(GENESIS_FILE)).is_ok_and(|path| {
            path == named || (was_in_data() && outline::is_of_moved(dir, stamp, &path))
        })
    }

    /// Whether the genesis file in a directory is that of its chain, which a copy of the directory has at another path than
    /// the stamp says. It may also be a file beside a built-in chain, or what `db dump` wrote.
    fn holds_genesis(dir: &Path, stamp: &Stamp) -> bool {
        let path = dir.join(GENESIS_FILE);
        let named = Stamp { chain: path.display().to_string(), ..stamp.clone() };
        stamp.rules.is_some() && path.exists() && outline::reread(dir, &named).is_ok()
    }

    /// Copies the genesis that a directory has into another one. Returns its new path; `None` if there is no genesis.
    fn copy_genesis(from: &Path, to: &Path) -> Result<Option<String>, OpenError> {
        let path = to.join(GENESIS_FILE);
        let copied = fs::read(from.join(GENESIS_FILE))
            .and_then(|genesis| write_whole(&path, &genesis))
            .and_then(|()| fs::canonicalize(&path));
        let copied = if_there(copied)
            .map_err(|source| OpenError::write("write the genesis into", &path, source))?;
        Ok(copied.map(|path| path.display().to_string()))
    }

    /// Returns the engine of a new directory. Fails if this build does not have it, or if options are for another one,
    /// before the directory is made.
    pub(super) fn engine_of(options: &OpenOptions) -> Result<&str, OpenError> {
        let name = options.kv.as_deref().unwrap_or(DEFAULT_ENGINE);
        layers::expect_engine(name)?;
        options.engine.expect_used(name)?;
        Ok(name)
    }

    /// Makes a directory, which must be empty or left by an attempt, and locks it. Removes the store of an earlier
    /// attempt, if that has a mark.
    pub(super) fn claim(dir: &Path) -> Result<DirLock, OpenError> {
        let io = |action| move |source| OpenError::Io { action, path: dir.to_owned(), source };
        if dir.exists() && !is_left_over(dir).map_err(io("read"))? {
            return Err(OpenError::Foreign { path: dir.to_owned() });
        }
        create_dir(dir).map_err(io("create the data directory"))?;
        let lock = DirLock::acquire(dir)?;
        // Another process may have made a data directory of it since it was listed.
        match Stamp::read(dir)? {
            Some(_) => Err(OpenError::Taken { path: dir.to_owned() }),
            None => attempt::clear(dir).map(|()| lock),
        }
    }

    /// Claims the directory of the flat state for this data directory, if it has one.
    pub(super) fn claim_flat(stamp: &Stamp, dir: &Path) -> Result<(), OpenError> {
        match layers::replica_path(stamp) {
            Some(path) => Ok(flat::claim(&path, dir)?),
            None => Ok(()),
        }
    }

    pub(super) fn create(options: &OpenOptions, dir: &Path) -> Result<Self, OpenError> {
        let kind = layers::layer(options.state.as_deref().unwrap_or(DEFAULT_LAYER))?;
        Self::engine_of(options)?;
        let loaded = outline::load(options.chain.as_deref().ok_or(OpenError::NoChain)?)?;
        if let Some((file, header)) = &options.first_block {
            expect_chain(&loaded.1, file, header)?;
        }
        Self::fill(options, dir, kind, loaded, Self::claim(dir)?)
    }

    /// Makes a data directory of one that was claimed.
    fn fill(
        options: &OpenOptions,
        dir: &Path,
        kind: &'static LayerKind,
        (file, spec): (Option<FileState>, Arc<ChainSpec>),
        lock: DirLock,
    ) -> Result<Self, OpenError> {
        let kv = Self::engine_of(options)?;
        let mut options = options.clone();
        let stamp = Self::stamp(&mut options, kind, kv, &spec)?;
        let options = &options;
        // A store without a mark may be of an earlier build, or of a chain whose stamp was lost: its head is read
        // below.
        if attempt::is_free(dir)? {
            attempt::begin(dir, &stamp)?;
        }
        // The engine is opened first: a stamp must not stand beside an engine that cannot be opened at all.
        let engine = Self::new_engine(options, kv, kind, &dir.join("db"))?;
        let store = Store::open(engine, &tables(kind), StoreOptions::default())?;
        if ChainDb::new(store).head()?.is_some() {
            return Err(OpenError::Unstamped { path: dir.to_owned() });
        }
        Self::claim_flat(&stamp, dir)?;
        stamp.write(dir)?;
        attempt::done(dir);
        if let Some(file) = file {
            outline::write_if_possible(dir, file, &spec);
        }
        Self::assemble(options, dir, stamp, kind, Specs::loaded(spec), Some(lock))
    }

    /// Opens the engine of a directory without a stamp. An engine is marked as confirmed once its own files are
    /// durable. Files that an attempt left before that, which a power failure may have torn, are removed, and the
    /// engine is made again. A store in a cluster has only the file with its name here, without which it cannot be found.
    fn new_engine(
        options: &OpenOptions,
        kv: &str,
        kind: &LayerKind,
        dir: &Path,
    ) -> Result<Arc<dyn Engine>, OpenError> {
        let open = || layers::open_engine(kv, dir, &tables(kind), options.engine.clone());
        match open() {
            Err(EngineError::Store(KvError::Corrupt(_)))
                if !is_confirmed(dir) && !layers::is_elsewhere(kv) =>
            {
                fs::remove_dir_all(dir).map_err(|e| KvError::io("remove", dir, e))?;
                Ok(open()?)
            }
            opened => Ok(opened?),
        }
    }

    /// Checks that a directory named beside the memory engine has no chain: a user who names a directory with a chain
    /// means that chain.
    fn expect_unused(options: &OpenOptions) -> Result<(), OpenError> {
        let Some(dir) = options.datadir.as_deref() else { return Ok(()) };
        match Stamp::read(dir)? {
            Some(stamp) => Ok(stamp.expect(dir, "the engine", &stamp.kv, Some("memory"))?),
            None => Ok(()),
        }
    }

    /// Makes a data directory in memory, for the chain that `load` returns.
    pub(super) fn in_memory(
        options: &OpenOptions,
        load: impl FnOnce() -> Result<Arc<ChainSpec>, OpenError>,
    ) -> Result<Self, OpenError> {
        Self::expect_unused(options)?;
        options.engine.expect_used(MemoryEngine::NAME)?;
        if options.layer.replica_path.is_some() {
            let (option, of) = ("--replica.path", "mdbx, rocksdb or cassandra");
            let engine = MemoryEngine::NAME.to_owned();
            return Err(UnknownKind::OtherEngine { option, of, engine }.into());
        }
        let kind = layers::layer(options.state.as_deref().unwrap_or(DEFAULT_LAYER))?;
        let spec = load()?;
        let mut options = options.clone();
        let stamp = Self::stamp(&mut options, kind, MemoryEngine::NAME, &spec)?;
        Self::assemble(&options, Path::new(""), stamp, kind, Specs::loaded(spec), None)
    }

    pub(super) fn stamp(
        options: &mut OpenOptions,
        kind: &LayerKind,
        kv: &str,
        spec: &ChainSpec,
    ) -> Result<Stamp, OpenError> {
        // A relative path would mean another file in another working directory. A file with the name of a built-in
        // chain was not loaded.
        let chain = match fs::canonicalize(spec.name()) {
            Ok(path) if path.is_file() && spec.outline().is_some() => path.display().to_string(),
            _ => spec.name().to_owned(),
        };
        Ok(Stamp {
            format: Stamp::FORMAT,
            state: kind.name.to_owned(),
            kv: kv.to_owned(),
            parameters: kind.settle_parameters(&mut options.layer, None)?,
            chain,
            chain_id: spec.chain_id(),
            genesis_hash: spec.genesis_hash(),
            rules: outline::rules(spec),
            created_by: CREATED_BY.to_owned(),
        })
    }
}

/// Checks that the first block of an import belongs to the chain. Only blocks 0 and 1 show their genesis hash.
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

/// Whether a directory without a stamp has only files that an attempt leaves before the stamp, and those of the root of
/// a new disk.
fn is_left_over(dir: &Path) -> io::Result<bool> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        names.push(entry?.file_name());
    }
    let has_lock = names.iter().any(|name| name == "LOCK");
    let temporary = |name: &str| format!("{name}.tmp");
    let unfinished =
        [UNFINISHED_FILE.to_owned(), temporary(UNFINISHED_FILE), temporary(STAMP_FILE)];
    let locked = ["db".to_owned(), GENESIS_FILE.to_owned(), temporary(GENESIS_FILE)];
    let is_one_of =
        |names: &[String], name: &OsString| names.iter().any(|one| name == one.as_str());
    let is_ours = |name: &OsString| {
        flat::is_nothing(name)
            || flat::is_left_over(name)
            || is_one_of(&unfinished, name)
            || (has_lock && is_one_of(&locked, name))
    };
    Ok(names.iter().all(is_ours))
}
