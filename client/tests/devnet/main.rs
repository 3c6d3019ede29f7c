//! Tests of `polytrie devnet` through its JSON-RPC interface.

#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "../common/amsterdam.rs"]
mod amsterdam;
#[path = "../common/branches.rs"]
#[expect(dead_code, reason = "of what makes branches, one function is needed here")]
mod branches;
#[path = "../common/clique.rs"]
#[expect(dead_code, reason = "shared with the tests of the command line, which need all of it")]
mod clique_maker;
#[path = "../common/fixtures.rs"]
mod fixtures;
#[path = "../common/run.rs"]
mod run;
#[path = "../common/sample.rs"]
#[expect(dead_code, reason = "the blocks by themselves are not needed here")]
mod sample;
#[path = "../common/server.rs"]
mod server;
use polytrie_layers::testsetup;

mod access_lists;
mod blobs;
mod calls;
mod chain;
mod cheats;
mod clique;
mod compat;
mod dump;
mod filters;
mod limits;
mod log;
mod methods;
mod monitoring;
mod node;
mod otterscan;
mod pressure;
mod ranges;
mod recursion;
mod restart;
mod sending;
mod simulate;
mod state_files;
mod storm;
mod struct_logs;
mod subscriptions;
mod support;
mod traces;
mod transactions;
mod witness;
