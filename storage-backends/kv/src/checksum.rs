//! The checksum of rows and files: CRC-32, four bytes, big-endian.
//!
//! A row bears that of its key and itself, so that one that was damaged, or that stands under another key, is found.

/// Bytes of a checksum.
const BYTES: usize = 4;

fn checksum(key: &[u8], row: &[u8]) -> [u8; BYTES] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(row);
    hasher.finalize().to_be_bytes()
}

/// Appends the checksum of a row to it.
pub fn append_checksum(key: &[u8], row: &mut Vec<u8>) {
    let sum = checksum(key, row);
    row.extend_from_slice(&sum);
}

/// A row without its checksum; `None` if that is wrong.
pub fn strip_checksum<'a>(key: &[u8], row: &'a [u8]) -> Option<&'a [u8]> {
    let (content, sum) = row.split_last_chunk()?;
    (*sum == checksum(key, content)).then_some(content)
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
}
