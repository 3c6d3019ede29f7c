//! A data directory that is being filled. It has a mark and no stamp until it is complete; if filling fails, all of it
//! is removed.

use super::{
    DataDir, GENESIS_FILE, OpenError, OpenOptions, Specs, UNFINISHED_FILE, attempt,
    flat::{forget_flat, remove_flat},
    outline::{self, FileState},
};
use alloy_primitives::B256;
use polytrie_chainspec::{ChainSpec, GenesisPlan};
use polytrie_kv::{disk::if_there, write_whole};
use polytrie_layers::{self as layers, DEFAULT_LAYER};
use polytrie_state::{STAMP_FILE, Stamp};
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A new directory for a chain with a state that does not come from its genesis.
#[derive(Debug)]
pub struct NewDir {
    dir: DataDir,
    /// The path; `None` with the memory engine.
    path: Option<PathBuf>,
    /// Whether the directory existed before.
    was_there: bool,
    /// The state of the genesis file, if there is one.
    file: Option<FileState>,
    /// Whether a genesis file was written into the directory.
    wrote_genesis: bool,
}

/// A chain, and the state of its genesis file from before it was read, if it has one.
type Loaded = (Option<FileState>, Arc<ChainSpec>);

impl NewDir {
    /// Makes the directory, for the chain, layer and engine that `options` name.
    ///
    /// # Errors
    ///
    /// If the directory has files that no attempt has left, or cannot be made.
    pub fn create(options: &OpenOptions) -> Result<Self, OpenError> {
        Self::of(options, || {
            Ok(outline::load(options.chain.as_deref().ok_or(OpenError::NoChain)?)?)
        })
    }

    /// Makes the directory for a chain of this genesis, whose state root is not known yet: see [`Self::set_genesis`].
    ///
    /// # Errors
    ///
    /// Those of [`Self::create`].
    pub fn create_planned(options: &OpenOptions, plan: &GenesisPlan) -> Result<Self, OpenError> {
        Self::of(options, || Ok((None, Arc::new(plan.chain_spec(B256::ZERO)?))))
    }

    fn of(
        options: &OpenOptions,
        load: impl FnOnce() -> Result<Loaded, OpenError>,
    ) -> Result<Self, OpenError> {
        if options.is_in_memory() {
            let dir = DataDir::in_memory(options, || Ok(load()?.1))?;
            return Ok(Self { dir, path: None, was_there: true, file: None, wrote_genesis: false });
        }
        let path = options.datadir.as_deref().ok_or(OpenError::NoDirectory)?;
        let was_there = path.exists();
        if was_there && Stamp::read(path)?.is_some() {
            return Err(OpenError::Taken { path: path.to_owned() });
        }
        let kind = layers::layer(options.state.as_deref().unwrap_or(DEFAULT_LAYER))?;
        let (file, spec) = load()?;
        let kv = DataDir::engine_of(options)?;
        let mut options = options.clone();
        // Settings that are refused without a look at the disk leave no directory.
        let stamp = DataDir::stamp(&mut options, kind, kv, &spec)?;
        let lock = DataDir::claim(path)?;
        attempt::expect_free(path)?;
        let flat = layers::replica_path(&stamp);
        let marked = attempt::begin(path, &stamp);
        let made = marked.and_then(|()| DataDir::claim_flat(&stamp, path)).and_then(|()| {
            DataDir::assemble(&options, path, stamp, kind, Specs::loaded(spec), Some(lock))
        });
        match made {
            Ok(dir) => {
                let path = Some(path.to_owned());
                Ok(Self { dir, path, was_there, file, wrote_genesis: false })
            }
            Err(error) => {
                // The first error is the one to report.
                let _ = remove(path, flat.as_deref(), was_there);
                Err(error)
            }
        }
    }

    /// Returns the directory to fill.
    pub const fn dir(&self) -> &DataDir {
        &self.dir
    }

    /// Sets the state root of a planned genesis. The directory gets the genesis without its accounts. Returns the
    /// chain.
    ///
    /// # Errors
    ///
    /// If the genesis cannot be written, or no chain can start with it.
    pub fn set_genesis(
        &mut self,
        plan: &GenesisPlan,
        state_root: B256,
    ) -> Result<Arc<ChainSpec>, OpenError> {
        let outline = plan.outline(state_root);
        let mut spec = plan.chain_spec(state_root)?;
        if let Some(dir) = &self.path {
            let path = dir.join(GENESIS_FILE);
            let written = write_whole(&path, outline.as_bytes())
                .and_then(|()| fs::canonicalize(&path))
                .map_err(|source| OpenError::write("write", &path, source));
            self.wrote_genesis = true;
            let name = written?.display().to_string();
            self.file = FileState::of(&name);
            spec = ChainSpec::from_outline(&name, outline.as_bytes())?;
        }
        let stamp = &mut self.dir.stamp;
        spec.name().clone_into(&mut stamp.chain);
        stamp.genesis_hash = spec.genesis_hash();
        stamp.rules = outline::rules(&spec);
        let spec = Arc::new(spec);
        self.dir.spec = Some(Arc::clone(&spec));
        Ok(spec)
    }

    /// Makes it a data directory by writing the stamp. Its chain must be durable. On an error it is discarded.
    ///
    /// # Errors
    ///
    /// If the stamp cannot be written.
    pub fn seal(mut self) -> Result<DataDir, OpenError> {
        let Some(path) = self.path.clone() else { return Ok(self.dir) };
        if let Err(error) = self.dir.stamp.write(&path) {
            if let Err(left) = self.discard() {
                tracing::warn!("{left}");
            }
            return Err(error.into());
        }
        attempt::done(&path);
        if let (Some(file), Some(spec)) = (self.file.take(), &self.dir.spec) {
            outline::write_if_possible(&path, file, spec);
        }
        Ok(self.dir)
    }

    /// Removes all files that were made, and the directory if it did not exist before.
    ///
    /// # Errors
    ///
    /// If a file cannot be removed.
    pub fn discard(self) -> Result<(), OpenError> {
        let Self { dir, path, was_there, wrote_genesis, .. } = self;
        let flat = layers::replica_path(&dir.stamp);
        // This closes the store, and frees the lock.
        drop(dir);
        let Some(path) = path else { return Ok(()) };
        // The stamp is removed first, because it makes a data directory of the other files.
        let stamp = path.join(STAMP_FILE);
        gone(stamp.clone(), fs::remove_file(stamp))?;
        if wrote_genesis {
            for end in ["", ".tmp"] {
                let genesis = path.join(format!("{GENESIS_FILE}{end}"));
                gone(genesis.clone(), fs::remove_file(genesis))?;
            }
        }
        remove(&path, flat.as_deref(), was_there)
    }
}

fn remove(path: &Path, flat: Option<&Path>, was_there: bool) -> Result<(), OpenError> {
    if let Some(flat) = flat {
        remove_flat(flat, path)?;
    }
    let db = path.join("db");
    gone(db.clone(), fs::remove_dir_all(db))?;
    gone(path.to_owned(), forget_flat(path))?;
    // The mark is removed last: until then the files count as an attempt's.
    let temporary = format!("{UNFINISHED_FILE}.tmp");
    for name in [temporary.as_str(), UNFINISHED_FILE, "LOCK"] {
        let file = path.join(name);
        gone(file.clone(), fs::remove_file(file))?;
    }
    match was_there {
        true => Ok(()),
        false => gone(path.to_owned(), fs::remove_dir(path)),
    }
}

/// Turns the result of a removal into an error, unless the file did not exist.
fn gone(path: PathBuf, removed: io::Result<()>) -> Result<(), OpenError> {
    let removed = if_there(removed).map(drop);
    removed.map_err(|source| OpenError::Io { action: "remove", path, source })
}
