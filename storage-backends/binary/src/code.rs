//! The leaves of code: chunks of 31 bytes, each preceded by a byte with the number of its leading bytes that are data
//! of a `PUSH`.

use alloy_primitives::B256;

/// Bytes of code in a chunk.
const CHUNK: usize = 31;
/// The opcodes `PUSH1` to `PUSH32`.
const PUSHES: std::ops::RangeInclusive<u8> = 0x60..=0x7f;

/// Returns the number of chunks of code of this length.
pub(crate) const fn chunk_count(length: usize) -> usize {
    length.div_ceil(CHUNK)
}

/// Returns the chunks of code, in order (EIP-7864, "Code"). The last one is padded with zeros.
pub(crate) fn chunks(code: &[u8]) -> impl Iterator<Item = B256> {
    // The offset behind the data of the last `PUSH`.
    let mut data_end = 0_usize;
    code.chunks(CHUNK).enumerate().map(move |(number, part)| {
        let start = number * CHUNK;
        let mut chunk = B256::ZERO;
        // The number is at most 31.
        chunk[0] = data_end.saturating_sub(start).min(CHUNK) as u8;
        chunk[1..=part.len()].copy_from_slice(part);
        let mut at = start.max(data_end);
        while let Some(opcode) = part.get(at - start) {
            at += 1;
            if PUSHES.contains(opcode) {
                at += usize::from(opcode - PUSHES.start()) + 1;
                data_end = at;
            }
        }
        chunk
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// Computes chunks as the EIP describes it: for each byte, the number of data bytes from there on.
    fn of_the_eip(code: &[u8]) -> Vec<[u8; 32]> {
        let mut code = code.to_vec();
        code.resize(code.len().div_ceil(31) * 31, 0);
        let mut ahead = vec![0; code.len() + 64];
        let mut at = 0;
        while at < code.len() {
            let data = if (0x60..=0x7f).contains(&code[at]) { code[at] - 0x5f } else { 0 };
            at += 1;
            for n in 0..data {
                ahead[at + usize::from(n)] = data - n;
            }
            at += usize::from(data);
        }
        let chunk = |at: usize| {
            let mut chunk = [0; 32];
            chunk[0] = ahead[at].min(31);
            chunk[1..].copy_from_slice(&code[at..at + 31]);
            chunk
        };
        (0..code.len()).step_by(31).map(chunk).collect()
    }

    #[test]
    fn chunks_are_those_of_the_eip_and_of_ubt() {
        let mut rng = ChaCha8Rng::seed_from_u64(7864);
        for round in 0..400usize {
            let length = round / 2;
            let code: Vec<u8> = (0..length)
                .map(|_| match round % 3 {
                    0 => rng.random(),
                    1 => rng.random_range(0x5e..=0x80),
                    _ => 0x7f,
                })
                .collect();
            let found: Vec<_> = chunks(&code).map(|chunk| chunk.0).collect();
            assert_eq!(found, of_the_eip(&code), "{code:02x?}");
            let ubt = ubt::chunkify_code(&code);
            assert_eq!(found, ubt.iter().map(|c| c.encode().0).collect::<Vec<_>>(), "{code:02x?}");
            assert_eq!(found.len(), chunk_count(length));
        }
    }
}
