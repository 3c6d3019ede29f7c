//! The hints about a block whose senders are being recovered.

use super::*;
use parking_lot::Mutex;
use polytrie_state::{Access, LayerSession, Wants};
use polytrie_testing::{AlterSession, AlteredLayer, InSessions};
use std::sync::atomic::{AtomicU32, Ordering};

/// A change that wants hints and keeps them.
#[derive(Debug, Clone)]
struct Hinted {
    slow: bool,
    hints: Arc<Mutex<Vec<Access>>>,
    /// Number of calls which say that all cores are busy.
    rests: Arc<AtomicU32>,
}

impl AlterSession for Hinted {
    fn wants(&self, inner: &dyn LayerSession) -> Wants {
        Wants { hints: true, slow: self.slow, ..inner.wants() }
    }

    fn hint(&mut self, _: &mut dyn LayerSession, access: Access) {
        self.hints.lock().push(access);
    }

    fn cores_are_busy(&mut self, _: &mut dyn LayerSession) {
        self.rests.fetch_add(1, Ordering::Relaxed);
    }
}

const COUNT: usize = 20;

/// Executes a block of [`COUNT`] senders. Returns how many of them were announced, and how many calls said that all cores are
/// busy.
fn announced(slow: bool, are_known: bool) -> (usize, u32) {
    let transactions: Vec<_> = (1..=COUNT as u128).map(|value| send(0, NOBODY, value)).collect();
    let senders = recover_senders(&transactions).unwrap();
    let rich = senders.iter().map(|sender| account(*sender, ETHER)).collect();
    let world = World::at(Fork::Byzantium, rich);
    let hinted = Hinted { slow, hints: Arc::default(), rests: Arc::default() };
    let layer = AlteredLayer::new(world.layer.clone(), InSessions(hinted.clone()));
    let parent = BlockRef { number: 0, hash: B256::ZERO };
    let mut session = Session::begin(&layer, parent).unwrap();
    let hashes = |_: u64| None;
    let mut execute = |senders: Senders<'_>| {
        let empty = BlockToExecute::to_fill(&world.header, None);
        let block = BlockToExecute { transactions: &transactions, senders, ..empty };
        Executor::new(1 << 20).execute_block(&mut session, world.rules(), &hashes, block)
    };
    let executed = match are_known {
        true => execute(Senders::known(&senders)),
        false => Recovery::begin(&transactions).beside(execute).1,
    };
    assert_eq!(executed.unwrap().receipts.len(), transactions.len());
    let hints = hinted.hints.lock();
    let has = |address| hints.contains(&Access::Account(address));
    assert!(has(NOBODY) && has(MINER));
    let announced = senders.iter().filter(|sender| has(**sender)).count();
    (announced, hinted.rests.load(Ordering::Relaxed))
}

#[test]
fn a_block_waits_for_the_senders_that_it_announces_only_if_reads_are_slow() {
    assert_eq!(announced(false, false).0, 0);
    for (slow, are_known) in [(false, true), (true, false), (true, true)] {
        assert_eq!(announced(slow, are_known).0, COUNT, "{slow} {are_known}");
    }
}

#[test]
fn a_layer_rests_while_few_cores_recover_senders_unless_reads_are_slow() {
    let rests = |cores, slow, are_known| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(cores).build().unwrap();
        pool.install(|| announced(slow, are_known).1)
    };
    // On one core no other thread has recovered them all before the block begins.
    assert_eq!(rests(1, false, false), 1);
    for (cores, slow, are_known) in [(4, false, false), (1, true, false), (1, false, true)] {
        assert_eq!(rests(cores, slow, are_known), 0, "{cores} {slow} {are_known}");
    }
}
