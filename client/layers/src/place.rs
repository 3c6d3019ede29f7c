//! The place of a layer's data.

use super::engines::{EngineError, EngineOptions, open_engine};
use polytrie_kv::{Durability, MemoryEngine, Store, StoreOptions, Table};
use polytrie_state::{Result, StateError};
use std::path::{Path, PathBuf};

/// Place of a layer's data: the store and the directories that the layer is opened with.
#[derive(Debug, Clone)]
pub struct Place {
    /// Store that the layer shares with the chain: rows that the layer adds to the batch of a block are written
    /// together with the block.
    pub store: Store,
    /// Another directory for the layer's flat state (`--replica.path`), if there is one. Only the layer writes there.
    pub dir: Option<PathBuf>,
    /// Directory for files of the layer beside those of the engine; `None` if the engine keeps nothing on disk. The
    /// layer creates it if it needs it, and only the layer writes there.
    pub files: Option<PathBuf>,
    /// Whether the layer is opened for reading only.
    pub read_only: bool,
    /// Whether all stored data are checked while they are opened ([`EngineOptions::check`]).
    pub check: bool,
}

impl From<Store> for Place {
    /// Returns the place of a layer with a store and no directory.
    fn from(store: Store) -> Self {
        Self { store, dir: None, files: None, read_only: false, check: false }
    }
}

impl Place {
    /// Returns the place of a layer on an engine with its files in `engine_dir`.
    pub fn on_disk(store: Store, engine_dir: &Path, layer: &str) -> Self {
        // An engine in memory has no directory.
        let files = (store.engine_name() != MemoryEngine::NAME).then(|| engine_dir.join(layer));
        Self { files, ..Self::from(store) }
    }

    /// Opens a second store in the other directory, with the same engine as the first; `None` if there is no other
    /// directory. The layer decides when the store is flushed.
    ///
    /// # Errors
    ///
    /// Fails if the store cannot be opened.
    pub fn own_store(&self, tables: &[Table]) -> Result<Option<Store>> {
        let Some(dir) = &self.dir else { return Ok(None) };
        let (read_only, check) = (self.read_only, self.check);
        let access = EngineOptions { read_only, check, ..EngineOptions::default() };
        let engine = open_engine(self.store.engine_name(), dir, tables, access);
        let engine = engine.map_err(|error| match error {
            EngineError::Store(error) => StateError::Store(error),
            EngineError::Unknown(error) => StateError::Corrupt(error.to_string()),
        })?;
        let options = StoreOptions { durability: Durability::ByHand, ..StoreOptions::default() };
        Ok(Some(Store::open(engine, tables, options)?))
    }
}
