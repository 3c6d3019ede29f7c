//! Tests of `--log-slow-block`, which logs a line of JSON for each slow block.

use crate::{
    run::{Run, run},
    support::{Data, for_each_layer, import, sample},
};
use serde_json::Value;
use std::ffi::OsStr;

for_each_layer!(an_import_tells_of_every_block);

/// Returns the log lines about blocks.
fn lines(run: &Run) -> Vec<Value> {
    let json = run.stderr.lines().filter_map(|line| Some(&line[line.find(r#"{"level""#)?..]));
    json.map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn assert_adds_up(line: &Value) {
    let timing = &line["timing"];
    let part = |name: &str| timing[name].as_f64().unwrap();
    let sum: f64 =
        ["execution_ms", "state_read_ms", "state_hash_ms", "commit_ms"].map(part).iter().sum();
    let total = part("total_ms");
    assert!((sum - total).abs() <= 0.02 * total, "{line}");
}

fn an_import_tells_of_every_block(layer: &str) {
    let (data, all) = (Data::new(), ["--to", "30", "--log-slow-block", "0"]);
    let (file, chain) = (sample("chain.rlp.gz"), sample("genesis.json"));
    let done = import!(data.path(), file, chain, layer, all[0], all[1], all[2], all[3]).ok();
    let lines = lines(&done);
    assert!(lines.iter().map(|line| line["block"]["number"].as_u64().unwrap()).eq(1..=30));
    for line in &lines {
        assert_adds_up(line);
        let txs = line["block"]["tx_count"].as_u64().unwrap();
        assert!(txs == 0 || line["state_reads"]["accounts"].as_u64().unwrap() > 0, "{line}");
        assert!(txs == 0 || line["state_writes"]["accounts"].as_u64().unwrap() > 0, "{line}");
    }
    // No block takes that long.
    let more = ["--to", "40", "--log-slow-block", "10000000"];
    let done = import!(data.path(), file, chain, layer, more[0], more[1], more[2], more[3]).ok();
    assert_eq!(self::lines(&done), Vec::<Value>::new());
}

#[test]
fn runs_of_a_benchmark_tell_of_theirs() {
    let (data, cache) = (Data::new(), Data::new());
    let args = "bench chain --states mpt --kv memory --runs 1 --workload erc20 --accounts 50 --txs 40 --block-txs 10 --warmup 1 --log-slow-block 0 --json";
    let (json, cache) = (data.file("report.json"), cache.path());
    let mut all: Vec<&OsStr> = args.split(' ').map(OsStr::new).collect();
    all.extend([json.as_os_str(), OsStr::new("--cache"), cache.as_os_str()]);
    let lines = lines(&run(&all, &[]).ok());
    assert!(lines.iter().map(|line| line["block"]["number"].as_u64().unwrap()).eq(1..=4));
    // The codes are the token and the four contracts that a block of Prague calls.
    assert!(lines.iter().all(|line| line["state_reads"]["code"] == 5), "{lines:?}");
    lines.iter().for_each(assert_adds_up);
}
