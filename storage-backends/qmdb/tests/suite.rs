//! The suite that every layer passes.

use polytrie_kv::{Store, Table};
use polytrie_qmdb::{QmdbLayer, QmdbOptions, verify};
use polytrie_state::{CommitmentKind, StateError, StateLayer};
use polytrie_testing::{
    layer_suite,
    suite::{self, LayerFactory, Verifier},
};
use std::{path::Path, sync::Arc};
use tempfile::TempDir;

/// Files of all stores in one directory, each with a number of its own: rows alone cannot make them again, so they are kept
/// while stores are closed and opened.
#[derive(Debug)]
struct Qmdb {
    dir: Arc<TempDir>,
    options: QmdbOptions,
}

impl Default for Qmdb {
    /// Memory holds the files where it can: each opening makes some, and a disk syncs each of them.
    fn default() -> Self {
        let memory = Path::new("/dev/shm");
        let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let dir = dir.expect("a directory can be made");
        let options = QmdbOptions {
            cache_bytes: 256 << 10,
            threads: 1,
            file_operations: 1 << 10,
            dir: Some(dir.path().join("qmdb")),
            temporary: dir.path().to_owned(),
            read_only: false,
        };
        Self { dir: Arc::new(dir), options }
    }
}

impl LayerFactory for Qmdb {
    fn tables(&self) -> Vec<Table> {
        QmdbLayer::TABLES.to_vec()
    }

    fn open(&self, store: Store) -> Result<Arc<dyn StateLayer>, StateError> {
        Ok(QmdbLayer::open(store, self.options.clone())?)
    }

    fn kind(&self) -> CommitmentKind {
        CommitmentKind::Own
    }

    fn state_decides_rows(&self) -> bool {
        // The root tells how the state came about.
        false
    }

    fn verifier(&self) -> Option<Verifier> {
        Some(|commitment, address, slots, proof| {
            verify(commitment.digest(), proof)?.answer(address, slots)
        })
    }

    fn variants(&self) -> Vec<Box<dyn LayerFactory>> {
        let each_block = QmdbOptions { cache_bytes: 0, threads: 4, ..self.options.clone() };
        let many = QmdbOptions { cache_bytes: 64 << 20, ..self.options.clone() };
        let variant = |options| Self { dir: Arc::clone(&self.dir), options };
        [each_block, many].map(|options| Box::new(variant(options)) as _).into()
    }
}

layer_suite!(Qmdb::default());

#[test]
fn a_large_contract_is_loaded_in_portions() {
    suite::a_large_contract_is_loaded_in_portions(&Qmdb::default());
}
