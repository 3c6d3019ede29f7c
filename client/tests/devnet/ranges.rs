//! Tests of the debug methods that return the state in parts, as in geth.

use crate::{
    support::{ALICE, BOB, Devnet, args, layers},
    transactions::{deploy, word},
};
use alloy_primitives::{Address, B256, U256, hex, keccak256};
use serde_json::{Value, json};

fn hash_of(slot: u64) -> String {
    keccak256(U256::from(slot).to_be_bytes::<32>()).to_string()
}

#[test]
fn slots_come_in_the_order_of_their_hashes() {
    for layer in layers() {
        let node = Devnet::start(layer, args![]);
        let contract = "0x00000000000000000000000000000000000000cc";
        for slot in 1..=3u8 {
            node.call("anvil_setStorageAt", json!([contract, format!("{slot:#066x}"), word(7)]));
        }
        node.call("anvil_setCode", json!([contract, "0x00"]));
        node.call("evm_mine", json!([]));
        node.send(ALICE, ALICE, 1);
        let range = |from: &str, most: u64| {
            node.call("debug_storageRangeAt", json!(["latest", 0, contract, from, most]))
        };
        let all = range("0x", 10);
        assert_eq!(all["nextKey"], Value::Null, "{layer}: {all}");
        let storage = all["storage"].as_object().unwrap();
        assert_eq!(storage.len(), 3, "{layer}: {all}");
        for slot in 1..=3 {
            let found = &storage[&hash_of(slot)];
            assert_eq!(found, &json!({ "key": word(slot), "value": word(7) }), "{layer}");
        }
        let mut hashes: Vec<_> = (1..=3).map(hash_of).collect();
        hashes.sort();
        let first = range("0x", 1);
        assert_eq!(first["nextKey"], json!(hashes[1]), "{layer}: {first}");
        let rest = range(&hashes[1], 10);
        assert_eq!(rest["storage"].as_object().unwrap().len(), 2, "{layer}: {rest}");
        // The state is that before the block.
        let before = json!(["0x1", 0, contract, "0x", 10]);
        let none = json!({ "storage": null, "nextKey": null });
        assert_eq!(node.call("debug_storageRangeAt", before), none, "{layer}");
        let (code, _) = node.error("debug_storageRangeAt", json!(["0x0", 0, contract, "0x", 10]));
        assert_eq!(code, -32000, "{layer}");
        let (code, _) = node.error("debug_storageRangeAt", json!(["0x2", 1, contract, "0x", 10]));
        assert_eq!(code, -32000, "{layer}");
        assert_eq!(node.call("debug_preimage", json!([hash_of(2)])), json!(word(2)), "{layer}");
    }
}

#[test]
fn accounts_come_in_the_order_of_their_hashes() {
    for layer in layers() {
        let node = Devnet::start(layer, args![]);
        let contract = deploy(&node);
        let call = json!({ "from": ALICE, "to": contract, "data": word(5) });
        node.call("eth_sendTransaction", json!([call]));
        let dump = node.call("debug_dumpBlock", json!(["latest"]));
        let address: Address = serde_json::from_value(contract).unwrap();
        let found = &dump["accounts"][address.to_checksum(None)];
        let at = json!([address, [], "latest"]);
        if ["mpt", "replica", "rain"].contains(&layer) {
            let proof = node.call("eth_getProof", at);
            assert_eq!(found["root"], proof["storageHash"], "{layer}: {found}");
            assert_eq!(found["codeHash"], proof["codeHash"], "{layer}: {found}");
        }
        assert_eq!(found["code"], node.call("eth_getCode", json!([address, "latest"])), "{layer}");
        assert_eq!(found["key"], json!(keccak256(address)), "{layer}");
        let slots = found["storage"].as_object().unwrap();
        assert!(!slots.is_empty(), "{layer}: {found}");
        for (slot, value) in slots {
            let stored = node.call("eth_getStorageAt", json!([address, slot, "latest"]));
            let value = B256::left_padding_from(&hex::decode(value.as_str().unwrap()).unwrap());
            assert_eq!(stored, json!(value), "{layer}");
        }

        // The pages together hold every account once and nothing else.
        let (mut pages, mut from, mut seen) = (0, json!("0x"), Vec::new());
        while !from.is_null() {
            let page = json!(["latest", from, 3, true, true, false]);
            let page = node.call("debug_accountRange", page);
            seen.extend(page["accounts"].as_object().unwrap().keys().cloned());
            from = page["next"].clone();
            pages += 1;
        }
        seen.sort();
        let mut all: Vec<_> = dump["accounts"].as_object().unwrap().keys().cloned().collect();
        all.sort();
        assert_eq!(seen, all, "{layer}");
        assert_eq!(pages, all.len().div_ceil(3), "{layer}");
        // The account does not exist at an earlier block.
        let genesis = node.call("debug_dumpBlock", json!(["0x0"]));
        assert_eq!(genesis["accounts"].get(address.to_checksum(None)), None, "{layer}");

        node.call("evm_setAutomine", json!([false]));
        let call = json!({ "from": ALICE, "to": address, "data": word(9) });
        node.call("eth_sendTransaction", json!([call]));
        // It deploys code that no account has yet: 0x5b.
        let create = json!({ "from": BOB, "data": "0x6001600c60003960016000f35b" });
        node.call("eth_sendTransaction", json!([create]));
        let before = json!(["pending", 1, address, "0x", 10]);
        let before = node.call("debug_storageRangeAt", before);
        assert_eq!(before["storage"][hash_of(0)]["value"], word(5), "{layer}: {before}");
        assert_eq!(node.call("debug_dumpBlock", json!(["latest"])), dump, "{layer}");
        let pending = node.call("debug_dumpBlock", json!(["pending"]));
        let page = json!(["pending", "0x", 256, false, false, false]);
        let page = node.call("debug_accountRange", page);
        node.call("evm_mine", json!([]));
        let mined = node.call("debug_dumpBlock", json!(["latest"]));
        let [changed, added] = [address, BOB.create(0)].map(|address| address.to_checksum(None));
        assert_eq!(pending["accounts"][&changed]["storage"][word(0)], "09", "{layer}");
        assert_eq!(pending["accounts"][&added]["code"], "0x5b", "{layer}");
        // The time of the block is in the state too, so no other accounts are compared.
        for account in [changed, added] {
            let expected = &mined["accounts"][&account];
            assert_eq!(&pending["accounts"][&account], expected, "{layer}");
            assert_eq!(&page["accounts"][&account], expected, "{layer}");
        }
    }
}

#[test]
fn a_range_ends_where_an_answer_would_be_too_large() {
    let node = Devnet::start("mpt", args!["--rpc.max-response", "1K"]);
    let (code, message) = node.error("debug_dumpBlock", json!(["latest"]));
    assert_eq!(code, -32000, "{message}");
    assert!(message.contains("--rpc.max-response"), "{message}");
}
