//! Nodes that other processes have read save reads of the store, and change nothing else.

#![expect(clippy::unwrap_used, reason = "tests")]

use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_kv::Store;
use polytrie_rain::{RainLayer, RainOptions};
use polytrie_state::{
    Access, Account, AccountChange, BagNode, Bags, BlockRef, GenesisAccount, GenesisSlots, Outcome,
    Session, StateLayer, TxWrites, hash_address, hash_slot,
};
use polytrie_testing::{Block, History, Seed};
use std::{ops::ControlFlow, sync::Arc};

/// Opens a layer that has nothing in memory yet.
fn open(store: &Store) -> Arc<RainLayer> {
    let options = RainOptions { retain: 0, ..RainOptions::default() };
    RainLayer::open(store.clone(), options).unwrap()
}

fn pack(layer: &RainLayer, accesses: &[Access], levels: u8) -> Vec<BagNode> {
    let mut nodes = Vec::new();
    let mut take = |node| {
        nodes.push(node);
        ControlFlow::Continue(())
    };
    layer.pack(accesses, levels, &mut take).unwrap();
    nodes
}

const ACCOUNTS: u64 = 2_000;
/// Number of accounts that the block touches.
const TOUCHED: u64 = 100;

fn address(n: u64) -> Address {
    Address::left_padding_from(&n.to_be_bytes())
}

fn account(nonce: u64) -> Account {
    Account { nonce, ..Account::default() }
}

/// Makes a store of accounts with one slot each.
fn filled() -> Store {
    let store = Store::memory(RainLayer::TABLES).unwrap();
    let mut accounts: Vec<_> = (0..ACCOUNTS).map(|n| (hash_address(&address(n)), n)).collect();
    accounts.sort_unstable();
    let mut accounts = accounts.into_iter().map(|(hash, n)| {
        let slots = GenesisSlots::from(vec![(hash_slot(&U256::ZERO), U256::from(n + 1))]);
        Ok(GenesisAccount { hash, account: account(n + 1), code: None, slots })
    });
    open(&store).load(&mut accounts).unwrap();
    store
}

fn touched() -> Vec<Access> {
    let accesses = |n| [Access::Account(address(n)), Access::SlotRead(address(n), U256::ZERO)];
    (0..TOUCHED).flat_map(accesses).collect()
}

#[test]
fn nodes_of_a_bag_save_reads() {
    let store = filled();
    let bag = pack(&open(&store), &touched(), 0);
    let run = |bag: Vec<BagNode>| {
        let layer = open(&store);
        layer.offer(1, bag);
        let before = store.counters();
        let parent = BlockRef { number: 0, hash: B256::ZERO };
        let mut session = Session::begin(&*layer, parent).unwrap();
        for n in 0..TOUCHED {
            let address = address(n);
            assert_eq!(session.account(&address).unwrap().unwrap().nonce, n + 1);
            assert_eq!(session.slot(&address, &U256::ZERO).unwrap(), U256::from(n + 1));
            let slots = vec![(U256::ZERO, U256::from(7))];
            let account = Some(account(n + 2));
            let change = AccountChange { address, account, wiped: false, code: None, slots };
            session.apply(&TxWrites { accounts: vec![change] }).unwrap();
        }
        let outcome = session.finish().unwrap().outcome;
        let gets = (store.counters() - before).gets;
        let commitment = outcome.commitment.clone();
        outcome.discard().unwrap();
        layer.offer(1, Vec::new());
        (commitment, gets, layer.counts())
    };
    let (expected, plain, _) = run(Vec::new());
    let sent = bag.len() as u64;
    let (found, gets, counts) = run(bag);
    assert_eq!(found, expected);
    assert!(gets < plain / 2, "{gets} of {plain}");
    assert_eq!((counts.bags, counts.late, counts.nodes, counts.refused), (1, 1, sent, 0));
    assert!(counts.used > TOUCHED, "{counts:?}");
}

/// A fork shares the nodes that were sent, and its blocks may be other ones of the same numbers.
#[test]
fn a_block_of_a_fork_ends_no_turn() {
    let store = filled();
    let layer = open(&store);
    let bag = pack(&layer, &touched(), 0);
    let sent = bag.len() as u64;
    let fork = layer.fork().unwrap();
    for number in 0..3 {
        let parent = BlockRef { number, hash: B256::ZERO };
        let outcome = Session::begin(&*fork.layer, parent).unwrap().finish().unwrap().outcome;
        outcome.write(&fork.store).unwrap();
    }
    layer.offer(1, bag);
    let counts = layer.counts();
    assert_eq!((counts.bags, counts.late, counts.nodes), (1, 0, sent));
}

#[test]
fn levels_that_the_receiver_has_are_left_out() {
    let store = filled();
    let all = pack(&open(&store), &touched(), 0);
    let some = pack(&open(&store), &touched(), 2);
    let is_below = |node: &&BagNode| !node.owner.is_empty() || node.path.len() >= 2;
    assert!(some.iter().eq(all.iter().filter(is_below)));
    assert!(some.len() < all.len());
    let mut places: Vec<_> = all.iter().map(|node| (&node.owner, &node.path)).collect();
    places.sort_unstable();
    assert!(places.is_sorted_by(|a, b| a < b), "a node is there twice");
    let mut first = None;
    let mut take = |node: BagNode| {
        assert!(first.replace(node).is_none(), "it was enough");
        ControlFlow::Break(())
    };
    open(&store).pack(&touched(), 0, &mut take).unwrap();
}

fn accesses(block: &Block) -> Vec<Access> {
    let changes = block.txs.iter().flat_map(|tx| &tx.accounts);
    let of_change = |change: &AccountChange| {
        let address = change.address;
        let slots = change.slots.iter().map(move |(slot, _)| Access::SlotWrite(address, *slot));
        [Access::Account(address)].into_iter().chain(slots).collect::<Vec<_>>()
    };
    changes.flat_map(of_change).collect()
}

fn finish(layer: &RainLayer, number: u64, block: &Block) -> Outcome {
    let parent = BlockRef { number, hash: B256::ZERO };
    let mut session = Session::begin(layer, parent).unwrap();
    for tx in &block.txs {
        session.apply(tx).unwrap();
    }
    session.finish().unwrap().outcome
}

/// Damages a node, or gives it another place.
fn spoil(node: &mut BagNode, how: u64) {
    let mut row = node.row.to_vec();
    match how % 5 {
        0 => row.truncate(row.len() / 2),
        1 => node.owner = Bytes::new(),
        2 => node.path = [&node.path[..], &[3]].concat().into(),
        // A branch with nothing at its first nibble: an embedded node of that one byte leaves its RLP as it is.
        3 if row[0] == 0 && (row[2] | row[4]) & 1 == 0 => {
            row[2] |= 1;
            row = [&row[..5], &[1, 0x80], &row[5..]].concat();
        }
        _ => {
            let middle = row.len() / 2;
            row[middle] ^= 1;
        }
    }
    node.row = row.into();
}

/// Bags of an older state, with some nodes damaged, misplaced or replaced.
#[test]
fn nothing_depends_on_what_is_sent() {
    let seed = Seed::or(44);
    let (mut used, mut refused) = (0, 0);
    for history in [History::adversarial(seed.value()), History::random(seed.value(), 60)] {
        let [plain, store] = [(); 2].map(|()| Store::memory(RainLayer::TABLES).unwrap());
        let plain_layer = open(&plain);
        for layer in [&plain_layer, &open(&store)] {
            layer.load(&mut history.genesis().genesis().map(Ok)).unwrap();
        }
        let mut layer = open(&store);
        let mut other = open(&store.fork().unwrap());
        for (number, block) in (0..).zip(&history.blocks) {
            if number % 5 == 0 {
                other = open(&store.fork().unwrap());
            }
            let mut nodes = pack(&other, &accesses(block), 0);
            for (at, node) in (number..).zip(&mut nodes).filter(|(at, _)| at % 3 == 0) {
                spoil(node, at);
            }
            layer.offer(number + 1, nodes);
            let expected = finish(&plain_layer, number, block);
            let found = finish(&layer, number, block);
            assert_eq!(
                found.commitment,
                expected.commitment,
                "{}, seed {}",
                block.label,
                seed.value()
            );
            expected.write(&plain).unwrap();
            found.write(&store).unwrap();
            if number % 2 == 0 {
                let counts = layer.counts();
                (used, refused) = (used + counts.used, refused + counts.refused);
                layer = open(&store);
            }
        }
        let report = open(&store).check(&mut |_| {}).unwrap();
        assert_eq!(report.problems, Vec::<String>::new(), "seed {}", seed.value());
    }
    assert!(used > 0 && refused > 0, "{used} used, {refused} refused");
}
