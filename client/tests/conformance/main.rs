//! The official tests: a sample of each suite passes, and a test with a wrong expectation fails. Also blocks of mainnet
//! (`real_blocks/`).
//!
//! The script `scripts/conformance` runs all of them.

use polytrie_layers::testsetup;

mod command;
mod engine;
mod mistakes;
mod real_blocks;
mod samples;
mod state;
mod trie;
