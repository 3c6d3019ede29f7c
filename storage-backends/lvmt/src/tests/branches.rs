//! Blocks of the same number on different branches.

use super::{Chain, account, setup};
use crate::shared::is_of;

/// The same keys have the same versions on both, and there are as many epochs.
#[test]
fn a_head_is_told_from_that_of_another_branch() {
    let mut chain = Chain::new(setup(4, "branches"));
    chain.block(vec![account(1, 1, &[])]);
    let before = chain.layer.shared.head();
    assert!(is_of(&chain.store, &before).unwrap());
    chain.undo();
    assert!(!is_of(&chain.store, &before).unwrap());
    chain.block(vec![account(1, 2, &[])]);
    let head = chain.layer.shared.head();
    assert_eq!((head.root, head.history.size()), (before.root, before.history.size()));
    assert!(!is_of(&chain.store, &before).unwrap());
    assert!(is_of(&chain.store, &head).unwrap());
}
