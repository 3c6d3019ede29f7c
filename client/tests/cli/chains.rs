//! Tests of the whole program with real chains under every layer. Each chain is imported, checked, and exported byte
//! for byte, and the final state is the same under all layers.

use crate::{
    fixtures::{fixture, read},
    run::{polytrie, run},
    support::{CONDENSE, ChainFixture, Data, FRONTIER, RPC_COMPAT, import},
};
use alloy_primitives::{B256, U256, hex, keccak256};
use polytrie::{blocks::BlockReader, layers::LAYERS};
use serde_json::{Map, Value};
use std::{ffi::OsStr, fs, path::Path, sync::LazyLock};

const ETHTEST: ChainFixture = ChainFixture {
    file: "chains/ethtest/chain.rlp",
    chain: "chains/ethtest/genesis.json",
    head: 600,
    hash: "0x44e3809c9a3cda717f00aea3a9da336d149612c8d5657fbc0028176ef8d94d2a",
};
const LONDON: ChainFixture = ChainFixture {
    file: "chains/london/testLondonBlockchain.blocks",
    chain: "chains/london/testLondonGenesis.json",
    head: 5,
    hash: "0x03290a909cff32be9ce85f27c50570e9a94212dfb212c15f7a15cbdda70a7abc",
};
const MAINNET_ERA: ChainFixture = ChainFixture {
    file: "era1/mainnet-00000-5ec1ffb8.era1",
    chain: "mainnet",
    head: 8191,
    hash: "0xa6860fefa339c963e1bb622526cc8dd4344eedd2a9b969e74de5cccc445fbed4",
};
const SEPOLIA_ERA: ChainFixture = ChainFixture {
    file: "era1/sepolia-00000-643a00f7.era1",
    chain: "sepolia",
    head: 8191,
    hash: SEPOLIA_8191,
};
const SEPOLIA_ERE: ChainFixture =
    ChainFixture { file: "ere/sepolia-00000-8e3e7dc9-noproofs.ere", ..SEPOLIA_ERA };
const SEPOLIA_8191: &str = "0x8e3e7dc9ef199c05683417b4aa572f0b7a8bcfafca7edb6045baabc01aa4fb0c";
/// The blocks of [`ETHTEST`] and the genesis block, in an ere file.
const ETHTEST_ERE: ChainFixture =
    ChainFixture { file: "ere/ethtest-00000-44e3809c-noproofs.ere", ..ETHTEST };

/// The state at the head of [`ETHTEST`] under every layer.
static ETHTEST_STATE: LazyLock<Option<String>> = LazyLock::new(|| through_every_layer(ETHTEST));

/// Imports a chain under every layer. Returns the state at its head, which must be the same for all layers.
fn through_every_layer(chain: ChainFixture) -> Option<String> {
    let chain = chain.open()?;
    let original = chain.bytes();
    let first =
        match chain.blocks().first().map(|rlp| polytrie::consensus::decode::decode_header(rlp)) {
            Some(Ok(header)) => header.number.to_string(),
            other => panic!("{other:?}"),
        };
    let mut state: Option<String> = None;
    for layer in LAYERS {
        let data = Data::new();
        let report =
            import![data.path(), chain.file, chain.chain, layer.name, "--json", "-"].ok().json();
        assert_eq!(report["head"]["number"], chain.head, "{}", layer.name);
        assert_eq!(report["head"]["hash"], chain.hash, "{}", layer.name);
        assert_eq!(report["blocks"], chain.head, "{}", layer.name);
        if layer.canonical {
            assert_eq!(report["head"]["commitment"], report["head"]["state_root"]);
        }
        data.check();
        assert_eq!(data.head(), (chain.head, chain.hash.to_owned()));

        let extension = chain.file.extension().and_then(OsStr::to_str).unwrap_or_default();
        let is_archive = ["era1", "ere"].contains(&extension);
        if is_archive && layer.canonical {
            // The receipts before Byzantium hold state roots, which only a canonical layer computes.
            let directory = data.file("archive");
            polytrie!["export", directory, "--datadir", data.path(), "--format", extension].ok();
            same_archive(&chain.file, &directory);
        } else if !is_archive {
            let file = data.file("export.rlp");
            polytrie!["export", file, "--datadir", data.path(), "--from", first].ok();
            assert!(fs::read(file).unwrap() == original, "{}", layer.name);
        }

        let dump = data.dump();
        match &state {
            Some(other) => assert!(*other == dump, "{} holds another state", layer.name),
            None => state = Some(dump),
        }
    }
    state
}

/// Checks that the directory holds an archive file with the records of the original, and with its name except for the
/// network. The bytes may differ, because the same content can be compressed in several ways. The name ends in a hash
/// of all blocks.
fn same_archive(original: &Path, directory: &Path) {
    let name = original.file_name().unwrap().to_str().unwrap();
    let (_, ending) = name.split_once('-').unwrap();
    let mut copies = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let copy = copies.find(|path| path.to_str().unwrap().ends_with(&format!("-{ending}"))).unwrap();
    let blocks = |file: &Path| BlockReader::open(file).unwrap().map(Result::unwrap);
    let mut copied = blocks(&copy);
    for expected in blocks(original) {
        let found = copied.next().unwrap();
        assert_eq!(found.rlp, expected.rlp);
        assert_eq!(found.receipts, expected.receipts);
        assert_eq!(found.total_difficulty, expected.total_difficulty);
    }
    assert!(copied.next().is_none());
}

#[test]
fn condense() {
    through_every_layer(CONDENSE);
}

#[test]
fn rpc_compat() {
    through_every_layer(RPC_COMPAT);
}

#[test]
fn london() {
    through_every_layer(LONDON);
}

#[test]
fn frontier() {
    through_every_layer(FRONTIER);
}

#[test]
fn mainnet_era() {
    through_every_layer(MAINNET_ERA);
}

/// The era1 and ere files of the same blocks give the same state.
#[test]
fn sepolia_era_in_both_formats() {
    let (era1, ere) = (through_every_layer(SEPOLIA_ERA), through_every_layer(SEPOLIA_ERE));
    if let (Some(era1), Some(ere)) = (era1, ere) {
        assert!(era1 == ere);
    }
}

#[test]
fn ethtest_era() {
    if let (Some(rlp), Some(ere)) = (&*ETHTEST_STATE, through_every_layer(ETHTEST_ERE)) {
        assert!(*rlp == ere);
    }
}

/// A chain from Frontier over the merge to Osaka is exported as ere files and imported again.
#[test]
fn ere_files_go_across_the_merge() {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let expected = (chain.head, chain.hash.to_owned());
    let Some(canonical) = LAYERS.iter().find(|layer| layer.canonical) else { return };
    let made = chain.imported(canonical.name, chain.head);
    let directory = made.file("ere");
    let export = polytrie!["export", directory, "--datadir", made.path(), "--format", "ere"].ok();
    assert!(
        export.text().starts_with("exported blocks 0 to 54 to 1 file in "),
        "{}",
        export.text()
    );
    let mut names: Vec<_> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["checksums.txt", "genesis-00000-d226371d-noproofs.ere"]);
    let file = directory.join(&names[1]);
    let bytes = fs::read(&file).unwrap();
    for layer in LAYERS {
        let data = Data::new();
        let import = |file: &Path, to: &str, input: &[u8]| {
            let datadir = data.path();
            let args: Vec<&OsStr> = vec![
                "import".as_ref(),
                file.as_os_str(),
                "--datadir".as_ref(),
                datadir.as_os_str(),
                "--chain".as_ref(),
                chain.chain.as_os_str(),
                "--state".as_ref(),
                layer.name.as_ref(),
                "--to".as_ref(),
                to.as_ref(),
                "--json".as_ref(),
                "-".as_ref(),
            ];
            run(&args, input).ok().json()
        };
        // Import a part from the file, more through a pipe, and the rest from the directory.
        assert_eq!(import(&file, "20", b"")["blocks"], 20);
        assert_eq!(import(Path::new("-"), "54", &bytes)["blocks"], 34);
        assert_eq!(data.head(), expected, "{}", layer.name);
        assert_eq!(import(&directory, "60", b"")["skipped"], 55);
        data.check();
    }
}

/// The state at the head equals a dump that another client made.
#[test]
fn ethtest() {
    let Some(expected) = fixture("chains/ethtest/headstate.json") else { return };
    let Some(dump) = &*ETHTEST_STATE else { return };
    let expected: Value = serde_json::from_slice(&read(&expected)).unwrap();
    let expected = expected["accounts"].as_object().unwrap();
    assert_eq!(dump.lines().count(), expected.len());
    let mut accounts: Vec<(B256, &Value)> = expected
        .iter()
        .map(|(address, account)| (keccak256(hex::decode(address).unwrap()), account))
        .collect();
    accounts.sort_unstable_by_key(|(hash, _)| *hash);
    for (line, (hash, expected)) in dump.lines().zip(accounts) {
        let found: Value = serde_json::from_str(line).unwrap();
        assert_eq!(found["hash"], hash.to_string());
        assert_eq!(number(&found["nonce"]), U256::from(expected["nonce"].as_u64().unwrap()));
        assert_eq!(number(&found["balance"]), number(&expected["balance"]));
        assert_eq!(found["codeHash"], expected["codeHash"]);
        assert_eq!(found.get("code"), expected.get("code").filter(|code| *code != "0x"));
        let none = Map::new();
        let found = found.get("storage").map_or(&none, |slots| slots.as_object().unwrap());
        let expected = expected.get("storage").map_or(&none, |slots| slots.as_object().unwrap());
        assert_eq!(found.len(), expected.len(), "{hash}");
        // The dump of another client names a slot by its key, or by the hash of the key where the client does not know
        // the key.
        for (slot, value) in expected {
            let key: B256 = slot.parse().unwrap();
            let hash = if found.contains_key(slot) { key } else { keccak256(key) };
            let value = format!("0x{}", value.as_str().unwrap().trim_start_matches("0x"));
            assert_eq!(number(&found[&hash.to_string()]), value.parse::<U256>().unwrap());
        }
    }
}

fn number(value: &Value) -> U256 {
    value.as_str().unwrap().parse().unwrap()
}

#[test]
fn several_era1_files_and_their_directory() {
    let Some(first) = fixture("era1") else { return };
    let mut files: Vec<_> = fs::read_dir(&first)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("sepolia-"))
        .collect();
    files.sort();
    let [zero, one] = &files[..] else { panic!("two files of sepolia expected: {files:?}") };
    let head = "0xc78ee2bdde8cab9c2c3d23214f2dbc6a4ab63fefa2510b12004bfa9538f2f442";
    for layer in LAYERS {
        let data = Data::new();
        let report = polytrie![
            "import",
            zero,
            one,
            "--datadir",
            data.path(),
            "--chain",
            "sepolia",
            "--state",
            layer.name,
            "--json",
            "-",
        ]
        .ok()
        .json();
        assert_eq!(report["head"]["number"], 16383);
        assert_eq!(report["head"]["hash"], head);
        data.check();
        // Export the files again, and import them from their directory.
        let directory = data.file("era1");
        if layer.canonical {
            polytrie!["export", directory, "--datadir", data.path(), "--format", "era1"].ok();
            files.iter().for_each(|file| same_archive(file, &directory));
            let report = polytrie!["import", directory, "--datadir", data.path(), "--json", "-"];
            assert_eq!(report.ok().json()["skipped"], 16384);
        }
    }
}
