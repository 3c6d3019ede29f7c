//! Tests of `bench chain FILE`, which measures blocks that the user gives.

use super::{bench, number, parts, states};
use crate::{
    run::{Run, polytrie},
    support::{CONDENSE, Chain, Data, FRONTIER, RPC_COMPAT, assert_fails, sample},
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Returns the chain of the sample in the repository.
fn the_sample() -> Chain {
    let file = sample("chain.rlp.gz");
    let hash = "0x87cf7c3a03d682e6c8da2a6974f4747a1e64d127d64819a62d110d0153270e7e";
    Chain { file, chain: sample("genesis.json"), head: 1000, hash }
}

fn measure(cache: &Path, chain: &Chain, more: &str) -> Run {
    let (file, name) = (chain.file.display(), chain.chain.display());
    bench(cache, &format!("chain {file:?} --chain {name:?} --runs 1 {more}"))
}

#[test]
fn every_layer_measures_it() {
    let data = Data::new();
    let cache = data.file("cache");
    for kv in ["mdbx", "memory"] {
        let args = format!("--states {} --kv {kv} --to 90 --json -", states());
        let report = measure(&cache, &the_sample(), &args).ok().json();
        assert_eq!((&report["bench"], &report["unit"]), (&"chain".into(), &"tx/s".into()));
        let parameters = &report["parameters"];
        assert_eq!(parameters["files"], serde_json::json!(["chain.rlp.gz"]));
        assert_eq!(
            (&parameters["chain"], &parameters["head"]),
            (&"genesis.json".into(), &90.into())
        );
        let (_, results) = parts(&report);
        // A tenth of the blocks is the warm-up.
        assert!(results.iter().all(|r| r["blocks"] == 81 && number(&r["operations"]) > 81.0));
    }
    let entries = fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().file_name());
    let chains = entries.filter(|name| name.to_string_lossy().starts_with("chain-"));
    assert_eq!(chains.count(), 1, "the senders are recovered once");
}

/// As with an import.
#[test]
fn files_that_end_before_the_last_block_are_told() {
    let data = Data::new();
    let args = "--states raw --kv memory --to 1001";
    let run = measure(&data.file("cache"), &the_sample(), args).ok();
    let said = "block 1001 of --to is not in the files; the chain ends at block 1000";
    assert!(run.stderr.contains(said), "{}", run.stderr);
}

/// The sample's first blocks are from before Cancun. They run without their access lists in every mode.
#[test]
fn blocks_that_run_without_their_lists_are_counted() {
    let data = Data::new();
    let args = "--states raw --kv memory --to 20 --bal off,trie --json -";
    let report = measure(&data.file("cache"), &the_sample(), args).ok().json();
    let notes = report["notes"].to_string();
    assert!(
        notes.contains("raw+trie on memory: 0 of 18 blocks ran by their access lists"),
        "{notes}"
    );
    assert!(!notes.contains("raw on memory"), "{notes}");
}

/// A cached chain is not used for a chain with the same first block but other rules.
#[test]
fn the_rules_are_part_of_the_chain() {
    let data = Data::new();
    let cache = data.file("cache");
    let right = the_sample();
    let text = fs::read_to_string(&right.chain).unwrap();
    let mut genesis: serde_json::Value = serde_json::from_str(&text).unwrap();
    genesis["config"]["chainId"] = 1.into();
    let wrong = Chain { chain: data.write("wrong.json", genesis.to_string()), ..the_sample() };
    let args = "--states mpt --kv memory --to 20";
    measure(&cache, &right, args).ok();
    assert_fails(&measure(&cache, &wrong, args), 1, &["is invalid", "polytrie import"]);
    measure(&cache, &right, args).ok();
}

#[test]
fn proof_of_work_and_the_merge() {
    let data = Data::new();
    let (cache, html) = (data.file("cache"), data.file("html"));
    for (chain, more) in
        [(RPC_COMPAT, "--recover"), (CONDENSE, "--to 100 --prefetch"), (FRONTIER, "--warmup 900")]
    {
        let Some(chain) = chain.open() else { return };
        let args = format!("--states mpt,replica,raw {more} --json - --html {:?}", html.display());
        let report = measure(&cache, &chain, &args).ok().json();
        let head = report["parameters"]["head"].as_u64().unwrap();
        if head == chain.head {
            assert_eq!(report["parameters"]["head_hash"], chain.hash);
        }
        let (_, results) = parts(&report);
        let roots: Vec<_> = results.iter().map(|r| &r["commitment"]["digest"]).collect();
        assert_eq!(roots[0], roots[1]);
        let page = fs::read_to_string(html.join("index.html")).unwrap();
        let empty = head == FRONTIER.head;
        let (unit, words) =
            if empty { ("blk/s", "blocks a second") } else { ("tx/s", "transactions a second") };
        assert_eq!(report["unit"], unit);
        assert!(
            page.contains(words) && page.contains("Every layer executed the same blocks, 1 to")
        );
        if empty {
            assert_eq!(results[0]["operations"], 99);
            let table = measure(&cache, &chain, "--states mpt --to 20").ok();
            assert!(table.text().contains("microseconds a block"), "{}", table.text());
        }
    }
}

#[test]
fn what_cannot_be_measured_is_told() {
    let data = Data::new();
    let cache = data.file("cache");
    let sample = the_sample();
    let refused = |args: &str, code, words: &[&str]| {
        assert_fails(&bench(&cache, &format!("chain --states mpt {args}")), code, words);
    };
    let (file, chain) = (sample.file.display(), sample.chain.display());
    for (args, word) in [
        (format!("{file:?}"), "--chain"),
        (format!("--chain {chain:?}"), "FILE"),
        (format!("{file:?} --chain {chain:?} --txs 5"), "--txs"),
    ] {
        let run = bench(&cache, &format!("chain {args}"));
        assert!(run.code == Some(2) && run.stderr.contains(word), "{}", run.stderr);
    }
    refused(&format!("- --chain {chain:?}"), 2, &["standard input", "write them to a file"]);
    refused(
        &format!("{file:?} --chain {chain:?} --to 0"),
        2,
        &["no block after the genesis block"],
    );
    let imported = sample.imported("mpt", 1);
    let genesis = data.file("genesis.rlp");
    polytrie!["export", genesis, "--datadir", imported.path(), "--to", "0"].ok();
    let genesis = format!("{:?} --chain {chain:?}", genesis.display());
    refused(&genesis, 1, &["no block after the genesis block"]);
    refused(
        &format!("{file:?} --chain {chain:?} --to 9 --warmup 9"),
        2,
        &["all of them in the warm-up"],
    );
    refused(
        &format!("{file:?} --chain mainnet"),
        1,
        &["block 1 on top of", "of mainnet", "--chain"],
    );
    refused(
        &format!("{file:?} {file:?} --chain {chain:?}"),
        1,
        &["expected block 1001", "without a gap"],
    );
    refused(&format!("{:?} --chain {chain:?}", data.file("none").display()), 3, &["no such file"]);

    // A block with the header of one block and the transactions of another.
    let mut blocks = sample.blocks();
    blocks.truncate(40);
    let empty = blocks.iter().rposition(|block| block.len() < blocks[39].len()).unwrap();
    let tampered = with_body_of(&blocks[39], &blocks[empty]);
    blocks[39] = tampered.into();
    let wrong: PathBuf = data.write("wrong.rlp", blocks.concat());
    let words = ["block 40", "`polytrie import` of the same files"];
    refused(&format!("{:?} --chain {chain:?}", wrong.display()), 1, &words);
    // A file that is cut.
    let cut = data.write("cut.rlp", &blocks.concat()[..2_000]);
    refused(
        &format!("{:?} --chain {chain:?}", cut.display()),
        1,
        &["cut.rlp", "the file ends inside the block"],
    );
    assert!(
        !fs::read_dir(&cache)
            .unwrap()
            .any(|entry| { entry.unwrap().file_name().to_string_lossy().starts_with(".part-") })
    );
}

/// Joins the header of one block with the body of another.
fn with_body_of(header: &[u8], body: &[u8]) -> Vec<u8> {
    let header_of = |block: &[u8]| {
        let mut rest = block;
        alloy_rlp::Header::decode(&mut rest).unwrap();
        let start = rest;
        let inner = alloy_rlp::Header::decode(&mut rest).unwrap();
        let length = start.len() - rest.len() + inner.payload_length;
        (start[..length].to_vec(), start[length..].to_vec())
    };
    let content = [header_of(header).0, header_of(body).1].concat();
    let mut block = Vec::new();
    alloy_rlp::Header { list: true, payload_length: content.len() }.encode(&mut block);
    [block, content].concat()
}

/// A range of real blocks is measured on the accounts and slots that they touch, in the middle of a chain
/// and in a larger state.
#[cfg(feature = "rain")]
#[test]
fn real_blocks_on_what_they_touch() {
    let data = Data::new();
    let (cache, dir) = (data.file("cache"), data.file("witnesses"));
    let sample = the_sample();
    let options = ["--state", "rain", "--to", "40"];
    polytrie![
        "import",
        sample.file,
        "--chain",
        sample.chain,
        "--datadir",
        data.path(),
        "--witness",
        dir,
        options[0],
        options[1],
        options[2],
        options[3]
    ]
    .ok();
    for number in 1..20 {
        fs::remove_file(dir.join(format!("{number}.json"))).unwrap();
    }
    let measure = |more: &str| {
        let (dir, chain) = (dir.display(), sample.chain.display());
        let args = format!("chain --prestate {dir:?} --chain {chain:?} --runs 1 {more}");
        bench(&cache, &args)
    };
    let states: Vec<_> = states()
        .split(',')
        .filter(|name| !crate::support::needs_names(name))
        .map(str::to_owned)
        .collect();
    for more in ["--kv mdbx --accounts 5000 --bal off,hints", "--kv memory --recover"] {
        let report = measure(&format!("--states {} {more} --json -", states.join(","))).ok().json();
        let parameters = &report["parameters"];
        assert_eq!((&parameters["first"], &parameters["head"]), (&20.into(), &40.into()));
        let named = number(&parameters["accounts_named"]);
        let accounts = if more.contains("5000") { 5000.0 } else { named };
        assert!(named > 10.0 && number(&parameters["accounts"]) == accounts, "{parameters}");
        let (_, results) = parts(&report);
        assert!(results.len() >= states.len());
        // A tenth of the blocks is the warm-up.
        assert!(results.iter().all(|r| r["blocks"] == 18 && number(&r["operations"]) > 18.0));
    }
    let page = data.file("page");
    measure(&format!("--states mpt,rain --html {:?}", page.display())).ok();
    let page = fs::read_to_string(page.join("index.html")).unwrap();
    assert!(page.contains("the same blocks, 20 to 40 of genesis.json, in a state that has"));
    // A damaged file, a missing block, and options that only workloads have are refused.
    let file = dir.join("20.json");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(dir.join("19.json"), text.replace("\"block\"", "\"Block\"")).unwrap();
    assert_fails(&measure("--states raw"), 1, &["19.json"]);
    fs::remove_file(dir.join("19.json")).unwrap();
    fs::remove_file(dir.join("30.json")).unwrap();
    assert_fails(&measure("--states raw"), 1, &["31.json", "blocks that follow each other"]);
    let is_refused = |run: Run| {
        assert!(run.code == Some(2) && run.stderr.contains("--prestate"), "{}", run.stderr);
    };
    for wrong in ["--txs 5", "--to 7", "--workload erc20"] {
        is_refused(measure(wrong));
    }
    let alone = bench(&cache, &format!("chain --prestate {:?}", dir.display()));
    assert!(alone.code == Some(2) && alone.stderr.contains("--chain"), "{}", alone.stderr);
}
