//! Runs a few dozen files of each suite with every state layer.

use polytrie::{
    conformance::{self, ConformanceError, ConformanceOptions, Outcome, Summary, TestReport},
    layers::{self, LayerOptions},
};
use polytrie_testing::for_each_in_suite;
use regex::Regex;
use std::{fs, path::Path};

/// The largest size of a file in bytes. Larger files hold hundreds of tests and would make this test slow. The files of
/// a benchmark hold few but large tests.
const LARGEST: usize = 400_000;
const LARGEST_BENCHMARK: usize = 4_000_000;

/// Writes every `nth` file of a suite into `dir`. Returns `false` if the suite is absent.
fn unpack_sample(suite: &str, folder: &str, nth: usize, largest: usize, dir: &Path) -> bool {
    let mut index = 0;
    let files = for_each_in_suite(suite, folder, |_, bytes| {
        if index % nth == 0 && bytes.len() <= largest {
            fs::write(dir.join(format!("{index}.json")), bytes).expect("a file can be written");
        }
        index += 1;
    });
    files.is_some()
}

fn run(layer: &str, dir: &Path, filter: Option<&str>) -> (Summary, Vec<TestReport>) {
    let options = ConformanceOptions {
        places: vec![dir.to_owned()],
        layer: layers::layer(layer).expect("the layer is compiled in"),
        layer_options: LayerOptions::for_tests(),
        jobs: 2,
        filter: filter.map(|filter| Regex::new(filter).expect("a regular expression")),
    };
    let mut failures = Vec::new();
    let summary = conformance::run(&options, |file| {
        let tests = file.tests.into_iter();
        failures.extend(tests.filter(|test| matches!(test.outcome, Outcome::Failed(_))));
        Ok::<_, ConformanceError>(())
    });
    (summary.expect("the sample can be run"), failures)
}

fn sample(suite: &str, folder: &str, nth: usize, least: u64) {
    sample_of([suite, folder], nth, LARGEST, None, least);
}

/// Runs a sample of the files up to the size `largest`, and in them the tests that match `filter`. At least `least` of
/// them must pass.
fn sample_of(
    [suite, folder]: [&str; 2],
    nth: usize,
    largest: usize,
    filter: Option<&str>,
    least: u64,
) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    if !unpack_sample(suite, folder, nth, largest, dir.path()) {
        return;
    }
    for layer in layers::LAYERS {
        let (summary, failures) = run(layer.name, dir.path(), filter);
        let failures: Vec<_> = failures.iter().map(ToString::to_string).collect();
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

#[test]
fn newest_execution_spec_tests() {
    sample("eest-5.4.0-prague-osaka", "eest540", 7, 40);
}

#[test]
fn state_tests() {
    sample("eest-5.4.0-state-tests", "st", 5, 40);
}

/// The tests with the smallest gas limit, because each test burns all of its gas.
#[test]
fn engine_tests() {
    let place = ["eest-benchmark-engine", "benchmark"];
    sample_of(place, 3, LARGEST_BENCHMARK, Some("gas-value_1M"), 15);
}

/// Tests of block access lists (EIP-7928). The tests named in `OTHER_DRAFT` may fail, because they charge gas by a
/// draft that the EVM crates do not follow any more (client/consensus/README.md). The other tests cover the lists.
#[test]
fn access_lists() {
    const OTHER_DRAFT: [&str; 6] = [
        "7702",
        "all_transaction_types",
        "create2_collision",
        "create_and_oog",
        "create_selfdestruct_to_self_with_call",
        "aborted_storage_access",
    ];
    let dir = tempfile::tempdir().expect("a temporary directory");
    let folder = "devnet/for_amsterdam/amsterdam/eip7928_block_level_access_lists";
    if !unpack_sample("eest-amsterdam", folder, 3, LARGEST, dir.path()) {
        return;
    }
    for layer in layers::LAYERS {
        let (summary, failures) = run(layer.name, dir.path(), None);
        let unknown: Vec<_> = failures
            .iter()
            // The name alone, as the digits may also be in a hash.
            .filter(|failure| !OTHER_DRAFT.iter().any(|name| failure.name.contains(name)))
            .map(ToString::to_string)
            .collect();
        assert!(unknown.is_empty(), "{}: {unknown:?}", layer.name);
        assert!(summary.passed >= 60, "{}: {summary}", layer.name);
    }
}
