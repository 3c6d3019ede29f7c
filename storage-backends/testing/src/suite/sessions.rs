//! Tests of single blocks: reads, write sets, and discarding a block without effect.

use super::{
    Driver, Ground, LayerFactory, STORE_IN_STEP,
    compare::{assert_rows, assert_state},
};
use crate::{Block, History, Oracle, Seed};
use alloy_primitives::{B256, U256};
use polytrie_kv::StoreOptions;
use polytrie_state::{
    Access, AccountChange, BlockRef, CommitmentKind, Finished, FinishedLater, Known, Outcome,
    Session, StateError, StateLayer, TxWrites, WriteSet, hash_address,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::{
    collections::BTreeSet,
    iter,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

/// Runs `step` for each block of a history, with the states before and after it.
fn each_block(
    factory: &dyn LayerFactory,
    history: &History,
    mut step: impl FnMut(&mut Driver<'_>, &Block, &Oracle, &Oracle) -> Result<(), StateError>,
) {
    let mut driver = Driver::in_memory(factory, history.genesis());
    for (n, block) in history.blocks.iter().enumerate() {
        let (parent, state) = (&history.states[n], &history.states[n + 1]);
        step(&mut driver, block, parent, state).unwrap_or_else(|e| {
            panic!("block {} ({}), seed {}: {e}", n + 1, block.label, history.seed)
        });
    }
}

/// Checks that reads within a block see its earlier transactions, and that roots between transactions, for layers
/// that have them, are the oracle's.
pub fn sessions_see_their_own_writes(factory: &dyn LayerFactory) {
    let seed = Seed::or(4);
    let history = History::adversarial(seed.value());
    each_block(factory, &history, |driver, block, parent, _| {
        let mut now = parent.clone();
        let mut session = driver.begin()?.with_intermediate_roots();
        // Many addresses come more than once.
        let changes = block.txs.iter().flat_map(|tx| &tx.accounts);
        session.expect(changes.map(|change| change.address));
        for tx in &block.txs {
            session.apply(tx)?;
            now.apply(tx);
            for change in block.txs.iter().flat_map(|tx| &tx.accounts) {
                let address = &change.address;
                let account = session.account(address)?;
                assert_eq!(account, now.account(address), "{}: {address}", block.label);
                for (slot, _) in &change.slots {
                    let value = session.slot(address, slot)?;
                    assert_eq!(value, now.slot(address, slot), "{}: {slot}", block.label);
                }
                if let Some(account) = account.filter(|account| account.has_code()) {
                    let code = session.code(&account.code_hash)?;
                    assert_eq!(code.as_ref(), now.codes().get(&account.code_hash));
                }
            }
            if let Some(root) = session.state_root_so_far()? {
                assert_eq!(factory.kind(), CommitmentKind::StateRoot);
                assert_eq!(root, now.state_root(), "{}: a root within the block", block.label);
            }
        }
        // After the last root, like a block reward, a transaction restores some values of before the block.
        if let Some(back) = back_to(parent, block) {
            session.apply(&back)?;
            now.apply(&back);
        }
        let finished = session.finish()?;
        driver.commit(finished)?;
        assert_state(driver, &now, &block.label);
        // The driver continues with the history.
        driver.undo()?;
        driver.run(block).map(drop)
    });
}

/// Returns a transaction that reverts the block's changes to the first account that existed before it.
fn back_to(parent: &Oracle, block: &Block) -> Option<TxWrites> {
    let mut changes = block.txs.iter().flat_map(|tx| &tx.accounts);
    let address = changes.find(|change| parent.account(&change.address).is_some())?.address;
    let slots: BTreeSet<U256> = block
        .txs
        .iter()
        .flat_map(|tx| &tx.accounts)
        .filter(|change| change.address == address)
        .flat_map(|change| change.slots.iter().map(|(slot, _)| *slot))
        .collect();
    let account = parent.account(&address);
    let slots = slots.into_iter().map(|slot| (slot, parent.slot(&address, &slot))).collect();
    let change = AccountChange { address, account, wiped: false, code: None, slots };
    Some(TxWrites { accounts: vec![change] })
}

/// Checks that the write set passed to the layer is sorted, free of repetitions and no-ops, and leads from the parent
/// to the state; and that a block that ends with these changes, known beforehand, is the same block.
pub fn write_sets_are_minimal(factory: &dyn LayerFactory) {
    let seed = Seed::or(5);
    let history = History::adversarial(seed.value());
    each_block(factory, &history, |driver, block, parent, state| {
        let finished = finish(driver.begin()?, &block.txs)?;
        assert_minimal(&finished.writes, parent, &block.label);
        let mut next = parent.clone();
        next.apply_set(&finished.writes);
        assert_eq!(next.accounts(), state.accounts(), "{}", block.label);
        if parent.accounts() == state.accounts() {
            assert_eq!(finished.writes.accounts().len(), 0, "{}", block.label);
        }
        let Finished { outcome, writes, .. } = finished;
        let digest = outcome.commitment.digest();
        outcome.discard()?;
        let finished = finish_known(driver.begin()?, &writes)?;
        assert_eq!(finished.writes, writes, "{}: known beforehand", block.label);
        let commitment = driver.commit(finished)?;
        assert_eq!(commitment.digest(), digest, "{}: known beforehand", block.label);
        Ok(())
    });
}

/// Ends a block with changes that are known beforehand.
fn finish_known(mut session: Session, writes: &WriteSet) -> Result<Finished, StateError> {
    let changes = TxWrites { accounts: writes.changes().collect() };
    let accesses = changes.accounts.iter().flat_map(|change| {
        let slots = change.slots.iter();
        let slots = slots.map(move |(slot, _)| Access::SlotWrite(change.address, *slot));
        iter::once(Access::Account(change.address)).chain(slots)
    });
    let accesses: Vec<_> = accesses.collect();
    let known = Known::read(&mut session, &accesses, Box::new(|_| Ok(false)))?;
    let FinishedLater { outcome, writes, counters } = session.finish_known(&known, &changes)?;
    Ok(Finished { outcome: outcome.resolve()?, writes: Arc::unwrap_or_clone(writes), counters })
}

fn assert_minimal(writes: &WriteSet, parent: &Oracle, context: &str) {
    assert!(writes.accounts().is_sorted_by(|a, b| a.hash < b.hash), "{context}: order");
    for write in writes.accounts() {
        let before = parent.accounts().get(&write.hash);
        assert_eq!(write.address.map(|a| hash_address(&a)), Some(write.hash), "{context}");
        assert_eq!(write.before, before.map(|entry| entry.account), "{context}: before");
        let changes = write.before != write.after || write.wipe || !write.slots.is_empty();
        assert!(changes, "{context}: {} is named for nothing", write.hash);
        if write.wipe {
            let had_slots = before.is_some_and(|entry| !entry.slots.is_empty());
            assert!(had_slots, "{context}: {} is wiped without need", write.hash);
        }
        assert!(write.slots.is_sorted_by(|a, b| a.hash < b.hash), "{context}: order of slots");
        for slot in &write.slots {
            let now = parent.slot_by_hash(&write.hash, &slot.hash);
            assert_eq!(slot.before, if write.wipe { U256::ZERO } else { now }, "{context}");
            assert_ne!(slot.before, slot.after, "{context}: a slot is named for nothing");
        }
        if write.after.is_none() {
            assert!(write.slots.is_empty(), "{context}: slots of an account that is gone");
        }
    }
}

/// Checks that a dropped session and a finished but dropped block have no effect, however far the layer has come with their
/// hints, writes and roots, and that the right block then gives the right commitment.
pub fn discarded_blocks_leave_nothing(factory: &dyn LayerFactory) {
    let seed = Seed::or(6);
    let history = History::random(seed.value(), 25);
    let wrong = History::random(seed.value() ^ 0xffff, 25);
    let mut straight = Driver::in_memory(factory, history.genesis());
    let mut turn = 0;
    each_block(factory, &history, |driver, block, parent, state| {
        let rows = driver.rows()?;
        turn += 1;
        let others = wrong.blocks[turn - 1..].iter().zip(&wrong.states[turn..]);
        for (n, (other, after)) in others.take(3).enumerate() {
            let txs = with_codes(&other.txs, after);
            let mut session = driver.begin()?;
            if turn % 2 == 0 {
                session = session.with_intermediate_roots();
            }
            // More hints than are read before the block ends.
            for change in txs.iter().chain(&txs).flat_map(|tx| &tx.accounts) {
                session.hint(Access::Account(change.address));
                change.slots.iter().for_each(|(slot, _)| {
                    session.hint(Access::SlotWrite(change.address, *slot));
                });
            }
            for tx in &txs {
                session.apply(tx)?;
                session.state_root_so_far()?;
            }
            match n {
                0 => drop(session),
                1 => drop(session.finish()?),
                _ => drop(session.finish_later()?),
            }
            assert_state(driver, parent, &block.label);
        }
        assert_rows(&driver.rows()?, &rows, &block.label);
        let found = driver.run(block)?;
        assert_eq!(found, straight.run(block)?, "{}", block.label);
        assert_state(driver, state, &block.label);
        assert_rows(&driver.rows()?, &straight.rows()?, &block.label);
        Ok(())
    });
    // The right blocks, each of them twice.
    let history = History::adversarial(seed.value());
    let mut straight = Driver::in_memory(factory, history.genesis());
    each_block(factory, &history, |driver, block, _, state| {
        finish(driver.begin()?, &block.txs)?.outcome.discard()?;
        let found = driver.run(block)?;
        assert_eq!(found, straight.run(block)?, "{}", block.label);
        assert_state(driver, state, &block.label);
        assert_rows(&driver.rows()?, &straight.rows()?, &block.label);
        Ok(())
    });
}

/// Returns writes adapted to another state: with the code that their own state has and this one may not have.
fn with_codes(txs: &[TxWrites], state: &Oracle) -> Vec<TxWrites> {
    let mut txs = txs.to_vec();
    for change in txs.iter_mut().flat_map(|tx| &mut tx.accounts) {
        if let (None, Some(account)) = (&change.code, change.account) {
            let code = state.codes().get(&account.code_hash).cloned();
            change.code = code.map(|code| (account.code_hash, code));
        }
    }
    txs
}

/// Checks that the division of writes into transactions makes no difference.
pub fn splitting_transactions_changes_nothing(factory: &dyn LayerFactory) {
    let seed = Seed::or(7);
    let history = History::adversarial(seed.value());
    let mut other = Driver::in_memory(factory, history.genesis());
    each_block(factory, &history, |driver, block, _, _| {
        let whole = finish(driver.begin()?, &block.txs)?;
        let pieces: Vec<TxWrites> = block.txs.iter().flat_map(split).collect();
        let split = finish(other.begin()?, &pieces)?;
        assert_eq!(whole.writes, split.writes, "{}", block.label);
        let (whole, split) = (driver.commit(whole)?, other.commit(split)?);
        assert_eq!(whole, split, "{}", block.label);
        Ok(())
    });
}

/// Splits a transaction into one for each account and one for each of its slots.
fn split(tx: &TxWrites) -> Vec<TxWrites> {
    let mut pieces = Vec::new();
    for change in &tx.accounts {
        let mut first = change.clone();
        let slots = std::mem::take(&mut first.slots);
        let mut later = first.clone();
        later.wiped = false;
        pieces.push(TxWrites { accounts: vec![first] });
        for slot in slots {
            let mut piece = later.clone();
            piece.slots.push(slot);
            pieces.push(TxWrites { accounts: vec![piece] });
        }
    }
    pieces
}

/// Checks that hints change nothing, whether right, wrong, late or repeated.
pub fn hints_change_nothing(factory: &dyn LayerFactory) {
    let seed = Seed::or(8);
    let mut rng = ChaCha8Rng::seed_from_u64(seed.value());
    let history = History::random(seed.value(), 40);
    let (addresses, slots) = (history.addresses(), history.slots());
    let mut quiet = Driver::in_memory(factory, history.genesis());
    each_block(factory, &history, |driver, block, _, _| {
        let mut session = driver.begin()?;
        if rng.random_bool(0.5) {
            // Same as in a block with many transactions, before the first of them.
            for _ in 0..8 {
                addresses.iter().for_each(|address| session.hint(Access::Account(*address)));
            }
            slots.iter().for_each(|(owner, slot)| session.hint(Access::SlotRead(*owner, *slot)));
        }
        for tx in &block.txs {
            for change in &tx.accounts {
                session.hint(Access::Account(change.address));
                for (slot, _) in change.slots.iter().filter(|_| rng.random_bool(0.7)) {
                    session.hint(Access::SlotRead(change.address, *slot));
                    session.hint(Access::SlotWrite(change.address, *slot));
                }
            }
            for _ in 0..rng.random_range(0..20) {
                let address = addresses[rng.random_range(0..addresses.len())];
                let (owner, slot) = slots[rng.random_range(0..slots.len())];
                session.hint(Access::Account(address));
                session.hint(Access::SlotRead(address, slot));
                session.hint(Access::SlotWrite(owner, slot));
            }
            session.apply(tx)?;
        }
        let finished = session.finish()?;
        assert_eq!(driver.commit(finished)?, quiet.run(block)?, "{}", block.label);
        assert_rows(&driver.rows()?, &quiet.rows()?, &block.label);
        Ok(())
    });
}

/// Checks that starting a second block, or undoing one while another is in progress, is refused as a mistake of the
/// caller. The layer must return an error instead of waiting for a call that cannot come.
pub fn calls_out_of_order_are_refused(factory: &dyn LayerFactory) {
    let seed = Seed::or(9);
    let history = History::random(seed.value(), 3);
    let mut last_record = None;
    each_block(factory, &history, |driver, block, parent, state| {
        let layer = driver.layer().clone();
        let session = driver.begin()?;
        refused("begin twice", &layer, begin);
        if let Some(record) = last_record.take() {
            let record: Vec<u8> = record;
            refused("undo within a block", &layer, move |layer| layer.undo(&record).map(drop));
        }
        let finished = finish(session, &block.txs)?;
        refused("begin before accept", &layer, begin);
        let record = finished.outcome.undo.clone();
        last_record = Some(record.clone());
        refused("undo before accept", &layer, move |layer| layer.undo(&record).map(drop));
        drop(finished);
        assert_state(driver, parent, &block.label);
        // A session may also be dropped on another thread.
        let held = driver.begin()?;
        let dropped = in_time("a block is dropped", &layer, move |_| {
            drop(held);
            Ok(())
        });
        dropped?;
        drop(driver.begin()?);
        assert_state(driver, parent, &block.label);
        driver.run(block)?;
        assert_state(driver, state, &block.label);
        Ok(())
    });
}

fn begin(layer: &dyn StateLayer) -> Result<(), StateError> {
    layer.begin(BlockRef { number: 0, hash: B256::ZERO }).map(drop)
}

fn refused(
    what: &str,
    layer: &Arc<dyn StateLayer>,
    call: impl FnOnce(&dyn StateLayer) -> Result<(), StateError> + Send + 'static,
) {
    let found = in_time(what, layer, call);
    assert!(matches!(found, Err(StateError::Protocol(_))), "{what}: {found:?}");
}

/// Calls the layer from another thread, so that a call that never returns fails the test instead of blocking it.
fn in_time(
    what: &str,
    layer: &Arc<dyn StateLayer>,
    call: impl FnOnce(&dyn StateLayer) -> Result<(), StateError> + Send + 'static,
) -> Result<(), StateError> {
    let (sender, receiver) = mpsc::channel();
    let layer = layer.clone();
    thread::spawn(move || sender.send(call(&*layer)));
    receiver
        .recv_timeout(Duration::from_secs(600))
        .unwrap_or_else(|e| panic!("{what}: the call panicked or does not return ({e})"))
}

/// Ends a block on top of the one with this number, in which one transaction makes these changes. The block is neither
/// written nor accepted.
///
/// # Panics
///
/// If the layer fails.
pub fn finished(layer: &dyn StateLayer, number: u64, accounts: Vec<AccountChange>) -> Outcome {
    let parent = BlockRef { number, hash: B256::ZERO };
    let session = Session::begin(layer, parent).expect("a block begins");
    finish(session, &[TxWrites { accounts }]).expect("the block ends").outcome
}

pub(super) fn finish(mut session: Session, txs: &[TxWrites]) -> Result<Finished, StateError> {
    for tx in txs {
        session.apply(tx)?;
    }
    session.finish()
}

/// Checks that a layer whose store counts as slow wants hints, and reads on other threads what a block announces before
/// the block asks for it.
pub fn announced_state_is_read_ahead(factory: &dyn LayerFactory) {
    let history = History::with_genesis_of(Seed::or(21).value(), 200);
    let options = StoreOptions { counters: true, ..STORE_IN_STEP };
    let driver = Driver::open(factory, &Ground::of(factory), &options);
    let mut driver = driver.unwrap_or_else(|e| panic!("the layer cannot be opened: {e}"));
    driver.load(history.genesis()).unwrap_or_else(|e| panic!("it cannot be filled: {e}"));
    let mut session = driver.begin().unwrap_or_else(|e| panic!("a block cannot begin: {e}"));
    assert!(session.wants_hints() && session.is_slow(), "the store counts as slow");
    let accounts = || history.genesis.accounts.iter().take(100);
    let gets = || driver.store().counters().gets;
    let before = gets();
    for change in accounts() {
        session.hint(Access::Account(change.address));
        for (slot, _) in change.slots.iter().take(3) {
            session.hint(Access::SlotRead(change.address, *slot));
        }
    }
    let asked = accounts().count() as u64;
    while gets() < before + asked {
        thread::yield_now();
    }
    for change in accounts() {
        let found = session.account(&change.address);
        let found = found.unwrap_or_else(|e| panic!("an account cannot be read: {e}"));
        assert_eq!(found, history.genesis().account(&change.address), "{}", change.address);
    }
    // The block reads by itself now, so this hint is ignored.
    session.hint(Access::Account(Default::default()));
    let counters = session.counters();
    // One of them waited for what the others found read: no sample would tell how long all took.
    for count in [counters.accounts_read, counters.hints] {
        assert!(count.calls > 0 && count.timed == count.calls, "{count:?}");
    }
    session.finish().unwrap_or_else(|e| panic!("the block cannot end: {e}"));
}
