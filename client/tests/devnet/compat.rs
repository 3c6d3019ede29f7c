//! Tests of the conformance files of execution-apis: the answer to each request must be the recorded one.

use crate::{
    fixtures::{self, fixture},
    run::polytrie,
    support::{Devnet, args},
};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The content of a conformance file.
#[derive(Debug)]
struct Conversation {
    name: String,
    /// Whether only the form of the answers is given.
    form_only: bool,
    /// The requests and the expected answers.
    turns: Vec<(Value, Value)>,
}

fn conversations(dir: &Path) -> Vec<Conversation> {
    let mut files: Vec<PathBuf> = Vec::new();
    for method in fs::read_dir(dir).unwrap() {
        files
            .extend(fs::read_dir(method.unwrap().path()).unwrap().map(|file| file.unwrap().path()));
    }
    files.sort();
    files.iter().map(|file| read(dir, file)).collect()
}

fn read(dir: &Path, file: &Path) -> Conversation {
    let text = String::from_utf8(fixtures::read(file)).unwrap();
    let json = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    let requests = text.lines().filter_map(|line| line.strip_prefix(">> ")).map(json);
    let answers = text.lines().filter_map(|line| line.strip_prefix("<< ")).map(json);
    let form_only = text.lines().any(|line| line.starts_with("// speconly"));
    let name = file.strip_prefix(dir).unwrap().display().to_string();
    Conversation { name, form_only, turns: requests.zip(answers).collect() }
}

/// The fields that an implementation may leave out.
const OPTIONAL: [&str; 2] = ["deleteStrategy", "oldestBlock"];

/// Returns the first difference between two answers. The message of an error is not compared.
fn difference(found: &Value, expected: &Value, form_only: bool) -> Option<String> {
    let (code, wanted) = (&found["error"]["code"], &expected["error"]["code"]);
    if code != wanted {
        return Some(format!("error code {code}, expected {wanted}: {}", found["error"]));
    }
    if !wanted.is_null() {
        if found["error"]["message"].as_str().is_none_or(str::is_empty) {
            return Some("the error has no message".to_owned());
        }
        return compare(
            "error.data",
            &found["error"]["data"],
            &expected["error"]["data"],
            form_only,
        );
    }
    compare("result", &found["result"], &expected["result"], form_only)
}

fn compare(place: &str, found: &Value, expected: &Value, form_only: bool) -> Option<String> {
    match (found, expected) {
        (Value::Object(a), Value::Object(b)) => {
            if form_only && a.is_empty() != b.is_empty() {
                return None;
            }
            let is_optional = |key: &str| form_only && OPTIONAL.contains(&key);
            let missing = b.keys().find(|key| !a.contains_key(*key) && !is_optional(key));
            let extra = a.keys().find(|key| !b.contains_key(*key));
            // If only the form counts, an object may be a map with other keys.
            let is_map = form_only
                && b.keys().all(|key| key.starts_with("0x") || key.parse::<u64>().is_ok());
            if is_map {
                let (a, b) = (a.values().next()?, b.values().next()?);
                return compare(place, a, b, form_only);
            }
            if let Some(key) = missing {
                return Some(format!("{place}.{key} is missing"));
            }
            if let Some(key) = extra {
                return Some(format!("{place}.{key} should not be there: {}", a[key]));
            }
            a.iter().find_map(|(key, value)| {
                compare(&format!("{place}.{key}"), value, &b[key], form_only)
            })
        }
        (Value::Array(a), Value::Array(b)) if form_only => {
            compare(place, a.first()?, b.first()?, form_only)
        }
        (Value::Array(a), Value::Array(b)) => {
            if a.len() != b.len() {
                return Some(format!("{place} has {} items, expected {}", a.len(), b.len()));
            }
            let mut pairs = a.iter().zip(b).enumerate();
            pairs.find_map(|(i, (a, b))| compare(&format!("{place}[{i}]"), a, b, form_only))
        }
        (Value::String(_), Value::String(_)) | (Value::Number(_), Value::Number(_))
            if form_only =>
        {
            None
        }
        // A null on one side does not show the form.
        (Value::Null, _) | (_, Value::Null) if form_only => None,
        (a, b) if a == b => None,
        (a, b) => {
            let short = |value: &Value| value.to_string().chars().take(200).collect::<String>();
            Some(format!("{place} is {}, expected {}", short(a), short(b)))
        }
    }
}

/// Whether the answer depends on the state root of the layer.
fn needs_state_root(name: &str) -> bool {
    name.starts_with("eth_simulateV1") || name.starts_with("testing_buildBlockV1")
}

/// The files that a layer without state roots cannot answer, because receipts from before Byzantium hold state roots,
/// and because there are no proofs.
const STATE_ROOTS: [&str; 4] = [
    "debug_getRawReceipts/get-block-n.io",
    "eth_capabilities/get-capabilities.io",
    "eth_getTransactionReceipt/get-legacy-contract.io",
    "eth_getTransactionReceipt/get-legacy-receipt.io",
];

fn check(layer: &str, canonical: bool) {
    let (Some(io), Some(file), Some(genesis)) = (
        fixture("chains/rpc-compat/io"),
        fixture("chains/rpc-compat/chain.rlp"),
        fixture("chains/rpc-compat/genesis.json"),
    ) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    polytrie!["import", file, "--chain", genesis, "--datadir", data, "--state", layer].ok();
    let node = Devnet::open(&data, args!["--no-mining"]);
    let mut failures = Vec::new();
    let conversations = conversations(&io);
    let all = conversations.len();
    for Conversation { name, form_only, turns } in conversations {
        if !canonical && STATE_ROOTS.contains(&name.as_str()) {
            // A receipt that cannot be encoded is an error, and not an invented value.
            for (request, _) in turns.iter().filter(|_| name.starts_with("debug_getRawReceipts")) {
                let (_, body) = node.post(&request.to_string());
                assert!(body.contains("-32004"), "{layer}: {name}: {body}");
            }
            continue;
        }
        let form_only = form_only || (!canonical && needs_state_root(&name));
        for (request, expected) in turns {
            let (_, body) = node.post(&request.to_string());
            let found: Value = serde_json::from_str(&body).unwrap();
            if let Some(difference) = difference(&found, &expected, form_only) {
                failures.push(format!("{name}: {difference}"));
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{layer}: {} of {all} fail:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn every_conversation_on_every_layer() {
    for layer in polytrie::layers::LAYERS {
        check(layer.name, layer.canonical);
    }
}
