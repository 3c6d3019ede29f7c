//! Trees and entries, identified by the leading bits of the keys in them.

use alloy_primitives::B256;
use arrayvec::ArrayVec;
use polytrie_state::{Result, corrupt};

/// A tree of the multi-layer structure: the root tree has level 0, and the tree of level `l` holds the keys whose
/// hash begins with the tree's `l · height` bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Path {
    pub(crate) level: u8,
    /// The leading bits, followed by zeros.
    pub(crate) prefix: B256,
}

/// The key of a tree's row, or of an entry's: the level, and as many bytes of the prefix as its bits need.
pub(crate) type RowKey = ArrayVec<u8, 33>;

/// The deepest level, chosen so that it fits the five bits of a record; a key down there would need hundreds of bits
/// in common with five others on every level above.
pub(crate) const MAX_LEVEL: u8 = 31;

impl Path {
    pub(crate) const ROOT: Self = Self { level: 0, prefix: B256::ZERO };

    /// Returns the tree of a level in which a key lies.
    pub(crate) fn of(height: u8, level: u8, position: &B256) -> Self {
        Self { level, prefix: masked(position, bits(height, level)) }
    }

    pub(crate) fn row_key(&self, height: u8) -> RowKey {
        row_key(self.level, &self.prefix, bits(height, self.level).div_ceil(8))
    }

    /// Decodes the bytes of [`Self::row_key`].
    pub(crate) fn from_row_key(height: u8, key: &[u8]) -> Result<Self> {
        let damaged = || corrupt!("a tree has a key of {} bytes", key.len());
        let (level, rest) = key.split_first().ok_or_else(damaged)?;
        let mut prefix = B256::ZERO;
        prefix.0.get_mut(..rest.len()).ok_or_else(damaged)?.copy_from_slice(rest);
        let path = Self::of(height, *level, &prefix);
        if *level > MAX_LEVEL || path.prefix != prefix || path.row_key(height)[..] != *key {
            return Err(damaged());
        }
        Ok(path)
    }

    /// Returns the common prefix of the row keys of the tree's entries and of all trees directly below it: level and
    /// bits. If the bits end within a byte, neighbouring trees share this prefix.
    pub(crate) fn below(&self, height: u8) -> RowKey {
        row_key(self.level + 1, &self.prefix, bits(height, self.level) / 8)
    }
}

/// Returns the index of a key's entry in its tree of a level.
pub(crate) fn entry_index(height: u8, level: u8, position: &B256) -> u32 {
    let from = bits(height, level);
    let mut window = [0u8; 8];
    let bytes = position.iter().skip(from / 8).chain(std::iter::repeat(&0));
    for (out, byte) in window.iter_mut().zip(bytes) {
        *out = *byte;
    }
    let window = u64::from_be_bytes(window) << (from % 8);
    // The index has at most 20 bits.
    (window >> (64 - u32::from(height))) as u32
}

/// Returns the row key of a key's entry in its tree of a level. It is one level "deeper" than the tree, like the tree
/// that may hang below the entry.
pub(crate) fn entry_row_key(height: u8, level: u8, position: &B256) -> RowKey {
    Path::of(height, level + 1, position).row_key(height)
}

fn bits(height: u8, level: u8) -> usize {
    usize::from(height) * usize::from(level)
}

fn masked(position: &B256, bits: usize) -> B256 {
    let mut out = B256::ZERO;
    let whole = (bits / 8).min(32);
    out[..whole].copy_from_slice(&position[..whole]);
    if whole < 32 && !bits.is_multiple_of(8) {
        out[whole] = position[whole] & (0xff << (8 - bits % 8));
    }
    out
}

fn row_key(level: u8, prefix: &B256, bytes: usize) -> RowKey {
    let mut key = RowKey::new();
    key.push(level);
    key.extend(prefix.iter().take(bytes).copied());
    key
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloy_primitives::keccak256;

    #[test]
    fn indexes_are_the_bits_of_the_key_in_order() {
        let position = keccak256("position");
        for height in [4, 5, 6, 8, 16] {
            let mut bits = String::new();
            for level in 0..8 {
                let index = entry_index(height, level, &position);
                bits += &format!("{index:0width$b}", width = usize::from(height));
                let path = Path::of(height, level, &position);
                let key = path.row_key(height);
                assert_eq!(Path::from_row_key(height, &key).unwrap(), path);
                assert!(entry_row_key(height, level, &position).starts_with(&path.below(height)));
            }
            let all: String = position.iter().map(|byte| format!("{byte:08b}")).collect();
            assert!(all.starts_with(&bits), "height {height}");
        }
        assert_eq!(Path::of(16, 0, &position), Path::ROOT);
        assert!(Path::from_row_key(4, &[1, 0xab]).is_err(), "bits beyond those of the level");
        assert!(Path::from_row_key(4, &[]).is_err());
    }
}
