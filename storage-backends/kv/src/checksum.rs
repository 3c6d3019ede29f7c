//! The checksum of rows and files: CRC-32C, four bytes, big-endian. Processors have an instruction for it.
//!
//! A row that a layer or the journal checks by itself bears that of its key and its value; a row of MDBX, that of the table's
//! name before them. So a row is found that was damaged, or that stands under another key.

/// Bytes of a checksum.
const BYTES: usize = 4;

/// The checksum of bytes that come one after the other; at first of none.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Checksum(u32);

impl Checksum {
    /// That of these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self::default().and(bytes)
    }

    /// That of these bytes too.
    #[inline]
    pub(crate) fn and(self, bytes: &[u8]) -> Self {
        Self(crc32c::crc32c_append(self.0, bytes))
    }

    /// As a number.
    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    /// Appends to a row what this becomes with the row.
    #[inline]
    pub(crate) fn seal(self, row: &mut Vec<u8>) {
        let sum = self.and(row).0.to_be_bytes();
        row.extend_from_slice(&sum);
    }

    /// A row without what [`Self::seal`] has appended; `None` if that is wrong.
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

/// A row without its checksum; `None` if that is wrong.
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

    /// The value of these bytes in RFC 3720.
    #[test]
    fn it_is_the_checksum_of_the_standard() {
        assert_eq!(Checksum::of(b"123456789").number(), 0xe306_9283);
        assert_eq!(Checksum::of(b"1234").and(b"56789").number(), 0xe306_9283);
    }
}
