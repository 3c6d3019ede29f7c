//! Tests of `db convert`, from each layer to each other layer, with an import that continues afterwards.

use crate::{
    database::store,
    groups::{Rows, rows},
    run::polytrie,
    support::{Data, RPC_COMPAT, assert_fails, check, head, import},
};
use polytrie::{chain::TABLES, datadir::UNFINISHED_FILE, layers::LAYERS};
use polytrie_kv::{Batch, KeyRange};
use polytrie_kv_testing::entries;
use std::{collections::BTreeMap, fs};

/// A file with the name of a genesis is not taken for that of the chain, as which the shadow of the new directory would
/// read it.
#[cfg(all(feature = "mpt", feature = "rain", feature = "raw"))]
#[test]
fn another_genesis_file_stays_behind() {
    let data = Data::new();
    let [file, genesis] = ["chain.rlp.gz", "genesis.json"].map(crate::support::sample);
    import![data.path(), file, genesis, "mpt", "--to", "9", "--preimages"].ok();
    let dump = data.path().join("new.json");
    polytrie!["db", "dump", dump, "--format", "genesis", "--datadir", data.path()].ok();
    fs::rename(dump, data.path().join("genesis.json")).unwrap();
    let out = data.file("out");
    polytrie!["db", "convert", "--datadir", data.path(), "--to", "rain", "--out", out].ok();
    assert!(!out.join("genesis.json").exists());
    polytrie!["import", file, "--datadir", out, "--to", "12", "--shadow", "raw"].ok();
}

/// Converts every layer into every other one. Afterwards the rest of the chain is imported, blocks are taken back and
/// run again, and the result equals that of a direct import. What follows a conversion depends on the rows alone, so it is
/// tried once for conversions with equal rows.
#[test]
fn every_layer_becomes_every_other() {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let half = chain.head / 2;
    let straight = chain.imported("mpt", chain.head).dump();
    let mut tried: BTreeMap<&str, Vec<Rows>> = BTreeMap::new();
    for from in LAYERS {
        let (data, to) = (Data::new(), half.to_string());
        // The preimages are stored because some layers need them.
        import![data.path(), chain.file, chain.chain, from.name, "--to", to, "--preimages"].ok();
        let (dump, at) = (data.dump(), data.head());
        for to in LAYERS {
            let context = format!("{} into {}", from.name, to.name);
            let out = data.file(&format!("as-{}", to.name));
            let run = polytrie![
                "db",
                "convert",
                "--to",
                to.name,
                "--datadir",
                data.path(),
                "--out",
                out,
                "--json",
                "-",
            ]
            .ok()
            .json();
            assert_eq!((&run["from"], &run["to"]), (&from.name.into(), &to.name.into()));
            assert_eq!(run["number"], half, "{context}");
            assert_eq!(head(&out), at, "{context}");
            check(&out);
            let run = polytrie!["db", "dump", "--datadir", out].ok();
            assert!(run.text() == dump, "{context}: another state");
            let made = rows(&out, to.name);
            if tried.get(to.name) == Some(&made) {
                continue;
            }
            tried.insert(to.name, made);

            polytrie!["import", chain.file, "--datadir", out].ok();
            polytrie!["db", "unwind", "--to", (half + 3).to_string(), "--datadir", out].ok();
            polytrie!["import", chain.file, "--datadir", out].ok();
            assert_eq!(head(&out), (chain.head, chain.hash.to_owned()), "{context}");
            check(&out);
            let run = polytrie!["db", "dump", "--datadir", out].ok();
            assert!(run.text() == straight, "{context}: another state at the head");
            // Blocks before the conversion cannot be taken back.
            let back = (half - 1).to_string();
            let run = polytrie!["db", "unwind", "--to", back, "--datadir", out];
            assert_eq!(run.code, Some(2), "{context}: {}", run.stderr);
        }
    }
}

/// The state is checked against the head's root even if the target layer has no state roots.
#[test]
fn a_damaged_state_does_not_become_another() {
    let Some(chain) = RPC_COMPAT.open() else { return };
    for kind in LAYERS.iter().filter(|kind| kind.canonical) {
        let data = chain.imported(kind.name, 30);
        let dump = data.dump();
        let tables = [kind.tables, TABLES].concat();
        let (mut noticed, mut tried) = (0, 0);
        for table in kind.tables {
            let rows = entries(&store(&data, &tables), *table, KeyRange::ALL);
            for (key, value) in rows.iter().step_by(rows.len() / 3 + 1) {
                let write = |value: &[u8]| {
                    let mut batch = Batch::new();
                    batch.put(*table, key, value);
                    store(&data, &tables).write(batch).unwrap();
                };
                let mut damaged = value.clone();
                let Some(last) = damaged.last_mut() else { continue };
                *last ^= 1;
                write(&damaged);
                let out = data.file(&format!("out-{tried}"));
                let run = polytrie![
                    "db",
                    "convert",
                    "--to",
                    "raw",
                    "--datadir",
                    data.path(),
                    "--out",
                    out,
                ];
                let context = format!("{}, a row of {}: {}", kind.name, table.name, run.stderr);
                match run.code {
                    Some(0) => {
                        let converted = polytrie!["db", "dump", "--datadir", out].ok();
                        assert!(converted.text() == dump, "{context}");
                    }
                    Some(1 | 3) => noticed += 1,
                    code => panic!("{code:?}: {context}"),
                }
                write(value);
                tried += 1;
            }
        }
        assert!(noticed > 1, "{}: {noticed} of {tried}", kind.name);
        data.check();
    }
}

/// A layer whose keys are not hashes needs addresses and slots, and the error says so.
#[cfg(feature = "binary")]
#[test]
fn a_state_known_by_hashes_only_is_refused() {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let data = chain.imported("raw", 3);
    let out = data.file("out");
    let run = polytrie!["db", "convert", "--to", "binary", "--datadir", data.path(), "--out", out];
    assert_fails(&run, 2, &["`binary`", "known by its hash only", "--preimages"]);
}

/// A conversion that is not possible is refused with a sentence, and changes nothing.
#[test]
fn mistakes_are_refused() {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let data = chain.imported("raw", 3);
    let convert = |to: &str, out: &std::path::Path, kv: &str| {
        polytrie!["db", "convert", "--to", to, "--datadir", data.path(), "--out", out, "--kv", kv,]
    };
    assert_fails(&convert("merkle", &data.file("a"), "mdbx"), 2, &["`merkle`"]);
    assert_fails(&convert("mpt", &data.file("b"), "memory"), 2, &["memory"]);
    assert_fails(&convert("mpt", &data.path(), "mdbx"), 2, &["holds data of polytrie already"]);
    let full = data.file("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("mine"), "text").unwrap();
    assert_fails(&convert("mpt", &full, "mdbx"), 2, &["is not empty"]);
    let missing = Data::new();
    let run = polytrie![
        "db",
        "convert",
        "--to",
        "mpt",
        "--datadir",
        missing.path(),
        "--out",
        data.file("c"),
    ];
    assert_fails(&run, 2, &["there is no data of polytrie"]);
    // A conversion that was stopped leaves no data directory but its mark, and is simply made again.
    let out = data.file("again");
    convert("mpt", &out, "mdbx").ok();
    assert!(!out.join(UNFINISHED_FILE).exists());
    fs::rename(out.join("polytrie.json"), out.join(UNFINISHED_FILE)).unwrap();
    fs::remove_file(out.join("chain.json")).unwrap();
    assert_fails(&polytrie!["db", "stats", "--datadir", out], 2, &["there is no data of polytrie"]);
    convert("rain", &out, "mdbx").ok();
    check(&out);
    assert_eq!(head(&out).0, 3);
}

/// Interval, sweep and boundary of `lmpt` belong to the data.
#[test]
fn the_interval_is_remembered() {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let data = Data::new();
    import![data.path(), chain.file, chain.chain, "lmpt", "--lmpt.interval", "5", "--to", "30"]
        .ok();
    let run = polytrie!["import", chain.file, "--datadir", data.path(), "--lmpt.interval", "6"];
    assert_fails(&run, 2, &["lmpt.interval", "`5`", "`6`"]);
    let run = polytrie!["import", chain.file, "--datadir", data.path(), "--lmpt.sweep", "6"];
    assert_fails(&run, 2, &["lmpt.sweep", "`4096`", "`6`"]);
    let run = polytrie!["import", chain.file, "--datadir", data.path(), "--lmpt.boundary=switch"];
    assert_fails(&run, 2, &["lmpt.boundary", "`slices`", "`switch`"]);
    let run = polytrie!["import", chain.file, "--datadir", data.path(), "--json", "-"].ok().json();
    assert_eq!(run["layer"]["merges"], 4, "{run}");
    data.check();
    let proof = polytrie![
        "proof",
        "get",
        "--datadir",
        data.path(),
        "--address",
        "0x0000000000000000000000000000000000000001",
    ]
    .ok();
    let file = data.write("proof.json", proof.text());
    let digest = proof.json()["commitment"]["digest"].as_str().unwrap().to_owned();
    polytrie!["proof", "verify", file, "--root", digest].ok();
    let wrong = format!("0x{}", "11".repeat(32));
    assert_eq!(polytrie!["proof", "verify", file, "--root", wrong].code, Some(1));
}
