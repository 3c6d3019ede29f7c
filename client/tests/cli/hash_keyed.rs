//! Tests of the layer `mpt-hash` and the effect of its settings on a data directory.

use crate::{
    run::polytrie,
    support::{Data, RPC_COMPAT, assert_fails, import},
};
use serde_json::Value;

/// Returns the number of stored nodes.
fn nodes(data: &Data) -> u64 {
    let stats = polytrie!["db", "stats", "--datadir", data.path(), "--json", "-"].ok().json();
    let tables = stats["tables"].as_array().unwrap();
    let table = tables.iter().find(|table| table["name"] == "HashNodes");
    table.and_then(|table| table["entries"].as_u64()).unwrap()
}

/// Replaced nodes are deleted, or all nodes are kept. A directory keeps the setting that it was created with.
#[test]
fn old_nodes_go_or_stay() {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let import = |data: &Data, settings: &[&str]| -> Value {
        let mut args =
            vec!["import", "--state", "mpt-hash", "--flush-every", "1000", "--json", "-"];
        args.extend(settings);
        let (file, datadir) = (chain.file.to_str().unwrap(), data.path());
        args.extend([file, "--chain", chain.chain.to_str().unwrap(), "--datadir"]);
        args.push(datadir.to_str().unwrap());
        let args: Vec<_> = args.iter().map(std::ffi::OsStr::new).collect();
        let run = crate::run::run(&args, b"").ok();
        let words = "--flush-every has no effect: `mpt-hash` has each block written to the engine";
        assert!(run.stderr.contains(words), "{}", run.stderr);
        run.json()
    };
    let (gone, kept) = (Data::new(), Data::new());
    let of_gone = import(&gone, &["--mpt-hash.cache", "0"]);
    let of_kept = import(&kept, &["--mpt-hash.pruning", "none"]);
    assert_eq!(of_gone["head"], of_kept["head"]);
    let figure = |report: &Value, name: &str| report["layer"][name].as_u64().unwrap();
    assert_eq!(figure(&of_gone, "node_cache_hits"), 0);
    assert!(figure(&of_kept, "node_cache_hits") > 0);
    let (added, replaced) = (figure(&of_gone, "nodes_added"), figure(&of_gone, "nodes_replaced"));
    assert_eq!(figure(&of_kept, "nodes_added"), added);
    // A node that appears again after it was replaced has one row.
    assert!(nodes(&kept) > nodes(&gone) && nodes(&kept) <= nodes(&gone) + replaced);
    // Every block was written to the engine by itself, so no put was cancelled by a later delete. The store adds a
    // further row to each write.
    let counters = &of_gone["counters"];
    let count = |name: &str| counters[name].as_u64().unwrap();
    assert!(count("engine_puts") >= count("puts"), "{counters}");
    assert_eq!(count("engine_deletes"), count("deletes"));
    assert!(count("deletes") >= replaced);

    let prune = |data: &Data| polytrie!["db", "prune", "--datadir", data.path()].ok();
    let told = prune(&kept).text().to_owned();
    assert!(told.contains("keeps all states") && told.contains("mpt-hash.pruning none"), "{told}");
    assert_eq!(prune(&gone).text(), "`mpt-hash` keeps nothing that this command could forget\n");
    for data in [&gone, &kept] {
        data.check();
        let run = polytrie!["db", "unwind", "--to", "20", "--datadir", data.path()];
        run.ok();
        data.check();
        let run = polytrie!["import", chain.file, "--datadir", data.path()].ok();
        assert!(!run.stderr.contains("--flush-every"), "{}", run.stderr);
        assert_eq!(data.head(), (chain.head, chain.hash.to_owned()));
        data.check();
    }
    assert_eq!(gone.dump(), kept.dump());
    let other = ["--mpt-hash.pruning", "replaced"];
    let run = polytrie!["import", chain.file, "--datadir", kept.path(), other[0], other[1]];
    assert_fails(&run, 2, &["mpt-hash.pruning", "`none`", "`replaced`"]);
}

#[test]
fn groups_of_an_engine_that_keeps_nothing_have_no_effect() {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let data = Data::new();
    let (dir, file) = (data.path(), chain.file);
    let run = import![dir, file, chain.chain, "raw", "--kv", "memory", "--flush-every", "7"].ok();
    let words = "--flush-every has no effect: the engine `memory` keeps nothing on disk";
    assert!(run.stderr.contains(words), "{}", run.stderr);
}
