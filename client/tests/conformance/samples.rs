//! A few dozen files of each suite, through every state layer.

use crate::testdata::for_each_in_suite;
use polytrie::{
    conformance::{self, ConformanceError, ConformanceOptions, Outcome, Summary},
    layers::{self, LayerOptions},
};
use std::{fs, path::Path};

/// Larger files hold hundreds of tests; they would make this test slow.
const LARGEST: usize = 400_000;

/// Settings under which every layer opens.
pub(crate) fn layer_options() -> LayerOptions {
    LayerOptions {
        #[cfg(feature = "lvmt")]
        lvmt: polytrie::layers::lvmt::LvmtSettings {
            needs: polytrie::layers::lvmt::LvmtNeeds { setup: Some(crate::testsetup::dir()) },
            ..Default::default()
        },
        ..LayerOptions::default()
    }
}

/// Every `nth` file of a suite goes into `dir`.
fn unpack_sample(suite: &str, folder: &str, nth: usize, dir: &Path) -> bool {
    let mut index = 0;
    let files = for_each_in_suite(suite, folder, |_, bytes| {
        if index % nth == 0 && bytes.len() <= LARGEST {
            fs::write(dir.join(format!("{index}.json")), bytes).expect("a file can be written");
        }
        index += 1;
    });
    files.is_some()
}

fn run(layer: &str, dir: &Path) -> (Summary, Vec<String>) {
    let options = ConformanceOptions {
        places: vec![dir.to_owned()],
        layer: layers::layer(layer).expect("the layer is compiled in"),
        layer_options: layer_options(),
        jobs: 2,
        filter: None,
    };
    let mut failures = Vec::new();
    let summary = conformance::run(&options, |file| {
        let failed = file.tests.iter().filter(|test| matches!(test.outcome, Outcome::Failed(_)));
        failures.extend(failed.map(ToString::to_string));
        Ok::<_, ConformanceError>(())
    });
    (summary.expect("the sample can be run"), failures)
}

fn sample(suite: &str, folder: &str, nth: usize, least: u64) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    if !unpack_sample(suite, folder, nth, dir.path()) {
        return;
    }
    for layer in layers::LAYERS {
        let (summary, failures) = run(layer.name, dir.path());
        assert!(failures.is_empty(), "{}: {}", layer.name, failures.join("\n"));
        assert!(!layer.canonical || summary.skipped == 0, "{}: {summary}", layer.name);
        assert!(summary.passed >= least, "{}: {summary}", layer.name);
    }
}

#[test]
fn ethereum_tests() {
    sample("ethereum-tests", "BlockchainTests", 71, 40);
}

#[test]
fn legacy_tests() {
    sample("legacytests-constantinople", "Constantinople/BlockchainTests", 211, 40);
}

#[test]
fn execution_spec_tests() {
    sample("eest-prague", "blockchain_tests", 3, 40);
}
