//! The suite that every layer passes, and tests of `mpt` alone.

#![expect(clippy::unwrap_used, reason = "tests")]

use alloy_primitives::{Address, B256, U256};
use polytrie_kv::{Engine, KeyRange, MemoryEngine, Read, Store, StoreOptions, Table};
use polytrie_kv_testing::{BeforeReads, entries, set_row};
use polytrie_mpt::{MptLayer, MptOptions, verify};
use polytrie_state::{
    Access, Account, AccountChange, BlockRef, Session, StateError, StateLayer, hash_address,
    hash_slot,
};
use polytrie_testing::{
    layer_suite,
    suite::{self, LayerFactory, Verifier, finished},
};
use std::{
    collections::btree_map::{BTreeMap, Entry},
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

#[derive(Debug, Default)]
struct Mpt(MptOptions);

impl LayerFactory for Mpt {
    fn tables(&self) -> Vec<Table> {
        MptLayer::TABLES.to_vec()
    }

    fn open(&self, store: Store) -> Result<Arc<dyn StateLayer>, StateError> {
        Ok(MptLayer::open(store, self.0)?)
    }

    fn verifier(&self) -> Option<Verifier> {
        Some(|of, address, slots, proof| verify(of.digest(), proof)?.answer(address, slots))
    }

    fn variants(&self) -> Vec<Box<dyn LayerFactory>> {
        // All variants are compared with the default, and so is the other setting.
        if self.0.read_ahead {
            return vec![Box::new(Self::default())];
        }
        // The budgets keep nothing between blocks, a little, and everything.
        let budgets = [0, 20_000, usize::MAX].into_iter();
        let options = budgets.flat_map(|cache_bytes| {
            [false, true].map(|read_ahead| MptOptions { cache_bytes, read_ahead })
        });
        options.map(|options| Box::new(Self(options)) as _).collect()
    }
}

layer_suite!(Mpt::default());

mod with_everything_read_ahead {
    use super::{Mpt, MptOptions};

    polytrie_testing::layer_suite!(Mpt(MptOptions { cache_bytes: 0, read_ahead: true }));
}

#[test]
fn a_large_contract_is_loaded_in_portions() {
    suite::a_large_contract_is_loaded_in_portions(&Mpt::default());
}

#[test]
fn gathered_state_is_read_once() {
    suite::gathered_state_is_read_once(&Mpt::default());
}

#[test]
fn a_block_is_undone_with_few_requests() {
    suite::a_block_is_undone_with_few_requests(&Mpt::default(), 20);
}

/// A contract of a slot or two takes far more memory than its leaves: the budget counts all of it.
#[test]
fn small_contracts_count_with_all_they_take() {
    const CONTRACTS: u64 = 1_000;
    let store = Store::memory(MptLayer::TABLES).unwrap();
    let layer = MptLayer::open(store.clone(), MptOptions::default()).unwrap();
    let run = |number: u64, value: U256| {
        let account = Some(Account { nonce: 1, ..Account::default() });
        let slots = vec![(U256::ZERO, value)];
        let change = |n: u64| AccountChange { account, slots: slots.clone(), ..contract(n) };
        finished(&*layer, number, (0..CONTRACTS).map(change).collect()).write(&store).unwrap();
        trie_cache_bytes(&layer)
    };
    let with_slots = run(0, U256::from(1));
    assert!(with_slots > CONTRACTS * 600, "{with_slots}");
    let without = run(1, U256::ZERO);
    assert!(without < CONTRACTS * 300, "tries that hold nothing are let go of: {without}");
}

/// The choice of what is dropped counts all that a small contract takes, or the budget would never be kept.
#[test]
fn small_contracts_are_dropped_when_the_budget_is_full() {
    // Nodes alone fit into it; with what the storages take beside them, it is less than half of what is needed.
    const BUDGET: usize = 1_200_000;
    let store = Store::memory(MptLayer::TABLES).unwrap();
    let options = MptOptions { cache_bytes: BUDGET, read_ahead: false };
    let layer = MptLayer::open(store.clone(), options).unwrap();
    for number in 0..30 {
        let accounts = (100 * number..100 * (number + 1)).map(contract).collect();
        finished(&*layer, number, accounts).write(&store).unwrap();
        let bytes = trie_cache_bytes(&layer);
        assert!(bytes <= BUDGET as u64, "block {number}: {bytes}");
    }
}

/// A block that exceeds the budget drops a small part of all nodes: a block that drops many takes a hundred times as
/// long as the others.
#[test]
fn no_block_drops_many_nodes() {
    const BUDGET: u64 = 4 << 20;
    let accounts = |n: u64| AccountChange { slots: Vec::new(), ..contract(n) };
    let contracts = |n: u64| AccountChange { address: address(n / 100), ..contract(n) };
    let one_contract = |n: u64| AccountChange { address: address(0), ..contract(n) };
    let kinds: [(&str, &dyn Fn(u64) -> AccountChange); 3] =
        [("accounts", &accounts), ("contracts", &contracts), ("one contract", &one_contract)];
    for (kind, change) in kinds {
        let store = Store::memory(MptLayer::TABLES).unwrap();
        let options = MptOptions { cache_bytes: BUDGET as usize, read_ahead: false };
        let layer = MptLayer::open(store.clone(), options).unwrap();
        let (mut before, mut full) = (0_u64, 0);
        for number in 0..400 {
            let mut changes = BTreeMap::<Address, AccountChange>::new();
            for n in 100 * number..100 * (number + 1) {
                let change = change(n);
                match changes.entry(change.address) {
                    Entry::Vacant(place) => drop(place.insert(change)),
                    Entry::Occupied(mut place) => place.get_mut().slots.extend(change.slots),
                }
            }
            finished(&*layer, number, changes.into_values().collect()).write(&store).unwrap();
            let bytes = trie_cache_bytes(&layer);
            assert!(bytes <= BUDGET, "{kind}, block {number}: {bytes}");
            let dropped = before.saturating_sub(bytes);
            assert!(dropped < BUDGET / 16, "{kind}, block {number} dropped {dropped} bytes");
            full += u64::from(bytes > BUDGET / 10 * 9);
            before = bytes;
        }
        assert!(full > 50, "{kind}: the budget was full after {full} blocks only");
    }
}

/// Each block that is taken back is a turn of its own: what the ones before it touched can be dropped.
#[test]
fn the_budget_is_kept_while_blocks_are_taken_back() {
    const BUDGET: usize = 1_000_000;
    const ACCOUNTS: u64 = 300;
    let store = Store::memory(MptLayer::TABLES).unwrap();
    let options = MptOptions { cache_bytes: BUDGET, read_ahead: false };
    let layer = MptLayer::open(store.clone(), options).unwrap();
    let mut records = Vec::new();
    for number in 0..60 {
        let account = Some(Account { nonce: number + 1, ..Account::default() });
        let change = |n: u64| AccountChange { account, slots: Vec::new(), ..contract(n) };
        let from = ACCOUNTS * (number % 30);
        let outcome = finished(&*layer, number, (from..from + ACCOUNTS).map(change).collect());
        records.push(outcome.undo.clone());
        outcome.write(&store).unwrap();
    }
    for record in records[30..].iter().rev() {
        layer.undo(record).unwrap().write(&store).unwrap();
        let bytes = trie_cache_bytes(&layer);
        assert!(bytes <= BUDGET as u64, "{bytes}");
    }
    let mut session = Session::begin(&*layer, BlockRef { number: 30, hash: B256::ZERO }).unwrap();
    for n in 0..30 * ACCOUNTS {
        session.account(&address(n)).unwrap();
    }
    let all = trie_cache_bytes(&layer);
    assert!(all > 3 * BUDGET as u64 / 2, "the whole state has to be larger: {all}");
}

/// Blocks that are dropped keep within the budget, too: what they have read stays in memory.
#[test]
fn the_budget_is_kept_while_blocks_are_dropped() {
    const BUDGET: usize = 1_000_000;
    const ACCOUNTS: u64 = 100;
    let store = Store::memory(MptLayer::TABLES).unwrap();
    let options = MptOptions { cache_bytes: BUDGET, read_ahead: false };
    let layer = MptLayer::open(store.clone(), options).unwrap();
    let accounts = |number: u64| ACCOUNTS * number..ACCOUNTS * (number + 1);
    for number in 0..60 {
        finished(&*layer, number, accounts(number).map(contract).collect()).write(&store).unwrap();
    }
    let parent = BlockRef { number: 60, hash: B256::ZERO };
    for number in 0..60 {
        let mut session = Session::begin(&*layer, parent).unwrap();
        for n in accounts(number) {
            assert_eq!(session.slot(&address(n), &U256::from(n)).unwrap(), U256::from(n + 1));
        }
        drop(session);
        let bytes = trie_cache_bytes(&layer);
        assert!(bytes <= BUDGET as u64, "{bytes} after dropped block {number}");
    }
}

/// The nodes that a failed read has loaded count as well: the count must not become negative when they are dropped.
#[test]
fn a_read_that_fails_midway_counts_what_it_loaded() {
    let store = Store::memory(MptLayer::TABLES).unwrap();
    let options = MptOptions { cache_bytes: 0, read_ahead: false };
    let layer = MptLayer::open(store.clone(), options).unwrap();
    let write = |number: u64, slots: Vec<(U256, U256)>| {
        let change = AccountChange { slots, ..contract(0) };
        finished(&*layer, number, vec![change]).write(&store).unwrap();
    };
    write(0, (0..400_u64).map(|slot| (U256::from(slot), U256::from(slot + 1))).collect());

    let nibble = |slot: u64| hash_slot(&U256::from(slot)).0[0] >> 4;
    let mut key = hash_address(&address(0)).to_vec();
    key.push(nibble(0));
    let storage = MptLayer::TABLES[1];
    assert!(store.snapshot().get(storage, &key).unwrap().is_some(), "a node below the root");
    set_row(&store, storage, &key, Some(b"damaged"));
    let parent = BlockRef { number: 1, hash: B256::ZERO };
    let session = Session::begin(&*layer, parent);
    let error = session.unwrap().slot(&address(0), &U256::ZERO).unwrap_err();
    assert!(matches!(error, StateError::Corrupt(_)), "{error}");

    let beside = (1..400_u64).find(|slot| nibble(*slot) != nibble(0)).unwrap();
    write(1, vec![(U256::from(beside), U256::ZERO)]);
    let bytes = trie_cache_bytes(&layer);
    assert!(bytes < 1 << 20, "{bytes}");
}

/// A listing fails where a row is missing: slots that it left out would be taken for slots that are not set.
#[test]
fn a_listing_notices_each_missing_row() {
    let store = Store::memory(MptLayer::TABLES).unwrap();
    let layer = MptLayer::open(store.clone(), MptOptions::default()).unwrap();
    let slots = (0..400_u64).map(|n| (U256::from(n), U256::from(n + 1))).collect();
    let change = AccountChange { slots, ..contract(0) };
    finished(&*layer, 0, vec![change]).write(&store).unwrap();
    let all = slots_from(&layer, B256::ZERO).unwrap();
    assert_eq!(all.len(), 400);
    for (n, slot) in all.iter().enumerate() {
        assert_eq!(&slots_from(&layer, *slot).unwrap()[..], &all[n..]);
        let after = U256::from_be_bytes(slot.0).wrapping_add(U256::from(1));
        assert_eq!(&slots_from(&layer, after.into()).unwrap()[..], &all[n + 1..]);
    }

    let storage = MptLayer::TABLES[1];
    let rows = entries(&store, storage, KeyRange::ALL);
    assert!(rows.len() > 20, "{} rows", rows.len());
    // The first row is the root. A trie without it has no slots.
    for (key, value) in &rows[1..] {
        set_row(&store, storage, key, None);
        let error = slots_from(&layer, B256::ZERO).unwrap_err();
        assert!(matches!(error, StateError::Corrupt(_)), "{error}");
        for from in [100, 200, 399] {
            // Rows before the first slot are not read.
            if let Ok(found) = slots_from(&layer, all[from]) {
                assert_eq!(&found[..], &all[from..]);
            }
        }
        set_row(&store, storage, key, Some(value));
    }
}

/// Lists the slots of the first account.
fn slots_from(layer: &MptLayer, from: B256) -> Result<Vec<B256>, StateError> {
    let mut found = Vec::new();
    layer.slots(hash_address(&address(0)), from, &mut |slot, _| {
        found.push(slot);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

/// Fills a store in which `accounts` accounts have a slot each, and opens the layer on it, which keeps nothing in
/// memory.
fn filled(engine: Arc<dyn Engine>, accounts: u64) -> (Store, Arc<MptLayer>) {
    let store = Store::open(engine, MptLayer::TABLES, StoreOptions::default()).unwrap();
    let options = MptOptions { cache_bytes: 0, read_ahead: true };
    let layer = MptLayer::open(store.clone(), options).unwrap();
    finished(&*layer, 0, (0..accounts).map(contract).collect()).write(&store).unwrap();
    store.checkpoint().unwrap();
    (store, layer)
}

/// Creates an account with a slot.
fn contract(n: u64) -> AccountChange {
    AccountChange {
        address: address(n),
        account: Some(Account { nonce: n + 1, ..Account::default() }),
        wiped: false,
        code: None,
        slots: vec![(U256::from(n), U256::from(n + 1))],
    }
}

fn trie_cache_bytes(layer: &MptLayer) -> u64 {
    layer.figures().iter().find(|(name, _)| *name == "trie_cache_bytes").unwrap().1
}

fn address(n: u64) -> Address {
    Address::from_word(U256::from(n + 1).into())
}

#[test]
fn what_a_block_announces_is_read_by_other_threads() {
    let (read_ahead, panics) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
    let (count, panic) = (read_ahead.clone(), panics.clone());
    let engine = BeforeReads::new(MemoryEngine::new(), move || {
        if thread::current().name() == Some("read-ahead") {
            assert!(!panic.load(Ordering::SeqCst), "on purpose");
            count.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    });
    let (store, layer) = filled(Arc::new(engine), 200);
    let parent = BlockRef { number: 1, hash: B256::ZERO };
    let mut session = Session::begin(&*layer, parent).unwrap();
    assert!(session.wants_hints());
    let announce = |session: &mut Session| {
        for n in 0..200 {
            session.hint(Access::Account(address(n)));
            session.hint(Access::SlotRead(address(n), U256::from(n)));
            session.hint(Access::SlotWrite(address(n), U256::from(n)));
        }
    };
    announce(&mut session);
    // Nodes of the account trie that the block before touched are still in memory; the one row of each storage trie
    // is not.
    while read_ahead.load(Ordering::SeqCst) < 200 {
        thread::yield_now();
    }
    for n in 0..200 {
        assert_eq!(session.account(&address(n)).unwrap().unwrap().nonce, n + 1);
        assert_eq!(session.slot(&address(n), &U256::from(n)).unwrap(), U256::from(n + 1));
    }
    // The block reads by itself now, so this hint is ignored.
    session.hint(Access::Account(address(1_000)));
    session.finish().unwrap().outcome.write(&store).unwrap();

    panics.store(true, Ordering::SeqCst);
    // A thread may start only after the end of a block; the next block reports its panic then.
    let error = loop {
        let session = Session::begin(&*layer, BlockRef { number: 2, ..parent });
        let ended = session.and_then(|mut session| {
            announce(&mut session);
            thread::yield_now();
            session.finish()
        });
        if let Err(error) = ended {
            break error;
        }
    };
    assert!(error.to_string().contains("panicked: on purpose"), "{error}");
    let error = layer.begin(parent).unwrap_err();
    assert!(matches!(error, StateError::Poisoned(_)), "{error}");
}
