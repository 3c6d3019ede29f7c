//! Bytes of nodes that stay in memory.

use crate::{
    RainLayer, RainOptions,
    version::{Version, shard_of},
};
use alloy_primitives::{Address, B256, U256};
use polytrie_kv::Store;
use polytrie_state::{
    Account, AccountChange, BlockRef, Commitment, GenesisAccount, GenesisSlots, Session,
    StateLayer, TxWrites, hash_address, hash_slot,
};
use std::sync::Arc;

const ACCOUNTS: u64 = 20_000;
/// Number of accounts that have one slot; the others have none.
const WITH_SLOT: u64 = 2_000;

fn address(n: u64) -> Address {
    Address::left_padding_from(&n.to_be_bytes())
}

fn account(n: u64) -> Account {
    Account { nonce: n + 1, ..Account::default() }
}

fn loaded(cache_bytes: usize) -> (Store, Arc<RainLayer>) {
    let store = Store::memory(RainLayer::TABLES).unwrap();
    let options = RainOptions { retain: 0, cache_bytes, ..RainOptions::default() };
    let layer = RainLayer::open(store.clone(), options).unwrap();
    let mut accounts: Vec<_> = (0..ACCOUNTS).map(|n| (hash_address(&address(n)), n)).collect();
    accounts.sort_unstable();
    let mut accounts = accounts.into_iter().map(|(hash, n)| {
        let slot = (n < WITH_SLOT).then(|| (hash_slot(&U256::ZERO), U256::from(n + 1)));
        let slots = GenesisSlots::from(Vec::from_iter(slot));
        Ok(GenesisAccount { hash, account: account(n), code: None, slots })
    });
    layer.load(&mut accounts).unwrap();
    (store, layer)
}

fn bytes(version: &Version) -> usize {
    version.parts.iter().map(|part| part.bytes()).sum()
}

/// Reads without a block fill no more than the cache.
#[test]
fn reads_without_blocks_stay_within_the_cache() {
    let (_store, layer) = loaded(1 << 20);
    let reader = layer.reader().unwrap();
    for n in 0..ACCOUNTS {
        let found = reader.account(&address(n)).unwrap().unwrap();
        assert_eq!(found.nonce, account(n).nonce);
        assert_eq!(reader.account(&address(n + ACCOUNTS)).unwrap(), None);
        let value = if n < WITH_SLOT { n + 1 } else { 0 };
        assert_eq!(reader.slot(&address(n), &U256::ZERO).unwrap(), U256::from(value));
        assert_eq!(reader.slot(&address(n), &U256::from(1)).unwrap(), U256::ZERO);
        assert_eq!(reader.has_storage(&address(n)).unwrap(), n < WITH_SLOT);
    }
    let kept = bytes(&layer.shared.reader().unwrap().version);
    assert!(kept > 1 << 17 && kept < 2 << 20, "{kept}");
}

/// Runs blocks that change one account each. Returns their commitments and undo records.
fn after_blocks(
    (store, layer): (&Store, &RainLayer),
    from: u64,
    count: u64,
) -> Vec<(Commitment, Vec<u8>)> {
    (from..from + count)
        .map(|number| {
            let parent = BlockRef { number, hash: B256::ZERO };
            let mut session = Session::begin(layer, parent).unwrap();
            let (address, slots) = (address(number % ACCOUNTS), Vec::new());
            let account = Some(account(2 * ACCOUNTS + number));
            let change = AccountChange { address, account, wiped: false, code: None, slots };
            session.apply(&TxWrites { accounts: vec![change] }).unwrap();
            let outcome = session.finish().unwrap().outcome;
            let undo = outcome.undo.clone();
            (outcome.write(store).unwrap(), undo)
        })
        .collect()
}

/// A fork begins with the nodes in memory: it reads no row, and goes back from there. Nodes that it loads count, and
/// leave memory with the next blocks.
#[test]
fn a_fork_shares_what_is_in_memory() {
    const CACHE: usize = 1 << 18;
    let (store, layer) = loaded(CACHE);
    let outcomes = after_blocks((&store, &layer), 0, 300);
    let before = store.counters();
    let fork = layer.fork().unwrap();
    let read = store.counters() - before;
    assert_eq!((read.gets, read.scans), (0, 0));
    for (_, undo) in outcomes[200..].iter().rev() {
        fork.undo(undo).unwrap();
    }
    assert_eq!(fork.layer.commitment(), outcomes[199].0);
    // Far more accounts than there is room for, at a change that the layer itself is far from.
    for n in 0..ACCOUNTS / 4 {
        fork.layer.proofs().unwrap().prove(&address(n), &[]).unwrap();
    }
    drop(fork);
    after_blocks((&store, &layer), 300, 80);
    let kept = bytes(&layer.shared.reader().unwrap().version);
    assert!(kept < 2 * CACHE, "{kept}");
}

/// Bytes measured for a void block count, though all of them are in one shard.
#[test]
fn void_blocks_do_not_fill_memory() {
    const CACHE: usize = 1 << 17;
    let (store, layer) = loaded(CACHE);
    let of_a_shard: Vec<u64> =
        (0..ACCOUNTS).filter(|n| shard_of(&hash_address(&address(*n))) == 3).collect();
    for (number, accounts) in (0..).zip(of_a_shard.chunks(3)) {
        let parent = BlockRef { number, hash: B256::ZERO };
        for is_void in [true, false] {
            let mut session = Session::begin(&*layer, parent).unwrap();
            for n in accounts {
                session.account(&address(*n)).unwrap().unwrap();
            }
            let account = Some(account(number));
            let (address, slots) = (address(of_a_shard[0]), Vec::new());
            let change = AccountChange { address, account, wiped: false, code: None, slots };
            session.apply(&TxWrites { accounts: vec![change] }).unwrap();
            let outcome = session.finish().unwrap().outcome;
            if is_void {
                outcome.discard().unwrap();
            } else {
                outcome.write(&store).unwrap();
            }
        }
        // The layer drops nodes once in 64 blocks.
        let kept = bytes(&layer.shared.reader().unwrap().version);
        assert!(kept < 3 * CACHE / 2, "{kept} after {number} blocks");
    }
}
