//! The data directory: the stamp that says which chain, layer and engine it belongs to, and opening its store.
//!
//! ```text
//! D/polytrie.json   the stamp: layer, engine, chain, format, with a checksum; written when the empty store is durable,
//!                   before any block, or when all of it is, where the state does not come from a genesis
//! D/polytrie.unfinished  the same before that: it distinguishes an interrupted attempt from a lost stamp
//! D/chain.json      the genesis without its accounts, if it came from a file; the stamp has its hash
//! D/genesis.json    the genesis of a chain that `polytrie devnet` made
//! D/flat.json       the directory of --replica.path that belongs to this one
//! D/LOCK            held while a process works here
//! D/db/             the engine's files; in it scratch-…: data beyond the memory, removed with the process; and LAYER/:
//!                   files of the layer itself, if it has any
//! D/access-lists    the access lists of blocks, written by `import --bal-build`
//! D/jwt.hex         the secret of `polytrie engine` and `devnet --authrpc`
//! D/shadow-LAYER/   the data directory of the shadow of `import --shadow LAYER`
//! ```

mod attempt;
mod create;
mod error;
mod flat;
mod new_dir;
mod options;
mod outline;
mod repair;

pub use attempt::{UNFINISHED_FILE, begun, is_unfinished};
pub use create::GENESIS_FILE;
pub use error::OpenError;
use flat::FlatDir;
pub use flat::{FlatError, forget_flat, remove_flat};
pub use new_dir::NewDir;
pub use options::OpenOptions;
use outline::FileState;
pub use outline::OUTLINE_FILE;

use polytrie_chain::{Chain, ChainDb, ChainOptions, TABLES};
use polytrie_chainspec::ChainSpec;
use polytrie_kv::{DirLock, Store};
use polytrie_layers::{self as layers, EngineOptions, LayerKind, Parameters, Place};
use polytrie_state::{Stamp, StateLayer};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// An open data directory.
#[derive(Debug)]
pub struct DataDir {
    dir: PathBuf,
    /// The stamp of the directory.
    pub stamp: Stamp,
    /// The kind of its state layer.
    pub kind: &'static LayerKind,
    /// The store.
    pub store: Store,
    /// The state layer.
    pub layer: Arc<dyn StateLayer>,
    chain_options: ChainOptions,
    /// The rules of the chain, if they were read when it was opened.
    spec: Option<Arc<ChainSpec>>,
    /// The rules without the genesis accounts, if the directory has an outline.
    outline: Option<Arc<ChainSpec>>,
    /// The lock against other processes, held until all fields before it are closed (fields drop in this order).
    _lock: Option<DirLock>,
    /// The lock of the flat state, if that is in another directory.
    _flat: Option<FlatDir>,
}

/// A data directory that is open without its state layer.
#[derive(Debug)]
pub struct Rows {
    dir: PathBuf,
    /// The stamp of the directory.
    pub stamp: Stamp,
    /// The store.
    pub store: Store,
    outline: Option<Arc<ChainSpec>>,
}

impl Rows {
    /// Returns the chain's tables.
    pub fn chain_db(&self) -> ChainDb {
        ChainDb::new(self.store.clone())
    }

    /// Returns the chain's rules, as [`DataDir::spec`] does.
    ///
    /// # Errors
    ///
    /// If the rules cannot be loaded.
    pub fn spec(&self) -> Result<Arc<ChainSpec>, OpenError> {
        remembered(&self.dir, self.outline.as_ref(), &self.stamp, &self.chain_db())
    }
}

impl DataDir {
    /// Opens a data directory. Makes it if `create` is set and it has no stamp.
    ///
    /// # Errors
    ///
    /// If it differs from the options, is in use, or cannot be read or created.
    pub fn open(options: &OpenOptions, create: bool) -> Result<Self, OpenError> {
        if options.is_in_memory() {
            let chain = || options.chain.as_deref().ok_or(OpenError::NoChain);
            return Self::in_memory(options, || Ok(ChainSpec::load(chain()?)?));
        }
        let dir = options.datadir.as_deref().ok_or(OpenError::NoDirectory)?;
        let stamp = if dir.exists() { Stamp::read(dir)? } else { None };
        match stamp {
            Some(stamp) => Self::reopen(options, dir, stamp),
            None if create => Self::create(options, dir),
            None => Err(OpenError::Empty(dir.to_owned())),
        }
    }

    /// Opens a data directory without its state layer, for reading only: a caller that reads no state need not give the
    /// files that the layer needs (as `lvmt` its setup).
    ///
    /// # Errors
    ///
    /// Those of [`Self::open`].
    pub fn open_rows(options: &OpenOptions) -> Result<Rows, OpenError> {
        let dir = options.datadir.as_deref().ok_or(OpenError::NoDirectory)?;
        let stamp = Stamp::read(dir)?.ok_or_else(|| OpenError::Empty(dir.to_owned()))?;
        stamp.expect(dir, "the state layer", &stamp.state, options.state.as_deref())?;
        expect_store(dir, &stamp)?;
        let tables = tables(layers::layer(&stamp.state)?);
        let access = EngineOptions { read_only: true, ..options.engine.clone() };
        let engine = layers::open_engine(&stamp.kv, &dir.join("db"), &tables, access)?;
        let store = Store::open(engine, &tables, options.store.clone())?;
        let outline = outline::read(dir, &stamp).map(|(_, outline)| outline);
        Ok(Rows { dir: dir.to_owned(), stamp, store, outline })
    }

    /// Returns its chain, with the directory. A chain without blocks gets its genesis block.
    ///
    /// # Errors
    ///
    /// If the rules cannot be loaded or the store fails.
    pub fn into_chain(self) -> Result<(Chain, Self), OpenError> {
        let (spec, options) = (self.spec()?, self.chain_options);
        let chain = Chain::open(spec, self.store.clone(), Arc::clone(&self.layer), options)?;
        Ok((chain, self))
    }

    /// Returns the chain's rules: those read at opening, else those of the outline, else those that the stamp names.
    /// Once the genesis block is stored they may be [without accounts](ChainSpec::has_accounts).
    ///
    /// # Errors
    ///
    /// If the rules cannot be loaded.
    pub fn spec(&self) -> Result<Arc<ChainSpec>, OpenError> {
        if let Some(spec) = &self.spec {
            return Ok(Arc::clone(spec));
        }
        remembered(&self.dir, self.outline.as_ref(), &self.stamp, &self.chain_db())
    }

    /// Returns the chain's rules with the accounts of its genesis.
    ///
    /// # Errors
    ///
    /// If the rules cannot be loaded.
    pub fn genesis(&self) -> Result<Arc<ChainSpec>, OpenError> {
        match &self.spec {
            Some(spec) if spec.has_accounts() => Ok(Arc::clone(spec)),
            _ => outline::reread(&self.dir, &self.stamp),
        }
    }

    /// Returns the settings of the chain.
    pub const fn chain_options(&self) -> ChainOptions {
        self.chain_options
    }

    /// Returns the chain's tables, without its rules.
    pub fn chain_db(&self) -> ChainDb {
        ChainDb::new(self.store.clone())
    }

    fn reopen(options: &OpenOptions, dir: &Path, stamp: Stamp) -> Result<Self, OpenError> {
        let kind = layers::layer(&stamp.state);
        stamp.expect(dir, "the state layer", &stamp.state, options.state.as_deref())?;
        stamp.expect(dir, "the engine", &stamp.kv, options.kv.as_deref())?;
        options.engine.expect_used(&stamp.kv)?;
        let kind = kind?;
        let (known_file, outline) = outline::read(dir, &stamp).unzip();
        let mut loaded = None;
        // The file that the outline is of need not be read again; any other one is compared.
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
        expect_store(dir, &stamp)?;
        let lock = if options.engine.read_only { None } else { Some(DirLock::acquire(dir)?) };
        if lock.is_some() {
            // Before the lock was there another process may have removed the directory, or written another stamp.
            match Stamp::read(dir)? {
                Some(now) if now == stamp => attempt::done(dir),
                Some(now) => {
                    drop(lock);
                    return Self::reopen(options, dir, now);
                }
                None => return Err(OpenError::Empty(dir.to_owned())),
            }
        }
        let (file, spec) = loaded.unzip();
        let mut options = options.clone();
        let found = kind.settle_parameters(&mut options.layer, Some(&stamp.parameters))?;
        for (name, value) in &stamp.parameters {
            if kind.is_place(name) {
                continue;
            }
            stamp.expect(
                dir,
                &format!("the parameter {name}"),
                value,
                found.get(name).map(String::as_str),
            )?;
        }
        let mut opened = Self::assemble(&options, dir, stamp, kind, Specs { spec, outline }, lock)?;
        opened.expect_rules()?;
        if !options.engine.read_only {
            opened.remember(file.flatten(), found)?;
        }
        Ok(opened)
    }

    /// Stores the rules that were read from `file`, if any, and the paths of directories as they were found.
    fn remember(&mut self, file: Option<FileState>, found: Parameters) -> Result<(), OpenError> {
        let mut stamp = self.stamp.clone();
        stamp.parameters.extend(found.into_iter().filter(|(name, _)| self.kind.is_place(name)));
        let read = file.zip(self.spec.as_ref());
        if let Some((_, spec)) = &read {
            stamp.rules = outline::rules(spec);
        }
        // If the process ends between the two writes, the outline does not match the stamp and is not used; the command
        // that named the file names it again.
        if stamp != self.stamp {
            stamp.write(&self.dir)?;
        }
        if let Some((file, spec)) = read {
            outline::write(&self.dir, file, spec)?;
        }
        self.stamp = stamp;
        Ok(())
    }

    /// Checks that the rules of `--chain` agree with those by which the stored blocks were executed.
    fn expect_rules(&self) -> Result<(), OpenError> {
        let Some(asked) = &self.spec else { return Ok(()) };
        // Other code reports a damaged head.
        let Ok(Some(head)) = self.chain_db().head() else { return Ok(()) };
        let known = match &self.outline {
            _ if outline::rules(asked) == self.stamp.rules => return Ok(()),
            Some(outline) => Arc::clone(outline),
            None => outline::reread(&self.dir, &self.stamp)?,
        };
        let parent_total_difficulty = head.total_difficulty.saturating_sub(head.header.difficulty);
        let (number, time) = (head.number(), head.header.timestamp);
        match known.difference(asked, number, time, parent_total_difficulty) {
            Some(difference) => Err(OpenError::Rules {
                path: self.dir.clone(),
                number,
                difference: difference.into(),
            }),
            None => Ok(()),
        }
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
        let read_only = options.engine.read_only;
        let flat = match &settings.replica_path {
            Some(path) if stamp.kv != "memory" => Some(FlatDir::open(path, dir, read_only)?),
            _ => None,
        };
        let own_dir = flat.as_ref().map(FlatDir::store).or_else(|| settings.replica_path.clone());
        let tables = tables(kind);
        let engine =
            layers::open_engine(&stamp.kv, &dir.join("db"), &tables, options.engine.clone())?;
        let mut chain_options = options.chain_options;
        let mut store_options = options.store.clone();
        if !kind.canonical {
            chain_options.verify_every = 1;
        }
        if let Some(blocks) = options.flush_every {
            store_options.flush_every = blocks;
            if let Some(reason) = kind.ignores_groups(&stamp.kv, &settings) {
                tracing::warn!("--flush-every has no effect: {reason}");
            }
        }
        // Blocks that share a root are written together.
        let writes = store_options.flush_every / chain_options.verify_every.max(1);
        store_options.flush_every = writes.max(1);
        let store = Store::open(engine, &tables, kind.suit_store(store_options, &settings))?;
        let place = Place {
            dir: own_dir,
            read_only,
            check: options.engine.check,
            ..Place::on_disk(store.clone(), &dir.join("db"), kind.name)
        };
        let layer = (kind.open)(place, &settings)?;
        let Specs { spec, outline } = specs;
        Ok(Self {
            dir: dir.to_owned(),
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

/// Checks that a directory with a stamp has a store, which was durable before the stamp: an engine that finds no files
/// must not make new ones.
fn expect_store(dir: &Path, stamp: &Stamp) -> Result<(), OpenError> {
    match stamp.kv == "memory" || flat::holds_store(&dir.join("db")) {
        true => Ok(()),
        false => Err(OpenError::NoStore { path: dir.to_owned() }),
    }
}

/// The rules of a chain that are loaded already.
#[derive(Debug)]
struct Specs {
    /// The rules read from the file of `--chain`.
    spec: Option<Arc<ChainSpec>>,
    /// The rules of the outline, without accounts.
    outline: Option<Arc<ChainSpec>>,
}

impl Specs {
    const fn loaded(spec: Arc<ChainSpec>) -> Self {
        Self { spec: Some(spec), outline: None }
    }
}

/// Returns the rules of the outline, else those that the stamp names.
fn remembered(
    dir: &Path,
    outline: Option<&Arc<ChainSpec>>,
    stamp: &Stamp,
    db: &ChainDb,
) -> Result<Arc<ChainSpec>, OpenError> {
    match outline {
        // Before the genesis block is stored, the accounts are needed. Other code reports a damaged head.
        Some(spec) if !matches!(db.head(), Ok(None)) => Ok(Arc::clone(spec)),
        _ => outline::reread(dir, stamp),
    }
}

fn tables(kind: &LayerKind) -> Vec<polytrie_kv::Table> {
    let mut tables = kind.tables.to_vec();
    tables.extend_from_slice(TABLES);
    tables
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
