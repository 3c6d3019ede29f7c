//! Tests of `bench generate` and of the sample chain in the repository.

use crate::{
    run::polytrie,
    support::{Data, assert_fails, for_each_layer, import},
};
use polytrie::layers::LAYERS;
use std::{fs, path::Path};

for_each_layer!(
    the_sample_imports,
    a_generated_chain_imports,
    a_state_of_mainnets_shape_is_taken_in
);

fn the_sample_imports(layer: &str) {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/sample");
    let data = Data::new();
    let (dir, chain) = (data.file("data"), sample.join("genesis.json"));
    let blocks = sample.join("chain.rlp.gz");
    let run = import![dir, blocks, chain, layer].ok();
    // The hash that geth 1.17.8 computes.
    let head = "head 1000 0x87cf7c3a03d682e6c8da2a6974f4747a1e64d127d64819a62d110d0153270e7e ";
    assert!(run.text().starts_with(head), "{}", run.text());
}

fn a_generated_chain_imports(layer: &str) {
    let data = Data::new();
    let (out, dir) = (data.file("generated"), data.file("data"));
    let made = polytrie![
        "bench",
        "generate",
        "--workload",
        "transfer",
        "--accounts",
        "100",
        "--txs",
        "250",
        "--block-txs",
        "20",
        "--popularity",
        "hot",
        "--new-recipients",
        "10",
        "--seed",
        "3",
        "--out",
        out,
        "--json",
        "-",
    ];
    let made = made.ok().json();
    assert_eq!((&made["blocks"], &made["transactions"]), (&13.into(), &250.into()));
    assert_eq!((&made["seed"], &made["popularity"]), (&3.into(), &"90/10".into()));
    let (chain, blocks) = (out.join("genesis.json"), out.join("chain.rlp"));
    assert_eq!(made["chain_bytes"], fs::metadata(&blocks).unwrap().len());
    let run = import![dir, blocks, chain, layer, "--json", "-"].ok().json();
    assert_eq!((&run["head"]["hash"], &run["txs"]), (&made["head"]["hash"], &250.into()));
}

#[test]
fn what_cannot_be_generated() {
    let data = Data::new();
    let file = data.write("file", "");
    let nowhere = polytrie!["bench", "generate", "--workload", "transfer", "--out", file];
    assert_eq!(nowhere.code, Some(3));
    assert!(nowhere.message().contains(&file.display().to_string()), "{}", nowhere.message());
    let (out, json) = (data.file("out"), data.file("nowhere").join("made.json"));
    let run =
        polytrie!["bench", "generate", "--workload", "transfer", "--out", out, "--json", json];
    assert_fails(&run, 3, &["made.json", "cannot be written"]);
    assert!(!out.join("chain.rlp").exists());
    for made in ["genesis.json", "chain.rlp"] {
        let json = out.join(made);
        let run =
            polytrie!["bench", "generate", "--workload", "transfer", "--out", out, "--json", json];
        assert_fails(&run, 2, &[made, "is the same file as that of --out"]);
    }
    for wrong in
        [["--accounts", "0"], ["--txs", "0"], ["--new-recipients", "101"], ["--block-txs", "0"]]
    {
        let [option, value] = wrong;
        let args =
            polytrie!["bench", "generate", "--workload", "transfer", option, value, "--out", file];
        assert_eq!(args.code, Some(2), "{wrong:?}");
    }
}

/// Every canonical layer computes the root of the written genesis, and the same root if it is filled without
/// the file.
fn a_state_of_mainnets_shape_is_taken_in(layer: &str) {
    let data = Data::new();
    let (out, dir) = (data.file("shape"), data.file("data"));
    let made = polytrie![
        "bench", "generate", "--shape", "mainnet", "--size", "300k", "--seed", "5", "--out", out,
        "--json", "-"
    ];
    let made = made.ok().json();
    let genesis = out.join("genesis.json");
    assert_eq!(made["genesis_bytes"], fs::metadata(&genesis).unwrap().len());
    let begun =
        polytrie!["init", "--chain", genesis, "--datadir", dir, "--state", layer, "--json", "-"];
    let begun = begun.ok().json();
    let kind = LAYERS.iter().find(|kind| kind.name == layer).unwrap();
    assert!(!kind.canonical || begun["commitment"] == begun["state_root"], "{begun}");
    polytrie!["db", "check", "--datadir", dir].ok();

    let straight = data.file("straight");
    let shape = |seed: &str| {
        polytrie![
            "init",
            "--shape",
            "mainnet",
            "--size",
            "300k",
            "--seed",
            seed,
            "--datadir",
            straight,
            "--state",
            layer,
            "--json",
            "-"
        ]
    };
    let filled = shape("5").ok().json();
    for same in ["number", "hash", "state_root", "commitment", "state"] {
        assert_eq!(filled[same], begun[same], "{same}");
    }
    assert_eq!(filled["slots"], made["slots"]);
    // The four contracts that blocks call are added to the accounts of the shape.
    assert_eq!(filled["accounts"].as_u64(), made["accounts"].as_u64().map(|made| made + 4));
    assert_fails(&shape("5"), 2, &["holds data of polytrie already"]);
    let dump = |dir: &Path| polytrie!["db", "dump", "--datadir", dir].ok().stdout;
    assert!(dump(&dir) == dump(&straight), "{layer}: another state");
    // The chain is found by the genesis that the directory keeps, and the genesis of the file gives the same
    // chain.
    fs::remove_file(straight.join("chain.json")).unwrap();
    assert_eq!(polytrie!["db", "check", "--datadir", straight].ok().code, Some(0));
    let again = polytrie!["init", "--datadir", straight, "--json", "-"].ok().json();
    assert_eq!(again["hash"], begun["hash"]);
    let again = polytrie!["init", "--datadir", straight, "--chain", genesis, "--json", "-"];
    assert_eq!(again.ok().json()["hash"], begun["hash"]);
}

#[test]
fn a_shape_that_cannot_be_taken_in_leaves_nothing() {
    let data = Data::new();
    let dir = data.file("data");
    for wrong in [["--chain", "dev"], ["--seed", "x"]] {
        let [option, value] = wrong;
        let args = polytrie![
            "init",
            "--shape",
            "mainnet",
            "--size",
            "1M",
            "--datadir",
            dir,
            option,
            value
        ];
        assert_eq!(args.code, Some(2), "{wrong:?}");
    }
    let sizeless = polytrie!["init", "--shape", "mainnet", "--datadir", dir];
    assert!(sizeless.code == Some(2) && sizeless.stderr.contains("--size"), "{}", sizeless.stderr);
    let nowhere = polytrie!["init", "--shape", "mainnet", "--size", "100k"];
    assert_fails(&nowhere, 2, &["--datadir"]);
    assert!(!dir.exists());
    // With the engine in memory the state is computed and nothing is kept.
    polytrie!["init", "--shape", "mainnet", "--size", "100k", "--kv", "memory"].ok();
}
