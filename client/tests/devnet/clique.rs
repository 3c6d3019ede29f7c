//! Tests of a node on an imported Clique chain. Fees go to the signers in the answers for all earlier
//! blocks.

use crate::{
    clique_maker::{COINBASE_KEEPER, Maker, address},
    run::polytrie,
    support::{Devnet, args},
};
use alloy_primitives::{Address, U256};
use polytrie::consensus::decode::decode_header;
use polytrie_chainspec::Clique;
use serde_json::{Value, json};

/// Code that returns the result of COINBASE.
const COINBASE_CODE: &str = "0x4160005260206000f3";

fn word(address: Address) -> Value {
    json!(address.into_word())
}

#[test]
fn signers_are_paid_in_calls_and_traces() {
    let Some(mut maker) = Maker::with_terminal("AB", Clique::new(5, 4), "15") else { return };
    let mut signers = Vec::new();
    for number in 1..=6 {
        let signer = maker.in_turn("AB");
        let transactions =
            vec![maker.transaction(COINBASE_KEEPER), maker.transaction(Address::repeat_byte(7))];
        maker.push(signer, (number == 3).then_some((true, 'F')), transactions);
        signers.push(address(signer));
    }
    let sealed = maker.blocks.len();
    // Each block has the difficulty 2, so the next one reaches the terminal difficulty of 1 + 2 * 7.
    maker.push_in_turn("AB", 1);
    maker.push_merged(Address::repeat_byte(0xbe), Vec::new());

    let temp = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        std::fs::write(temp.path().join(name), bytes).unwrap();
        temp.path().join(name)
    };
    let genesis = file("genesis.json", maker.genesis.as_bytes());
    let blocks: Vec<u8> = maker.blocks.iter().flat_map(|rlp| rlp.to_vec()).collect();
    let blocks = file("blocks.rlp", &blocks);
    let dir = temp.path().join("data");
    let to = sealed.to_string();
    polytrie!["import", blocks, "--datadir", dir, "--chain", genesis, "--to", to].ok();

    // The node refuses to make blocks, because only the signers may do that.
    let run = polytrie!["devnet", "--datadir", dir, "--http.port", "0"];
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("sealed by the signers of Clique"), "{}", run.stderr);
    let node = Devnet::open(&dir, args!["--read-only"]);
    for tag in ["latest", "pending"] {
        let found = node.call("eth_call", json!([{ "data": COINBASE_CODE }, tag]));
        assert_eq!(found, word(signers[sealed - 1]), "{tag}");
    }
    assert_eq!(node.call("eth_getBlockReceipts", json!(["pending"])).as_array().unwrap().len(), 2);
    drop(node);

    polytrie!["import", blocks, "--datadir", dir].ok();
    let node = Devnet::open(&dir, args!["--read-only"]);
    for (number, (signer, rlp)) in (1u64..).zip(signers.iter().zip(&maker.blocks)) {
        let at = json!(U256::from(number));
        let called = node.call("eth_call", json!([{ "data": COINBASE_CODE }, at]));
        assert_eq!(called, word(*signer), "block {number}");
        let kept = node.call("eth_getStorageAt", json!([COINBASE_KEEPER, "0x0", at]));
        assert_eq!(kept, word(*signer), "block {number}");
        // The field in the header is the address of a vote.
        let header = decode_header(rlp).unwrap();
        let block = node.call("eth_getBlockByNumber", json!([at, false]));
        assert_eq!(block["miner"], json!(header.beneficiary), "block {number}");
        // A trace leads to the same changes as the block.
        let options = json!({ "tracer": "prestateTracer", "tracerConfig": { "diffMode": true } });
        let traces = node.call("debug_traceBlockByNumber", json!([at, options]));
        let paid = json!(signer).as_str().unwrap().to_lowercase();
        for trace in traces.as_array().unwrap() {
            assert!(trace["result"]["post"].get(&paid).is_some(), "block {number}: {trace}");
        }
        let slot = word(Address::ZERO);
        let keeper = &traces[0]["result"]["post"][format!("{COINBASE_KEEPER:?}").to_lowercase()];
        // If the value was the same before, there is no change.
        if !keeper.is_null() {
            assert_eq!(keeper["storage"][slot.as_str().unwrap()], word(*signer));
        }
        // Clique blocks have no reward.
        let traces = node.call("trace_block", json!([at]));
        let kinds = traces.as_array().unwrap().iter().filter(|trace| trace["type"] == "reward");
        assert_eq!(kinds.count(), 0, "block {number}");
        let details = node.call("ots_getBlockDetails", json!([number]));
        assert_eq!(details["issuance"]["issuance"], json!("0x0"), "block {number}");
    }
    let called = node.call("eth_call", json!([{ "data": COINBASE_CODE }, "latest"]));
    assert_eq!(called, word(Address::repeat_byte(0xbe)));
    let genesis = node.call("eth_call", json!([{ "data": COINBASE_CODE }, "earliest"]));
    assert_eq!(genesis, word(Address::ZERO));
}
