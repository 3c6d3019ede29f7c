use super::{ERA, GENESIS_TIME, Sample, contracts};
use crate::{
    CHAIN_FILE, Cache, GENESIS_FILE, Producer, Wallet, Workload, WorkloadKind, WorkloadSpec,
    generate,
};
use alloy_consensus::{EMPTY_ROOT_HASH, Transaction, TxReceipt};
use alloy_eips::{Typed2718, eip7685::EMPTY_REQUESTS_HASH};
use alloy_primitives::{U256, b256, keccak256};
use flate2::read::GzDecoder;
use polytrie_chain::Chain;
use polytrie_consensus::decode::decode_block;
use polytrie_node::datadir::{DataDir, OpenOptions};
use std::{
    collections::BTreeMap,
    fs,
    io::Read,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

/// The sample in the repository, which `scripts/make-sample` wrote.
const STORED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/sample");

#[test]
fn the_sample_in_the_repository_is_generated_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    let spec = WorkloadSpec { workload: WorkloadKind::Sample, seed: 1, shape: None };
    let cache = tempfile::tempdir().unwrap();
    let cache = Arc::new(Cache::open(cache.path()).unwrap());
    let generated = generate(&spec, dir.path(), &cache, &AtomicBool::new(false)).unwrap();
    // geth 1.17.8 imports it to the same hash.
    assert_eq!(
        generated.chain.head.hash,
        b256!("87cf7c3a03d682e6c8da2a6974f4747a1e64d127d64819a62d110d0153270e7e")
    );
    assert_eq!((generated.chain.blocks, generated.chain.transactions), (1000, 3430));
    let read = |dir: &Path, name| fs::read(dir.join(name)).unwrap();
    let (stored, new) = (Path::new(STORED), dir.path());
    assert!(read(stored, GENESIS_FILE) == read(new, GENESIS_FILE), "genesis.json differs");
    let mut chain = Vec::new();
    GzDecoder::new(&read(stored, "chain.rlp.gz")[..]).read_to_end(&mut chain).unwrap();
    assert!(chain == read(new, CHAIN_FILE), "chain.rlp differs");
}

#[test]
fn there_is_something_of_everything() {
    let mut chain = Vec::new();
    let file = fs::File::open(Path::new(STORED).join("chain.rlp.gz")).unwrap();
    GzDecoder::new(file).read_to_end(&mut chain).unwrap();
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

/// What the blocks of one cycle leave of the contract that dies and comes back.
#[test]
fn the_contract_dies_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut sample = Sample::new(Wallet::new(1, super::ACCOUNTS));
    let genesis = dir.path().join(GENESIS_FILE);
    let mut file = fs::File::create(&genesis).unwrap();
    sample.genesis().write(sample.accounts(), &mut file).unwrap();
    let options = OpenOptions {
        kv: Some("memory".into()),
        chain: Some(genesis.display().to_string()),
        ..Default::default()
    };
    let (chain, _dir): (Chain, _) = DataDir::open(&options, true).unwrap().into_chain().unwrap();
    let (spec, layer) = (Arc::clone(chain.spec()), Arc::clone(chain.layer()));
    let mut producer = Producer::new(spec, layer, chain.db().store().clone());
    let mut failed = BTreeMap::<&str, u64>::new();
    let shanghai = GENESIS_TIME + ERA;
    let mut seen = 0;
    while let Some(plan) = sample.next_block(producer.parent()) {
        let before_cancun = plan.timestamp < GENESIS_TIME + 2 * ERA;
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
        let reader = chain.layer().reader().unwrap();
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
                // Written in this block before the end, and in this block after it.
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
