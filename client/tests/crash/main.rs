//! Processes that end at any moment: whatever is found afterwards is the state at some block, and going on from
//! there leads to the same end.

#![expect(clippy::unwrap_used, reason = "tests")]

mod boundary;
#[path = "../common/branches.rs"]
mod branches;
mod damage;
#[path = "../common/fixtures.rs"]
mod fixtures;
mod kill;
mod power;
#[path = "../common/run.rs"]
mod run;
#[path = "../common/sample.rs"]
mod sample;
use polytrie_layers::testsetup;
