//! Tests of forks: layers that undo or run blocks beside the one they come from.

use super::{Driver, LayerFactory, compare::assert_state};
use crate::{History, Seed};
use polytrie_state::{Commitment, StateError};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Checks that a fork, which undoes some blocks and runs others while the original layer continues, is independent of
/// it: each has the state, commitment and proofs of its own block, and neither affects the other.
pub fn forks_go_their_own_way(factory: &dyn LayerFactory) {
    let seed = Seed::or(27);
    let history = History::adversarial(seed.value());
    let mut rng = ChaCha8Rng::seed_from_u64(seed.value());
    let mut driver = Driver::in_memory(factory, history.genesis());
    let mut seen = vec![driver.layer().commitment()];
    let mut last = None;
    for (at, block) in history.blocks.iter().enumerate() {
        driver.run(block).unwrap_or_else(|e| panic!("{}: {e}", block.label));
        seen.push(driver.layer().commitment());
        if rng.random_bool(0.15) {
            let mut forked = driver.fork();
            // A layer may have too many steps that wait for the existing fork.
            if matches!(forked, Err(StateError::Unsupported { .. }))
                && let Some(earlier) = last.take()
            {
                walk(earlier, &history, &seen, &mut rng);
                forked = driver.fork();
            }
            let fork = forked.unwrap_or_else(|e| panic!("{}: {e}", block.label));
            if let Some(earlier) = last.replace(fork) {
                walk(earlier, &history, &seen, &mut rng);
            }
        }
        assert_state(&driver, &history.states[at + 1], &block.label);
    }
    if let Some(fork) = last {
        walk(fork, &history, &seen, &mut rng);
    }
    assert_state(&driver, &history.states[history.head()], &"in the end");
}

/// Undoes up to 20 blocks, and runs others from there.
fn walk(mut fork: Driver<'_>, history: &History, seen: &[Commitment], rng: &mut ChaCha8Rng) {
    let mut at = fork.number() as usize;
    for _ in 0..rng.random_range(0..=at.min(20)) {
        let label = &history.blocks[at - 1].label;
        fork.undo().unwrap_or_else(|e| panic!("undo of {label} in a fork: {e}"));
        at -= 1;
        let context = format!("in a fork that went back to block {at}");
        assert_eq!(fork.layer().commitment(), seen[at], "{context}");
        assert_state(&fork, &history.states[at], &context);
    }
    prove(&fork, history, at);
    let other = history.fork(at, rng.random(), rng.random_range(1..4));
    for (n, block) in other.blocks.iter().enumerate() {
        fork.run(block).unwrap_or_else(|e| panic!("{}: {e}", block.label));
        assert_state(
            &fork,
            &other.states[n + 1],
            &format!("block {n} of another branch, in a fork"),
        );
    }
}

/// Checks that proofs hold against the commitment of the block the fork went back to.
fn prove(fork: &Driver<'_>, history: &History, at: usize) {
    let Some(verify) = fork.factory().verifier() else { return };
    for address in history.addresses().into_iter().take(8) {
        let proof = super::proofs::prove(fork, &address, &[]);
        let expected = (history.states[at].account(&address), Vec::new());
        let found = verify(&fork.layer().commitment(), &address, &[], &proof);
        assert_eq!(found, Ok(expected), "{address} in a fork at block {at}");
    }
}
