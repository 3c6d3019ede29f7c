//! Bytes of nodes that stay in memory, and the calls of the store that bring them there.

use crate::{
    ACCOUNT_NODES, LOG, RainLayer, RainOptions,
    checkpoint::checkpoint,
    meta::read_shard,
    shard::Lost,
    state::read_state,
    touches::{Noted, Source},
    version::{Version, empty_part, shard_of},
};
use alloy_primitives::{Address, B256, U256};
use parking_lot::Mutex;
use polytrie_kv::{KeyRange, KvError, MemoryEngine, Op, Read, Store, StoreOptions, Table, Visit};
use polytrie_kv_testing::{Remote, Requests, set_row};
use polytrie_state::{
    Access, Account, AccountChange, Bags, BlockRef, Commitment, GenesisAccount, GenesisSlots,
    PastWitnesses, Prove, Session, StateError, StateLayer, StateReader, Touched, TxWrites,
    hash_address, hash_slot,
};
use polytrie_testing::suite::finished;
use std::{collections::BTreeSet, sync::Arc, time::Duration};

const ACCOUNTS: u64 = 20_000;
/// Number of accounts that have one slot; the others have none.
const WITH_SLOT: u64 = 2_000;

fn address(n: u64) -> Address {
    Address::left_padding_from(&n.to_be_bytes())
}

fn account(n: u64) -> Account {
    Account { nonce: n + 1, ..Account::default() }
}

fn change(n: u64, account: Account) -> AccountChange {
    let (address, account, slots) = (address(n), Some(account), Vec::new());
    AccountChange { address, account, wiped: false, code: None, slots }
}

fn loaded(cache_bytes: usize) -> (Store, Arc<RainLayer>) {
    let store = Store::memory(RainLayer::TABLES).unwrap();
    (store.clone(), load_into(store, cache_bytes))
}

fn load_into(store: Store, cache_bytes: usize) -> Arc<RainLayer> {
    let options = RainOptions { retain: 0, cache_bytes, ..RainOptions::default() };
    let layer = RainLayer::open(store, options).unwrap();
    let mut accounts: Vec<_> = (0..ACCOUNTS).map(|n| (hash_address(&address(n)), n)).collect();
    accounts.sort_unstable();
    let mut accounts = accounts.into_iter().map(|(hash, n)| {
        let slot = (n < WITH_SLOT).then(|| (hash_slot(&U256::ZERO), U256::from(n + 1)));
        let slots = GenesisSlots::from(Vec::from_iter(slot));
        Ok(GenesisAccount { hash, account: account(n), code: None, slots })
    });
    layer.load(&mut accounts).unwrap();
    layer
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

/// So do proofs, and witnesses of past blocks. Both are equal to those of a layer with room for all nodes.
#[test]
fn proofs_without_blocks_stay_within_the_cache() {
    let layers = [1 << 20, 1 << 30].map(|cache| loaded(cache).1);
    // What a proof loads below the node of a shard that is in memory stays there.
    for layer in &layers {
        let reader = layer.reader().unwrap();
        assert!((0..100).all(|n| reader.account(&address(n)).unwrap().is_some()));
    }
    for from in (0..ACCOUNTS).step_by(400) {
        let some = (from..from + 400).step_by(2);
        let slots = [U256::ZERO, U256::from(1)];
        for n in some.clone() {
            let proof = |layer: &Arc<RainLayer>| layer.prove(&address(n), &slots).unwrap().proof;
            assert_eq!(proof(&layers[0]), proof(&layers[1]));
        }
        let touched: Touched = some
            .step_by(2)
            .map(|n| (hash_address(&address(n)), slots.iter().map(hash_slot).collect()))
            .collect();
        let witness = |layer: &Arc<RainLayer>| layer.past_witness(&[], &touched).unwrap();
        assert_eq!(witness(&layers[0]), witness(&layers[1]));
    }
    let kept = layers.map(|layer| bytes(&layer.shared.reader().unwrap().version));
    assert!(kept[0] > 1 << 17 && 2 * kept[0] < kept[1], "{kept:?}");
}

/// A block may touch far more than there is room for.
#[test]
fn what_is_gathered_stays_within_the_cache() {
    let (_store, layer) = loaded(1 << 20);
    let accesses: Vec<_> = (0..ACCOUNTS).map(|n| Access::Account(address(n))).collect();
    layer.gather(&accesses).unwrap();
    let kept = bytes(&layer.shared.reader().unwrap().version);
    assert!(kept > 1 << 17 && kept < 2 << 20, "{kept}");
}

/// Blocks that are dropped fill no more than twice the cache. It is often full, and each time room is made by visiting
/// all nodes.
#[test]
fn dropped_blocks_stay_within_twice_the_cache() {
    const CACHE: usize = 1 << 19;
    let (_store, layer) = loaded(CACHE);
    for from in (0..ACCOUNTS).step_by(200) {
        let parent = BlockRef { number: 0, hash: B256::ZERO };
        let mut session = Session::begin(&*layer, parent).unwrap();
        assert!((from..from + 200).all(|n| session.account(&address(n)).unwrap().is_some()));
        drop(session);
        let kept = bytes(&layer.shared.reader().unwrap().version);
        assert!(kept < 3 * CACHE, "{kept} after account {from}");
    }
}

/// A shard that exceeds its share drops little of it: what it drops is read again, and the block waits meanwhile. Each
/// block touches one account of each shard, beside that of the block before, so the nodes of a shard are of all ages.
#[test]
fn a_block_drops_a_small_part_of_a_full_cache() {
    /// Number of blocks that fill the cache with their nodes. A shard that is cut to the nodes of the last 256 drops most of them.
    const BLOCKS: usize = 800;
    let mut shards: [Vec<(B256, u64)>; 16] = Default::default();
    for n in 0..ACCOUNTS {
        let hash = hash_address(&address(n));
        shards[shard_of(&hash)].push((hash, n));
    }
    shards.iter_mut().for_each(|shard| shard.sort_unstable());
    let of_all = {
        let (_store, layer) = loaded(1 << 30);
        let reader = layer.reader().unwrap();
        assert!((0..ACCOUNTS).all(|n| reader.account(&address(n)).unwrap().is_some()));
        bytes(&layer.shared.reader().unwrap().version)
    };
    let share = BLOCKS * of_all / ACCOUNTS as usize;
    let cache = 16 * share;
    let (store, layer) = loaded(cache);
    let (mut before, mut full) = (0_usize, 0);
    for number in 0..2 * BLOCKS as u64 {
        let some = shards.iter().map(|shard| shard[number as usize % shard.len()].1);
        let changes = some.map(|n| change(n, account(ACCOUNTS + number))).collect();
        finished(&*layer, number, changes).write(&store).unwrap();
        let kept = bytes(&layer.shared.reader().unwrap().version);
        let dropped = before.saturating_sub(kept);
        assert!(dropped < share / 2, "block {number} dropped {dropped} bytes");
        assert!(kept < cache + cache / 4, "block {number}: {kept}");
        full += usize::from(kept > cache / 4 * 3);
        before = kept;
    }
    assert!(full > BLOCKS / 2, "the cache was full after {full} blocks only");
}

/// A layer that only reads gathers for the blocks of another process, and has none that would make room.
#[test]
fn what_was_gathered_longest_ago_leaves_a_full_cache() {
    const CACHE: usize = 1 << 22;
    let (store, layer) = loaded(CACHE);
    let accesses =
        |from: u64| -> Vec<_> { (from..from + 100).map(|n| Access::Account(address(n))).collect() };
    let reads_of = |work: &dyn Fn()| {
        let before = store.counters();
        work();
        (store.counters() - before).gets
    };
    let mut was_full = false;
    for from in (0..ACCOUNTS).step_by(100) {
        was_full |= layer.shared.source.touches.may_be_full();
        layer.make_room().unwrap();
        let of_each_block = reads_of(&|| layer.gather(&accesses(0)).unwrap());
        assert_eq!(of_each_block > 0, from == 0, "{of_each_block} before {from}");
        layer.gather(&accesses(from)).unwrap();
        let reader = layer.reader().unwrap();
        let left = reads_of(&|| {
            for n in from..from + 100 {
                assert_eq!(reader.account(&address(n)).unwrap().unwrap().nonce, n + 1);
            }
        });
        assert_eq!(left, 0, "{from}");
    }
    let kept = bytes(&layer.shared.reader().unwrap().version);
    assert!(was_full && kept < CACHE + CACHE / 4, "{kept}");
}

/// Blocks make room, so what is read ahead of them is in memory at their turn, however full that is.
#[test]
fn what_an_import_reads_together_is_kept() {
    let engine = Arc::new(Remote(MemoryEngine::new()));
    let store = Store::open(engine, RainLayer::TABLES, StoreOptions::default()).unwrap();
    let layer = load_into(store.clone(), 0);
    let reader: Arc<dyn StateReader> = layer.reader().unwrap();
    let accesses: Vec<_> = (0..300).map(|n| Access::SlotRead(address(n), U256::ZERO)).collect();
    reader.gather(&accesses[..1]).unwrap();
    assert!(reader.gathers() && layer.shared.source.touches.may_be_full());
    reader.gather(&accesses).unwrap();
    let before = store.counters();
    for n in 0..300 {
        assert_eq!(reader.account(&address(n)).unwrap().unwrap().nonce, account(n).nonce);
        assert_eq!(reader.slot(&address(n), &U256::ZERO).unwrap(), U256::from(n + 1));
    }
    assert_eq!((store.counters() - before).gets, 0);
}

/// Runs blocks that change one account each. Returns their commitments and undo records.
fn after_blocks(
    (store, layer): (&Store, &RainLayer),
    from: u64,
    count: u64,
) -> Vec<(Commitment, Vec<u8>)> {
    (from..from + count)
        .map(|number| {
            let change = change(number % ACCOUNTS, account(2 * ACCOUNTS + number));
            let outcome = finished(layer, number, vec![change]);
            let undo = outcome.undo.clone();
            (outcome.write(store).unwrap(), undo)
        })
        .collect()
}

/// A block changes in place what only readers could see that have not read.
#[test]
fn a_reader_holds_its_version_from_its_first_read_on() {
    const BLOCKS: u64 = 8;
    let (store, layer) = loaded(1 << 24);
    let holders = || Arc::strong_count(&layer.shared.reader().unwrap().version);
    let alone = holders();
    let mut readers = Vec::new();
    for number in 0..BLOCKS {
        readers.push(layer.reader().unwrap());
        assert_eq!(holders(), alone, "block {number}");
        after_blocks((&store, &layer), number, 1);
    }
    readers.push(layer.reader().unwrap());
    // Block `n` has changed account `n`.
    let after = |n: u64| account(2 * ACCOUNTS + n).nonce;
    for (number, reader) in (0..=BLOCKS).zip(&readers) {
        for n in 0..BLOCKS {
            let expected = if n < number { after(n) } else { account(n).nonce };
            let found = reader.account(&address(n)).unwrap().unwrap().nonce;
            assert_eq!(found, expected, "account {n} before block {number}");
        }
    }
    assert_eq!(holders(), alone + 1);
}

/// An import asks this of a reader that its threads use some blocks later.
#[test]
fn a_reader_that_was_asked_whether_it_gathers_holds_its_version() {
    let (_store, layer) = loaded(1 << 20);
    let holders = || Arc::strong_count(&layer.shared.reader().unwrap().version);
    let alone = holders();
    let reader = layer.reader().unwrap();
    assert_eq!(holders(), alone);
    assert!(!reader.gathers());
    assert_eq!(holders(), alone + 1);
}

/// A reader that has not read stays at its head, whether a block is accepted, dropped or taken back.
#[test]
fn an_unread_reader_stays_where_it_was_made() {
    let (store, layer) = loaded(1 << 24);
    let first = layer.reader().unwrap();
    let (_, undo) = after_blocks((&store, &layer), 0, 1).remove(0);
    let second = layer.reader().unwrap();
    let parent = BlockRef { number: 1, hash: B256::ZERO };
    drop(Session::begin(&*layer, parent).unwrap().finish().unwrap());
    layer.undo(&undo).unwrap().write(&store).unwrap();
    let third = layer.reader().unwrap();
    let nonces =
        [first, second, third].map(|reader| reader.account(&address(0)).unwrap().unwrap().nonce);
    let (before, after) = (account(0).nonce, account(2 * ACCOUNTS).nonce);
    assert_eq!(nonces, [before, after, before]);
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
            let change = change(of_a_shard[0], account(number));
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

/// A store that notes where requests for a part of the log begin.
struct NotesLog<'s>(&'s Store, Mutex<Vec<Vec<u8>>>);

impl Read for NotesLog<'_> {
    fn get_into(&self, table: Table, key: &[u8], out: &mut Vec<u8>) -> Result<bool, KvError> {
        self.0.get_into(table, key, out)
    }

    fn scan(
        &self,
        table: Table,
        range: KeyRange<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<(), KvError> {
        if table == LOG {
            self.1.lock().push(range.from.to_vec());
        }
        self.0.scan(table, range, visit)
    }
}

#[test]
fn paths_to_many_keys_are_read_in_a_few_calls() {
    let (store, layer) = loaded(1 << 24);
    let (reader, store) = (layer.shared.reader().unwrap(), Requests::new(&store));
    let made = store.made();
    let noted = reader.touches.noting(&store);
    let slots = || BTreeSet::from([hash_slot(&U256::ZERO)]);
    let touched = (0..500).map(|n| (hash_address(&address(n)), slots())).collect();
    reader.version.gather(&noted, &touched).unwrap();
    let (single, many) = (made.single(), made.many());
    assert!(single == 0 && (1..=8).contains(&many), "{single} and {many}");
    for (n, account) in (0..500).map(|n| (n, hash_address(&address(n)))) {
        assert!(reader.version.account(&noted, &account).unwrap().is_some());
        let value = reader.version.slot(&noted, &account, &hash_slot(&U256::ZERO)).unwrap();
        assert_eq!(value, U256::from(n + 1));
    }
    assert_eq!((made.single(), made.many()), (single, many));
    // What was read counts as what fills the memory.
    let least = bytes(&reader.version) / 4;
    let counted: u64 = (0..16).map(|shard| reader.touches.at_most(shard)).sum();
    assert!(counted > least as u64, "{counted} and {least}");
}

#[test]
fn logs_are_replayed_with_a_few_calls_for_each_shard() {
    let (store, layer) = loaded(1 << 24);
    after_blocks((&store, &layer), 0, 60);
    let head = layer.commitment();
    drop(layer);
    let store = Requests::new(&store);
    let state = read_state(&Noted::plain(&store)).unwrap();
    assert_eq!(Commitment::state_root(state.version.root), head);
    // A row for each shard and that of the head come alone.
    let (single, many) = (store.made().single(), store.made().many());
    assert!(single <= 40 && many <= 6 * 16, "{single} and {many}");
}

/// An engine may look at each place in a range that ever had a row, and the log has a row for each change.
#[test]
fn nothing_looks_for_the_log_before_a_checkpoint() {
    let (store, layer) = loaded(1 << 24);
    after_blocks((&store, &layer), 0, 300);
    drop(layer);
    let key = |shard: usize, seq: u64| [&[shard as u8][..], &seq.to_be_bytes()].concat();
    let noting = NotesLog(&store, Mutex::default());
    read_state(&Noted::plain(&noting)).unwrap();
    let mut scanned = noting.1.into_inner();
    scanned.sort_unstable();
    let saved = (0..16).map(|shard| read_shard(&store, shard).unwrap().map_or(0, |(seq, _)| seq));
    let saved: Vec<_> = saved.collect();
    assert!(saved.iter().all(|seq| *seq > 100), "{saved:?}");
    let expected: Vec<_> = (0..).zip(&saved).map(|(shard, seq)| key(shard, seq + 1)).collect();
    assert_eq!(scanned, expected);

    let lost = Lost::default();
    let batch = checkpoint(3, &empty_part(3), (500, 564), &lost, &store).unwrap();
    let removed = batch.ops().filter_map(|(table, op)| match op {
        Op::DeleteRange { from, to } if table == LOG => Some((from.to_vec(), to?.to_vec())),
        _ => None,
    });
    assert_eq!(removed.collect::<Vec<_>>(), [(key(3, 501), key(3, 565))]);
}

/// Where the store is not trusted, an opening compares the nodes that its logs lead to with their hashes.
#[test]
fn an_opening_finds_damaged_nodes() {
    let (store, layer) = loaded(1 << 20);
    after_blocks((&store, &layer), 0, 3);
    drop(layer);
    let hash = hash_address(&address(2));
    let (first, second) = (hash[0] >> 4, hash[0] & 0x0f);
    let beside = store.get(ACCOUNT_NODES, &[first, second ^ 1]).unwrap().unwrap();
    for (row, said) in [(Some(beside), "not what its parent refers to"), (None, "has no node")] {
        set_row(&store, ACCOUNT_NODES, &[first, second], row.as_deref());
        let options = RainOptions { verify: true, ..RainOptions::default() };
        let opened = RainLayer::open(store.clone(), options).unwrap();
        let Err(StateError::Corrupt(reason)) = opened.reader() else { panic!("{said}") };
        assert!(reason.contains(said), "{reason}");
    }
}

/// A store that answers at once.
struct Fast;

impl Read for Fast {
    fn get_into(&self, _: Table, _: &[u8], out: &mut Vec<u8>) -> Result<bool, KvError> {
        out.push(0);
        Ok(true)
    }

    fn scan(&self, _: Table, _: KeyRange<'_>, _: &mut Visit<'_>) -> Result<(), KvError> {
        Ok(())
    }
}

/// A store may be slow only until the system has its rows in memory. While it counts as slow, paths are read as a whole.
#[test]
fn a_store_that_is_fast_again_does_not_count_as_slow() {
    let store = Store::memory(RainLayer::TABLES).unwrap();
    let source = Source::new(store, &RainOptions::default());
    let (noted, readers) = (source.touches.noting(&Fast), &source.touches.readers);
    while !readers.is_slow() {
        readers.took(Duration::from_millis(1), 1);
    }
    assert!((0..1_000_000).any(|_| {
        noted.read_many(ACCOUNT_NODES, &[&[1][..]], true).unwrap();
        !readers.is_slow()
    }));
}
