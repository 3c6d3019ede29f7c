//! Tests of `import --witness` and `witness verify`, which execute blocks without a state.

use crate::{
    run::{Run, polytrie},
    support::{Chain, Data, FRONTIER, RPC_COMPAT, assert_fails, import_with},
};
use serde_json::Value;
use std::{ffi::OsStr, fs, path::Path};

fn import(chain: &Chain, data: &Data, to: u64, extra: &[&str]) -> Run {
    let to = to.to_string();
    import_with(data, &chain.file, &chain.chain, &[&["--to", &to][..], extra].concat())
}

/// Every block of chains with all forks is verified from its witness. Before Byzantium this includes the state root
/// after each transaction.
#[test]
fn every_block_is_verified_from_its_witness_alone() {
    for (fixture, to, named) in [(RPC_COMPAT, 54, true), (FRONTIER, 60, false)] {
        let Some(chain) = fixture.open() else { return };
        let data = Data::new();
        let dir = data.file("witnesses");
        let out = dir.to_str().unwrap();
        let run = import(&chain, &data, to, &["--state", "rain", "--witness", out, "--json", "-"]);
        let report = run.ok().json();
        assert_eq!(report["witnesses"]["blocks"], to);
        // Stored blocks are not executed again, so no witnesses are written.
        let none = data.file("none");
        let again = import(&chain, &data, to, &["--witness", none.to_str().unwrap()]).ok();
        assert!(again.stderr.contains("no witness was written"), "{}", again.stderr);
        let files: Vec<_> = (1..=to).map(|number| dir.join(format!("{number}.json"))).collect();
        let mut args = vec![OsStr::new("witness"), OsStr::new("verify")];
        args.extend(files.iter().map(|file| file.as_os_str()));
        if named {
            args.extend([OsStr::new("--chain"), chain.chain.as_os_str()]);
        }
        let run = crate::run::run(&args, b"").ok();
        let lines: Vec<_> = run.text().lines().collect();
        assert_eq!(lines.len() as u64, to);
        for (number, line) in (1..).zip(lines) {
            assert!(line.starts_with(&format!("block {number} 0x")), "{line}");
            assert!(line.contains("receipts root and state root verified"), "{line}");
        }
    }
}

/// A witness file is complete, and is written before its block is durable.
#[test]
fn a_witness_is_there_before_its_block() {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let data = Data::new();
    let dir = data.file("witnesses");
    let out = dir.to_str().unwrap();
    // A directory stands in the place of one of the files.
    fs::create_dir_all(dir.join("9.json")).unwrap();
    let extra = ["--state", "rain", "--witness", out, "--flush-every", "4"];
    let run = import(&chain, &data, 20, &extra);
    assert_fails(&run, 3, &[out]);
    let (head, _) = data.head();
    assert!(head < 9, "{head}");
    data.check();
    fs::remove_dir(dir.join("9.json")).unwrap();
    let report = import(&chain, &data, 20, &[&extra[..], &["--json", "-"]].concat()).ok().json();
    assert_eq!(report["witnesses"]["blocks"], 20 - head);
    for number in 1..=20 {
        let file = dir.join(format!("{number}.json"));
        polytrie!["witness", "verify", &file, "--chain", chain.chain].ok();
    }
    let files = fs::read_dir(&dir).unwrap();
    assert_eq!(files.count(), 20, "something unfinished is left");
}

fn change(file: &Path, change: impl FnOnce(&mut Value)) {
    let mut value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    change(&mut value);
    fs::write(file, value.to_string()).unwrap();
}

/// Levels that were left out of a witness are read from a data directory, which may hold later blocks. Without it the
/// witness is incomplete.
#[test]
fn levels_that_are_left_out_come_from_a_data_directory() {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let (data, full) = (Data::new(), Data::new());
    let dir = data.file("witnesses");
    let out = dir.to_str().unwrap();
    let small = ["--state", "rain", "--witness", out, "--witness.levels", "2", "--json", "-"];
    import(&chain, &data, 40, &["--state", "rain"]).ok();
    let small = import(&chain, &data, 41, &small).ok().json();
    let whole = full.file("witnesses");
    let whole = ["--state", "rain", "--witness", whole.to_str().unwrap(), "--json", "-"];
    import(&chain, &full, 40, &["--state", "rain"]).ok();
    let whole = import(&chain, &full, 41, &whole).ok().json();
    let bytes = |report: &Value| report["witnesses"]["bytes"].as_u64().unwrap();
    assert!(bytes(&small) < bytes(&whole), "{} {}", bytes(&small), bytes(&whole));

    let file = dir.join("41.json");
    let alone = polytrie!["witness", "verify", file, "--chain", chain.chain];
    assert_fails(
        &alone,
        1,
        &["block 41", "is not enough", "leaves out the top 2 levels", "--datadir"],
    );
    // The directory has later blocks, and the nodes that block 41 changed are not the same any more.
    let ahead = polytrie!["witness", "verify", file, "--datadir", data.path()];
    assert_fails(&ahead, 1, &["block 41", "has changed between the two"]);
    polytrie!["db", "unwind", "--to", "40", "--datadir", data.path()].ok();
    let run = polytrie!["witness", "verify", file, "--datadir", data.path()].ok();
    assert!(run.text().contains("receipts root and state root verified"), "{}", run.text());
}

/// A changed witness is refused, and the error says what is wrong.
#[test]
fn what_was_tampered_with_is_refused() {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let data = Data::new();
    let dir = data.file("witnesses");
    let run = import(&chain, &data, 3, &["--state", "mpt", "--witness", dir.to_str().unwrap()]);
    assert_fails(&run, 2, &["`mpt`", "makes no witnesses", "`rain`"]);
    let data = Data::new();
    let out = dir.to_str().unwrap();
    import(&chain, &data, 30, &["--state", "rain", "--witness", out]).ok();
    let file = dir.join("30.json");
    let verify = || polytrie!["witness", "verify", file, "--chain", chain.chain];
    verify().ok();
    let json =
        polytrie!["witness", "verify", file, "--chain", chain.chain, "--json", "-"].ok().json();
    assert_eq!(json["blocks"].as_array().unwrap().len(), 1);
    assert_eq!(json["blocks"][0]["number"], 30, "{json}");
    let original = fs::read(&file).unwrap();
    assert_fails(&polytrie!["witness", "verify", file], 2, &["30.json", "--chain"]);
    change(&file, |value| value["chain"] = "atlantis".into());
    let unknown = polytrie!["witness", "verify", file];
    assert_fails(&unknown, 1, &["30.json", "unknown chain \"atlantis\"", "--chain"]);
    // A witness comes from others: the rules of its chain must not come from a file that it names.
    let path = chain.chain.to_str().unwrap();
    change(&file, |value| value["chain"] = path.into());
    let elsewhere = polytrie!["witness", "verify", file];
    assert_fails(&elsewhere, 1, &["30.json", "unknown chain", path, "--chain"]);
    fs::write(&file, &original).unwrap();
    let piped = ["witness", "verify", "-", "--chain"].map(OsStr::new);
    crate::run::run(&[&piped[..], &[chain.chain.as_os_str()]].concat(), &original).ok();

    let nodes =
        serde_json::from_slice::<Value>(&original).unwrap()["state"].as_array().unwrap().len();
    for at in 0..nodes {
        change(&file, |value| drop(value["state"].as_array_mut().unwrap().remove(at)));
        assert_fails(&verify(), 1, &["block 30", "not enough"]);
        fs::write(&file, &original).unwrap();
    }
    change(&file, |value| value["ancestors"] = Value::Array(Vec::new()));
    assert_fails(&verify(), 1, &["block 30", "header of its parent is missing"]);
    fs::write(&file, &original).unwrap();
    change(&file, |value| value["hash"] = format!("0x{}", "12".repeat(32)).into());
    assert_fails(&verify(), 1, &["holds no witness", "0x1212"]);
    fs::write(&file, "{}").unwrap();
    assert_fails(&verify(), 1, &["holds no witness"]);
    assert_fails(&polytrie!["witness", "verify", data.file("none")], 3, &["cannot read"]);
}
