//! Tests of the whole state in files.

use crate::{
    run::polytrie,
    server::post_with,
    support::{ALICE, BOB, Devnet, args, layers},
};
use alloy_primitives::U256;
use serde_json::Value;
use std::fs;
use tempfile::TempDir;

#[test]
fn a_state_goes_on_from_its_file_on_every_layer() {
    for layer in layers() {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("state.json");
        let start = |option: &str| Devnet::start(layer, args![option, &file]);
        let node = start("--state-file");
        let before = node.balance(BOB);
        node.send(ALICE, BOB, 7);
        assert!(!fs::read_dir(dir.path()).unwrap().any(|f| f.unwrap().path() == file), "{layer}");
        assert_eq!(node.stop(), Some(0), "{layer}");

        // The file is plain JSON, as anvil writes it.
        let written: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        assert_eq!(written["best_block_number"], 1, "{layer}");
        for option in ["--state-file", "--load-state"] {
            let node = start(option);
            assert_eq!(node.head(), 1, "{layer}");
            assert_eq!(node.balance(BOB), before + U256::from(7), "{layer}");
            assert_eq!(node.stop(), Some(0), "{layer}");
        }
        let again = Devnet::start(layer, args!["--load-state", &file, "--dump-state", dir.path()]);
        again.send(ALICE, BOB, 1);
        assert_eq!(again.stop(), Some(0), "{layer}");
        assert_eq!(start("--load-state").balance(BOB), before + U256::from(8), "{layer}");
    }
}

#[test]
fn a_state_that_cannot_be_read_or_written_is_named_at_the_start() {
    let dir = TempDir::new().unwrap();
    let (there, missing) = (dir.path().join("there"), dir.path().join("no/such"));
    let no_file = dir.path().join("other");
    fs::write(&there, "{}").unwrap();
    fs::create_dir_all(no_file.join("state.json")).unwrap();
    for (option, file, code) in [
        ("--load-state", &missing, 3),
        ("--load-state", &no_file, 3),
        ("--load-state", &there, 1),
        ("--dump-state", &missing, 3),
    ] {
        let run = polytrie!("devnet", "--port", "0", option, file);
        assert_eq!(run.code, Some(code), "{option}: {}", run.stderr);
        assert!(run.stderr.contains(&file.display().to_string()), "{}", run.stderr);
    }
    let both = polytrie!("devnet", "--load-state", there, "--datadir", dir.path());
    assert_eq!(both.code, Some(2), "{}", both.stderr);
}

/// The state takes the place of no file that is read, unless it begins with that file.
#[test]
fn a_state_is_not_written_over_what_is_read() {
    let dir = TempDir::new().unwrap();
    let [genesis, secret] = ["genesis.json", "jwt"].map(|name| dir.path().join(name));
    for file in [&genesis, &secret] {
        fs::write(file, "{}").unwrap();
    }
    for (option, file, reads) in [
        ("--dump-state", &genesis, "--chain"),
        ("--state-file", &genesis, "--chain"),
        ("--dump-state", &secret, "--authrpc.jwtsecret"),
    ] {
        let run = polytrie!("devnet", "--port", "0", "--authrpc", option, file, reads, file);
        assert_eq!(run.code, Some(2), "{option}: {}", run.stderr);
        assert!(run.stderr.contains("the same file as what is read"), "{}", run.stderr);
        assert_eq!(fs::read(file).unwrap(), b"{}");
    }
    let stamp = dir.path().join("polytrie.json");
    fs::write(&stamp, "{}").unwrap();
    let run = polytrie!("devnet", "--port", "0", "--dump-state", stamp);
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("a part of the data directory"), "{}", run.stderr);
}

/// A node with a state file refuses the pages of other origins, because its state could be lost
/// like that of a directory.
#[test]
fn pages_of_other_origins_may_not_call_a_node_with_a_state_file() {
    let dir = TempDir::new().unwrap();
    let node = Devnet::start("mpt", args!["--state-file", dir.path().join("state.json")]);
    let request = post_with("Origin: https://evil.example\r\n", "[]");
    assert_eq!(node.http(&request).0, 403);
}
