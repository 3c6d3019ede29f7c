//! Tests of `import --prestate`, which runs real blocks on every layer without the whole state.

use crate::{
    fixtures::fixture,
    run::polytrie,
    support::{Data, assert_fails, for_each_layer, needs_names},
};
use alloy_primitives::B256;
use polytrie_testing::for_each_json;
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

for_each_layer!(real_blocks_from_london_on);

/// The first block of London.
const LONDON: u64 = 12_965_000;
/// The file that has the codes of all blocks of the archive `prestate`.
const CODES: &str = "codes.json";

/// The files of an archive by name.
type Files = BTreeMap<String, Vec<u8>>;

// Unpacked once for all tests.
static PRESTATE: LazyLock<Files> = LazyLock::new(|| unpacked("prestate"));
static WITNESS: LazyLock<Files> = LazyLock::new(|| unpacked("witness"));

fn unpacked(set: &str) -> Files {
    let mut files = Files::new();
    for_each_json(&archive(set), "", |path, bytes| {
        let name = Path::new(path).file_name().unwrap().to_string_lossy().into_owned();
        files.insert(name, bytes.to_vec());
    });
    files
}

fn archive(set: &str) -> String {
    format!("blocks/{set}.tar.xz")
}

fn number(name: &str) -> Option<u64> {
    name.strip_suffix(".json")?.parse().ok()
}

/// Writes a directory with one block of an archive, with these codes, and with the hashes of blocks that the archive has.
fn one_block(data: &Data, files: &Files, name: &str, codes: Option<&[u8]>) -> PathBuf {
    let dir = data.file("blocks");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join(name), &files[name]).unwrap();
    let hashes = "blockhashes.json";
    let hashes = (hashes, files.get(hashes).map(Vec::as_slice));
    for (name, bytes) in [hashes, (CODES, codes)] {
        if let Some(bytes) = bytes {
            fs::write(dir.join(name), bytes).unwrap();
        }
    }
    dir
}

/// Returns the content of a file with those codes that the block of a file needs.
fn codes_of(block: &[u8]) -> Vec<u8> {
    static ALL: LazyLock<Map<String, Value>> =
        LazyLock::new(|| serde_json::from_slice(&PRESTATE[CODES]).unwrap());
    let block: Value = serde_json::from_slice(block).unwrap();
    let accounts = block["pre"].as_object().unwrap().values();
    let hashes = accounts.filter_map(|account| account["code_hash"].as_str());
    let codes: Map<String, Value> =
        hashes.filter_map(|hash| Some((hash.to_owned(), ALL.get(hash)?.clone()))).collect();
    Value::Object(codes).to_string().into_bytes()
}

/// The gas, blooms and receipts equal those of the headers. A witness has only the hashes of the
/// addresses.
fn real_blocks_from_london_on(layer: &str) {
    for (set, files) in [("prestate", &PRESTATE), ("witness", &WITNESS)] {
        if fixture(&archive(set)).is_none() {
            continue;
        }
        let recent: Vec<&String> =
            files.keys().filter(|name| number(name).is_some_and(|n| n >= LONDON)).collect();
        assert!(recent.len() >= 3, "{set}: {}", recent.len());
        for (at, name) in recent.into_iter().enumerate() {
            let data = Data::new();
            // The first block has the codes of all blocks beside it, 34 MB. The other blocks have those that they need.
            let codes = match (set, at) {
                ("prestate", 0) => Some(files[CODES].clone()),
                ("prestate", _) => Some(codes_of(&files[name])),
                _ => None,
            };
            let dir = one_block(&data, files, name, codes.as_deref());
            let mut args = vec!["import", "--chain", "mainnet", "--state", layer, "--json", "-"];
            let (dir, datadir) = (dir.display().to_string(), data.path().display().to_string());
            args.extend(["--prestate", &dir]);
            // Blocks whose numbers are multiples of 3 are imported on disk, within a larger state.
            if number(name).is_some_and(|number| number % 3 == 0) {
                args.extend(["--datadir", &datadir, "--accounts", "5000"]);
            }
            let args: Vec<&std::ffi::OsStr> = args.into_iter().map(std::ffi::OsStr::new).collect();
            let run = crate::run::run(&args, &[]);
            if set == "witness" && needs_names(layer) {
                assert_fails(&run, 2, &["is known by its hash only"]);
                continue;
            }
            let run = run.ok();
            let report = run.json();
            assert_eq!(report["blocks"], 1, "{set}, {name}: {report}");
            assert_eq!(report["head"]["number"], number(name).unwrap(), "{set}, {name}");
            assert!(run.stderr.contains("state roots were not compared"), "{}", run.stderr);
            assert!(!data.path().exists(), "{set}, {name}: something was kept");
        }
    }
}

/// An unusable input is refused with one sentence.
#[test]
fn mistakes_are_refused() {
    let import = |dir: &Path| polytrie!["import", "--prestate", dir, "--chain", "mainnet"];
    let data = Data::new();
    assert_fails(&import(&data.file("missing")), 3, &["cannot read"]);
    let missing = data.file("missing");
    let kept = polytrie!["import", "--prestate", missing, "--chain", "mainnet", "--kv", "mdbx"];
    assert_fails(&kept, 2, &["--datadir is needed", "--kv memory"]);
    let dir = data.file("dir");
    fs::create_dir(&dir).unwrap();
    assert_fails(&import(&dir), 1, &["holds no file of a block", "scripts/fetch-prestate"]);
    fs::write(dir.join("1.json"), "{\"block\":\"0xc0\"}").unwrap();
    assert_fails(&import(&dir), 1, &["1.json: the block has 0 items"]);
    fs::write(dir.join("1.json"), "{").unwrap();
    assert_fails(&import(&dir), 1, &["1.json", "does not read"]);

    if fixture(&archive("prestate")).is_none() {
        return;
    }
    let files = &PRESTATE;
    let all = files.get(CODES).map(Vec::as_slice);
    let recent: Vec<_> =
        files.iter().filter(|(name, _)| number(name).is_some_and(|n| n >= LONDON)).collect();
    let [(first, bytes), (second, other), ..] = recent[..] else { return };
    let apart = Data::new();
    let dir = one_block(&apart, files, first, all);
    fs::write(dir.join(second), other).unwrap();
    assert_fails(&import(&dir), 1, &[second, "blocks that follow each other"]);

    // Without the code that the block runs, and with other code under its hash.
    let apart = Data::new();
    let dir = one_block(&apart, files, first, all);
    let codes = dir.join(CODES);
    fs::write(&codes, "{}").unwrap();
    let lacking = ["there is no code with the hash 0x", "codes.json and blockhashes.json"];
    assert_fails(&import(&dir), 1, &lacking);
    fs::write(&codes, format!("{{\"{}\":\"0x00\"}}", B256::ZERO)).unwrap();
    assert_fails(&import(&dir), 1, &["codes.json: the code under 0x0000", "has the hash 0x"]);

    // With an account missing, the block uses other gas, or a transaction cannot be paid for.
    let apart = Data::new();
    let dir = one_block(&apart, files, first, all);
    let mut file: Value = serde_json::from_slice(bytes).unwrap();
    for account in file["pre"].as_object_mut().unwrap().values_mut() {
        account["balance"] = json!("0x0");
    }
    fs::write(dir.join(first), file.to_string()).unwrap();
    let run = import(&dir);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
}
