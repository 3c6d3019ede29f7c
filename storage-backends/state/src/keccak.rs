//! Keccak-256 of many inputs at once.
//!
//! The keys of a block, the nodes of one level of a trie, tuples and Merkle nodes do not depend on each other.
//! So eight of them go through the permutation side by side, one in each lane of a 512-bit register. On a processor
//! without such registers they are hashed one by one.

use alloy_primitives::{B256, keccak256};

/// Bytes that the sponge absorbs at once.
const RATE: usize = 136;
/// Number of inputs below which they are hashed one by one: the eight lanes cost about as much as two single hashes.
const WORTH_LANES: usize = 3;

/// Inputs to hash together, one after the other in one buffer, each padded to whole blocks.
#[derive(Debug, Default)]
pub struct Inputs {
    bytes: Vec<u8>,
    /// The inputs by their number of blocks: those of equally many go through the permutation together.
    by_blocks: Vec<Vec<Input>>,
}

#[derive(Debug, Clone, Copy)]
struct Input {
    start: u32,
    len: u32,
    /// The caller's number of the input.
    tag: u32,
}

impl Inputs {
    /// Number of inputs to add before they are hashed: few enough for their bytes to stay in the processor's cache.
    pub const PORTION: usize = 1_024;

    /// Removes all inputs, and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.by_blocks.iter_mut().for_each(Vec::clear);
    }

    /// Adds an input that `encode` writes. Its hash is reported under `tag`.
    pub fn add(&mut self, tag: u32, encode: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        encode(&mut self.bytes);
        self.end(start, tag);
    }

    /// Adds an input like [`Self::add`], unless `instead` returns something in place of its hash: that is returned.
    pub fn add_unless<T>(
        &mut self,
        tag: u32,
        instead: impl FnOnce(&[u8]) -> Option<T>,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Option<T> {
        let start = self.bytes.len();
        encode(&mut self.bytes);
        let instead = instead(&self.bytes[start..]);
        match instead {
            Some(_) => self.bytes.truncate(start),
            None => self.end(start, tag),
        }
        instead
    }

    /// Pads the input that begins at `start`, and notes it.
    fn end(&mut self, start: usize, tag: u32) {
        let len = self.bytes.len() - start;
        let blocks = blocks(len);
        self.bytes.resize(start + blocks * RATE, 0);
        self.bytes[start + len] = 0x01;
        if let Some(last) = self.bytes.last_mut() {
            *last |= 0x80;
        }
        if self.by_blocks.len() <= blocks {
            self.by_blocks.resize_with(blocks + 1, Vec::new);
        }
        // Callers hash some thousand nodes at a time, and a node is shorter than a kilobyte.
        self.by_blocks[blocks].push(Input { start: start as u32, len: len as u32, tag });
    }

    /// Sets `out[n]` to the hash of the bytes that `write` writes for `n`.
    pub fn hash_each(&mut self, out: &mut [B256], mut write: impl FnMut(usize, &mut Vec<u8>)) {
        for (from, out) in (0..).step_by(Self::PORTION).zip(out.chunks_mut(Self::PORTION)) {
            self.clear();
            for (n, tag) in (from..from + out.len()).zip(0..) {
                self.add(tag, |bytes| write(n, bytes));
            }
            self.hash_all(|tag, hash| out[tag as usize] = hash);
        }
    }

    /// Hashes all inputs added since the last [`Self::clear`], and calls `report` with the tag and hash of each.
    pub fn hash_all(&self, mut report: impl FnMut(u32, B256)) {
        for inputs in &self.by_blocks {
            for lanes in inputs.chunks(8) {
                let lane = |i: usize| lanes[i.min(lanes.len() - 1)];
                #[cfg(target_arch = "x86_64")]
                if lanes.len() >= WORTH_LANES && std::arch::is_x86_feature_detected!("avx512f") {
                    let starts = std::array::from_fn(|i| i64::from(lane(i).start));
                    let blocks = blocks(lane(0).len as usize);
                    // SAFETY: the processor has AVX-512F. Each input was padded to whole blocks of the buffer.
                    let hashes = unsafe { lanes::hash(&self.bytes, starts, blocks) };
                    for (i, hash) in hashes.into_iter().enumerate().take(lanes.len()) {
                        report(lane(i).tag, hash);
                    }
                    continue;
                }
                for i in 0..lanes.len() {
                    let Input { start, len, tag } = lane(i);
                    let input = &self.bytes[start as usize..][..len as usize];
                    report(tag, keccak256(input));
                }
            }
        }
    }
}

/// Returns the number of blocks that an input of this length is padded to.
const fn blocks(len: usize) -> usize {
    len / RATE + 1
}

#[cfg(target_arch = "x86_64")]
mod lanes {
    use super::RATE;
    use alloy_primitives::B256;
    use std::arch::x86_64::{
        __m512i, _mm512_i64gather_epi64, _mm512_loadu_si512, _mm512_rolv_epi64, _mm512_set1_epi64,
        _mm512_setzero_si512, _mm512_storeu_si512, _mm512_ternarylogic_epi64, _mm512_xor_si512,
    };

    const ROUND_CONSTANTS: [u64; 24] = [
        0x0000_0000_0000_0001,
        0x0000_0000_0000_8082,
        0x8000_0000_0000_808a,
        0x8000_0000_8000_8000,
        0x0000_0000_0000_808b,
        0x0000_0000_8000_0001,
        0x8000_0000_8000_8081,
        0x8000_0000_0000_8009,
        0x0000_0000_0000_008a,
        0x0000_0000_0000_0088,
        0x0000_0000_8000_8009,
        0x0000_0000_8000_000a,
        0x0000_0000_8000_808b,
        0x8000_0000_0000_008b,
        0x8000_0000_0000_8089,
        0x8000_0000_0000_8003,
        0x8000_0000_0000_8002,
        0x8000_0000_0000_0080,
        0x0000_0000_0000_800a,
        0x8000_0000_8000_000a,
        0x8000_0000_8000_8081,
        0x8000_0000_0000_8080,
        0x0000_0000_8000_0001,
        0x8000_0000_8000_8008,
    ];

    /// Offsets of rho, by lane `x + 5 * y`.
    const ROTATIONS: [i64; 25] = [
        0, 1, 62, 28, 27, 36, 44, 6, 55, 20, 3, 10, 43, 25, 39, 41, 45, 15, 21, 8, 18, 2, 61, 56,
        14,
    ];

    /// Hashes eight inputs of `blocks` padded blocks each that begin at `starts`.
    ///
    /// # Safety
    ///
    /// The processor must have AVX-512F.
    ///
    /// # Panics
    ///
    /// If an input reaches beyond the buffer.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn hash(bytes: &[u8], starts: [i64; 8], blocks: usize) -> [B256; 8] {
        let room = |start: &i64| bytes.len() as i64 - *start >= (blocks * RATE) as i64;
        assert!(starts.iter().all(|start| *start >= 0 && room(start)), "inputs lie in the buffer");
        // SAFETY: eight numbers of eight bytes are 64 bytes; the load needs no alignment.
        let starts = unsafe { _mm512_loadu_si512(starts.as_ptr().cast()) };
        let mut state = [_mm512_setzero_si512(); 25];
        for block in 0..blocks {
            for (word, lane) in state[..RATE / 8].iter_mut().enumerate() {
                let base = bytes[block * RATE + word * 8..].as_ptr();
                // SAFETY: base + start + 8 is within the block of each input, which lies in the buffer.
                let input = unsafe { _mm512_i64gather_epi64::<1>(starts, base.cast()) };
                *lane = _mm512_xor_si512(*lane, input);
            }
            permute(&mut state);
        }
        let mut out = [B256::ZERO; 8];
        for (word, lane) in state[..4].iter().enumerate() {
            let mut words = [0u64; 8];
            // SAFETY: the array has 64 bytes; the store needs no alignment.
            unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), *lane) };
            for (hash, value) in out.iter_mut().zip(words) {
                hash.0[word * 8..][..8].copy_from_slice(&value.to_le_bytes());
            }
        }
        out
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn permute(a: &mut [__m512i; 25]) {
        const XOR3: i32 = 0x96;
        /// a ^ (!b & c)
        const CHI: i32 = 0xd2;
        let one = _mm512_set1_epi64(1);
        for constant in ROUND_CONSTANTS {
            let mut c = [_mm512_setzero_si512(); 5];
            for x in 0..5 {
                let first = _mm512_ternarylogic_epi64::<XOR3>(a[x], a[x + 5], a[x + 10]);
                c[x] = _mm512_ternarylogic_epi64::<XOR3>(first, a[x + 15], a[x + 20]);
            }
            let mut b = [_mm512_setzero_si512(); 25];
            for x in 0..5 {
                let right = _mm512_rolv_epi64(c[(x + 1) % 5], one);
                for y in 0..5 {
                    let mixed =
                        _mm512_ternarylogic_epi64::<XOR3>(a[x + 5 * y], c[(x + 4) % 5], right);
                    let by = _mm512_set1_epi64(ROTATIONS[x + 5 * y]);
                    b[y + 5 * ((2 * x + 3 * y) % 5)] = _mm512_rolv_epi64(mixed, by);
                }
            }
            for y in 0..5 {
                for x in 0..5 {
                    a[x + 5 * y] = _mm512_ternarylogic_epi64::<CHI>(
                        b[x + 5 * y],
                        b[(x + 1) % 5 + 5 * y],
                        b[(x + 2) % 5 + 5 * y],
                    );
                }
            }
            a[0] = _mm512_xor_si512(a[0], _mm512_set1_epi64(constant as i64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_every_length_and_number_are_those_of_the_plain_function() {
        // The same memory for all: nothing of the inputs before is left.
        let mut inputs = Inputs::default();
        for count in [1usize, 2, 3, 7, 8, 9, 30] {
            for len in 0..600 {
                let input = |i: usize| -> Vec<u8> {
                    (0..len + i % 3).map(|j| (i * 31 + j * 7 + len) as u8).collect()
                };
                inputs.clear();
                for i in 0..count {
                    inputs.add(i as u32, |out| out.extend_from_slice(&input(i)));
                }
                let mut seen = 0;
                inputs.hash_all(|tag, hash| {
                    seen += 1;
                    assert_eq!(hash, keccak256(input(tag as usize)), "{count} inputs of {len}");
                });
                assert_eq!(seen, count);
            }
        }
    }
}
