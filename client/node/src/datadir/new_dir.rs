//! A data directory that is being filled: it has no stamp before it is whole, and where that fails nothing of it stays.

use super::{
    DataDir, OpenError, OpenOptions, Specs,
    flat::{forget_flat, remove_flat},
    outline::{self, FileState},
};
use polytrie_layers::{self as layers, DEFAULT_ENGINE, DEFAULT_LAYER};
use polytrie_state::Stamp;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A directory for a chain whose state does not come from its genesis.
#[derive(Debug)]
pub struct NewDir {
    dir: DataDir,
    /// Nothing is on disk with the memory engine.
    path: Option<PathBuf>,
    /// Whether the directory itself was there before.
    was_there: bool,
    /// The genesis file.
    file: Option<FileState>,
}

impl NewDir {
    /// Makes it, for the chain, layer and engine that `options` name.
    ///
    /// # Errors
    ///
    /// If there is something in the directory, or it cannot be made.
    pub fn create(options: &OpenOptions) -> Result<Self, OpenError> {
        if options.kv.as_deref() == Some("memory") {
            DataDir::expect_unused(options)?;
            let dir = DataDir::in_memory(options)?;
            return Ok(Self { dir, path: None, was_there: true, file: None });
        }
        let path = options.datadir.as_deref().ok_or(OpenError::NoDirectory)?;
        let was_there = path.exists();
        if was_there && Stamp::read(path)?.is_some() {
            return Err(OpenError::Taken { path: path.to_owned() });
        }
        let kind = layers::layer(options.state.as_deref().unwrap_or(DEFAULT_LAYER))?;
        let (file, spec) = outline::load(options.chain.as_deref().ok_or(OpenError::NoChain)?)?;
        let kv = options.kv.as_deref().unwrap_or(DEFAULT_ENGINE);
        let mut options = options.clone();
        // What is refused without a look at the disk leaves nothing there.
        let stamp = DataDir::stamp(&mut options, kind, kv, &spec)?;
        let lock = DataDir::claim(path)?;
        let flat = layers::replica_path(&stamp);
        let made = DataDir::claim_flat(&stamp, path).and_then(|()| {
            DataDir::assemble(&options, path, stamp, kind, Specs::loaded(spec), Some(lock))
        });
        match made {
            Ok(dir) => Ok(Self { dir, path: Some(path.to_owned()), was_there, file }),
            Err(error) => {
                // The error that led here is the one to report.
                let _ = remove(path, flat.as_deref(), was_there);
                Err(error)
            }
        }
    }

    /// What is to be filled.
    pub const fn dir(&self) -> &DataDir {
        &self.dir
    }

    /// Makes it a data directory. Its chain must be durable.
    ///
    /// # Errors
    ///
    /// If the stamp cannot be written.
    pub fn seal(self) -> Result<DataDir, OpenError> {
        let Self { dir, path, file, .. } = self;
        if let Some(path) = path {
            dir.stamp.write(&path)?;
            if let (Some(file), Some(spec)) = (file, &dir.spec) {
                outline::write(&path, file, spec)?;
            }
        }
        Ok(dir)
    }

    /// Removes what was made.
    ///
    /// # Errors
    ///
    /// If it cannot be removed.
    pub fn discard(self) -> Result<(), OpenError> {
        let Self { dir, path, was_there, .. } = self;
        let flat = layers::replica_path(&dir.stamp);
        // The store is closed, and others are let in.
        drop(dir);
        path.map_or(Ok(()), |path| remove(&path, flat.as_deref(), was_there))
    }
}

fn remove(path: &Path, flat: Option<&Path>, was_there: bool) -> Result<(), OpenError> {
    if let Some(flat) = flat {
        remove_flat(flat, path)?;
    }
    let gone = |path: PathBuf, removed: io::Result<()>| match removed {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(OpenError::Io { action: "remove", path, source })
        }
        _ => Ok(()),
    };
    let db = path.join("db");
    gone(db.clone(), fs::remove_dir_all(db))?;
    gone(path.to_owned(), forget_flat(path))?;
    let lock = path.join("LOCK");
    gone(lock.clone(), fs::remove_file(lock))?;
    match was_there {
        true => Ok(()),
        false => gone(path.to_owned(), fs::remove_dir(path)),
    }
}
