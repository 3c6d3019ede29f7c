//! Tests of proofs. One command makes them and another checks them, and any change to a proof is found. The
//! format of other clients is accepted as well.

use crate::{
    run::{polytrie, run},
    support::{Data, RPC_COMPAT, assert_fails, for_each_layer},
};
use polytrie::layers;
use serde_json::{Value, json};
use std::ffi::OsStr;

for_each_layer!(there_and_back, earlier_blocks_are_proven);

/// The address of a contract of the chain that has storage.
const CONTRACT: &str = "0x7dcd17433742f4c0ca53122ab541d0ba67fc27df";

fn there_and_back(layer: &str) {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let data = chain.imported(layer, chain.head);
    let get = |address: &str| {
        polytrie![
            "proof",
            "get",
            "--datadir",
            data.path(),
            "--address",
            address,
            "--slot",
            "0",
            "--slot",
            "0x1",
            "--slot",
            "12345",
        ]
    };
    if layers::layer(layer).unwrap().verify.is_none() {
        assert_fails(&get(CONTRACT), 2, &[&format!("`{layer}`"), "no commitment", "use `"]);
        return;
    }
    let absent = "0x00000000000000000000000000000000deadbeef";
    for address in [CONTRACT, absent] {
        let text = get(address).ok().text().to_owned();
        let proof: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(proof["layer"], layer);
        assert_eq!(proof["block"]["number"], 54);
        assert_eq!(proof["block"]["hash"], chain.hash);
        let root = proof["commitment"]["digest"].as_str().unwrap().to_owned();
        let file = data.write("proof.json", &text);
        let verify = |root: &str| polytrie!["proof", "verify", file, "--root", root];
        let proven = verify(&root).ok().json();
        assert_eq!(proven["address"], address);
        assert_eq!(proven["exists"], address == CONTRACT);
        assert_eq!(proven["slots"].as_array().unwrap().len(), 3);
        let args = ["proof", "verify", "-", "--root", &root].map(OsStr::new);
        assert_eq!(run(&args, text.as_bytes()).ok().json(), proven);

        // The answer of a server is the same, but does not name a block.
        let mut answer = proof.clone();
        answer.as_object_mut().unwrap().remove("block").unwrap();
        for answer in [answer.clone(), json!({ "jsonrpc": "2.0", "id": 1, "result": answer })] {
            let file = data.write("answer.json", answer.to_string());
            let run = polytrie!["proof", "verify", file, "--root", root].ok();
            assert_eq!(run.json(), proven);
            assert!(run.stderr.contains("names no block"), "{}", run.stderr);
        }

        // The check may also be asked for certain keys and values.
        let asked = |question: &[&str]| {
            let mut args = vec!["proof", "verify", file.to_str().unwrap(), "--root", &root];
            args.extend(question);
            run(&args.iter().map(OsStr::new).collect::<Vec<_>>(), &[])
        };
        asked(&["--address", address, "--slot", "12345", "--slot", "0"]).ok();
        let strange = if address == CONTRACT { absent } else { CONTRACT };
        let refused = asked(&["--address", strange]);
        assert_fails(&refused, 1, &["it proves the account", "was asked for"]);
        let refused = asked(&["--slot", "2"]);
        assert_fails(&refused, 1, &["says nothing of the slot 0x2"]);

        let other = format!("0x{}", "07".repeat(32));
        let words =
            [&*file.display().to_string(), "does not hold against 0x0707", "the same block"];
        assert_fails(&verify(&other), 1, &words);
        tampered(&data, &proof, &root);
    }
}

/// Checks that a change to any string, number or list in the proof is found.
fn tampered(data: &Data, proof: &Value, root: &str) {
    let mut pointers = Vec::new();
    leaves(&proof["proof"], "/proof", &mut pointers);
    assert!(pointers.len() > 8, "{pointers:?}");
    for pointer in pointers {
        let mut changed = proof.clone();
        let value = changed.pointer_mut(&pointer).unwrap();
        match value {
            Value::String(text) => {
                let last = if text.ends_with('0') { '1' } else { '0' };
                text.pop();
                text.push(last);
            }
            Value::Array(list) if !list.is_empty() => drop(list.pop()),
            _ => continue,
        }
        // A proof without a slot is still valid for the others. A proof that a slot is absent may also hold
        // for the slot next to it.
        let holds = match pointer.strip_suffix("/key") {
            Some(slot) => proof.pointer(&format!("{slot}/value")).unwrap() == "0x0",
            None if pointer == "/proof/address" => proof["proof"]["address"] != CONTRACT,
            // If an account does not exist, its slots need no proof.
            None if pointer == "/proof/slots" => proof["proof"]["address"] != CONTRACT,
            None => pointer == "/proof/storageProof",
        };
        if holds {
            continue;
        }
        let file = data.write("changed.json", changed.to_string());
        let run = polytrie!["proof", "verify", file, "--root", root];
        assert_ne!(run.code, Some(0), "{pointer} was changed: {changed}");
        assert_fails(&run, 1, &["changed.json"]);
    }
    for broken in ["", "{}", "[]", "hello", "{\"layer\":\"mpt\"}", "{\"result\":null}"] {
        let file = data.write("changed.json", broken);
        let run = polytrie!["proof", "verify", file, "--root", root];
        assert_fails(&run, 1, &["changed.json", "holds no proof", "proof get"]);
    }
    let refused = |layer: &str, words: &str| {
        let mut changed = proof.clone();
        changed["layer"] = layer.into();
        let file = data.write("changed.json", changed.to_string());
        let run = polytrie!["proof", "verify", file, "--root", root];
        assert_fails(&run, 1, &["changed.json", words]);
    };
    refused("unheard", "there is no state layer `unheard`");
    #[cfg(feature = "raw")]
    refused("raw", "`raw` makes no proofs that could be verified");
    let missing = polytrie!["proof", "verify", data.file("none.json"), "--root", root];
    assert_fails(&missing, 3, &["none.json"]);
    let usage = polytrie!["proof", "verify", data.file("none.json"), "--root", "0x12"];
    assert_eq!(usage.code, Some(2));
}

fn leaves(value: &Value, at: &str, out: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            object.iter().for_each(|(name, value)| leaves(value, &format!("{at}/{name}"), out));
        }
        Value::Array(list) => {
            out.push(at.to_owned());
            list.iter().enumerate().for_each(|(n, value)| leaves(value, &format!("{at}/{n}"), out));
        }
        _ => out.push(at.to_owned()),
    }
}

/// The proof of an earlier block is the same as when that block was the head, and making it changes no stored
/// data.
fn earlier_blocks_are_proven(layer: &str) {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let data = chain.imported(layer, 20);
    let get = |block: &str| {
        polytrie![
            "proof",
            "get",
            "--datadir",
            data.path(),
            "--address",
            CONTRACT,
            "--slot",
            "0",
            "--block",
            block
        ]
    };
    let above = get("30");
    assert_fails(&above, 2, &["block 30", "block 20"]);
    if layers::layer(layer).unwrap().verify.is_some() {
        let (back, genesis, head) =
            (get("10").ok().json(), get("0").ok().json(), get("20").ok().json());
        assert_eq!([&genesis, &back, &head].map(|proof| &proof["block"]["number"]), [0, 10, 20]);
        let root = back["commitment"]["digest"].as_str().unwrap();
        let file = data.write("proof.json", back.to_string());
        polytrie!["proof", "verify", file, "--root", root, "--address", CONTRACT].ok();
        polytrie!["db", "check", "--datadir", data.path()].ok();
        polytrie!["db", "unwind", "--to", "10", "--datadir", data.path()].ok();
        assert_eq!(get("10").ok().json(), back);
    }
    for wrong in [["--address", "0x12"], ["--address", "hello"]] {
        let run = polytrie!["proof", "get", "--datadir", data.path(), wrong[0], wrong[1]];
        assert_eq!(run.code, Some(2), "{}", run.stderr);
    }
}

/// The answer to `eth_getProof` is accepted, alone or in the whole response, with the fields that clients add
/// or leave out.
#[test]
fn the_form_of_eth_get_proof() {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let Some(canonical) = layers::LAYERS.iter().find(|kind| kind.canonical) else { return };
    let data = chain.imported(canonical.name, chain.head);
    let get =
        polytrie!["proof", "get", "--datadir", data.path(), "--address", CONTRACT, "--slot", "0"];
    let ours = get.ok().json();
    let root = ours["block"]["stateRoot"].as_str().unwrap();
    let result = &ours["proof"];
    // The values that another client answered to `eth_getBalance` and `eth_getStorageAt`.
    assert_eq!(result["balance"], "0x76");
    assert_eq!(result["storageProof"][0]["value"], "0x38");
    let verify = |content: &Value| {
        let file = data.write("answer.json", content.to_string());
        polytrie!["proof", "verify", file, "--root", root]
    };
    let answer = serde_json::json!({ "jsonrpc": "2.0", "id": 1, "result": result });
    let mut more = result.clone();
    more["codeSize"] = 17.into();
    let mut key = result.clone();
    key["storageProof"][0]["key"] = format!("0x{}", "0".repeat(64)).into();
    for content in [result, &answer, &more, &key] {
        let proven = verify(content).ok().json();
        assert_eq!(proven["slots"], serde_json::json!([["0x0", "0x38"]]));
    }
    let mut none = result.clone();
    none["storageProof"] = Value::Null;
    assert_eq!(verify(&none).ok().json()["slots"], serde_json::json!([]));
    // geth answers with no hashes for an account that does not exist.
    let absent = "0x00000000000000000000000000000000deadbeef";
    let get = polytrie!["proof", "get", "--datadir", data.path(), "--address", absent];
    let mut absent = get.ok().json()["proof"].clone();
    for field in ["codeHash", "storageHash"] {
        absent[field] = format!("0x{}", "0".repeat(64)).into();
    }
    assert_eq!(verify(&absent).ok().json()["exists"], false);
    absent["nonce"] = "0x1".into();
    assert_fails(&verify(&absent), 1, &["another account than claimed"]);
    let mut wrong = answer;
    wrong["result"]["balance"] = "0x77".into();
    assert_fails(&verify(&wrong), 1, &["another account than claimed"]);
}
