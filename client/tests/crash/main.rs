//! Tests of processes that end at any moment. Afterwards the directory holds the state of some block, and a
//! further import leads to the same end.

#![expect(clippy::unwrap_used, reason = "tests")]

mod boundary;
#[path = "../common/branches.rs"]
mod branches;
mod damage;
#[path = "../common/each_layer.rs"]
mod each_layer;
#[path = "../common/fixtures.rs"]
mod fixtures;
mod kill;
mod power;
#[path = "../common/run.rs"]
mod run;
#[path = "../common/sample.rs"]
mod sample;
#[path = "../common/variables.rs"]
mod variables;
use polytrie_layers::testsetup;

#[expect(clippy::print_stderr, reason = "what was found, and a failure is repeated with the seed")]
fn say(line: &str) {
    eprintln!("{line}");
}
