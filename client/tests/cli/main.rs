//! Tests of the program as users and scripts run it: its commands, files, exit codes and messages, under
//! every state layer of the build.

#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "../common/branches.rs"]
mod branches;
#[path = "../common/clique.rs"]
mod clique_maker;
#[path = "../common/each_layer.rs"]
mod each_layer;
#[path = "../common/fixtures.rs"]
mod fixtures;
#[path = "../common/run.rs"]
mod run;
#[path = "../common/sample.rs"]
mod sample;
mod support;
use polytrie_layers::testsetup;

mod access_lists;
mod bad_blocks;
mod bad_files;
mod bench;
#[cfg(feature = "binary")]
mod binary;
mod chains;
mod clique;
mod closed_pipe;
mod convert;
mod data_directories;
mod database;
mod disks;
mod figures;
mod formats;
mod generate;
mod groups;
#[cfg(feature = "mpt-hash")]
mod hash_keyed;
mod interrupt;
#[cfg(feature = "lmpt")]
mod layered;
mod limits;
mod options;
mod prefetch;
#[cfg(feature = "rain")]
mod prefetchers;
mod prestate;
mod proofs;
mod reorganisation;
#[cfg(all(feature = "replica", feature = "mpt", feature = "raw"))]
mod replica;
mod rewrite;
#[cfg(feature = "lvmt")]
mod setup;
#[cfg(feature = "lvmt")]
mod shards;
mod slow_blocks;
mod state_dump;
mod trace;
#[cfg(feature = "rain")]
mod witness;
