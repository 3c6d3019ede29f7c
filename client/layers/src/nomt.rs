//! The layer `nomt`: its options and its entry in the list of layers.

use super::kind::{Hooks, LayerKind};
use crate::values::{parse_bytes, some_at_most};
use clap::{Args, value_parser};
use polytrie_nomt::{NomtLayer, NomtOptions, verify};
use serde::{Deserialize, Serialize};

/// What a user can set about `nomt`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[command(next_help_heading = "State layers")]
pub struct NomtSettings {
    /// Bytes of pages and of leaves, half of each, that `nomt` keeps in memory (k, M, G may follow); blocks that wait to be
    /// committed to its files take as much again.
    #[arg(id = "nomt.cache", long = "nomt.cache", value_name = "BYTES", value_parser = parse_bytes, default_value = "512M")]
    pub cache: usize,
    /// Pages of 4 KiB for which new files of `nomt` have room; they grow with the state.
    #[arg(id = "nomt.buckets", long = "nomt.buckets", value_name = "N", value_parser = value_parser!(u32).range(64..), default_value_t = NomtOptions::BUCKETS)]
    pub buckets: u32,
    /// Threads with which `nomt` fetches pages and computes its trie.
    #[arg(id = "nomt.threads", long = "nomt.threads", value_name = "N", value_parser = some_at_most(64), default_value_t = NomtOptions::THREADS)]
    pub threads: usize,
}

impl Default for NomtSettings {
    fn default() -> Self {
        let NomtOptions { cache_bytes: cache, buckets, threads, .. } = NomtOptions::default();
        Self { cache, buckets, threads }
    }
}

pub(super) const KIND: LayerKind = LayerKind {
    name: NomtLayer::NAME,
    about: "flat state to read from, and the binary trie of the published crate `nomt` beside it",
    canonical: false,
    tables: NomtLayer::TABLES,
    open: |place, options| {
        let NomtSettings { cache, buckets, threads } = options.nomt;
        let options = NomtOptions {
            cache_bytes: cache,
            buckets,
            threads,
            dir: place.files,
            read_only: place.read_only,
            ..NomtOptions::default()
        };
        Ok(NomtLayer::open(place.store, options)?)
    },
    verify: Some(|_, commitment, proof| LayerKind::proven(verify(commitment.digest(), proof)?)),
    hooks: Hooks::NONE,
};
