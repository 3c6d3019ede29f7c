//! The layer `qmdb`: its options and its entry in the list of layers.

use super::kind::{Hooks, LayerKind};
use crate::values::{parse_bytes, some_at_most};
use clap::Args;
use polytrie_qmdb::{QmdbLayer, QmdbOptions, verify};
use serde::{Deserialize, Serialize};

/// What a user can set about `qmdb`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[command(next_help_heading = "State layers")]
pub struct QmdbSettings {
    /// Bytes of pages of its files that `qmdb` keeps in memory (k, M, G may follow); blocks that wait to be committed to these
    /// take as much again, and the index of all keys is beside it.
    #[arg(id = "qmdb.cache", long = "qmdb.cache", value_name = "BYTES", value_parser = parse_bytes, default_value = "256M")]
    pub cache: usize,
    /// Threads with which `qmdb` hashes.
    #[arg(id = "qmdb.threads", long = "qmdb.threads", value_name = "N", value_parser = some_at_most(64), default_value_t = QmdbOptions::THREADS)]
    pub threads: usize,
}

impl Default for QmdbSettings {
    fn default() -> Self {
        let QmdbOptions { cache_bytes: cache, threads, .. } = QmdbOptions::default();
        Self { cache, threads }
    }
}

pub(super) const KIND: LayerKind = LayerKind {
    name: QmdbLayer::NAME,
    about: "flat state to read from, and the database `qmdb` of the published crate `commonware-storage` beside it",
    canonical: false,
    tables: QmdbLayer::TABLES,
    open: |place, options| {
        let QmdbSettings { cache, threads } = options.qmdb;
        let options = QmdbOptions {
            cache_bytes: cache,
            threads,
            dir: place.files,
            read_only: place.read_only,
            ..QmdbOptions::default()
        };
        Ok(QmdbLayer::open(place.store, options)?)
    },
    verify: Some(|_, commitment, proof| LayerKind::proven(verify(commitment.digest(), proof)?)),
    hooks: Hooks::NONE,
};
