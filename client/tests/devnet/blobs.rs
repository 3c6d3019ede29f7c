//! Tests of blobs in requests for transactions that the node makes itself.

use crate::support::{ALICE, BOB, Devnet, args};
use serde_json::{Value, json};

const HASH: &str = "0x0100000000000000000000000000000000000000000000000000000000000001";

fn transfer(more: Value) -> Value {
    let mut request = json!({ "from": ALICE, "to": BOB, "value": "0x1" });
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!([request])
}

/// The node refuses to send blobs, as geth does, because it would sign a transaction without them.
#[test]
fn a_request_to_send_blobs_is_refused() {
    let node = Devnet::start("mpt", args![]);
    for (field, value) in [
        ("blobs", json!(["0x00"])),
        ("commitments", json!(["0x00"])),
        ("proofs", json!(["0x00"])),
        ("blobVersionedHashes", json!([HASH])),
        ("blobVersionedHashes", json!([])),
        ("maxFeePerBlobGas", json!("0x1")),
        ("type", json!("0x3")),
    ] {
        for method in
            ["eth_sendTransaction", "eth_sendTransactionSync", "eth_sendUnsignedTransaction"]
        {
            let (code, message) = node.error(method, transfer(json!({ field: value })));
            assert_eq!(code, -32000, "{message}");
            for words in [field, "signing blob transactions", "eth_sendRawTransaction"] {
                assert!(message.contains(words), "{method} {field}: {message}");
            }
        }
    }
    assert_eq!(node.head(), 0);
    // Clients that support blobs send these fields even for transactions without blobs.
    let none = json!({ "blobs": null, "blobVersionedHashes": null, "maxFeePerBlobGas": null });
    node.call("eth_sendTransaction", transfer(none));
}

#[test]
fn a_request_to_fill_in_may_name_blobs_but_not_bring_them() {
    let node = Devnet::start("mpt", args![]);
    let hashes = json!({ "blobVersionedHashes": [HASH], "gas": "0x5208" });
    for method in ["eth_fillTransaction", "eth_signTransaction"] {
        let (_, message) = node.error(method, transfer(json!({ "blobs": ["0x00"] })));
        assert!(message.contains("`blobs`") && message.contains("blobVersionedHashes"));
        let tx = node.call(method, transfer(hashes.clone()))["tx"].clone();
        assert_eq!((&tx["type"], &tx["blobVersionedHashes"]), (&json!("0x3"), &json!([HASH])));
        // The fee is twice the price of blobs in the next block.
        assert_eq!(tx["maxFeePerBlobGas"], "0x2");
        for (request, words) in [
            (json!({ "type": "0x3" }), "names none"),
            (json!({ "blobVersionedHashes": [] }), "names none"),
            (json!({ "blobVersionedHashes": [HASH], "to": null }), "cannot create a contract"),
        ] {
            let (code, message) = node.error(method, transfer(request));
            assert!(code == -32602 && message.contains(words), "{message}");
        }
    }
}

#[test]
fn a_call_sees_the_hashes_of_blobs() {
    let node = Devnet::start("mpt", args![]);
    // The code returns BLOBHASH 0.
    let code = json!({ BOB.to_string(): { "code": "0x5f495f5260205ff3" } });
    let call = |more: Value| json!([transfer(more)[0], "latest", code]);
    let named = json!({ "blobVersionedHashes": [HASH], "blobs": ["0x00"] });
    assert_eq!(node.call("eth_call", call(named.clone())), HASH);
    node.call("eth_estimateGas", call(named));
    for method in ["eth_call", "eth_estimateGas", "eth_createAccessList"] {
        let (_, message) = node.error(method, call(json!({ "blobs": ["0x00"] })));
        assert!(message.contains("`blobs` but no blobVersionedHashes"), "{message}");
    }
}

/// A block built from given transactions has no more blobs than a consensus layer would accept.
#[test]
fn a_block_to_be_built_has_room_for_so_many_blobs() {
    let node = Devnet::start("mpt", args![]);
    let head = node.call("eth_getBlockByNumber", json!(["latest", false]));
    let attributes = json!({
        "timestamp": "0xffffffff",
        "prevRandao": head["hash"],
        "suggestedFeeRecipient": ALICE,
        "withdrawals": [],
        "parentBeaconBlockRoot": head["hash"],
    });
    let signed = |nonce: &str, blobs: usize| {
        let hashes = vec![HASH; blobs];
        let more = json!({ "blobVersionedHashes": hashes, "gas": "0x5208", "nonce": nonce });
        node.call("eth_signTransaction", transfer(more))["raw"].clone()
    };
    let build = |transactions: [Value; 2]| {
        node.answer("testing_buildBlockV1", json!([head["hash"], attributes, transactions]))
    };
    let built = build([signed("0x0", 6), signed("0x1", 3)]);
    assert_eq!(built["result"]["executionPayload"]["blobGasUsed"], "0x120000", "{built}");
    for (first, second) in [(7, 1), (6, 4)] {
        let built = build([signed("0x0", first), signed("0x1", second)]);
        let message = built["error"]["message"].as_str().unwrap();
        assert!(message.contains("blob"), "{message}");
    }
}
