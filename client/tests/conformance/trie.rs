//! Runs the vectors of `TrieTests` on the trie engine.
//!
//! The state has only tries whose keys are hashes ("secure" tries), and the engine accepts no other keys.
//! The other vectors (`trietest`, `trieanyorder`, `trietestnextprev`) have keys of one to twenty bytes.
//! Some of these keys are prefixes of others, so that values would stand in branch nodes.

use alloy_primitives::{B256, Bytes, hex, keccak256};
use polytrie_testing::for_each_in_suite;
use polytrie_trie::{LeafValue, Nibbles, RowSource, Trie, TrieError};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

const FILES_OF_HASHED_KEYS: [&str; 3] = [
    "hex_encoded_securetrie_test.json",
    "trieanyorder_secureTrie.json",
    "trietest_secureTrie.json",
];

/// A list of changes in their order, or a map whose entries may be inserted in any order.
#[derive(Deserialize)]
struct Vector {
    #[serde(rename = "in")]
    input: Value,
    root: B256,
}

/// The value of a leaf in the vectors, which may be any bytes.
#[derive(Debug, Clone, PartialEq)]
struct AnyBytes(Bytes);

impl LeafValue for AnyBytes {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        Ok(Self(Bytes::copy_from_slice(bytes)))
    }
}

/// The rows of a trie that is completely in memory: there are none.
struct NoRows;

impl RowSource for NoRows {
    fn load(&self, _: &Nibbles, _: &mut Vec<u8>) -> Result<bool, TrieError> {
        Ok(false)
    }
}

type Change = (B256, Option<AnyBytes>);

/// Returns the bytes of a text, or of hexadecimal digits after `0x`.
fn bytes_of(text: &str) -> Bytes {
    match text.strip_prefix("0x") {
        Some(digits) => hex::decode(digits).expect("a vector holds hexadecimal digits").into(),
        None => Bytes::copy_from_slice(text.as_bytes()),
    }
}

fn change(key: &str, value: &Value) -> Change {
    let value = value.as_str().filter(|text| !text.is_empty());
    (keccak256(bytes_of(key)), value.map(|text| AnyBytes(bytes_of(text))))
}

fn changes(input: &Value) -> Vec<Change> {
    match input {
        Value::Object(map) => map.iter().map(|(key, value)| change(key, value)).collect(),
        Value::Array(list) => {
            list.iter().map(|pair| change(pair[0].as_str().expect("a key"), &pair[1])).collect()
        }
        other => panic!("a vector holds a list or a map, found {other}"),
    }
}

fn root_after<'a>(batches: impl Iterator<Item = &'a [Change]>) -> B256 {
    let mut trie = Trie::<AnyBytes>::empty();
    for batch in batches {
        trie.update(batch, &NoRows).expect("nothing is missing from a trie in memory");
        trie.root();
    }
    trie.last_root()
}

#[test]
fn trie_vectors_with_hashed_keys() {
    let mut checked = 0;
    let files = for_each_in_suite("ethereum-tests", "TrieTests", |path, bytes| {
        if !FILES_OF_HASHED_KEYS.iter().any(|name| path.ends_with(name)) {
            return;
        }
        let tests: BTreeMap<String, Vector> = serde_json::from_slice(bytes).expect("a vector file");
        for (name, Vector { input, root }) in tests {
            let one_by_one = changes(&input);
            assert_eq!(root_after(one_by_one.chunks(1)), root, "{path} {name}, one by one");
            let merged: BTreeMap<_, _> = one_by_one.into_iter().collect();
            let batch: Vec<Change> = merged.into_iter().collect();
            assert_eq!(root_after([&batch[..]].into_iter()), root, "{path} {name}, as one batch");
            checked += 1;
        }
    });
    if files.is_some() {
        assert_eq!((files, checked), (Some(6), 13));
    }
}
