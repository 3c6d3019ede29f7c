//! Hashing of many keys, tuples and nodes at once.

use alloy_primitives::B256;
use polytrie_state::keccak::Inputs;
use rayon::prelude::*;

/// Number of inputs that one thread takes at a time.
const GRAIN: usize = 256;

/// Returns the hashes of the bytes that `write` writes for each number below `count`, on all threads.
pub(crate) fn hash_all(count: usize, write: impl Fn(usize, &mut Vec<u8>) + Sync) -> Vec<B256> {
    let mut hashes = vec![B256::ZERO; count];
    if count <= GRAIN {
        Inputs::default().hash_each(&mut hashes, &write);
        return hashes;
    }
    hashes.par_chunks_mut(GRAIN).enumerate().for_each_init(Inputs::default, |inputs, (n, out)| {
        inputs.hash_each(out, |at, bytes| write(n * GRAIN + at, bytes));
    });
    hashes
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::keccak256;

    #[test]
    fn hashes_are_in_their_places() {
        let input = |n: usize| vec![n as u8; n % 120];
        for count in [0, 1, 2, 8, 255, 256, 257, 1_000] {
            let expected: Vec<B256> = (0..count).map(|n| keccak256(input(n))).collect();
            let found = hash_all(count, |n, bytes| bytes.extend_from_slice(&input(n)));
            assert_eq!(found, expected, "{count}");
        }
    }
}
