//! What the lanes do by themselves: callers of [`recover`](crate::recover) cannot see whether they had a result.

use super::{BATCH, is_available, keys};
use crate::{
    Signed, recover_one,
    tests::{key, sign},
};
use alloy_primitives::{Signature, U256};
use polytrie_kv_testing::skipped;
use polytrie_testing::Seed;
use rand::RngExt;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

fn found(signed: &[Signed]) -> Vec<bool> {
    // SAFETY: each test has looked whether the processor has the instructions.
    unsafe { keys(signed) }.iter().map(Option::is_some).collect()
}

#[test]
fn a_signature_without_a_result_takes_it_from_no_other() {
    if !is_available() {
        return skipped("the processor has no AVX-512 IFMA");
    }
    let seed = Seed::or(1);
    let mut random = ChaCha8Rng::seed_from_u64(seed.value());
    let all: Vec<_> =
        (0..BATCH).map(|_| sign(&key(&mut random), random.random::<[u8; 32]>().into())).collect();
    let with = |r: U256, s: U256| Signed { signature: Signature::new(r, s, false), ..all[0] };
    let (one, some) = (U256::ONE, all[0].signature.s());
    let no_point = (2..).map(|r| with(U256::from(r), some)).find(|bad| recover_one(bad).is_none());
    // The sums begin with the point whose x is 1: the highest digit of 2^125 adds it to itself.
    let meets = with(one, one << 125);
    assert!(recover_one(&meets).is_some());
    let bad = [with(U256::ZERO, some), with(one, U256::ZERO), with(U256::MAX, some), meets];
    let bad: Vec<_> = bad.into_iter().chain(no_point).collect();
    for count in 1..=BATCH {
        let mut signed = all[..count].to_vec();
        assert_eq!(found(&signed), vec![true; count], "{count} signatures");
        let place = random.random_range(0..count);
        for bad in &bad {
            signed[place] = *bad;
            let expected: Vec<_> = (0..count).map(|number| number != place).collect();
            assert_eq!(found(&signed), expected, "{bad:?} at {place} of {count}");
        }
    }
}
