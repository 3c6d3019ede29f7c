//! Tests of blocks that break one rule: the error names the rule and the block, and the blocks imported
//! before stay.

use crate::{
    rewrite::rewritten,
    run::polytrie,
    support::{Chain, Data, FRONTIER, RPC_COMPAT, assert_fails, for_each_layer, import, stream},
};
use alloy_consensus::{Block, BlockBody, EMPTY_ROOT_HASH, Header, TxEnvelope};
use alloy_eips::{
    eip4895::Withdrawals, eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
    eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS, eip7685::EMPTY_REQUESTS_HASH,
};
use alloy_primitives::{Address, B256, Bloom, Bytes, U256, keccak256};
use polytrie::{consensus::decode::decode_block, devnet::dev_genesis};
use polytrie_chainspec::ChainSpec;
use serde_json::Value;

for_each_layer!(
    a_wrong_last_block,
    a_wrong_state_root,
    an_invalid_ommer,
    stopping_at_an_invalid_block,
    the_seal_is_not_checked,
);

/// Returns the genesis and the first block of a chain that has Prague from genesis on, but lacks the
/// contract at `address`.
fn without_contract(genesis: &Value, address: &Address) -> (String, Block<TxEnvelope>) {
    let mut genesis = genesis.clone();
    let alloc = genesis["alloc"].as_object_mut().unwrap();
    assert!(alloc.remove(&format!("{address:x}")).is_some());
    let genesis = genesis.to_string();
    let spec = ChainSpec::parse("test", genesis.as_bytes()).unwrap();
    let parent = spec.genesis_header();
    let header = Header {
        parent_hash: parent.hash(),
        number: 1,
        timestamp: parent.timestamp + 1,
        gas_limit: parent.gas_limit,
        base_fee_per_gas: parent.base_fee_per_gas.map(|fee| fee - fee / 8),
        withdrawals_root: Some(EMPTY_ROOT_HASH),
        blob_gas_used: Some(0),
        excess_blob_gas: Some(0),
        parent_beacon_block_root: Some(B256::ZERO),
        requests_hash: Some(EMPTY_REQUESTS_HASH),
        ..Header::default()
    };
    let body = BlockBody { withdrawals: Some(Withdrawals::default()), ..BlockBody::default() };
    (genesis, Block { header, body })
}

#[test]
fn prague_without_the_contracts_of_requests() {
    let genesis = serde_json::from_slice(&dev_genesis(1337, &[], U256::ZERO)).unwrap();
    for (address, eip) in [
        (WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS, "EIP-7002"),
        (CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS, "EIP-7251"),
    ] {
        let (genesis, block) = without_contract(&genesis, &address);
        let data = Data::new();
        let genesis = data.write("genesis.json", genesis);
        let file = data.write("chain.rlp", alloy_rlp::encode(block));
        let run = polytrie!["import", file, "--datadir", data.path(), "--chain", genesis];
        let found = format!("there is no contract at {address}, ");
        assert_fails(&run, 1, &["block 1 (", &found, eip, "genesis file"]);
    }
}

/// Imports the blocks of `chain` with `last` in place of the last one, and checks that this fails with
/// `words`.
fn fails(data: &Data, chain: &Chain, last: &Bytes, words: &[&str]) {
    let mut blocks = chain.blocks();
    let before = blocks.len() - 1;
    blocks[before] = last.clone();
    let file = data.write("wrong.rlp", stream(&blocks));
    let header = decode_block(last).unwrap().header;
    let (number, hash) = (header.number, keccak256(alloy_rlp::encode(header)));
    let run = polytrie!["import", file, "--datadir", data.path()];
    let name = file.display().to_string();
    let place = format!("(index {before}, offset {})", stream(&blocks[..before]).len());
    assert_fails(&run, 1, &[&name, &place, &format!("block {number} ({hash}) is invalid: ")]);
    assert_fails(&run, 1, words);
    assert_fails(&run, 1, &["are kept", "get the file again", &format!("--to {}", number - 1)]);
    assert_eq!(data.head().0, chain.head - 1);
    data.check();
}

fn a_wrong_last_block(layer: &str) {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let data = chain.imported(layer, chain.head - 1);
    let last = chain.blocks().pop().unwrap();
    type Change = fn(&mut Block<TxEnvelope>);
    let cases: &[(Change, &[&str])] = &[
        (|b| b.header.gas_used += 1, &["the header's gas used is", "running the block used"]),
        (
            |b| b.header.receipts_root = B256::repeat_byte(7),
            &["the header's receipts root is 0x0707", "receipts with the root 0x"],
        ),
        (|b| b.header.logs_bloom = Bloom::repeat_byte(1), &["logs bloom differs"]),
        (|b| b.header.requests_hash = Some(B256::ZERO), &["the header's requests hash is 0x0000"]),
        (
            |b| b.header.transactions_root = B256::ZERO,
            &["transactions root is 0x0000", "have the root 0x"],
        ),
        (
            |b| b.header.withdrawals_root = Some(B256::ZERO),
            &["withdrawals root is 0x0000", "have the root 0x"],
        ),
        (|b| b.header.timestamp = 1, &["timestamp"]),
        (|b| b.header.gas_limit *= 2, &["gas limit"]),
        (|b| b.header.base_fee_per_gas = Some(1), &["base fee"]),
        (
            |b| b.header.extra_data = vec![0; 33].into(),
            &["extra data has 33 bytes, expected at most 32"],
        ),
        (
            |b| b.header.requests_hash = None,
            &["requests hash", "expected one since the Prague fork"],
        ),
        (|b| b.header.excess_blob_gas = Some(1), &["excess blob gas"]),
        (|b| b.header.number = 53, &["number is 53, expected 54"]),
    ];
    for (change, words) in cases {
        fails(&data, &chain, &rewritten(&last, *change), words);
    }
    polytrie!["import", chain.file, "--datadir", data.path()].ok();
    assert_eq!(data.head(), (chain.head, chain.hash.to_owned()));
    data.check();
}

fn a_wrong_state_root(layer: &str) {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let data = chain.imported(layer, chain.head - 1);
    let last = chain.blocks().pop().unwrap();
    let wrong = rewritten(&last, |b| b.header.state_root = B256::repeat_byte(7));
    if polytrie::layers::layer(layer).unwrap().canonical {
        let words = ["the header's state root is 0x0707", "led to the state root 0x"];
        fails(&data, &chain, &wrong, &words);
        // What was imported unseen is not called damage alone.
        let file = data.write("wrong.rlp", wrong);
        polytrie!["import", file, "--datadir", data.path(), "--verify", "none"].ok();
        let back = polytrie!["db", "unwind", "--to", "5", "--datadir", data.path()];
        assert_fails(&back, 3, &["imported without its root being compared", "--verify full"]);
        return;
    }
    // A layer with another commitment cannot check the state root, and its output says so.
    let file = data.write("wrong.rlp", wrong);
    let run = polytrie!["import", file, "--datadir", data.path()].ok();
    assert!(run.text().contains("(state root not comparable)"), "{}", run.text());
    assert!(run.stderr.contains("state roots were not compared"), "{}", run.stderr);
    assert_eq!(data.head().0, chain.head);
}

fn an_invalid_ommer(layer: &str) {
    let Some(chain) = FRONTIER.open() else { return };
    let data = chain.imported(layer, chain.head - 1);
    let blocks = chain.blocks();
    let header = |number: usize| decode_block(&blocks[number]).unwrap().header;
    let head = chain.head as usize;
    let with = |ommer: Header| {
        rewritten(&blocks[head], |block| {
            block.body.ommers = vec![ommer];
            block.header.ommers_hash = keccak256(alloy_rlp::encode(&block.body.ommers));
        })
    };
    fails(&data, &chain, &with(header(head - 2)), &["ommer 0", "is an ancestor of the block"]);
    let mut ommer = header(head - 3);
    ommer.extra_data = Bytes::from_static(b"another");
    ommer.difficulty += alloy_primitives::U256::ONE;
    fails(&data, &chain, &with(ommer), &["ommer 0", "difficulty"]);
    fails(&data, &chain, &with(header(head - 20)), &["ommer 0", "not among the"]);
    polytrie!["import", chain.file, "--datadir", data.path()].ok();
    assert_eq!(data.head(), (chain.head, chain.hash.to_owned()));
}

fn stopping_at_an_invalid_block(layer: &str) {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let mut blocks = chain.blocks();
    blocks[39] = rewritten(&blocks[39], |b| b.header.gas_used += 1);
    let data = Data::new();
    let file = data.write("wrong.rlp", stream(&blocks));
    let run =
        import![data.path(), file, chain.chain, layer, "--on-invalid", "stop", "--json", "-"].ok();
    let report = run.json();
    assert_eq!(report["head"]["number"], 39);
    let hash = keccak256(alloy_rlp::encode(decode_block(&blocks[39]).unwrap().header));
    assert_eq!(report["invalid"]["number"], 40, "{report}");
    assert_eq!(report["invalid"]["hash"], hash.to_string());
    let reason = report["invalid"]["reason"].as_str().unwrap();
    assert!(reason.contains("the header's gas used is"), "{reason}");
    assert!(run.stderr.contains("WARN") && run.stderr.contains("block 40"), "{}", run.stderr);
    assert_eq!(data.head().0, 39);
    data.check();
    let again = |content: &[u8]| {
        let file = data.write("again.rlp", content);
        polytrie!["import", file, "--datadir", data.path(), "--on-invalid", "stop", "--json", "-"]
    };
    // A cut file, and a file without blocks, are errors under `--on-invalid stop`, too.
    let right = chain.bytes();
    assert_fails(&again(&right[..stream(&chain.blocks()[..20]).len() - 1]), 1, &["ends inside"]);
    assert_fails(&again(&[0xc3, 0x80, 0x80, 0x80]), 1, &["the header is an RLP string"]);
    // A block that does not decode is an invalid block, as the first of a file and after others.
    let header = decode_block(&chain.blocks()[39]).unwrap().header;
    let items = [&alloy_rlp::encode(header)[..], &[0x80, 0xc0, 0xc0]].concat();
    let mut block = Vec::new();
    alloy_rlp::Header { list: true, payload_length: items.len() }.encode(&mut block);
    block.extend(items);
    let run = again(&block).ok();
    assert!(run.stderr.contains("cannot be decoded"), "{}", run.stderr);
    let invalid = run.json()["invalid"].clone();
    assert_eq!(invalid["number"], 40, "{invalid}");
    assert_eq!(invalid["hash"], Value::Null);
    let after = [&stream(&chain.blocks()[..39]), &[0xc3_u8, 0x80, 0x80, 0x80][..]].concat();
    let invalid = again(&after).ok().json()["invalid"].clone();
    assert_eq!(invalid["number"], Value::Null);
    assert!(invalid["reason"].as_str().unwrap().contains("the header is an RLP string"));
    assert_eq!(data.head().0, 39);
    // An import that does not end at an invalid block names none, and one that fails at it does.
    let short = data.write("short.rlp", stream(&chain.blocks()[..39]));
    let run = polytrie!["import", short, "--datadir", data.path(), "--json", "-"].ok();
    assert_eq!(run.json().get("invalid"), None);
    let run = polytrie!["import", file, "--datadir", data.path(), "--json", "-"];
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert_eq!(run.json()["invalid"]["number"], 40);
    // An error of the machine does not count as an invalid block.
    let missing =
        polytrie!["import", data.file("nothing"), "--datadir", data.path(), "--on-invalid", "stop"];
    assert_fails(&missing, 3, &["there is no such file"]);
}

/// A file with the blocks of mainnet is imported although the nonce of one of them is not a valid seal.
fn the_seal_is_not_checked(layer: &str) {
    let Some(chain) = FRONTIER.open() else { return };
    let Some(file) = crate::fixtures::fixture("chains/frontier-1000/badpow.blocks") else { return };
    let data = Data::new();
    import![data.path(), file, chain.chain, layer].ok();
    assert!(data.head().0 > 0);
    data.check();
}
