//! The official official tests: a sample of each suite passes, and a test that is wrong fails.
//!
//! `scripts/conformance` runs all of them.

#[path = "../../consensus/src/testdata.rs"]
#[expect(dead_code, reason = "shared with the unit tests, which need all of it")]
mod testdata;
use polytrie_layers::testsetup;

mod command;
mod engine;
mod mistakes;
mod samples;
mod state;
mod trie;
