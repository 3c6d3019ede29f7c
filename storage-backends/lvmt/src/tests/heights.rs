//! Tests of the layer with trees of other heights.

use super::{Chain, account, setup};

fn run(height: u8) {
    let mut chain = Chain::new(setup(height, "heights"));
    for round in 1..5u64 {
        chain.block((0..40).map(|n| account(n * round, n, &[(1, round), (7, n % 2)])).collect());
    }
    chain.check_proofs(0..6);
    chain.check_proofs(1_000..1_002);
    chain.assert_clean();
    chain.undo();
    chain.check_proofs(0..3);
    chain.assert_clean();
}

#[test]
fn height_5_which_is_no_whole_number_of_bytes() {
    run(5);
}

#[test]
fn height_8() {
    run(8);
}

#[test]
fn height_16() {
    run(16);
}
