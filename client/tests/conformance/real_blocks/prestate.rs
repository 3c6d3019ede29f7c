//! Blocks with the accounts and slots that they touch. The tests check gas, bloom and, from Byzantium
//! on, the receipts root.

use super::{ancestors, archive, begin, decode_block, execute, hints::hinted, mainnet, rules};
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256};
use polytrie::executor::Executor;
use polytrie_kv::Store;
use polytrie_state::{Account, GenesisAccount, StateLayer, hash_address, hash_slot};
use polytrie_testing::OracleLayer;
use serde::Deserialize;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

#[derive(Debug, Deserialize)]
struct Fixture {
    block: String,
    hash: B256,
    pre: HashMap<Address, PreAccount>,
}

#[derive(Debug, Deserialize)]
struct PreAccount {
    balance: U256,
    nonce: u64,
    code_hash: Option<B256>,
    storage: HashMap<U256, U256>,
}

/// Creates a layer that holds the accounts of a block.
fn layer(pre: &HashMap<Address, PreAccount>, codes: &HashMap<B256, Bytes>) -> Arc<OracleLayer> {
    let accounts: BTreeMap<B256, GenesisAccount<'_>> = pre
        .iter()
        .map(|(address, pre)| {
            let code_hash = pre.code_hash.unwrap_or(KECCAK256_EMPTY);
            let mut slots: Vec<_> = pre
                .storage
                .iter()
                .filter(|(_, value)| !value.is_zero())
                .map(|(slot, value)| (hash_slot(slot), *value))
                .collect();
            slots.sort_unstable();
            let hash = hash_address(address);
            let account = Account { nonce: pre.nonce, balance: pre.balance, code_hash };
            let code = codes.get(&code_hash).cloned();
            (hash, GenesisAccount { hash, account, code, slots: slots.into() })
        })
        .collect();
    let store = Store::memory(OracleLayer::TABLES).expect("a store in memory opens");
    let layer = OracleLayer::open(store).expect("a layer opens");
    layer.load(&mut accounts.into_values().map(Ok)).expect("a layer takes its accounts");
    layer
}

#[test]
fn every_block_executes_to_what_its_header_says() {
    let (mut fixtures, mut codes, mut hashes) = (Vec::new(), HashMap::new(), HashMap::new());
    let present = archive::for_each("prestate", |name, bytes| match name {
        "codes" => codes = archive::json::<HashMap<B256, Bytes>>(name, bytes),
        "blockhashes" => hashes = archive::json::<HashMap<u64, B256>>(name, bytes),
        name => fixtures.push(archive::json::<Fixture>(name, bytes)),
    });
    if !present {
        return;
    }
    assert_eq!(fixtures.len(), 33);
    let spec = mainnet();
    let mut executor = Executor::new(16 << 20);
    for fixture in fixtures {
        let block = decode_block(&fixture.block);
        assert_eq!(block.header.hash_slow(), fixture.hash);
        let layer = layer(&fixture.pre, &codes);
        let mut session = begin(&*layer, &block);
        let rules = rules(&spec, &block);
        let plain = execute(&mut executor, &mut session, rules, &block, &ancestors(&hashes));
        let plain_writes = session.finish().expect("a block ends").writes;

        // A layer that asks for hints gets one before each read of a slot, and the results are equal.
        let hinted = hinted(layer);
        let mut session = begin(&hinted, &block);
        let again = execute(&mut executor, &mut session, rules, &block, &ancestors(&hashes));
        assert_eq!(again.receipts, plain.receipts);
        assert_eq!(session.finish().expect("a block ends").writes, plain_writes);
    }
}
