//! Proofs while the head is about to move.

use super::{BLOCK, Chain, account, setup};
use polytrie_state::{Session, StateLayer, TxWrites};

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
