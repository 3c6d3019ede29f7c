//! Tests of `--lvmt.proofs`: the witnesses that each process keeps, and the proofs that it can
//! make.

use crate::{
    run::{Run, polytrie},
    support::{Chain, Data, RPC_COMPAT, assert_fails, import_with},
};
use polytrie_state::Stamp;
use serde_json::Value;
use std::path::Path;

/// The address of a contract of the chain that has storage.
const CONTRACT: &str = "0x7dcd17433742f4c0ca53122ab541d0ba67fc27df";
const SLOTS: [&str; 6] = ["0x0", "0x1", "0x2", "0x3", "0x4", "0x5"];

fn import(chain: &Chain, data: &Data, to: u64, proofs: &[&str]) -> Run {
    let to = to.to_string();
    let mut more = vec!["--to", &to, "--state", "lvmt"];
    more.extend(proofs.iter().flat_map(|proofs| ["--lvmt.proofs", proofs]));
    import_with(data, &chain.file, &chain.chain, &more)
}

fn made(chain: &Chain, to: u64, proofs: &str) -> Data {
    let data = Data::new();
    import(chain, &data, to, &[proofs]).ok();
    data
}

fn get(data: &Data, address: &str, slot: Option<&str>, block: u64) -> Run {
    let (dir, block) = (data.path(), block.to_string());
    match slot {
        Some(slot) => polytrie![
            "proof",
            "get",
            "--datadir",
            dir,
            "--address",
            address,
            "--block",
            block,
            "--slot",
            slot
        ],
        None => {
            polytrie!["proof", "get", "--datadir", dir, "--address", address, "--block", block]
        }
    }
}

/// Returns the addresses of the accounts in the genesis.
fn addresses(chain: &Chain) -> Vec<String> {
    let genesis = std::fs::read_to_string(&chain.chain).unwrap();
    let genesis: Value = serde_json::from_str(&genesis).unwrap();
    let alloc = genesis["alloc"].as_object().unwrap().keys().take(12);
    alloc.map(|address| format!("0x{}", address.trim_start_matches("0x"))).collect()
}

/// Returns the nodes that answer. Checks that the error of each other node names them.
fn answers(nodes: &[(String, Data)], ask: impl Fn(&Data) -> Run) -> Vec<(String, Run)> {
    let (found, refused): (Vec<_>, Vec<_>) = nodes
        .iter()
        .map(|(shard, data)| (shard.clone(), ask(data)))
        .partition(|(_, run)| run.code == Some(0));
    for (_, run) in &refused {
        let [(shard, _)] = &found[..] else { panic!("{} of {}", found.len(), nodes.len()) };
        assert_fails(run, 2, &[&format!("--lvmt.proofs {shard}"), "shard"]);
    }
    found
}

/// Four processes, each with the witnesses of a quarter of the keys, together make the same proofs
/// as one process that computes them on request.
#[test]
fn shards_prove_every_key_together() {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let whole = made(&chain, chain.head, "on-request");
    let nodes: Vec<(String, Data)> = (1..=4)
        .map(|shard| format!("{shard}/4"))
        .map(|shard| (shard.clone(), made(&chain, chain.head, &shard)))
        .collect();
    nodes.iter().for_each(|(_, data)| data.check());
    let mut shards: Vec<&str> = Vec::new();
    let (mut together, mut apart) = (0, 0);
    // The proofs are of the head and of an earlier block.
    for block in [chain.head, 40] {
        let expected = get(&whole, CONTRACT, None, block).ok().json();
        let root = expected["commitment"]["digest"].as_str().unwrap();
        let verify = |files: &[&Path]| {
            let mut args: Vec<_> = ["proof", "verify"].map(std::ffi::OsStr::new).into();
            args.extend(files.iter().map(|file| file.as_os_str()));
            args.extend(["--root", root].map(std::ffi::OsStr::new));
            crate::run::run(&args, &[])
        };
        for address in addresses(&chain).iter().map(String::as_str).chain([CONTRACT]) {
            let found = answers(&nodes, |data| get(data, address, None, block));
            assert_eq!(found.len(), 1, "{address}");
            let shard = nodes.iter().find(|(shard, _)| *shard == found[0].0).unwrap();
            shards.push(&shard.0);
            // The proof from kept witnesses equals the one computed on request.
            let proof = found[0].1.json();
            assert_eq!(proof, get(&whole, address, None, block).ok().json());
            let file = whole.write("account.json", proof.to_string());
            verify(&[&file]).ok();
            if address != CONTRACT {
                continue;
            }
            for slot in SLOTS {
                let found = answers(&nodes, |data| get(data, address, Some(slot), block));
                assert_eq!(found.len(), 1, "{slot}");
                let part = whole.write("slot.json", found[0].1.text());
                let expected = get(&whole, address, Some(slot), block).ok().text().to_owned();
                let expected = verify(&[&whole.write("whole.json", expected)]).ok().json();
                if found[0].1.json()["proof"].get("elsewhere").is_none() {
                    together += 1;
                    assert_eq!(verify(&[&part]).ok().json(), expected);
                    continue;
                }
                apart += 1;
                assert_fails(&verify(&[&part]), 1, &["slot.json", "proof of the account, too"]);
                assert_eq!(verify(&[&file, &part]).ok().json(), expected);
                assert_fails(&verify(&[&file, &file]), 1, &["2 of the proofs are of an account"]);
            }
        }
    }
    shards.sort_unstable();
    shards.dedup();
    assert_eq!(shards, ["1/4", "2/4", "3/4", "4/4"]);
    assert!(together > 0 && apart > 0, "{together}, {apart}");
}

/// The setting is stored with the data: witnesses are kept up to date by imports and unwinds
/// without the option.
#[test]
fn witnesses_belong_to_the_data() {
    let Some(chain) = RPC_COMPAT.open() else { return };
    for proofs in ["full", "2/2"] {
        let data = made(&chain, 20, proofs);
        data.check();
        import(&chain, &data, 40, &[]).ok();
        polytrie!["db", "unwind", "--to", "30", "--datadir", data.path()].ok();
        data.check();
        import(&chain, &data, chain.head, &[proofs]).ok();
        data.check();
        for other in ["none", "on-request", "1/2"] {
            let run = import(&chain, &data, chain.head, &[other]);
            assert_fails(
                &run,
                2,
                &["lvmt.witnesses", &format!("`{proofs}`"), &format!("`{other}`")],
            );
        }
        let stamp = Stamp::read(&data.path()).unwrap().unwrap();
        assert_eq!(stamp.parameters["lvmt.witnesses"], proofs);
    }
    let data = made(&chain, 10, "none");
    let run = import(&chain, &data, 20, &["full"]);
    assert_fails(&run, 2, &["lvmt.witnesses", "`none`", "`full`"]);
    import(&chain, &data, 20, &["on-request"]).ok();
    get(&data, CONTRACT, None, 20).ok();
    // The setup of the tests has trees of 64 entries.
    let none = Data::new();
    let run = import(&chain, &none, 10, &["3/128"]);
    assert_fails(&run, 2, &["no shard 3/128", "trees of 64 entries"]);
    assert!(!none.path().exists() || Stamp::read(&none.path()).unwrap().is_none());
    let run = import(&chain, &none, 10, &["some"]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("`on-request`") && run.stderr.contains("I/N"), "{}", run.stderr);
}

/// A stamp without a setting for witnesses was written by an earlier version, and is refused.
#[test]
fn directories_of_before_are_refused() {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let data = made(&chain, 10, "none");
    let mut stamp = Stamp::read(&data.path()).unwrap().unwrap();
    assert_eq!(stamp.parameters.remove("lvmt.witnesses").as_deref(), Some("none"));
    stamp.write(&data.path()).unwrap();
    let run = import(&chain, &data, 20, &["full"]);
    assert_fails(&run, 2, &["lvmt.witnesses", "earlier build", "empty --datadir"]);
}
