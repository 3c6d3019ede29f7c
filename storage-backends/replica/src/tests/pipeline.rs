//! Tests of blocks on top of blocks whose root is not known yet.

use super::{Trouble, suites::Replica};
use crate::ReplicaOptions;
use alloy_primitives::{Address, B256};
use polytrie_kv::Store;
use polytrie_state::{
    Account, AccountChange, BlockRef, Commitment, PendingOutcome, Session, StateError, StateLayer,
    TxWrites, UndoRecord,
};
use polytrie_testing::{
    Block, History, Oracle, Seed,
    suite::{Driver, LayerFactory, dump},
};
use std::{collections::VecDeque, sync::Arc};

const PARENT: BlockRef = BlockRef { number: 0, hash: B256::ZERO };

struct Run {
    store: Store,
    layer: Arc<dyn StateLayer>,
    waiting: VecDeque<Box<dyn PendingOutcome>>,
    undo: Vec<Vec<u8>>,
}

impl Run {
    fn new(options: ReplicaOptions, genesis: &Oracle) -> Self {
        let factory = Replica(options);
        let store = Store::memory(&factory.tables()).expect("a store");
        let layer = factory.open(store.clone()).expect("the layer opens");
        layer.load(&mut genesis.genesis().map(Ok)).expect("a genesis loads");
        Self { store, layer, waiting: VecDeque::new(), undo: Vec::new() }
    }

    fn settle(&mut self) -> Result<Commitment, StateError> {
        let outcome = self.waiting.pop_front().expect("a block waits").resolve()?;
        self.undo.push(outcome.undo.clone());
        outcome.write(&self.store)
    }

    fn execute(&mut self, block: &Block, parent: &Oracle) -> Result<(), StateError> {
        let mut session = Session::begin(&*self.layer, PARENT)?;
        for change in block.txs.iter().flat_map(|tx| &tx.accounts) {
            let storage = session.has_storage(&change.address)?;
            assert_eq!(storage, parent.has_storage(&change.address), "{}", block.label);
        }
        let mut now = parent.clone();
        for tx in &block.txs {
            for change in &tx.accounts {
                let address = &change.address;
                assert_eq!(session.account(address)?, now.account(address), "{}", block.label);
                for (slot, _) in &change.slots {
                    let value = session.slot(address, slot)?;
                    assert_eq!(value, now.slot(address, slot), "{}", block.label);
                }
            }
            session.apply(tx)?;
            now.apply(tx);
        }
        self.waiting.push_back(session.finish_later()?.outcome);
        Ok(())
    }
}

/// Reads see waiting blocks; roots, rows and undo records are those of a layer that takes one block at a time.
#[test]
fn blocks_follow_on_blocks_that_wait() {
    let seed = Seed::or(41);
    // The second history empties an account and touches it again while the first of these blocks waits.
    for seed in [seed.value(), seed.value() + 62] {
        follow(&History::adversarial(seed));
    }
}

fn follow(history: &History) {
    for (workers, depth) in [(1, 1), (1, 3), (4, 2), (0, 2)] {
        for trouble in [None, Some(Trouble::new(7, 400, 30, true))] {
            let options =
                ReplicaOptions { workers, depth, trouble, cache_bytes: 0, ..Replica::default().0 };
            let mut run = Run::new(options.clone(), history.genesis());
            let plain = Replica(ReplicaOptions { depth: 0, ..options });
            let mut straight = Driver::in_memory(&plain, history.genesis());
            let mut settled = 0;
            for (n, block) in history.blocks.iter().enumerate() {
                run.execute(block, &history.states[n]).unwrap_or_else(|e| panic!("{e}"));
                while run.waiting.len() > depth {
                    let root = run.settle().unwrap_or_else(|e| panic!("{e}"));
                    settled += 1;
                    assert_eq!(root.digest(), history.states[settled].state_root());
                }
            }
            while !run.waiting.is_empty() {
                run.settle().unwrap_or_else(|e| panic!("{e}"));
            }
            for block in &history.blocks {
                straight.run(block).unwrap_or_else(|e| panic!("{e}"));
            }
            let end = &history.states[history.head()];
            assert_eq!(dump(&*run.layer).expect("a dump"), *end.accounts());
            let report = run.layer.check(&mut |_| {}).expect("a check");
            assert_eq!(report.problems, Vec::<String>::new());
            // All blocks are undone.
            for (record, state) in run.undo.iter().zip(&history.states).rev() {
                UndoRecord::decode(record).expect("a record");
                let outcome = run.layer.undo(record).unwrap_or_else(|e| panic!("{e}"));
                assert_eq!(outcome.commitment.digest(), state.state_root());
                outcome.write(&run.store).expect("accepted");
            }
            assert_eq!(dump(&*run.layer).expect("a dump"), *history.genesis().accounts());
        }
    }
}

/// Waiting blocks can be discarded: the layer is at the last accepted block then, and goes on from there.
#[test]
fn blocks_that_wait_are_given_up() {
    let seed = Seed::or(42);
    let history = History::random(seed.value(), 30);
    let options = ReplicaOptions { depth: 3, cache_bytes: 0, ..Replica::default().0 };
    let mut run = Run::new(options, history.genesis());
    let mut at = 0;
    while at < history.head() {
        let ahead = (at + 3).min(history.head());
        for n in at..ahead {
            run.execute(&history.blocks[n], &history.states[n]).unwrap_or_else(|e| panic!("{e}"));
        }
        // One block is accepted, and the others are discarded.
        let root = run.settle().unwrap_or_else(|e| panic!("{e}"));
        at += 1;
        assert_eq!(root.digest(), history.states[at].state_root());
        run.waiting.clear();
        assert_eq!(run.layer.commitment().digest(), history.states[at].state_root());
        assert_eq!(dump(&*run.layer).expect("a dump"), *history.states[at].accounts());
    }
}

/// A block is given up while the next one is under way: that one is void, and its writes reach no trie.
#[test]
fn a_block_above_one_that_is_given_up_leaves_nothing() {
    let seed = Seed::or(43);
    let history = History::random(seed.value(), 1);
    let (block, parent) = (&history.blocks[0], &history.states[0]);
    for workers in [0, 1, 4] {
        let options = ReplicaOptions { workers, depth: 1, ..Replica::default().0 };
        let mut run = Run::new(options, history.genesis());
        run.execute(block, parent).unwrap_or_else(|e| panic!("{e}"));
        let mut session = Session::begin(&*run.layer, PARENT).expect("a block begins");
        run.waiting.clear();
        let change = |n: u64| AccountChange {
            address: Address::left_padding_from(&n.to_be_bytes()),
            account: Some(Account { nonce: 7, ..Account::default() }),
            wiped: false,
            code: None,
            slots: Vec::new(),
        };
        // So many that they are sent before the block ends.
        let accounts = (1..200).map(change).collect();
        let error = session.apply(&TxWrites { accounts }).expect_err("the block is void");
        assert!(matches!(error, StateError::Protocol(_)), "{error:?}");
        drop(session);
        run.execute(block, parent).unwrap_or_else(|e| panic!("{e}"));
        let root = run.settle().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(root.digest(), history.states[1].state_root(), "{workers} workers");
    }
}
