//! Tests of what the suite cannot see from outside: sweeping, slack, memory, and proofs through all three tries.

mod failures;

use crate::{Boundary, FLAT_SLOTS, LmptLayer, LmptOptions, SWEEP, verify};
use alloy_primitives::{Address, B256, U256};
use polytrie_kv::{KeyRange, MdbxEngine, MdbxOptions, MemoryEngine, Read, Store, StoreOptions};
use polytrie_kv_testing::BeforeReads;
use polytrie_state::{
    Account, AccountChange, BlockRef, Commitment, Horizon, Proof, Prove, Session, StateError,
    StateLayer, TxWrites, hash_address,
};
use polytrie_testing::Seed;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use std::{ops::ControlFlow, sync::Arc, thread, time::Duration};

/// A layer that is driven like the client drives it, with its undo records.
struct Chain {
    store: Store,
    layer: Arc<LmptLayer>,
    options: LmptOptions,
    undo: Vec<Vec<u8>>,
}

impl Chain {
    fn new(options: LmptOptions) -> Self {
        let store = Store::memory(LmptLayer::TABLES).unwrap();
        let layer = LmptLayer::open(store.clone(), options).unwrap();
        Self { store, layer, options, undo: Vec::new() }
    }

    fn number(&self) -> u64 {
        self.undo.len() as u64
    }

    fn run(&mut self, accounts: Vec<AccountChange>) -> Commitment {
        self.try_run(accounts).unwrap()
    }

    fn try_run(&mut self, accounts: Vec<AccountChange>) -> Result<Commitment, StateError> {
        let parent = BlockRef { number: self.number(), hash: B256::ZERO };
        let mut session = Session::begin(&*self.layer, parent)?;
        session.apply(&TxWrites { accounts })?;
        let outcome = session.finish()?.outcome;
        self.undo.push(outcome.undo.clone());
        outcome.write(&self.store)
    }

    fn undo(&mut self) -> Result<Commitment, StateError> {
        self.layer.undo(&self.undo.pop().unwrap())?.write(&self.store)
    }

    fn reopen(&mut self) {
        self.layer = LmptLayer::open(self.store.clone(), self.options).unwrap();
    }

    fn count(&self, table: polytrie_kv::Table) -> usize {
        let mut rows = 0;
        self.store
            .scan(table, KeyRange::ALL, &mut |_, _| {
                rows += 1;
                Ok(ControlFlow::Continue(()))
            })
            .unwrap();
        rows
    }

    fn check(&self) {
        assert_eq!(self.layer.check(&mut |_| {}).unwrap().problems, Vec::<String>::new());
    }
}

/// Largest number of dead slots that one slice removes: so few that contracts are large.
const SWEEP_OF_TESTS: u64 = 16;

fn every(interval: u64) -> LmptOptions {
    LmptOptions { interval, sweep: SWEEP_OF_TESTS, ..LmptOptions::default() }
}

fn address(n: u64) -> Address {
    Address::from_word(B256::from(U256::from(n)))
}

fn write(n: u64, slots: Vec<(U256, U256)>) -> AccountChange {
    let account = Account { nonce: 1, balance: U256::from(n), ..Account::default() };
    AccountChange { address: address(n), account: Some(account), wiped: false, code: None, slots }
}

fn gone(n: u64) -> AccountChange {
    AccountChange { account: None, wiped: true, ..write(n, Vec::new()) }
}

fn numbered(slots: std::ops::Range<u64>, value: u64) -> Vec<(U256, U256)> {
    slots.map(|slot| (U256::from(slot), U256::from(value))).collect()
}

/// The merge of an interval that never ends can be cancelled all the same, whether its slices are far away or very
/// many.
#[test]
fn an_interval_of_any_length_can_be_left() {
    for (interval, blocks) in [(u64::MAX, 3), (1 << 40, 3), (1 << 22, 3)] {
        let mut chain = Chain::new(every(interval));
        while chain.number() < blocks {
            chain.run(vec![write(chain.number(), numbered(0..3, 1))]);
        }
        chain.undo().unwrap();
        chain.reopen();
        chain.run(vec![write(7, Vec::new())]);
    }
}

/// A contract dies that is larger than what one slice sweeps. It is removed block by block, even over restarts, and
/// comes back when the blocks are undone.
#[test]
fn a_large_dead_contract_is_swept_in_portions() {
    for restarts in [false, true] {
        let mut chain = Chain::new(every(4));
        chain.run(vec![write(1, numbered(0..36, 7)), write(2, numbered(0..3, 1))]);
        while chain.number() < 8 {
            chain.run(vec![write(3 + chain.number(), Vec::new())]);
        }
        assert_eq!(chain.count(FLAT_SLOTS), 39);
        chain.run(vec![gone(1)]);
        chain.run(vec![write(1, numbered(5..6, 9))]);
        let mut seen = Vec::new();
        while chain.number() < 24 {
            if restarts {
                chain.reopen();
            }
            let commitment = chain.run(vec![write(3 + chain.number(), Vec::new())]);
            seen.push((commitment, chain.count(FLAT_SLOTS), chain.count(SWEEP)));
            chain.check();
        }
        let largest = seen.windows(2).map(|w| w[0].1.saturating_sub(w[1].1)).max().unwrap();
        assert!((SWEEP_OF_TESTS - 4..=SWEEP_OF_TESTS).contains(&(largest as u64)), "{largest}");
        assert_eq!(seen.last().map(|last| (last.1, last.2)), Some((4, 0)));
        let reader = chain.layer.reader().unwrap();
        assert_eq!(reader.slot(&address(1), &U256::from(5)).unwrap(), U256::from(9));
        assert_eq!(reader.slot(&address(1), &U256::from(6)).unwrap(), U256::ZERO);
        drop(reader);
        for (commitment, slots, queued) in seen.iter().rev().skip(1) {
            assert_eq!(chain.undo().unwrap(), *commitment);
            assert_eq!((chain.count(FLAT_SLOTS), chain.count(SWEEP)), (*slots, *queued));
            chain.check();
        }
    }
}

/// A merge takes over the queue of dead storage from the one before it. To read the queue takes a cluster a request for
/// each partition that ever had a row of it.
#[test]
fn the_queue_of_dead_storage_is_read_once() {
    let mut chain = Chain::new(every(4));
    while chain.number() < 8 {
        chain.run(vec![write(chain.number(), numbered(0..3, 1))]);
    }
    let before = chain.store.counters();
    while chain.number() < 40 {
        chain.run(vec![write(chain.number() % 8, numbered(0..3, chain.number()))]);
    }
    assert_eq!((chain.store.counters() - before).scans, 0);
}

/// Settings on which a commitment depends belong to the state: another sweep makes another commitment, and a state
/// that was made with one sweep is not opened with another.
#[test]
fn what_a_commitment_depends_on_belongs_to_the_data() {
    let run = |sweep| {
        let mut chain = Chain::new(LmptOptions { sweep, ..every(4) });
        chain.run(vec![write(1, numbered(0..36, 7))]);
        while chain.number() < 8 {
            chain.run(Vec::new());
        }
        chain.run(vec![gone(1)]);
        while chain.number() < 16 {
            chain.run(Vec::new());
        }
        chain
    };
    let chain = run(5);
    assert_eq!(chain.layer.commitment(), run(5).layer.commitment());
    assert_ne!(chain.layer.commitment(), run(6).layer.commitment());
    let open = |options| LmptLayer::open(chain.store.clone(), options).map(drop);
    open(chain.options).unwrap();
    for (options, option) in [
        (LmptOptions { sweep: 6, ..chain.options }, "--lmpt.sweep 5"),
        (LmptOptions { interval: 5, ..chain.options }, "--lmpt.interval 4"),
        (LmptOptions { boundary: Boundary::Switch, ..chain.options }, "--lmpt.boundary slices"),
        (LmptOptions { sweep: 0, ..chain.options }, "--lmpt.sweep 0"),
        (LmptOptions { interval: 0, ..chain.options }, "--lmpt.interval 0"),
    ] {
        let error = open(options).unwrap_err().to_string();
        assert!(error.contains(option), "{error}");
    }
}

/// If the snapshot is switched, it changes with the last block of an interval only, and is then the same as with
/// slices.
#[test]
fn a_snapshot_is_switched_at_the_boundary() {
    let switched = LmptOptions { boundary: Boundary::Switch, ..every(4) };
    let (mut switched, mut sliced) = (Chain::new(switched), Chain::new(every(4)));
    let snapshot = |chain: &Chain| B256::from_slice(&chain.layer.commitment().body()[..32]);
    let mut before = snapshot(&switched);
    for n in 0..24 {
        for chain in [&mut switched, &mut sliced] {
            chain.run(vec![write(n % 7, numbered(n..n + 3, n + 1))]);
        }
        let now = snapshot(&switched);
        let is_boundary = switched.number().is_multiple_of(4);
        assert_eq!(
            now != before,
            is_boundary && switched.number() > 4,
            "block {}",
            switched.number()
        );
        if is_boundary {
            assert_eq!(now, snapshot(&sliced));
        }
        before = now;
        switched.check();
    }
    for _ in 0..24 {
        switched.undo().unwrap();
        switched.check();
    }
}

/// While a large dead contract is swept, another one whose hash comes before it joins the queue. Slots of the first
/// that were swept in slices which are computed and not yet written are not swept again, so restarts and undos change
/// nothing.
#[test]
fn dead_contracts_are_swept_in_turn() {
    let mut numbers: Vec<u64> = (1..=4).collect();
    numbers.sort_unstable_by_key(|n| hash_address(&address(*n)));
    let [first, second, small, large] = numbers[..] else { unreachable!() };
    let mut runs = Vec::new();
    for restarts in [false, true] {
        let mut chain = Chain::new(every(4));
        let mut seen = vec![chain.layer.commitment()];
        while chain.number() < 24 {
            let changes = match chain.number() + 1 {
                1 => vec![
                    write(small, numbered(0..3, 1)),
                    write(large, numbered(0..5 * SWEEP_OF_TESTS, 1)),
                ],
                5 => vec![gone(large)],
                9 => vec![gone(small), write(first, Vec::new()), write(second, Vec::new())],
                _ => Vec::new(),
            };
            if restarts {
                chain.reopen();
            } else {
                // The merge gets time to run ahead of the blocks.
                thread::sleep(Duration::from_millis(20));
            }
            seen.push(chain.run(changes));
        }
        assert_eq!((chain.count(FLAT_SLOTS), chain.count(SWEEP)), (0, 0));
        for commitment in seen.iter().rev().skip(1) {
            assert_eq!(chain.undo().unwrap(), *commitment, "back to block {}", chain.number());
            chain.check();
        }
        runs.push(seen);
    }
    assert_eq!(runs[0], runs[1]);
}

/// Contracts grow, die and come back, each larger than what a slice sweeps. A layer with enough time, one whose
/// merges are late, and one that is reopened and undone at any block come to the same commitments.
#[test]
fn commitments_are_those_of_the_blocks_alone() {
    let seed = Seed::or(61);
    let mut rng = ChaCha8Rng::seed_from_u64(seed.value());
    for interval in 1..=6 {
        let late = LmptOptions { merge_pause: Duration::from_micros(300), ..every(interval) };
        let mut calm = Chain::new(every(interval));
        let (mut hurried, mut restless) = (Chain::new(late), Chain::new(every(interval)));
        let mut blocks = Vec::new();
        let mut seen = vec![calm.layer.commitment()];
        for number in 1..=80 {
            let mut changes: Vec<AccountChange> = Vec::new();
            for n in 0..5 {
                let from = rng.random_range(0..60);
                let slots = numbered(from..from + rng.random_range(0..40), rng.random_range(0..3));
                match rng.random_range(0..8) {
                    0 => changes.push(gone(n)),
                    1 => changes.push(AccountChange { wiped: true, ..write(n, slots) }),
                    2..5 => changes.push(write(n, slots)),
                    _ => {}
                }
            }
            thread::sleep(Duration::from_micros(500));
            seen.push(calm.run(changes.clone()));
            blocks.push(changes);
            let context = format!("block {number}, interval {interval}, seed {}", seed.value());
            assert_eq!(hurried.run(blocks[number - 1].clone()), seen[number], "{context}");
            if rng.random_bool(0.2) {
                restless.reopen();
            }
            for _ in 0..rng.random_range(0..8u64).saturating_sub(4).min(restless.number()) {
                let commitment = restless.undo().unwrap_or_else(|e| panic!("{context}: {e}"));
                assert_eq!(commitment, seen[restless.undo.len()], "{context}, on the way back");
            }
            while restless.undo.len() < number {
                let at = restless.undo.len();
                assert_eq!(restless.run(blocks[at].clone()), seen[at + 1], "{context}, again");
            }
        }
        for chain in [&calm, &hurried, &restless] {
            chain.check();
        }
        for table in [FLAT_SLOTS, SWEEP] {
            assert_eq!(calm.count(table), restless.count(table), "seed {}", seed.value());
        }
    }
}

/// Blocks wait for late slices, and both late and early slices are counted. The commitments are the same.
#[test]
fn late_merges_are_waited_for_and_counted() {
    // The first slice of each merge comes after the pause. The later ones need not, because a block that is written
    // ends the pause. So the pause is far longer than this thread mostly waits for the processor between two blocks. It
    // may wait longer once, which gives one merge slack, so the last merge may be a later one.
    let late = LmptOptions { merge_pause: Duration::from_millis(500), ..every(4) };
    let (mut slow, mut fast) = (Chain::new(late), Chain::new(every(4)));
    let mut blocks = 0;
    while blocks < 24 || slow.layer.merge_stats().slack > 0 {
        assert!(blocks < 240, "{:?}", slow.layer.merge_stats());
        for n in blocks..blocks + 4 {
            let block = || vec![write(n % 5, numbered(n..n + 3, n + 1))];
            assert_eq!(slow.run(block()), fast.run(block()));
        }
        blocks += 4;
    }
    let stats = slow.layer.merge_stats();
    assert!(stats.late > 0 && !stats.waited.is_zero(), "{stats:?}");
    for chain in [slow, fast] {
        let stats = chain.layer.merge_stats();
        let schedule = every(4).schedule();
        let slices = (1..=blocks).filter(|n| schedule.slice_of(*n).is_some()).count() as u64;
        assert_eq!((stats.merges, stats.in_time + stats.late), (blocks / 4, slices), "{stats:?}");
    }
}

/// The first blocks find out whether the store is slow. The later ones then announce what they read.
#[test]
fn reads_of_blocks_are_timed() {
    let engine = Arc::new(BeforeReads::slow(MemoryEngine::new()));
    let store = Store::open(engine, LmptLayer::TABLES, StoreOptions::default()).unwrap();
    let layer = LmptLayer::open(store, LmptOptions::default()).unwrap();
    let begin = || Session::begin(&*layer, BlockRef { number: 0, hash: B256::ZERO }).unwrap();
    let mut session = begin();
    assert!(!session.is_slow());
    for n in 0..400_u64 {
        let address = Address::from_word(B256::from(U256::from(n)));
        assert_eq!(session.account(&address).unwrap(), None);
    }
    drop(session);
    assert!(begin().is_slow());
}

/// Memory stays within its budget while a reader keeps the head's versions, as a node's view does.
#[test]
fn memory_stays_within_its_budget_under_a_reader() {
    let budget = 200_000;
    let little = LmptOptions { memory_bytes: budget, ..every(50) };
    let (mut small, mut large) = (Chain::new(little), Chain::new(every(50)));
    let mut reader = small.layer.reader().unwrap();
    for n in 0..120 {
        let block = || vec![write(n, numbered(n * 40..n * 40 + 60, n + 1))];
        assert_eq!(small.run(block()), large.run(block()));
        let last = n.saturating_sub(1);
        let value = if n == 0 { 0 } else { last + 1 };
        let slot = U256::from(last * 40);
        assert_eq!(reader.slot(&address(last), &slot).unwrap(), U256::from(value));
        reader = small.layer.reader().unwrap();
        assert!(small.layer.memory_bytes() <= 2 * budget, "{}", small.layer.memory_bytes());
    }
}

/// Every interval has a trie that does not fit into memory, and readers keep many of them: they share one scratch
/// store, which is empty in the end.
#[test]
fn any_number_of_tries_may_leave_memory() {
    const BLOCKS: u64 = 120;
    let dir = tempfile::tempdir().unwrap();
    let engine = || {
        let options = MdbxOptions::new(dir.path(), LmptLayer::TABLES);
        Arc::new(MdbxEngine::open(options).unwrap())
    };
    let store = Store::open(engine(), LmptLayer::TABLES, StoreOptions::default()).unwrap();
    let options = LmptOptions { memory_bytes: 0, ..every(1) };
    let layer = LmptLayer::open(store.clone(), options).unwrap();
    let mut small = Chain { store, layer, options, undo: Vec::new() };
    let mut large = Chain::new(every(1));
    let mut readers = Vec::new();
    for n in 0..BLOCKS {
        let block = || vec![write(n, numbered(0..9, n + 1)), write(n + 1, numbered(0..1, 7))];
        assert_eq!(small.run(block()), large.run(block()));
        readers.push(small.layer.reader().unwrap());
    }
    let scratch = || {
        let entries = std::fs::read_dir(dir.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("scratch-")).count()
    };
    assert_eq!(scratch(), 1);
    for (n, reader) in (0..).zip(&readers) {
        let found = reader.slot(&address(n), &U256::from(8)).unwrap();
        assert_eq!(found, U256::from(n + 1));
        assert_eq!(reader.account(&address(n + 2)).unwrap(), None);
    }
    while small.number() > BLOCKS / 2 {
        assert_eq!(small.undo().unwrap(), large.undo().unwrap());
    }
    drop((small, readers));
    assert_eq!(scratch(), 0);
}

/// Above its budget a layer spills nodes and keys, and returns the same values and commitments; also after it is
/// reopened.
#[test]
fn memory_stays_within_its_budget() {
    let budget = 200_000;
    let little = LmptOptions { memory_bytes: budget, ..every(50) };
    let (mut small, mut large) = (Chain::new(little), Chain::new(every(50)));
    for n in 0..120 {
        let block = || vec![write(n, numbered(n * 40..n * 40 + 60, n + 1))];
        assert_eq!(small.run(block()), large.run(block()));
        assert!(small.layer.memory_bytes() <= budget, "{}", small.layer.memory_bytes());
    }
    assert!(large.layer.memory_bytes() > 4 * budget, "{}", large.layer.memory_bytes());
    small.reopen();
    assert!(small.layer.memory_bytes() <= budget, "{}", small.layer.memory_bytes());
    let (a, b) = (small.layer.reader().unwrap(), large.layer.reader().unwrap());
    for n in 0..125 {
        assert_eq!(a.account(&address(n)).unwrap(), b.account(&address(n)).unwrap());
        for slot in n * 40..n * 40 + 61 {
            let slot = U256::from(slot);
            let found = a.slot(&address(n), &slot).unwrap();
            assert_eq!(found, b.slot(&address(n), &slot).unwrap());
        }
        let slots = [U256::from(n * 40), U256::from(1)];
        let proofs = [&small, &large].map(|chain| chain.layer.prove(&address(n), &slots).unwrap());
        assert_eq!(proofs[0], proofs[1]);
    }
}

/// Proofs load nodes of tries that have left memory. Without blocks they keep within the budget, too.
#[test]
fn proofs_without_blocks_stay_within_the_budget() {
    let budget = 200_000;
    // The second half of the blocks is in the delta.
    let mut chain = Chain::new(LmptOptions { memory_bytes: budget, ..every(60) });
    let slots = |n: u64| n * 40..n * 40 + 60;
    for n in 0..119 {
        chain.run(vec![write(n, numbered(slots(n), n + 1))]);
    }
    let digest = chain.layer.commitment().digest();
    for n in 0..119 {
        let slots: Vec<U256> = slots(n).map(U256::from).collect();
        let proof = chain.layer.prove(&address(n), &slots).unwrap();
        assert!(verify(digest, &proof).unwrap().slots.iter().all(|(_, v)| *v == U256::from(n + 1)));
        let bytes = chain.layer.memory_bytes();
        assert!(bytes <= budget, "{bytes} after the proof of {n}");
    }
}

/// A proof is of the head, even while a block is finished; while a block is written and not accepted, no proof is
/// made.
#[test]
fn no_proof_is_made_of_rows_that_are_ahead() {
    let mut chain = Chain::new(every(4));
    for n in 0..6 {
        chain.run(vec![write(n, numbered(0..3, n + 1))]);
    }
    let prove = || chain.layer.prove(&address(1), &[U256::from(2)]);
    let holds = || verify(chain.layer.commitment().digest(), &prove().unwrap()).is_ok();
    let parent = BlockRef { number: chain.number(), hash: B256::ZERO };
    let mut session = Session::begin(&*chain.layer, parent).unwrap();
    session.apply(&TxWrites { accounts: vec![write(1, numbered(2..3, 9))] }).unwrap();
    let mut outcome = session.finish().unwrap().outcome;
    assert!(holds());
    chain.store.write(std::mem::take(&mut outcome.batch)).unwrap();
    assert!(matches!(prove(), Err(StateError::Protocol(_))));
    outcome.accept().unwrap();
    assert!(holds());
}

/// A chain waits while a fork is created, but not while the fork replays the journal.
#[test]
fn a_fork_replays_the_journal_when_it_is_used() {
    let mut chain = Chain::new(every(50));
    let mut seen = vec![chain.layer.commitment()];
    for n in 0..20 {
        seen.push(chain.run(vec![write(n, numbered(0..3, n + 1))]));
    }
    let before = chain.store.counters();
    let fork = chain.layer.fork().unwrap();
    assert_eq!(fork.layer.commitment(), seen[20]);
    assert_eq!((chain.store.counters() - before).scans, 0);
    for undo in chain.undo.iter().rev().take(3) {
        fork.undo(undo).unwrap();
    }
    assert_eq!(fork.layer.commitment(), seen[17]);
    assert!((chain.store.counters() - before).scans > 0);
    let proof = fork.layer.proofs().unwrap().prove(&address(1), &[U256::from(2)]).unwrap();
    assert_eq!(verify(seen[17].digest(), &proof).unwrap().slots[0].1, U256::from(2));
    assert_eq!(chain.layer.commitment(), seen[20]);
}

/// Undoing further back than the journal reaches is refused, and the layer remains usable.
#[test]
fn the_journal_is_kept_for_as_long_as_undoing_needs_it() {
    let mut chain = Chain::new(every(3));
    let mut commitments = vec![chain.layer.commitment()];
    for n in 0..40_u64 {
        let undo_from = (n + 2).saturating_sub(10);
        chain.layer.advance(Horizon { durable: n, undo_from });
        commitments.push(chain.run(vec![write(n % 4, numbered(n..n + 2, n + 1))]));
    }
    assert_eq!(chain.count(crate::JOURNAL), 16);
    for _ in 0..10 {
        let commitment = chain.undo().unwrap();
        assert_eq!(commitment, commitments[chain.undo.len()]);
        chain.check();
    }
    for n in 30..40 {
        let again = chain.run(vec![write(n % 4, numbered(n..n + 2, n + 1))]);
        assert_eq!(again, commitments[n as usize + 1]);
    }
    let failed = loop {
        match chain.undo() {
            Ok(commitment) => assert_eq!(commitment, commitments[chain.undo.len()]),
            Err(error) => break error,
        }
    };
    assert!(failed.to_string().contains("the journal has no row of block"), "{failed}");
}

/// Values, tombstones and absence in each of the tries: the proof holds for its commitment alone, and with any byte
/// of it changed it does not hold, or proves the same.
#[test]
fn no_byte_of_a_proof_can_be_changed() {
    let seed = Seed::or(31);
    let mut rng = ChaCha8Rng::seed_from_u64(seed.value());
    let mut chain = Chain::new(every(4));
    let mut last = chain.layer.commitment();
    for n in 0..14 {
        let many = (100..130).map(|account| write(account * 20 + n, Vec::new()));
        let mut block: Vec<_> = many.collect();
        block.push(write(n, numbered(0..8, n + 1)));
        // Slots become tombstones in the delta, above values in the tries below; and an account is removed.
        let old = rng.random_range(0..n + 1);
        if old < n {
            block.push(write(old, vec![(U256::from(n % 8), U256::ZERO)]));
        }
        if n == 12 {
            block.push(gone(50));
            block.push(write(51, Vec::new()));
        }
        if n == 3 {
            block.push(write(50, numbered(0..2, 1)));
        }
        let commitment = chain.run(block);
        let slots = [U256::from(n % 8), U256::from(7), U256::from(99)];
        for account in [n, old, 50, 51, 77_777] {
            let address = address(account);
            let proof = chain.layer.prove(&address, &slots).unwrap();
            let proven = verify(commitment.digest(), &proof).unwrap();
            let reader = chain.layer.reader().unwrap();
            let expected = reader.account(&address).unwrap();
            assert_eq!(proven.exists, expected.is_some(), "seed {}", seed.value());
            assert_eq!(proven.balance, expected.unwrap_or_default().balance);
            for (slot, value) in &proven.slots {
                assert_eq!(*value, reader.slot(&address, slot).unwrap());
            }
            assert!(verify(last.digest(), &proof).is_err(), "a stale proof holds");
            if n >= 11 {
                tamper(&mut rng, commitment.digest(), &proof);
            }
        }
        last = commitment;
    }
}

/// Changes each byte of each node, and each digit of all other fields.
fn tamper(rng: &mut ChaCha8Rng, digest: B256, proof: &Proof) {
    let proven = verify(digest, proof).unwrap();
    let mut places = Vec::new();
    walk(&proof.proof, String::new(), &mut places);
    for place in places {
        let Some(Value::String(text)) = proof.proof.pointer(&place) else { continue };
        let bytes = text.as_bytes();
        for at in 2..bytes.len() {
            let mut changed = bytes.to_vec();
            while changed[at] == bytes[at] {
                changed[at] = b"0123456789abcdef"[rng.random_range(0..16)];
            }
            let mut other = proof.clone();
            let text = String::from_utf8(changed).unwrap();
            *other.proof.pointer_mut(&place).unwrap() = Value::String(text);
            let found = verify(digest, &other);
            // The proof does not cover the question that it answers.
            let answers_another = place == "/address" || place.ends_with("/key");
            assert!(found.is_err() || answers_another, "{place} {at}: {found:?}");
            if let Ok(found) = found {
                assert_ne!(found, proven);
            }
        }
    }
}

fn walk(value: &Value, at: String, places: &mut Vec<String>) {
    match value {
        Value::String(_) => places.push(at),
        Value::Array(items) => {
            for (n, item) in items.iter().enumerate() {
                walk(item, format!("{at}/{n}"), places);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                walk(field, format!("{at}/{name}"), places);
            }
        }
        _ => {}
    }
}

/// The first block after a load may have any parent. One that is begun on another parent and dropped changes nothing.
#[test]
fn a_first_block_may_be_begun_on_any_parent() {
    let run = |dropped: Option<u64>| {
        let mut chain = Chain::new(every(4));
        if let Some(number) = dropped {
            let parent = BlockRef { number, hash: B256::ZERO };
            drop(Session::begin(&*chain.layer, parent).unwrap());
        }
        while chain.number() < 8 {
            chain.run(vec![write(chain.number(), Vec::new())]);
        }
        chain.layer.commitment()
    };
    for parent in 0..8 {
        assert_eq!(run(Some(parent)), run(None), "parent {parent}");
    }
}

/// Before the first block any settings fit, also if all blocks were undone. A stored row with the earlier settings is no
/// damage.
#[test]
fn a_loaded_state_takes_any_interval() {
    let after_six = |loaded_with: u64| {
        let mut chain = Chain::new(every(loaded_with));
        chain.layer.load(&mut std::iter::empty()).unwrap();
        chain.options = every(4);
        chain.reopen();
        chain.check();
        for n in 1..=6 {
            chain.run(vec![write(n, Vec::new())]);
        }
        chain.check();
        let digest = chain.layer.commitment().digest();
        while chain.number() > 0 {
            chain.undo().unwrap();
        }
        chain.options = every(3);
        chain.reopen();
        chain.check();
        digest
    };
    assert_eq!(after_six(5), after_six(4));
}
