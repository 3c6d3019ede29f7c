//! The checksum of rows and files: CRC-32C, four bytes, big-endian. Processors have an instruction for it.
//!
//! A row that a layer or the journal checks by itself carries the checksum of its key and value. A row of MDBX
//! carries the checksum of the table's name, the key and the value. So a damaged row is found, and so is a row that
//! stands under another key.

/// Bytes of a checksum.
const BYTES: usize = 4;

/// Number of bytes from which on the crate's way is quicker, which goes through three parts at once.
#[cfg(target_arch = "x86_64")]
const LONG: usize = 768;

/// Continues the checksum `sum` with few bytes. The crate goes byte by byte up to an aligned address, and by words from
/// there on; of a key or a short row that leaves few words.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn of_short(sum: u32, bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u64};
    let (words, rest) = bytes.as_chunks::<8>();
    let mut all = u64::from(!sum);
    for word in words {
        all = _mm_crc32_u64(all, u64::from_le_bytes(*word));
    }
    // The instruction leaves the upper half zero.
    let mut sum = all as u32;
    for byte in rest {
        sum = _mm_crc32_u8(sum, *byte);
    }
    !sum
}

/// A running checksum of bytes that are fed one after the other. The initial value is that of no bytes.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Checksum(u32);

impl Checksum {
    /// Computes the checksum of `bytes`.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self::default().and(bytes)
    }

    /// Returns the checksum of the earlier bytes followed by `bytes`.
    #[inline]
    pub(crate) fn and(self, bytes: &[u8]) -> Self {
        #[cfg(target_arch = "x86_64")]
        if bytes.len() < LONG && std::arch::is_x86_feature_detected!("sse4.2") {
            // SAFETY: the processor has SSE 4.2.
            return Self(unsafe { of_short(self.0, bytes) });
        }
        Self(crc32c::crc32c_append(self.0, bytes))
    }

    /// Returns the checksum as a number.
    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    /// Appends to `row` the checksum of the earlier bytes followed by the row.
    #[inline]
    pub(crate) fn seal(self, row: &mut Vec<u8>) {
        let sum = self.and(row).0.to_be_bytes();
        row.extend_from_slice(&sum);
    }

    /// Returns the row without the checksum that [`Self::seal`] has appended; `None` if the checksum does not match.
    #[inline]
    pub(crate) fn open(self, row: &[u8]) -> Option<&[u8]> {
        let (content, sum) = row.split_last_chunk::<BYTES>()?;
        (*sum == self.and(content).0.to_be_bytes()).then_some(content)
    }
}

/// Appends the checksum of a row to it.
pub fn append_checksum(key: &[u8], row: &mut Vec<u8>) {
    Checksum::of(key).seal(row);
}

/// Returns a row without its checksum; `None` if the checksum does not match the key and the row.
pub fn strip_checksum<'a>(key: &[u8], row: &'a [u8]) -> Option<&'a [u8]> {
    Checksum::of(key).open(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_byte_or_another_key_is_found() {
        for len in [0, 1, 4, 100] {
            let content = vec![7; len];
            let mut row = content.clone();
            append_checksum(b"key", &mut row);
            assert_eq!(strip_checksum(b"key", &row), Some(&content[..]));
            assert_eq!(strip_checksum(b"kez", &row), None);
            for at in 0..row.len() {
                let mut changed = row.clone();
                changed[at] ^= 0x10;
                assert_eq!(strip_checksum(b"key", &changed), None, "byte {at}");
                assert_eq!(strip_checksum(b"key", &row[..at]), None, "cut at {at}");
            }
        }
    }

    /// The test value of these bytes in RFC 3720.
    #[test]
    fn it_is_the_checksum_of_the_standard() {
        assert_eq!(Checksum::of(b"123456789").number(), 0xe306_9283);
        assert_eq!(Checksum::of(b"1234").and(b"56789").number(), 0xe306_9283);
    }

    #[test]
    fn it_depends_on_no_length_and_no_address() {
        let bytes: Vec<u8> = (0..1_000_u32).map(|n| (n * 7 % 251) as u8).collect();
        for start in 0..9 {
            for end in (start..80).chain(700..850) {
                let bytes = &bytes[start..end];
                let expected = crc32c::crc32c(bytes);
                assert_eq!(Checksum::of(bytes).number(), expected, "{start}..{end}");
                let (a, b) = bytes.split_at(bytes.len() / 3);
                assert_eq!(Checksum::of(a).and(b).number(), expected, "{start}..{end}");
            }
        }
    }
}
