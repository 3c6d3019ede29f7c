//! Tests of garbage collection.

use super::{Chain, account, destroyed, setup};
use crate::{LEAVES, Proofs};
use alloy_primitives::B256;
use polytrie_kv::{KeyRange, Read};
use polytrie_kv_testing::entries;
use polytrie_state::{BlockRef, Prune, Session, StateError, StateLayer};

#[test]
fn proofs_hold_after_collecting_and_after_undoing() {
    let mut chain = Chain::new(setup(4, "collect"));
    chain.block((0..60).map(|n| account(n, n, &[(1, 1 + n), (7, 7)])).collect());
    for round in 1..30u64 {
        let written = (0..60).filter(|n| (n + round) % 4 != 0);
        let mut changes: Vec<_> =
            written.map(|n| account(n, round, &[(1, round * n), (7, round % 3)])).collect();
        if round == 17 {
            changes[5] = destroyed(6);
        }
        chain.block(changes);
    }
    let commitment = chain.layer.commitment();
    let kept: Vec<Vec<u8>> = chain.undo[26..].to_vec();
    let prune = |layer: &dyn Prune| {
        layer.prune(&mut |visit| kept.iter().try_for_each(|record| visit(record))).unwrap()
    };
    let collected = prune(&*chain.layer);
    assert!(collected.needed < collected.entries / 3, "{collected:?}");
    assert!(collected.bytes_after < collected.bytes_before / 2, "{collected:?}");
    assert_eq!(chain.layer.commitment(), commitment);
    chain.assert_clean();
    chain.check_proofs(0..70);

    // A second collection finds nothing.
    let rows = entries(&chain.store, LEAVES, KeyRange::ALL);
    let again = prune(&*chain.layer);
    assert_eq!((again.needed, again.bytes_before), (collected.needed, collected.bytes_after));
    assert_eq!(entries(&chain.store, LEAVES, KeyRange::ALL), rows);

    for _ in 0..4 {
        chain.undo();
        chain.assert_clean();
        chain.check_proofs(0..70);
    }
    chain.block(vec![account(1, 1, &[]), account(2, 2, &[(1, 0)])]);
    chain.assert_clean();
    chain.check_proofs(0..10);
}

#[test]
fn nothing_is_collected_while_a_block_is_under_way() {
    let mut chain = Chain::new(setup(4, "collect"));
    chain.block(vec![account(1, 1, &[])]);
    let parent = BlockRef { number: 1, hash: B256::ZERO };
    let session = Session::begin(&*chain.layer, parent).unwrap();
    assert!(matches!(chain.layer.prune(&mut |_| Ok(())), Err(StateError::Protocol(_))));
    drop(session);
    chain.layer.prune(&mut |_| Ok(())).unwrap();
    assert!(chain.store.get(LEAVES, &crate::log::chunk_key(0, 0)).unwrap().is_some());
    assert_eq!(Proofs::default(), Proofs::None);
}
