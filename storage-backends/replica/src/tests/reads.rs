//! Tests of which part answers reads.

use super::suites::Replica;
use alloy_primitives::{Address, B256, U256};
use polytrie_kv::Store;
use polytrie_state::{Account, AccountChange, BlockRef, Session, StateLayer, TxWrites};
use polytrie_testing::suite::{LayerFactory, finished};

const PARENT: BlockRef = BlockRef { number: 0, hash: B256::ZERO };

/// Runs a block with these changes.
fn run(layer: &dyn StateLayer, store: &Store, accounts: Vec<AccountChange>) {
    finished(layer, PARENT.number, accounts).write(store).expect("accepted");
}

/// Returns the change to an account with this nonce and these slots.
fn change(address: Address, nonce: u64, slots: &[(U256, U256)]) -> AccountChange {
    let account = Some(Account { nonce, ..Account::default() });
    AccountChange { address, account, wiped: false, code: None, slots: slots.to_vec() }
}

/// The tries answer for present and absent keys, as long as the block's writes are not streamed.
#[test]
fn a_small_block_does_not_ask_the_store_for_what_the_tries_know() {
    for workers in [0, 1, 4] {
        let factory = Replica::workers(workers);
        let store = Store::memory(&factory.tables()).expect("a store");
        let layer = factory.open(store.clone()).expect("the layer opens");
        layer.load(&mut std::iter::empty()).expect("nothing loads");
        let [contract, other, nobody] = [1, 2, 3].map(Address::repeat_byte);
        let account = Some(Account { nonce: 1, ..Account::default() });
        let [one, two] = [1, 2].map(U256::from);
        let accounts = vec![change(contract, 1, &[(one, two)]), change(other, 1, &[])];
        run(&*layer, &store, accounts);
        let before = store.counters();
        let mut session = Session::begin(&*layer, PARENT).expect("a block begins");
        for (address, expected) in [(contract, account), (other, account), (nobody, None)] {
            assert_eq!(session.account(&address).expect("a read"), expected);
        }
        for (address, slot, expected) in
            [(contract, one, two), (contract, two, U256::ZERO), (other, one, U256::ZERO)]
        {
            assert_eq!(session.slot(&address, &slot).expect("a read"), expected);
        }
        assert!(session.has_storage(&contract).expect("a read"));
        assert!(!session.has_storage(&other).expect("a read"));
        let after = store.counters();
        assert_eq!((after.gets, after.scans), (before.gets, before.scans), "{workers} workers");
    }
}

/// The tries read what they do not know, and the end of the block does not read it again.
#[test]
fn a_small_block_reads_once_what_it_writes() {
    for workers in [0, 1, 4] {
        let factory = Replica::workers(workers);
        let store = Store::memory(&factory.tables()).expect("a store");
        let layer = factory.open(store.clone()).expect("the layer opens");
        layer.load(&mut std::iter::empty()).expect("nothing loads");
        let (address, [one, two, three]) = (Address::repeat_byte(1), [1, 2, 3].map(U256::from));
        let changes = |nonce, value| vec![change(address, nonce, &[(one, value)])];
        run(&*layer, &store, changes(1, two));
        drop(layer);
        let layer = factory.open(store.clone()).expect("the layer opens again");
        let mut session = Session::begin(&*layer, PARENT).expect("a block begins");
        let before = store.counters().gets;
        assert_eq!(
            session.account(&address).expect("a read").map(|account| account.nonce),
            Some(1)
        );
        assert_eq!(session.slot(&address, &one).expect("a read"), two);
        let read = store.counters().gets;
        assert!(read > before, "nothing was in memory");
        session.apply(&TxWrites { accounts: changes(2, three) }).expect("applied");
        drop(session.finish().expect("the block ends"));
        assert_eq!(store.counters().gets, read, "{workers} workers");
    }
}

/// After a block that hardly writes what it reads, a read is that of one flat row, and the path is read for a write only.
#[test]
fn paths_are_not_read_for_blocks_that_only_read() {
    for workers in [0, 1, 4] {
        let factory = Replica::workers(workers);
        let store = Store::memory(&factory.tables()).expect("a store");
        let layer = factory.open(store.clone()).expect("the layer opens");
        layer.load(&mut std::iter::empty()).expect("nothing loads");
        let address = Address::repeat_byte(1);
        let many: Vec<_> = (0..300).map(|slot| (U256::from(slot), U256::from(7))).collect();
        run(&*layer, &store, vec![change(address, 1, &many)]);
        drop(layer);
        let layer = factory.open(store.clone()).expect("the layer opens again");
        let gets = |slot: u64, expected: u64| {
            let mut session = Session::begin(&*layer, PARENT).expect("a block begins");
            let before = store.counters().gets;
            let found = session.slot(&address, &U256::from(slot)).expect("a read");
            assert_eq!(found, U256::from(expected));
            let gets = store.counters().gets - before;
            (gets, session)
        };
        let (of_path, mut session) = gets(1, 7);
        assert!(of_path > 1, "{of_path} rows of a path");
        for slot in 300..320 {
            assert_eq!(session.slot(&address, &U256::from(slot)).expect("a read"), U256::ZERO);
        }
        session.finish().expect("the block ends").outcome.write(&store).expect("accepted");
        let not_known: Vec<_> = (0..300).filter(|slot| gets(*slot, 7).0 > 0).collect();
        assert!((1..300).contains(&not_known.len()), "{not_known:?}");
        assert!(not_known.iter().all(|slot| gets(*slot, 7).0 == 1));
        run(&*layer, &store, vec![change(address, 1, &[(U256::from(2), U256::from(8))])]);
        assert_eq!(gets(2, 8).0, 0);
    }
}
