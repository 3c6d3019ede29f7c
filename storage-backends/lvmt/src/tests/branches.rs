//! Proofs while a change of the head is finished and not accepted.

use super::{Chain, account, address, setup};
use crate::{Proofs, verify};
use polytrie_state::StateLayer;
use std::{mem, sync::Arc};

/// A block or an undo is finished, and perhaps written, and not accepted: a proof must still be one of the head. On
/// another branch the same keys have the same versions, and there are as many epochs.
#[test]
fn a_proof_is_of_the_head_whatever_is_written() {
    for proofs in [Proofs::OnRequest, Proofs::Full] {
        let mut chain = Chain::with(setup(4, "branches"), proofs);
        chain.block((1..40).map(|n| account(n, n, &[(1, n)])).collect());
        for round in 1..4 {
            let before = proven_balance(&chain);
            chain.block(vec![account(1, 10 + round, &[(1, round)])]);
            let head = chain.layer.commitment();
            let outcome = chain.layer.undo(&chain.undo.pop().unwrap()).unwrap();
            for write in [false, true] {
                if write {
                    chain.store.write(outcome.batch.clone()).unwrap();
                }
                assert_eq!(chain.layer.commitment(), head);
                assert_eq!(proven_balance(&chain), 10 + round);
            }
            outcome.accept().unwrap();

            // The first outcome of each pair is discarded.
            for write in [false, true] {
                let new = account(90 + round, 1, &[]);
                let mut outcome = chain.finish(vec![account(1, 20 + round, &[(1, 7)]), new]);
                if write {
                    chain.store.write(mem::take(&mut outcome.batch)).unwrap();
                }
                assert_eq!(proven_balance(&chain), before);
                assert!(!chain.verify(&chain.prove(90 + round, &[])).unwrap().state.exists);
                if write {
                    chain.undo.push(outcome.undo.clone());
                    outcome.accept().unwrap();
                }
            }
            assert_eq!(proven_balance(&chain), 20 + round);
        }
    }
}

/// Returns the proven balance of the account that all blocks change.
fn proven_balance(chain: &Chain) -> u64 {
    chain.assert_clean();
    chain.verify(&chain.prove(1, &[1])).unwrap().state.balance.to()
}

/// A fork begins with the head in memory, and nodes that it sums for a proof are there for the next one.
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
