//! Going back to the last complete state of a store that has lost confirmed writes.

use super::{DataDir, FlatDir, OpenError, OpenOptions, expect_store, tables};
use polytrie_kv::{DirLock, KvError, Store, StoreOptions, Table};
use polytrie_layers::{self as layers, EngineOptions};
use polytrie_state::Stamp;
use std::path::Path;

impl DataDir {
    /// Brings the stores of a data directory back to their last complete state. Returns what was missing or damaged; a
    /// sound store is not changed.
    ///
    /// # Errors
    ///
    /// If the directory has no store, or one that is damaged in another way.
    pub fn repair(options: &OpenOptions) -> Result<Vec<KvError>, OpenError> {
        let dir = options.datadir.as_deref().ok_or(OpenError::NoDirectory)?;
        let stamp = Stamp::read(dir)?.ok_or_else(|| OpenError::Empty(dir.to_owned()))?;
        stamp.expect(dir, "the state layer", &stamp.state, options.state.as_deref())?;
        let kind = layers::layer(&stamp.state)?;
        expect_store(dir, &stamp)?;
        let _lock = DirLock::acquire(dir)?;
        let mut lost = Vec::from_iter(repair(&stamp.kv, &dir.join("db"), &tables(kind))?);
        if let (Some(path), Some(tables)) = (layers::replica_path(&stamp), kind.flat_tables()) {
            let flat = FlatDir::open(&path, dir, false)?;
            lost.extend(repair(&stamp.kv, &flat.store(), tables)?);
        }
        Ok(lost)
    }
}

fn repair(kv: &str, dir: &Path, tables: &[Table]) -> Result<Option<KvError>, OpenError> {
    // A store in a cluster has no files here that could be lost. Opened for writing, it would be taken from an import that runs
    // on another machine.
    let read_only = layers::is_elsewhere(kv);
    let engine = |repair| {
        let options = EngineOptions { repair, read_only, ..EngineOptions::default() };
        layers::open_engine(kv, dir, tables, options)
    };
    let open =
        || Store::open(engine(false)?, tables, StoreOptions::default()).map_err(OpenError::from);
    match open() {
        Ok(_) => Ok(None),
        Err(OpenError::Store(lost @ KvError::Lost { .. })) => {
            let store = Store::repair(engine(true)?, tables, StoreOptions::default())?;
            store.checkpoint()?;
            Ok(Some(lost))
        }
        Err(error) => Err(error),
    }
}
