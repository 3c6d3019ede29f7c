//! Tests of the answers to payloads on every layer.

use crate::{
    run::polytrie,
    sample::sample,
    support::{Node, Payload, args, attributes, blocks_of, bytes, layers, quantity, sample_blocks},
};
use alloy_consensus::{Block, TxEnvelope};
use alloy_eips::Encodable2718;
use alloy_primitives::B256;
use polytrie_testing::fixture;
use serde_json::{Value, json};

/// Returns the payload of `block` after `change`.
fn changed(block: &Block<TxEnvelope>, change: impl FnOnce(&mut Block<TxEnvelope>)) -> Payload {
    let mut block = block.clone();
    change(&mut block);
    Payload::of(&block)
}

#[track_caller]
fn assert_invalid(status: &Value, latest_valid: Option<B256>, words: &str) {
    assert_eq!(status["status"], "INVALID", "{status}");
    assert_eq!(status["latestValidHash"], json!(latest_valid), "{status}");
    assert!(status["validationError"].as_str().unwrap().contains(words), "{status}");
}

#[test]
fn every_layer_is_driven_block_by_block() {
    let blocks = sample_blocks(46);
    let payloads: Vec<_> = blocks.iter().map(Payload::of).collect();
    for layer in layers() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let node = Node::new(&data, layer.name, &sample("genesis.json"), args![]);
        let genesis = node.head();
        for (at, payload) in payloads[..40].iter().enumerate() {
            node.valid(payload);
            // The payload is not chosen yet.
            assert_eq!(node.head(), blocks[at].header.parent_hash, "{}", layer.name);
            node.choose(payload.hash);
        }

        // A known payload is answered at once, as the head and as an older block.
        node.valid(&payloads[10]);
        node.valid(&payloads[39]);

        // A payload on an unknown parent is kept until the parent arrives.
        let syncing =
            json!({ "status": "SYNCING", "latestValidHash": null, "validationError": null });
        assert_eq!(node.payload(&payloads[43]), syncing);
        assert_eq!(node.payload(&payloads[42]), syncing);
        let answer = node.choose_as(payloads[43].hash, B256::ZERO, &Value::Null);
        assert_eq!(answer, json!({ "payloadStatus": syncing, "payloadId": null }));
        assert_eq!(node.head(), payloads[39].hash);
        // The missing payload arrives, and another one on top of it before it is chosen.
        node.valid(&payloads[40]);
        node.valid(&payloads[41]);
        assert_eq!(node.head(), payloads[39].hash);
        node.choose(payloads[43].hash);

        let answer = node.choose_as(payloads[43].hash, payloads[30].hash, &Value::Null);
        assert_eq!(answer["payloadStatus"]["status"], "VALID");
        for tag in ["safe", "finalized"] {
            let block = node.public("eth_getBlockByNumber", json!([tag, false]));
            assert_eq!(block["hash"], json!(payloads[30].hash), "{}", layer.name);
        }
        // Choosing a block below the final one is valid but changes nothing, and no payload is made on it.
        let ancestor = node.choose_as(payloads[20].hash, B256::ZERO, &attributes(u64::MAX / 2, 1));
        let valid = json!({
            "status": "VALID", "latestValidHash": payloads[20].hash, "validationError": null
        });
        assert_eq!(ancestor, json!({ "payloadStatus": valid, "payloadId": null }));
        assert_eq!(node.head(), payloads[43].hash);
        // A chosen block above the final one becomes the head. Going forward again needs no payloads.
        for back in [36, 30] {
            let answer = node.choose_as(payloads[back].hash, payloads[29].hash, &Value::Null);
            assert_eq!(answer["payloadStatus"]["latestValidHash"], json!(payloads[back].hash));
            assert_eq!(node.head(), payloads[back].hash, "{}", layer.name);
            let block = node.public("eth_getBlockByNumber", json!(["finalized", false]));
            assert_eq!(block["hash"], json!(payloads[29].hash), "{}", layer.name);
            let above = node.public("eth_getBlockByHash", json!([payloads[43].hash, false]));
            assert!(above.is_null(), "{}", layer.name);
            node.choose(payloads[43].hash);
        }

        // Both ports answer the other methods that consensus layers use.
        assert_eq!(quantity(&node.public("eth_blockNumber", json!([]))), 44);
        assert_eq!(node.call("eth_syncing", json!([])), false);
        assert_eq!(node.call("net_version", json!([])), "70717");
        let by_hash = node.call("eth_getBlockByHash", json!([payloads[7].hash, true]));
        assert_eq!(quantity(&by_hash["number"]), 8);
        let name = node.public("web3_clientVersion", json!([]));
        assert!(name.as_str().unwrap().starts_with("polytrie/v"), "{name}");
        bodies(&node, &blocks);

        assert_eq!(node.stop(), Some(0));
        let check = polytrie!["db", "check", "--datadir", &data].ok();
        assert!(check.text().starts_with("clean: "), "{}: {}", layer.name, check.text());
        let node = Node::open(&data, args![]);
        assert_eq!(node.head(), payloads[43].hash, "{}", layer.name);
        assert_ne!(node.head(), genesis);
        node.valid(&payloads[44]);
        node.choose(payloads[44].hash);
    }
}

/// Checks the bodies of blocks by hash and by range.
fn bodies(node: &Node, blocks: &[Block<TxEnvelope>]) {
    let expected = |number: usize| {
        let txs = &blocks[number - 1].body.transactions;
        txs.iter().map(Encodable2718::encoded_2718).collect::<Vec<_>>()
    };
    let found = |body: &Value| {
        body["transactions"].as_array().unwrap().iter().map(bytes).collect::<Vec<_>>()
    };
    let range = node.call("engine_getPayloadBodiesByRangeV1", json!(["0x3", "0x4"]));
    let range = range.as_array().unwrap().clone();
    assert_eq!(range.len(), 4);
    for (number, body) in (3..).zip(&range) {
        assert_eq!(found(body), expected(number));
        assert!(body["withdrawals"].is_null());
    }
    let behind = node.call("engine_getPayloadBodiesByRangeV1", json!(["0x2b", "0x20"]));
    assert_eq!(behind.as_array().unwrap().len(), 2);
    let hashes = json!([[blocks[4].header.hash_slow(), B256::ZERO]]);
    let by_hash = node.call("engine_getPayloadBodiesByHashV1", hashes);
    assert_eq!(found(&by_hash[0]), expected(5));
    assert!(by_hash[1].is_null());
    for params in [json!(["0x0", "0x1"]), json!(["0x1", "0x0"])] {
        assert_eq!(node.error("engine_getPayloadBodiesByRangeV1", params).0, -32602);
    }
    let (code, _) = node.error("engine_getPayloadBodiesByRangeV1", json!(["0x1", "0x401"]));
    assert_eq!(code, -38004);
}

#[test]
fn an_invalid_payload_and_what_stands_on_it_are_refused() {
    let blocks = sample_blocks(12);
    let payloads: Vec<_> = blocks.iter().map(Payload::of).collect();
    for layer in layers() {
        let dir = tempfile::tempdir().unwrap();
        let node = Node::new(dir.path(), layer.name, &sample("genesis.json"), args![]);
        for payload in &payloads[..10] {
            node.valid(payload);
            node.choose(payload.hash);
        }
        let parent = payloads[9].hash;
        let wrong_gas = changed(&blocks[10], |block| block.header.gas_used += 1);
        assert_invalid(&node.payload(&wrong_gas), Some(parent), "gas");
        let wrong_root = changed(&blocks[10], |block| block.header.state_root.0[0] ^= 1);
        let status = node.payload(&wrong_root);
        match layer.canonical {
            true => assert_invalid(&status, Some(parent), "state root"),
            // The commitment of such a layer is no state root and is not compared.
            false => assert_eq!(status["status"], "VALID", "{}", layer.name),
        }
        // The refusal is repeated for the same payload and for those on top of it, and none of them can be
        // chosen.
        assert_invalid(&node.payload(&wrong_gas), Some(parent), "gas");
        let child = changed(&blocks[11], |block| block.header.parent_hash = wrong_gas.hash);
        assert_invalid(&node.payload(&child), Some(parent), &wrong_gas.hash.to_string());
        let grandchild = changed(&blocks[11], |block| block.header.parent_hash = child.hash);
        assert_invalid(&node.payload(&grandchild), Some(parent), &wrong_gas.hash.to_string());
        for refused in [&wrong_gas, &child] {
            let answer = node.choose_as(refused.hash, B256::ZERO, &Value::Null);
            assert_invalid(&answer["payloadStatus"], Some(parent), "gas");
        }
        // The hash is not that of the block, so there is no last valid block to name.
        let mut other = payloads[10].clone();
        other.params[0]["blockHash"] = json!(B256::repeat_byte(7));
        assert_invalid(&node.payload(&other), None, "hash");
        let mut garbage = payloads[10].clone();
        garbage.params[0]["transactions"] = json!(["0x1234"]);
        assert_invalid(&node.payload(&garbage), None, "");

        // An invalid payload on another branch is found when it is sent.
        let sibling = changed(&blocks[9], |block| block.header.extra_data = vec![1].into());
        node.valid(&sibling);
        let on_it = changed(&blocks[10], |block| {
            block.header.parent_hash = sibling.hash;
            block.header.gas_used += 1;
        });
        assert_invalid(&node.payload(&on_it), Some(sibling.hash), "gas");
        // Two payloads arrive in the wrong order, and the first block is invalid.
        let first = changed(&blocks[9], |block| block.header.gas_used += 1);
        let second = changed(&blocks[10], |block| block.header.parent_hash = first.hash);
        assert_eq!(node.payload(&second)["status"], "SYNCING");
        assert_invalid(&node.payload(&first), Some(payloads[8].hash), "gas");
        let answer = node.choose_as(second.hash, B256::ZERO, &Value::Null);
        assert_invalid(&answer["payloadStatus"], Some(payloads[8].hash), "gas");

        // Both ports show the blocks that failed by themselves, the last one first.
        let bad = node.public("debug_getBadBlocks", json!([]));
        assert_eq!(node.call("debug_getBadBlocks", json!([])), bad);
        let mut expected = vec![first.hash, on_it.hash, wrong_gas.hash];
        if layer.canonical {
            expected.insert(2, wrong_root.hash);
        }
        let bad = bad.as_array().unwrap();
        assert_eq!(bad.iter().map(|bad| bad["hash"].clone()).collect::<Value>(), json!(expected));
        assert_eq!(bad[0]["block"]["hash"], json!(first.hash));
        assert_eq!(quantity(&bad[0]["block"]["size"]), bytes(&bad[0]["rlp"]).len() as u64);
        for gas in 2..13 {
            let wrong = changed(&blocks[10], |block| block.header.gas_used += gas);
            assert_invalid(&node.payload(&wrong), Some(parent), "gas");
        }
        let bad = node.public("debug_getBadBlocks", json!([]));
        assert_eq!(bad.as_array().unwrap().len(), 10, "{}", layer.name);

        assert_eq!(node.head(), parent, "{}", layer.name);
        node.valid(&payloads[10]);
        node.choose(payloads[10].hash);
    }
}

#[test]
fn each_fork_has_its_version_of_the_method() {
    let blocks = sample_blocks(1000);
    let first = |is_in: &dyn Fn(&Block<TxEnvelope>) -> bool| {
        blocks.iter().position(is_in).expect("the chain has the fork")
    };
    let starts = [
        first(&|block| block.header.withdrawals_root.is_some()),
        first(&|block| block.header.parent_beacon_block_root.is_some()),
        first(&|block| block.header.requests_hash.is_some()),
    ];
    for layer in ["mpt", "raw"] {
        let dir = tempfile::tempdir().unwrap();
        for start in starts {
            let (genesis, chain) = (sample("genesis.json"), sample("chain.rlp.gz"));
            let last = (start - 2).to_string();
            polytrie![
                "import",
                "--datadir",
                dir.path(),
                "--state",
                layer,
                "--chain",
                genesis,
                "--to",
                last,
                chain
            ]
            .ok();
            let node = Node::open(dir.path(), args![]);
            for block in &blocks[start - 2..start + 2] {
                let payload = Payload::of(block);
                // A method for another fork is refused with any parameters.
                let (code, message) = match payload.params.len() {
                    1 => node.error("engine_newPayloadV3", json!(payload.params)),
                    _ => node.error("engine_newPayloadV2", json!(payload.params)),
                };
                assert!(matches!(code, -32602 | -38005), "{code} {message}");
                node.valid(&payload);
                node.choose(payload.hash);
            }
            assert_eq!(node.stop(), Some(0));
        }
    }
}

/// The blocks of another client, from Shanghai on, are valid payloads.
#[test]
fn blocks_of_another_client_are_valid_payloads() {
    let files = ["chains/ethtest/genesis.json", "chains/ethtest/chain.rlp"].map(fixture);
    let [Some(genesis), Some(chain)] = files else { return };
    let dir = tempfile::tempdir().unwrap();
    let node = Node::new(dir.path(), "rain", &genesis, args![]);
    let payloads = Payload::of_all(&blocks_of(&chain, 100));
    assert!(!payloads.is_empty());
    for payload in &payloads {
        node.valid(payload);
        node.choose(payload.hash);
    }
    assert_eq!(quantity(&node.public("eth_blockNumber", json!([]))), payloads.len() as u64);
}

/// The chain is past the merge right after genesis, which itself is a block of proof of work.
#[test]
fn a_block_of_proof_of_work_is_not_named_as_the_last_valid_one() {
    let dir = tempfile::tempdir().unwrap();
    let forks = [
        "homestead",
        "eip150",
        "eip155",
        "eip158",
        "byzantium",
        "constantinople",
        "petersburg",
        "istanbul",
        "berlin",
        "london",
    ];
    let mut config = json!({ "chainId": 7, "terminalTotalDifficulty": 1 });
    for fork in forks {
        config[format!("{fork}Block")] = json!(0);
    }
    let genesis = json!({
        "config": config, "difficulty": "0x20000", "gasLimit": "0x1c9c380", "baseFeePerGas": "0x7",
        "alloc": { "0x0000000000000000000000000000000000000007": { "balance": "0x7" } }
    });
    let file = dir.path().join("genesis.json");
    std::fs::write(&file, genesis.to_string()).unwrap();
    let node = Node::new(&dir.path().join("data"), "mpt", &file, args![]);
    let mut head = node.head();
    for is_after_genesis in [false, true] {
        let number = node.public("eth_blockNumber", json!([]));
        let choice = json!({
            "headBlockHash": head, "safeBlockHash": B256::ZERO, "finalizedBlockHash": B256::ZERO
        });
        let attributes = json!({
            "timestamp": format!("{:#x}", 10 + quantity(&number)), "prevRandao": B256::ZERO,
            "suggestedFeeRecipient": "0x0000000000000000000000000000000000000001"
        });
        let begun = node.call("engine_forkchoiceUpdatedV1", json!([choice, attributes]));
        let good = node.call("engine_getPayloadV1", json!([begun["payloadId"]]));
        let mut wrong = good.clone();
        wrong["gasUsed"] = json!("0x1");
        let status = node.call("engine_newPayloadV1", json!([wrong]));
        let reason = status["validationError"].as_str().unwrap();
        let hash = reason.split(' ').find(|word| word.starts_with("0x")).unwrap();
        wrong["blockHash"] = json!(hash.trim_end_matches(','));
        let status = node.call("engine_newPayloadV1", json!([wrong]));
        let expected = if is_after_genesis { head } else { B256::ZERO };
        assert_invalid(&status, Some(expected), "gas");
        head = good["blockHash"].as_str().unwrap().parse().unwrap();
        assert_eq!(node.call("engine_newPayloadV1", json!([good]))["status"], "VALID");
        node.choose(head);
    }
}
