//! Tests of how a session merges the writes of a block's transactions, case by case.
#![expect(clippy::unwrap_used, reason = "tests")]

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use parking_lot::Mutex;
use polytrie_kv::Store;
use polytrie_state::{
    Access, Account, AccountChange, AccountWrite, BlockRef, Finished, Group, HasStorage, Known,
    LayerSession, Session, SessionCounters, StateError, StateLayer, TxWrites, UndoRecord, Wants,
    WriteSet, hash_address, hash_slot,
};
use polytrie_testing::{AlterSession, AlteredLayer, InSessions, OracleLayer};
use std::{sync::Arc, time::Instant};

const PARENT: BlockRef = BlockRef { number: 0, hash: B256::ZERO };
const ALICE: Address = Address::repeat_byte(0xa1);
const BOB: Address = Address::repeat_byte(0xb0);

/// Opens a layer. At its head Alice has 100 wei and the slots 1 and 2 at 10 and 20; Bob does not exist.
fn layer() -> (Arc<OracleLayer>, Store) {
    let store = Store::memory(OracleLayer::TABLES).unwrap();
    let layer = OracleLayer::open(store.clone()).unwrap();
    run(&layer, &store, vec![alice().slot(1, 10).slot(2, 20).tx()]);
    (layer, store)
}

/// Runs and writes a block; returns its write set and its undo record.
fn run(layer: &Arc<OracleLayer>, store: &Store, txs: Vec<TxWrites>) -> (WriteSet, Vec<u8>) {
    let Finished { outcome, writes, .. } = finish(layer, txs);
    let undo = outcome.undo.clone();
    outcome.write(store).unwrap();
    (writes, undo)
}

fn finish(layer: &Arc<OracleLayer>, txs: Vec<TxWrites>) -> Finished {
    let mut session = Session::begin(&**layer, PARENT).unwrap();
    for tx in &txs {
        session.apply(tx).unwrap();
    }
    session.finish().unwrap()
}

/// Returns the write set of a block on top of [`layer`]'s head.
fn writes(txs: Vec<TxWrites>) -> WriteSet {
    finish(&layer().0, txs).writes
}

struct Change(AccountChange);

fn change(address: Address, balance: Option<u64>) -> Change {
    let account = balance.map(|wei| Account { balance: U256::from(wei), ..Account::default() });
    Change(AccountChange { address, account, wiped: false, code: None, slots: Vec::new() })
}

fn alice() -> Change {
    change(ALICE, Some(100))
}

impl Change {
    fn slot(mut self, slot: u64, value: u64) -> Self {
        self.0.slots.push((U256::from(slot), U256::from(value)));
        self
    }

    fn wiped(mut self) -> Self {
        self.0.wiped = true;
        self
    }

    fn code(mut self, code: &'static [u8]) -> Self {
        let code = Bytes::from_static(code);
        let hash = keccak256(&code);
        self.0.account.as_mut().unwrap().code_hash = hash;
        self.0.code = Some((hash, code));
        self
    }

    fn tx(self) -> TxWrites {
        TxWrites { accounts: vec![self.0] }
    }
}

/// Returns the only account of a write set.
fn only(writes: &WriteSet) -> &AccountWrite {
    let [account] = writes.accounts() else { panic!("expected one account: {writes:?}") };
    account
}

/// Returns the slots of an account write as (slot, before, after), in the order of the slots.
fn slots(write: &AccountWrite) -> Vec<(u64, u64, u64)> {
    let mut slots: Vec<_> = write
        .slots
        .iter()
        .map(|slot| {
            assert_eq!(Some(slot.hash), slot.slot.map(|slot| hash_slot(&slot)));
            (slot.slot.unwrap().to(), slot.before.to(), slot.after.to())
        })
        .collect();
    slots.sort_unstable();
    slots
}

#[test]
fn the_last_writer_wins() {
    let writes = writes(vec![
        change(ALICE, Some(1)).slot(1, 11).slot(3, 30).tx(),
        change(ALICE, Some(2)).slot(1, 12).tx(),
    ]);
    let write = only(&writes);
    assert_eq!(write.hash, hash_address(&ALICE));
    assert_eq!(write.before.unwrap().balance, U256::from(100));
    assert_eq!(write.after.unwrap().balance, U256::from(2));
    assert_eq!(slots(write), [(1, 10, 12), (3, 0, 30)]);
    assert!(!write.wipe);
}

#[test]
fn no_op_writes_do_not_reach_the_layer() {
    let same = alice().slot(1, 10).slot(9, 0).tx();
    let there = change(ALICE, Some(7)).slot(1, 11).slot(2, 0).slot(3, 1).tx();
    let back = alice().slot(1, 10).slot(2, 20).slot(3, 0).tx();
    let absent = change(BOB, None).tx();
    assert!(writes(vec![same, there, back, absent]).is_empty());
}

#[test]
fn an_account_whose_slots_alone_change_is_named() {
    let writes = writes(vec![alice().slot(1, 0).tx()]);
    let write = only(&writes);
    assert_eq!(write.before, write.after);
    assert_eq!(slots(write), [(1, 10, 0)]);
}

#[test]
fn accounts_and_slots_are_sorted_by_hash() {
    let txs = (0..50u8).map(|n| {
        let mut change = change(Address::repeat_byte(n), Some(1));
        for slot in 0..10 {
            change = change.slot(slot, 1);
        }
        change.tx()
    });
    let writes = writes(txs.collect());
    assert_eq!(writes.accounts().len(), 50);
    assert!(writes.accounts().is_sorted_by(|a, b| a.hash < b.hash));
    assert!(writes.accounts().iter().all(|a| a.slots.is_sorted_by(|a, b| a.hash < b.hash)));
    assert_eq!(writes.slot_count(), 500);
}

#[test]
fn a_destroyed_account_is_wiped() {
    let writes = writes(vec![alice().slot(1, 11).tx(), change(ALICE, None).tx()]);
    let write = only(&writes);
    assert!(write.wipe && write.after.is_none() && write.slots.is_empty());
}

#[test]
fn a_recreated_account_is_wiped_and_then_set() {
    for txs in [
        vec![alice().wiped().slot(1, 10).slot(3, 30).slot(4, 0).tx()],
        vec![change(ALICE, None).tx(), alice().slot(1, 10).slot(3, 30).slot(4, 0).tx()],
    ] {
        let writes = writes(txs);
        let write = only(&writes);
        assert!(write.wipe);
        assert_eq!(write.before, write.after);
        // Slot 1 has its old value, but must be set: the wipe removes it. Slot 2 is not listed.
        assert_eq!(slots(write), [(1, 0, 10), (3, 0, 30)]);
    }
}

#[test]
fn only_what_has_slots_is_wiped() {
    let created_and_gone =
        vec![change(BOB, Some(1)).wiped().slot(1, 1).tx(), change(BOB, None).tx()];
    assert!(writes(created_and_gone).is_empty());

    let created = writes(vec![change(BOB, Some(1)).wiped().slot(1, 1).tx()]);
    assert!(!only(&created).wipe);
    assert_eq!(slots(only(&created)), [(1, 0, 1)]);

    let (layer, store) = layer();
    run(&layer, &store, vec![alice().slot(1, 0).slot(2, 0).tx()]);
    let writes = finish(&layer, vec![change(ALICE, None).tx()]).writes;
    assert!(!only(&writes).wipe);
}

#[test]
fn an_empty_account_is_not_an_absent_one() {
    let writes = writes(vec![change(BOB, Some(0)).tx()]);
    let write = only(&writes);
    assert_eq!((write.before, write.after), (None, Some(Account::default())));
}

#[test]
fn new_code_comes_with_the_write_set_once() {
    let writes = writes(vec![
        change(ALICE, Some(1)).code(b"code").tx(),
        change(BOB, Some(1)).code(b"code").tx(),
        change(Address::ZERO, Some(1)).code(b"gone").tx(),
        change(Address::ZERO, None).tx(),
    ]);
    let codes: Vec<_> = writes.codes().iter().map(|(_, code)| code.as_ref()).collect();
    assert_eq!(codes, [b"code"]);
}

#[test]
fn a_block_whose_changes_are_known_has_the_same_write_set() {
    let both =
        [alice().slot(2, 0).tx(), change(BOB, Some(1)).tx()].map(|mut tx| tx.accounts.remove(0));
    for changes in [
        // A slot that changes, one that does not, and one that is not there.
        alice().slot(1, 11).slot(2, 20).slot(3, 0).tx(),
        alice().tx(),
        change(ALICE, Some(5)).code(b"code").tx(),
        change(ALICE, None).tx(),
        change(BOB, Some(1)).slot(1, 1).tx(),
        change(BOB, None).tx(),
        TxWrites { accounts: both.to_vec() },
    ] {
        let (layer, _) = layer();
        let expected = finish(&layer, vec![changes.clone()]).writes;
        let mut session = Session::begin(&*layer, PARENT).unwrap();
        let slots = (1..4_u64)
            .map(U256::from)
            .flat_map(|slot| [ALICE, BOB].map(|address| Access::SlotRead(address, slot)));
        let known = Known::read(&mut session, &slots.collect::<Vec<_>>(), nothing()).unwrap();
        let finished = session.finish_known(&known, &changes).unwrap();
        assert_eq!(*finished.writes, expected);
    }
}

#[test]
fn changes_of_what_is_not_known_are_refused() {
    for changes in [alice().slot(1, 11).tx(), change(BOB, Some(1)).tx()] {
        let (layer, _) = layer();
        let mut session = Session::begin(&*layer, PARENT).unwrap();
        let known = Known::read(&mut session, &[Access::Account(ALICE)], nothing()).unwrap();
        let refused = session.finish_known(&known, &changes);
        assert!(matches!(refused, Err(StateError::Untold)), "{refused:?}");
    }
}

fn nothing() -> HasStorage {
    Box::new(|_: &Address| -> Result<bool, StateError> { panic!("no block asks for slots") })
}

#[test]
fn reads_see_the_block_so_far() {
    let (layer, _) = layer();
    let mut session = Session::begin(&*layer, PARENT).unwrap();
    let (one, two) = (U256::from(1), U256::from(2));
    assert_eq!(session.slot(&ALICE, &one).unwrap(), U256::from(10));
    assert!(session.has_storage(&ALICE).unwrap());

    session.apply(&change(BOB, Some(5)).code(b"code").slot(1, 7).tx()).unwrap();
    assert_eq!(session.account(&BOB).unwrap().unwrap().balance, U256::from(5));
    assert_eq!(session.code(&keccak256(b"code")).unwrap().unwrap().as_ref(), b"code");
    assert_eq!(session.slot(&BOB, &one).unwrap(), U256::from(7));
    assert!(session.has_storage(&BOB).unwrap());

    session.apply(&change(ALICE, None).tx()).unwrap();
    assert_eq!(session.account(&ALICE).unwrap(), None);
    assert_eq!(session.slot(&ALICE, &one).unwrap(), U256::ZERO);
    assert_eq!(session.slot(&ALICE, &two).unwrap(), U256::ZERO);
    assert!(!session.has_storage(&ALICE).unwrap());
}

#[test]
fn roots_between_transactions() {
    let (layer, store) = layer();
    let txs = [
        change(BOB, Some(5)).slot(1, 7).tx(),
        change(ALICE, None).tx(),
        alice().slot(2, 3).tx(),
        change(BOB, None).tx(),
    ];
    let mut session = Session::begin(&*layer, PARENT).unwrap().with_intermediate_roots();
    let mut roots = Vec::new();
    for tx in &txs {
        session.apply(tx).unwrap();
        roots.push(session.state_root_so_far().unwrap().unwrap());
    }
    let finished = session.finish().unwrap();
    assert_eq!(finished.outcome.commitment.digest(), roots[3]);
    drop(finished);

    // Each of these roots is that of a block that ends at its transaction.
    for (n, root) in roots.iter().enumerate() {
        let block = finish(&layer, txs[..=n].to_vec());
        assert_eq!(block.outcome.commitment.digest(), *root, "after transaction {n}");
    }
    drop(store);
}

/// A change that wants writes from the second changed account on, and keeps how many come at a time.
#[derive(Debug, Clone, Default)]
struct Streamed(Arc<Mutex<Vec<usize>>>);

impl AlterSession for Streamed {
    fn wants(&self, _: &dyn LayerSession) -> Wants {
        Wants { writes_from: Some(2), ..Wants::default() }
    }

    fn stream_hashed(
        &mut self,
        _: &mut dyn LayerSession,
        writes: Vec<AccountWrite>,
    ) -> Result<(), StateError> {
        self.0.lock().push(writes.len());
        Ok(())
    }
}

#[test]
fn a_layer_gets_writes_from_the_change_on_that_it_asks_for() {
    let streamed = Streamed::default();
    let layer = AlteredLayer::new(layer().0, InSessions(streamed.clone()));
    let mut session = Session::begin(&layer, PARENT).unwrap();
    for (address, wei) in [(ALICE, 1), (BOB, 1), (BOB, 2)] {
        session.apply(&change(address, Some(wei)).tx()).unwrap();
    }
    // Both writes so far at the second change, and then each change.
    assert_eq!(*streamed.0.lock(), [2, 1]);
}

#[test]
fn roots_that_were_not_announced_are_not_given() {
    let (layer, _) = layer();
    let mut session = Session::begin(&*layer, PARENT).unwrap();
    session.apply(&change(BOB, Some(5)).tx()).unwrap();
    assert_eq!(session.state_root_so_far().unwrap(), None);
}

#[test]
fn an_undo_record_takes_the_block_back() {
    let txs = [
        vec![alice().slot(1, 11).slot(2, 0).slot(3, 30).tx()],
        vec![change(ALICE, None).tx(), change(BOB, Some(1)).slot(1, 1).tx()],
        vec![alice().wiped().slot(2, 20).slot(5, 50).tx()],
        vec![change(BOB, Some(0)).code(b"code").tx()],
        vec![],
    ];
    for txs in txs {
        let (layer, store) = layer();
        let before = layer.state();
        let (writes, undo) = run(&layer, &store, txs);
        let record = UndoRecord::decode(&undo).unwrap();
        assert_eq!(record.encode(), undo);
        let back = record.into_writes();
        assert_eq!(back.accounts().len(), writes.accounts().len());
        for (back, forth) in back.accounts().iter().zip(writes.accounts()) {
            assert_eq!((back.before, back.after), (forth.after, forth.before));
        }
        let mut state = (*layer.state()).clone();
        state.apply_set(&back);
        assert_eq!(state.accounts(), before.accounts());

        let outcome = layer.undo(&undo).unwrap();
        assert!(outcome.undo.is_empty());
        assert_eq!(outcome.commitment.digest(), before.state_root());
    }
}

#[test]
fn what_is_no_undo_record_is_refused() {
    for bytes in [&[][..], &[0x80], &[0xc1], &[0xc1, 0xc0, 0x00], &[0xff; 40]] {
        assert!(UndoRecord::decode(bytes).is_err(), "{bytes:?}");
    }
    let (layer, _) = layer();
    let record = finish(&layer, vec![alice().slot(1, 11).tx()]).outcome.undo;
    for length in 0..record.len() {
        assert!(
            UndoRecord::decode(&record[..length]).is_err(),
            "{length} bytes of {}",
            record.len()
        );
    }
}

/// Writes of slots that the block has not read look for what was there. These reads were in two of the times, which were
/// longer together than the block.
#[test]
fn a_read_is_in_one_time_only() {
    let (layer, _store) = layer();
    let mut session = Session::begin(&*layer, PARENT).unwrap();
    let write = |slots: std::ops::Range<u64>| slots.fold(alice(), |tx, slot| tx.slot(slot, 1)).tx();
    let [first, second] = [write(0..1_000), write(1_000..2_000)];
    let start = Instant::now();
    session.apply(&first).unwrap();
    let whole = start.elapsed();
    let SessionCounters { accounts_read, slots_read, applied, .. } = session.counters();
    assert_eq!([accounts_read, slots_read, applied].map(|count| count.timed), [1, 1_000, 1]);
    let parts = accounts_read.time() + slots_read.time() + applied.time();
    assert!(parts <= whole, "{parts:?} of {whole:?}");
    // The second transaction is not in the sample, nor are its reads.
    session.apply(&second).unwrap();
    let SessionCounters { slots_read, applied, .. } = session.counters();
    assert_eq!(
        [slots_read, applied].map(|count| (count.calls, count.timed)),
        [(2_000, 1_000), (2, 1)]
    );
}

#[test]
fn reads_take_no_longer_than_all() {
    let (layer, _store) = layer();
    let mut session = Session::begin(&*layer, PARENT).unwrap();
    for slot in 0..1_000 {
        session.slot(&ALICE, &U256::from(slot)).unwrap();
    }
    // The estimate is far above the time since now.
    let start = Instant::now();
    let (reads, rest) = session.reads_and_rest(start);
    assert!(reads + rest <= start.elapsed(), "{reads:?} and {rest:?}");
}

/// A change that keeps which accounts are announced to the layer.
#[derive(Debug, Clone, Default)]
struct Announced(Arc<Mutex<Vec<B256>>>);

impl AlterSession for Announced {
    fn expect(&mut self, _: &mut dyn LayerSession, accounts: &[B256]) {
        self.0.lock().extend(accounts);
    }
}

#[test]
fn the_layer_gets_the_hashes_of_named_accounts_once() {
    let (layer, store) = layer();
    let announced = Announced::default();
    let layer = Arc::new(AlteredLayer::new(layer, InSessions(announced.clone())));
    let alone = Session::begin(&*layer, PARENT).unwrap();
    let check = |mut session: Session| {
        session.expect([ALICE, BOB, ALICE].into_iter());
        let expected = [ALICE, BOB].map(|address| hash_address(&address));
        assert_eq!(std::mem::take(&mut *announced.0.lock()), expected);
    };
    check(alone);
    let group = Group::begin(layer, store, PARENT).unwrap();
    check(group.session());
}

#[test]
fn the_layer_gets_the_hashes_of_accounts_that_are_read_together() {
    let announced = Announced::default();
    let layer = AlteredLayer::new(layer().0, InSessions(announced.clone()));
    let mut session = Session::begin(&layer, PARENT).unwrap();
    let slot = Access::SlotRead(ALICE, U256::from(1));
    let accesses = [Access::Account(ALICE), slot, Access::Account(BOB)];
    let known = Known::read(&mut session, &accesses, nothing()).unwrap();
    assert!(known.account(&ALICE).unwrap().is_some());
    assert_eq!(*announced.0.lock(), [ALICE, BOB].map(|address| hash_address(&address)));
}
