//! Proofs while the head is about to move.

use super::{BLOCK, Chain, account, address, setup};
use crate::verify;
use polytrie_state::{Session, StateLayer, TxWrites};
use std::sync::Arc;

/// A block, or the way back from one, is finished and written, and not accepted yet: a proof is one of the head, at once. On another branch the same keys have the same versions, and there are as many epochs.
#[test]
fn a_proof_is_of_the_head_whatever_is_written() {
    let mut chain = Chain::new(setup(4, "branches"));
    chain.block(vec![account(1, 1, &[]), account(2, 2, &[])]);
    for round in 1..4 {
        chain.block(vec![account(1, 10 + round, &[(1, round)])]);
        let head = chain.layer.commitment();
        let outcome = chain.layer.undo(&chain.undo.pop().unwrap()).unwrap();
        for write in [false, true] {
            if write {
                chain.store.write(outcome.batch.clone()).unwrap();
            }
            assert_eq!(chain.layer.commitment(), head);
            chain.assert_clean();
            let proven = chain.verify(&chain.prove(1, &[1])).unwrap();
            assert_eq!(proven.state.balance.to::<u64>(), 10 + round);
        }
        outcome.accept().unwrap();

        let parent = polytrie_state::BlockRef { number: chain.undo.len() as u64, ..BLOCK };
        let mut session = Session::begin(&*chain.layer, parent).unwrap();
        session.apply(&TxWrites { accounts: vec![account(1, 20 + round, &[(1, 7)])] }).unwrap();
        let mut outcome = session.finish().unwrap().outcome;
        let before = chain.verify(&chain.prove(1, &[1])).unwrap();
        chain.store.write(std::mem::take(&mut outcome.batch)).unwrap();
        assert_eq!(
            chain.verify(&chain.prove(1, &[1])).unwrap().state.balance,
            before.state.balance
        );
        chain.assert_clean();
        chain.undo.push(outcome.undo.clone());
        outcome.accept().unwrap();
        let proven = chain.verify(&chain.prove(1, &[1])).unwrap();
        assert_eq!(proven.state.balance.to::<u64>(), 20 + round);
        chain.assert_clean();
    }
}

/// A fork begins with the head that is in memory, and what it sums up for a proof is there for the next one.
#[test]
fn forks_share_what_is_in_memory() {
    let mut chain = Chain::new(setup(4, "forks"));
    for round in 1..4 {
        chain.block(vec![account(1, round, &[(1, round)]), account(1 + round, 1, &[])]);
    }
    let own = &chain.layer.shared;
    assert!(Arc::ptr_eq(&own.fork().unwrap().head(), &own.head()));
    assert!(own.root_proofs.lock().is_none());
    for back in 0..3 {
        let fork = chain.layer.fork().unwrap();
        for undo in chain.undo.iter().rev().take(back) {
            fork.undo(undo).unwrap();
        }
        let proof = fork.layer.proofs().unwrap().prove(&address(1), &[]).unwrap();
        let proven = verify(chain.setup.key(), &fork.layer.commitment(), &proof).unwrap();
        assert_eq!(proven.state.balance.to::<u64>(), 3 - back as u64);
        assert!(chain.layer.shared.root_proofs.lock().is_some());
    }
    chain.check_proofs(1..6);
    chain.assert_clean();
}
