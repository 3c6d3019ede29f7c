//! Where a layer keeps its data.

use super::engines::{EngineError, EngineOptions, open_engine};
use polytrie_kv::{Durability, MemoryEngine, Store, StoreOptions, Table};
use polytrie_state::StateError;
use std::path::{Path, PathBuf};

/// Where a layer keeps its data. It is given this, and what a user can set about it.
#[derive(Debug, Clone)]
pub struct Place {
    /// The store that it shares with the chain: what it adds to the batch of a block is written with the block.
    pub store: Store,
    /// A directory of its own elsewhere, if it was given one (`--replica.path`). Only the layer writes there.
    pub dir: Option<PathBuf>,
    /// Where files of its own can be that go with those of the engine; `None` where nothing is kept on disk. Nothing is
    /// there unless the layer makes it, and only the layer writes there.
    pub files: Option<PathBuf>,
    /// Whether nothing may be changed.
    pub read_only: bool,
    /// Whether all that is stored is looked at before it is open ([`EngineOptions::check`]).
    pub check: bool,
}

impl From<Store> for Place {
    /// A store, and nothing beside it.
    fn from(store: Store) -> Self {
        Self { store, dir: None, files: None, read_only: false, check: false }
    }
}

impl Place {
    /// A store whose engine's files are in this directory.
    pub fn on_disk(store: Store, engine_dir: &Path, layer: &str) -> Self {
        // An engine in memory has no directory to be in.
        let files = (store.engine_name() != MemoryEngine::NAME).then(|| engine_dir.join(layer));
        Self { files, ..Self::from(store) }
    }

    /// A second store, in the directory of its own, under the engine of the first; `None` if there is no directory. The
    /// layer says when it is flushed.
    ///
    /// # Errors
    ///
    /// If it cannot be opened.
    pub fn own_store(&self, tables: &[Table]) -> Result<Option<Store>, StateError> {
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
