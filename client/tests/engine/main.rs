//! Tests of `polytrie engine` with the calls of a consensus layer: payloads and choices of a head.

#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "../common/amsterdam.rs"]
mod amsterdam;
#[expect(dead_code, reason = "no command of these tests answers in JSON")]
#[path = "../common/run.rs"]
mod run;
#[path = "../common/sample.rs"]
mod sample;
#[path = "../common/server.rs"]
mod server;
#[path = "../common/variables.rs"]
mod variables;
use polytrie_layers::testsetup;

mod access;
mod access_lists;
mod blobs;
mod branches;
mod building;
mod crash;
mod kills;
mod payloads;
mod rules;
mod support;
