//! The hints about a block while its senders are being recovered.

use super::*;
use parking_lot::Mutex;
use polytrie_state::{Access, LayerSession, Wants};
use polytrie_testing::{AlterSession, AlteredLayer, InSessions};

/// A change that wants hints and keeps them.
#[derive(Debug, Clone)]
struct Hinted {
    slow: bool,
    hints: Arc<Mutex<Vec<Access>>>,
}

impl AlterSession for Hinted {
    fn wants(&self, inner: &dyn LayerSession) -> Wants {
        Wants { hints: true, slow: self.slow, ..inner.wants() }
    }

    fn hint(&mut self, _: &mut dyn LayerSession, access: Access) {
        self.hints.lock().push(access);
    }
}

const COUNT: usize = 20;

/// Executes a block of [`COUNT`] senders. Returns how many of them were announced.
fn announced(slow: bool, are_known: bool) -> usize {
    let transactions: Vec<_> = (1..=COUNT as u128).map(|value| send(0, NOBODY, value)).collect();
    let senders = recover_senders(&transactions).unwrap();
    let rich = senders.iter().map(|sender| account(*sender, ETHER)).collect();
    let world = World::at(Fork::Byzantium, rich);
    let hinted = Hinted { slow, hints: Arc::default() };
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
    senders.iter().filter(|sender| has(**sender)).count()
}

#[test]
fn a_block_waits_for_the_senders_that_it_announces_only_if_reads_are_slow() {
    assert_eq!(announced(false, false), 0);
    for (slow, are_known) in [(false, true), (true, false), (true, true)] {
        assert_eq!(announced(slow, are_known), COUNT, "{slow} {are_known}");
    }
}
