//! The sample chain of the repository: its generator, and tests that its files are what the generator makes.
//!
//! `scripts/make-sample` runs the ignored test, which writes the files.

#![expect(clippy::unwrap_used, reason = "tests")]

mod actions;
mod block;
mod contracts;
mod lives;
mod workload;

use crate::workload::{ACCOUNTS, Sample};
use alloy_consensus::{EMPTY_ROOT_HASH, Transaction, TxReceipt};
use alloy_eips::{Typed2718, eip7685::EMPTY_REQUESTS_HASH};
use alloy_primitives::{B256, U256, b256, keccak256};
use flate2::{Compression, GzBuilder, read::GzDecoder};
use polytrie_bench::{GENESIS_FILE, Producer, Wallet, Workload, workload::GENESIS_TIME};
use polytrie_chain::Chain;
use polytrie_consensus::decode::decode_block;
use polytrie_node::datadir::{DataDir, OpenOptions};
use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    path::Path,
};

/// Directory of the files.
const STORED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/sample");
const CHAIN_FILE: &str = "chain.rlp.gz";
const SEED: u64 = 1;

/// The content of the genesis file, and the generator of the blocks on top of it.
fn genesis() -> (Vec<u8>, Sample) {
    let sample = Sample::new(Wallet::new(SEED, ACCOUNTS));
    let mut json = Vec::new();
    sample.genesis().write(sample.accounts(), &mut json).unwrap();
    (json, sample)
}

/// A chain in memory with the genesis block only.
fn begin(genesis: &[u8]) -> Producer {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(GENESIS_FILE);
    fs::write(&path, genesis).unwrap();
    let options = OpenOptions {
        kv: Some("memory".into()),
        chain: Some(path.display().to_string()),
        ..Default::default()
    };
    let (chain, _dir): (Chain, _) = DataDir::open(&options, true).unwrap().into_chain().unwrap();
    Producer::new(chain)
}

/// The bytes of the genesis file and of the uncompressed blocks, and the hash of the last block.
fn made() -> (Vec<u8>, Vec<u8>, B256) {
    let (genesis, mut sample) = genesis();
    let mut producer = begin(&genesis);
    let mut blocks = Vec::new();
    while let Some(plan) = sample.next_block(producer.parent()) {
        blocks.extend_from_slice(&producer.produce(plan, sample.wallet()).unwrap().rlp);
    }
    (genesis, blocks, producer.parent().hash())
}

fn stored_blocks() -> Vec<u8> {
    let file = fs::File::open(Path::new(STORED).join(CHAIN_FILE)).unwrap();
    let mut blocks = Vec::new();
    GzDecoder::new(file).read_to_end(&mut blocks).unwrap();
    blocks
}

#[test]
fn the_sample_in_the_repository_is_generated_byte_for_byte() {
    let (genesis, blocks, head) = made();
    // geth 1.17.8 imports the chain to the same hash.
    assert_eq!(head, b256!("87cf7c3a03d682e6c8da2a6974f4747a1e64d127d64819a62d110d0153270e7e"));
    assert!(fs::read(Path::new(STORED).join(GENESIS_FILE)).unwrap() == genesis, "genesis.json");
    assert!(stored_blocks() == blocks, "{CHAIN_FILE} differs");
}

#[test]
#[ignore = "writes the files of the repository"]
fn write() {
    let (genesis, blocks, _) = made();
    fs::write(Path::new(STORED).join(GENESIS_FILE), genesis).unwrap();
    let file = fs::File::create(Path::new(STORED).join(CHAIN_FILE)).unwrap();
    // The gzip header has neither name nor time, so that the same chain gives the same file.
    let mut out = GzBuilder::new().write(file, Compression::best());
    out.write_all(&blocks).unwrap();
    out.finish().unwrap();
}

#[test]
fn there_is_something_of_everything() {
    let chain = stored_blocks();
    let (mut types, mut rest) = (BTreeMap::<u8, u64>::new(), &chain[..]);
    let (mut empty, mut withdrawals, mut requests, mut blobs, mut created) = (0, 0, 0, 0, 0);
    while !rest.is_empty() {
        let start = rest;
        let header = alloy_rlp::Header::decode(&mut rest).unwrap();
        let length = start.len() - rest.len() + header.payload_length;
        let block = decode_block(&start[..length]).unwrap();
        rest = &start[length..];
        for tx in &block.body.transactions {
            *types.entry(tx.ty()).or_default() += 1;
            created += u64::from(tx.is_create());
        }
        let header = &block.header;
        empty += u64::from(header.transactions_root == EMPTY_ROOT_HASH);
        withdrawals += block.body.withdrawals.map_or(0, |list| list.len());
        requests += u64::from(header.requests_hash.is_some_and(|hash| hash != EMPTY_REQUESTS_HASH));
        blobs += header.blob_gas_used.unwrap_or(0) >> 17;
    }
    assert_eq!(types.len(), 5, "{types:?}");
    assert!(types.values().all(|count| *count >= 20), "{types:?}");
    let counts = [empty, withdrawals as u64, requests, blobs, created];
    assert!(counts.iter().all(|count| *count >= 20), "{counts:?}");
}

/// State of the contract after each block of one cycle.
#[test]
fn the_contract_dies_and_comes_back() {
    let (genesis, mut sample) = genesis();
    let mut producer = begin(&genesis);
    let mut failed = BTreeMap::<&str, u64>::new();
    let shanghai = GENESIS_TIME + workload::ERA;
    let mut seen = 0;
    while let Some(plan) = sample.next_block(producer.parent()) {
        let before_cancun = plan.timestamp < GENESIS_TIME + 2 * workload::ERA;
        let block = producer.produce(plan, sample.wallet()).unwrap();
        let number = block.header.number;
        let fork = if block.header.timestamp < shanghai { "paris" } else { "later" };
        *failed.entry(fork).or_default() +=
            block.executed.receipts.iter().filter(|receipt| !receipt.status()).count() as u64;
        if !before_cancun || number < 12 {
            continue;
        }
        let salt = U256::from(number / 12 % 6).to_be_bytes::<32>();
        let address = sample.contracts.factory.create2(salt, keccak256(contracts::mortal_init()));
        let reader = producer.chain().layer().reader().unwrap();
        let account = reader.account(&address).unwrap();
        let slot = |slot: u64| reader.slot(&address, &U256::from(slot)).unwrap();
        let alive = account.is_some_and(|account| account.nonce == 1);
        match number % 12 {
            0 | 4 => assert!(account.is_none(), "block {number}"),
            // The constructor wrote the number of the block into slot 1.
            2 | 5 | 9 => assert!(alive && slot(1) == U256::from(number), "block {number}"),
            3 => assert!(alive && slot(5) == U256::from(number), "block {number}"),
            7 => {
                assert!(alive && slot(1) == U256::from(number), "block {number}");
                // Slot 6 was written in this block before the destruction, slot 7 after the new creation.
                assert_eq!((slot(6), slot(7)), (U256::ZERO, U256::from(number)), "block {number}");
                assert_eq!(slot(5), U256::ZERO, "block {number}");
            }
            _ => continue,
        }
        if number % 12 == 9 {
            assert!(account.unwrap().balance >= U256::from(12_345), "block {number}");
        }
        seen += 1;
    }
    assert!(seen > 150, "{seen}");
    assert!(failed.values().all(|count| *count > 20), "{failed:?}");
}
