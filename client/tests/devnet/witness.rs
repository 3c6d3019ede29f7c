//! Tests of the witnesses of blocks.

use crate::{
    run::polytrie,
    support::{ALICE, BOB, Devnet, args, layers},
    transactions::{deploy, word},
};
use alloy_primitives::{B256, Bytes, keccak256};
use serde_json::{Value, json};

fn bytes(value: &Value) -> Bytes {
    serde_json::from_value(value.clone()).unwrap()
}

#[test]
fn blocks_have_witnesses_where_there_is_a_trie() {
    for layer in layers() {
        let node = Devnet::start(layer, args![]);
        let contract = deploy(&node);
        // A slot is created, changed and cleared, and an account is created.
        for number in [5, 6, 0] {
            let call = json!([{ "from": ALICE, "to": contract, "data": word(number) }]);
            node.call("eth_sendTransaction", call);
        }
        node.send(ALICE, BOB, 1);
        if !["mpt", "mpt-hash", "replica", "rain"].contains(&layer) {
            let (_, message) = node.error("debug_executionWitness", json!(["0x1"]));
            assert!(message.contains("--state mpt"), "{layer}: {message}");
            continue;
        }
        let head = node.head();
        for number in 1..=head {
            let witness = node.call("debug_executionWitness", json!([format!("{number:#x}")]));
            let list = |name: &str| -> Vec<Bytes> {
                serde_json::from_value(witness[name].clone()).unwrap()
            };
            let parent =
                node.call("eth_getBlockByNumber", json!([format!("{:#x}", number - 1), false]));
            let root: B256 = serde_json::from_value(parent["stateRoot"].clone()).unwrap();
            let nodes = list("state");
            assert!(nodes.iter().any(|node| keccak256(node) == root), "{layer}: block {number}");
            let headers = list("headers");
            assert_eq!(json!(keccak256(headers.last().unwrap())), parent["hash"], "{layer}");
            let keys = list("keys");
            assert!(keys.iter().any(|key| key.as_ref() == ALICE.as_slice()), "{layer}");
            if number > 1 && number < head {
                let code = node.call("eth_getCode", json!([contract, "latest"]));
                assert!(list("codes").iter().any(|found| json!(found) == code), "{layer}");
            }
        }
        // The witness alone suffices to execute the block and compute its state root.
        let dir = tempfile::tempdir().unwrap();
        for number in 1..=head {
            let number = json!([format!("{number:#x}")]);
            let witness = node.call("debug_executionWitness", number.clone());
            let file = json!({
                "hash": keccak256(bytes(&node.call("debug_getRawHeader", number.clone()))),
                "block": node.call("debug_getRawBlock", number),
                "ancestors": witness["headers"],
                "state": witness["state"],
                "codes": witness["codes"],
            });
            let path = dir.path().join("witness.json");
            std::fs::write(&path, file.to_string()).unwrap();
            let verified = polytrie!["witness", "verify", &path, "--chain", "dev"];
            assert_eq!(verified.code, Some(0), "{layer}: {}", verified.stderr);
        }
        let (_, message) = node.error("debug_executionWitness", json!(["0x0"]));
        assert!(message.contains("genesis"), "{message}");
        // A change by hand belongs to no block.
        node.call("anvil_setBalance", json!([BOB, "0x1"]));
        node.call("evm_mine", json!([]));
        node.call("debug_executionWitness", json!(["latest"]));
    }
}
