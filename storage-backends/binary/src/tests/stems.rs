//! Generated keys with stems that share many bits, few, or all of them.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Returns a key of a few hundred stems that are close to each other, some of them very close.
pub(super) fn key(rng: &mut ChaCha8Rng) -> [u8; 32] {
    let mut key = [0; 32];
    match rng.random_range(0..4) {
        0 => rng.fill(&mut key[..]),
        // The stems are neighbours at the upper end of the tree.
        1 => key[0] = rng.random(),
        // The stems differ in their last bits only.
        2 => key[30] = rng.random_range(0..6),
        // The stems differ at any depth.
        _ => {
            key.fill(0x5a);
            let bit = rng.random_range(0..248);
            key[bit / 8] ^= 0x80 >> (bit % 8);
        }
    }
    key[31] = [0, 1, 64, 128, 255][rng.random_range(0..5)];
    key
}
