//! Tests that readers stay at the block at which they were made.

use super::{
    Driver, Ground, LayerFactory, STORE_IN_STEP,
    compare::{assert_reads, assert_state},
};
use crate::{Block, History, Seed};
use alloy_primitives::{Address, B256, keccak256};
use polytrie_kv::{EngineReads, MemoryEngine, StoreOptions};
use polytrie_kv_testing::{KeepsRows, Made, Remote, Requests};
use polytrie_state::{Access, Account, AccountChange, StateReader, TxWrites};
use std::{iter, sync::Arc};

/// Checks that readers made at every third block answer as at that block while later blocks are run, flushed and
/// undone.
pub fn readers_keep_their_block(factory: &dyn LayerFactory) {
    let seed = Seed::or(10);
    let history = History::random(seed.value(), 30);
    let grouped = StoreOptions { flush_every: 4, background: true, ..STORE_IN_STEP };
    for (ground, options) in [
        (Ground::of(factory), STORE_IN_STEP),
        (Ground::of(factory), grouped.clone()),
        (keeps_rows(), STORE_IN_STEP),
        (keeps_rows(), grouped.clone()),
        (Ground::disk(), grouped),
    ] {
        let mut driver = Driver::open(factory, &ground, &options).unwrap_or_else(|e| panic!("{e}"));
        driver.load(history.genesis()).unwrap_or_else(|e| panic!("{e}"));
        let mut readers: Vec<(usize, Arc<dyn StateReader>)> = Vec::new();
        let look = |readers: &[(usize, Arc<dyn StateReader>)], when: &str| {
            for (at, reader) in readers {
                let context = format!("a reader of block {at}, {when}");
                assert_reads(&**reader, &history.states[*at], &history, &context);
            }
        };
        for (n, block) in history.blocks.iter().enumerate() {
            if n % 3 == 0 {
                readers.push((n, driver.layer().reader().unwrap_or_else(|e| panic!("{e}"))));
            }
            // Includes one that is made while a block is in progress.
            let session = driver.begin().unwrap_or_else(|e| panic!("{e}"));
            let reader = driver.layer().reader().unwrap_or_else(|e| panic!("{e}"));
            drop(session);
            if let Some(last) = readers.last() {
                look(std::slice::from_ref(last), "ahead of a block");
            }
            driver.run(block).unwrap_or_else(|e| panic!("{e}"));
            assert_state(&driver, &history.states[n + 1], &format!("block {}", n + 1));
            look(&[(n, reader)], "made within the next block");
        }
        look(&readers, "at the end");
        driver.flush().unwrap_or_else(|e| panic!("{e}"));
        look(&readers, "after a flush");
        for _ in 0..10 {
            driver.undo().unwrap_or_else(|e| panic!("{e}"));
        }
        look(&readers, "after ten blocks were undone");
    }
}

/// Creates an engine on other machines. Returns it with the requests that it gets.
fn other_machines() -> (Ground, Arc<Made>) {
    let engine = Requests::new(MemoryEngine::new());
    let made = engine.made();
    (Ground::Memory(Arc::new(KeepsRows(Remote(engine), 16 << 20))), made)
}

/// Makes a layer on other machines with the genesis of a history, all of it in the engine.
fn loaded<'f>(factory: &'f dyn LayerFactory, history: &History, ground: &Ground) -> Driver<'f> {
    let options = StoreOptions { counters: true, ..STORE_IN_STEP };
    let mut driver = Driver::open(factory, ground, &options).unwrap_or_else(|e| panic!("{e}"));
    driver.load(history.genesis()).unwrap_or_else(|e| panic!("{e}"));
    driver.flush().unwrap_or_else(|e| panic!("{e}"));
    driver
}

/// Checks that a layer on other machines, and a fork of it, read together what is asked for together, and ask the engine
/// for none of it again.
pub fn gathered_state_is_read_once(factory: &dyn LayerFactory) {
    let history = History::with_genesis_of(Seed::or(22).value(), 200);
    let load = || loaded(factory, &history, &other_machines().0);
    is_read_once(&load(), &history);
    // What the layer itself has read is in memory for its forks too.
    is_read_once(&load().fork().unwrap_or_else(|e| panic!("{e}")), &history);
}

fn is_read_once(driver: &Driver<'_>, history: &History) {
    let reader = driver.layer().reader().unwrap_or_else(|e| panic!("{e}"));
    assert!(reader.gathers(), "the rows are on other machines");
    let accesses: Vec<Access> = history
        .genesis
        .accounts
        .iter()
        .flat_map(|change| {
            let slots = change.slots.iter().map(|(slot, _)| *slot);
            let slots = slots.map(move |slot| Access::SlotRead(change.address, slot));
            iter::once(Access::Account(change.address)).chain(slots)
        })
        .chain([Access::Account(Address::repeat_byte(0x5a))])
        .collect();
    let made = |before: EngineReads| EngineReads::of_this_thread() - before;
    let before = EngineReads::of_this_thread();
    reader.gather(&accesses).unwrap_or_else(|e| panic!("{e}"));
    let requests = made(before).requests;
    // Where nodes are found by hash, one for each level of the longest path to a slot.
    assert!((1..=30).contains(&requests), "{requests} requests for {}", accesses.len());
    let before = EngineReads::of_this_thread();
    for access in &accesses {
        match access.place() {
            (address, None) => {
                let found = reader.account(&address).unwrap_or_else(|e| panic!("{e}"));
                assert_eq!(found, history.genesis().account(&address), "{address}");
            }
            (address, Some(slot)) => {
                let found = reader.slot(&address, &slot).unwrap_or_else(|e| panic!("{e}"));
                assert_eq!(found, history.genesis().slot(&address, &slot), "{address} {slot}");
            }
        }
    }
    assert_eq!(made(before), EngineReads::default());

    let codes = history.genesis.accounts.iter().filter_map(|change| change.code.as_ref());
    let hashes: Vec<B256> = codes.map(|(hash, _)| *hash).collect();
    let before = EngineReads::of_this_thread();
    let codes = reader.codes(&hashes).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(codes.len(), hashes.len());
    for (hash, code) in hashes.iter().zip(codes) {
        assert_eq!(code.as_ref().map(keccak256), Some(*hash));
        assert_eq!(reader.code(hash).unwrap_or_else(|e| panic!("{e}")), code);
    }
    let requests = made(before).requests;
    assert!(requests <= 1, "{requests} requests for {} codes", hashes.len());
}

/// Checks that a layer on other machines reads together what the end of a block needs that creates 50 accounts: with at most
/// `most` requests.
pub fn a_block_ends_with_few_requests(factory: &dyn LayerFactory, most: usize) {
    let history = History::with_genesis_of(Seed::or(23).value(), 200);
    let (ground, made) = other_machines();
    let driver = loaded(factory, &history, &ground);
    let mut session = driver.begin().unwrap_or_else(|e| panic!("{e}"));
    let account = Account { nonce: 1, ..Account::default() };
    let created = (0..50u64).map(|n| Address::from_word(keccak256(n.to_be_bytes())));
    let writes = TxWrites { accounts: created.map(|address| change(address, account)).collect() };
    session.apply(&writes).unwrap_or_else(|e| panic!("{e}"));
    let before = made.all();
    drop(session.finish().unwrap_or_else(|e| panic!("{e}")));
    let requests = made.all() - before;
    assert!((1..=most).contains(&requests), "{requests} requests");
}

/// Checks that a layer on other machines, of which nothing is in memory, reads together what it needs to undo a block that
/// changed 50 accounts among 1,000: with at most `most` requests.
pub fn a_block_is_undone_with_few_requests(factory: &dyn LayerFactory, most: usize) {
    let history = History::with_genesis_of(Seed::or(24).value(), 1_000);
    let (ground, made) = other_machines();
    let mut driver = loaded(factory, &history, &ground);
    let expected = driver.layer().commitment();
    let changed = history.genesis.accounts.iter().filter_map(|old| {
        let account = old.account?;
        Some(change(old.address, Account { nonce: account.nonce ^ (1 << 40), ..account }))
    });
    let txs = vec![TxWrites { accounts: changed.take(50).collect() }];
    driver.run(&Block { label: String::new(), txs }).unwrap_or_else(|e| panic!("{e}"));
    let mut driver = driver.reopen(&ground).unwrap_or_else(|e| panic!("{e}"));
    // Some layers read their head when it is asked for.
    drop(driver.layer().reader().unwrap_or_else(|e| panic!("{e}")));
    let before = made.all();
    let undone = driver.undo().unwrap_or_else(|e| panic!("{e}"));
    let requests = made.all() - before;
    assert_eq!(undone, expected);
    assert!(requests <= most, "{requests} requests");
}

fn change(address: Address, account: Account) -> AccountChange {
    let (account, slots) = (Some(account), Vec::new());
    AccountChange { address, account, wiped: false, code: None, slots }
}

/// Creates an engine in memory. The store keeps its recently read rows.
fn keeps_rows() -> Ground {
    Ground::Memory(Arc::new(KeepsRows(MemoryEngine::new(), 256 << 10)))
}
