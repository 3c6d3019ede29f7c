//! Measures the figures of the README: blocks of 100,000 changes, and proofs, over a state of a given size.
//!
//! `cargo run --release -p polytrie-lvmt --example blocks -- KEYS [SETUP-DIR]`
//!
//! Without the directory of a setup, an insecure one is generated.

#![expect(clippy::print_stdout, reason = "it is there to print")]

use alloy_primitives::{Address, U256};
use polytrie_amt::{PowersOfTau, Setup};
use polytrie_kv::{Durability, MdbxEngine, MdbxOptions, Store, StoreOptions};
use polytrie_lvmt::{LvmtLayer, LvmtOptions, Proofs, verify};
use polytrie_state::{
    Account, AccountChange, BlockRef, GenesisAccount, Prove, Session, StateLayer, TxWrites,
    hash_slot,
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Number of slots changed in a block.
const CHANGES: u64 = 100_000;
const BLOCKS: u64 = 8;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let keys: u64 = args.next().map_or(Ok(1_000_000), |n| n.parse())?;
    let setup = Arc::new(match args.next() {
        Some(dir) => Setup::open(dir.as_ref(), true)?,
        None => Setup::derive(&PowersOfTau::insecure_dev(16, "measure")?, true, &mut |_| {}),
    });
    let dir = tempfile::tempdir()?;
    let engine = MdbxEngine::open(MdbxOptions::new(dir.path(), LvmtLayer::TABLES))?;
    let options = StoreOptions { durability: Durability::EveryWrite, ..StoreOptions::default() };
    let store = Store::open(Arc::new(engine), LvmtLayer::TABLES, options)?;
    let options = LvmtOptions { proofs: Proofs::OnRequest, ..LvmtOptions::default() };
    let layer = LvmtLayer::open(store.clone(), setup.clone(), options)?;

    let contract = Address::repeat_byte(0xc0);
    let mut slots: Vec<_> =
        (0..keys).map(|n| (hash_slot(&U256::from(n)), U256::from(n + 1))).collect();
    slots.sort_unstable();
    let account = Account { nonce: 1, ..Account::default() };
    let hash = polytrie_state::hash_address(&contract);
    let started = Instant::now();
    layer.load(&mut std::iter::once(Ok(GenesisAccount {
        hash,
        account,
        code: None,
        slots: slots.into(),
    })))?;
    let seconds = started.elapsed().as_secs_f64();
    println!("loaded {keys} keys in {seconds:.1} s, {:.2} µs each", seconds * 1e6 / keys as f64);

    let mut state = 7u64;
    let mut random = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 16
    };
    let mut total = Duration::ZERO;
    for number in 0..BLOCKS {
        let started = Instant::now();
        let parent = BlockRef { number, hash: Default::default() };
        let mut session = Session::begin(&*layer, parent)?;
        let mut writes = Vec::new();
        for _ in 0..CHANGES {
            let slot = U256::from(random() % keys);
            writes.push((slot, session.slot(&contract, &slot)? + U256::from(1)));
        }
        writes.sort_unstable();
        writes.dedup_by_key(|(slot, _)| *slot);
        let read = started.elapsed();
        let change = AccountChange {
            address: contract,
            account: Some(account),
            wiped: false,
            code: None,
            slots: writes,
        };
        session.apply(&TxWrites { accounts: vec![change] })?;
        let finishing = Instant::now();
        let mut outcome = session.finish()?.outcome;
        let finish = finishing.elapsed();
        let writing = Instant::now();
        store.write(std::mem::take(&mut outcome.batch))?;
        outcome.accept()?;
        let write = writing.elapsed();
        if number > 0 {
            total += started.elapsed();
        }
        println!("block {number}: read {read:.0?}, finish {finish:.0?}, write {write:.0?}");
    }
    let rate = (CHANGES * (BLOCKS - 1)) as f64 / total.as_secs_f64();
    println!("{rate:.0} read-then-write operations a second");

    for slots in [vec![], vec![1u64], vec![2], vec![keys + 5], (10..20).collect()] {
        let slots: Vec<U256> = slots.into_iter().map(U256::from).collect();
        let started = Instant::now();
        let proof = layer.prove(&contract, &slots)?;
        let made = started.elapsed();
        let started = Instant::now();
        verify(setup.key(), &layer.commitment(), &proof)?;
        let witness = proof.proof["witness"].as_str().map_or(0, |hex| hex.len() / 2 - 1);
        println!(
            "an account and {} slots: {witness} bytes, made in {made:.1?}, verified in {:.1?}",
            slots.len(),
            started.elapsed()
        );
    }
    Ok(())
}
