//! The share of the keys that a client can prove, and the nodes of each tree that this takes.

use crate::path::{Path, entry_index};
use alloy_primitives::B256;
use polytrie_state::Result;
use std::fmt;

/// A share of the keys: those with a root entry of one class modulo a power of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    /// The number of the shard, from 1.
    shard: u32,
    of: u32,
}

impl Share {
    pub(crate) const FULL: Self = Self { shard: 1, of: 1 };
    pub(crate) const BYTES: usize = 8;

    /// Returns shard `shard` of `of`; `None` if there is no such shard.
    pub(crate) fn new(shard: u32, of: u32) -> Option<Self> {
        let good = (1..=of).contains(&shard) && of.is_power_of_two() && of <= 1 << 16;
        good.then_some(Self { shard, of })
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.shard.to_be_bytes());
        bytes[4..].copy_from_slice(&self.of.to_be_bytes());
        bytes
    }

    /// Decodes the bytes of [`Self::to_bytes`].
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (shard, of) = bytes.split_first_chunk::<4>()?;
        Self::new(u32::from_be_bytes(*shard), u32::from_be_bytes(of.try_into().ok()?))
    }

    /// Checks that a root tree has at least as many entries as there are shares.
    pub(crate) fn expect_fits(self, height: u8) -> Result<()> {
        if self.of <= 1 << height {
            return Ok(());
        }
        let entries = 1u32 << height;
        Err(crate::unsupported(format!(
            "has trees of {entries} entries with this setup, so it has no shard {self}; ask for one of {entries} or fewer"
        )))
    }

    /// Returns the share that a key belongs to.
    pub(crate) fn of_key(self, height: u8, position: &B256) -> Self {
        Self { shard: entry_index(height, 0, position) % self.of + 1, of: self.of }
    }

    /// Returns which nodes of a tree are kept; `None` if none are.
    pub(crate) fn part(self, height: u8, path: &Path) -> Option<Part> {
        if path.level > 0 {
            return (self.of_key(height, &path.prefix) == self).then_some(Part::WHOLE);
        }
        // The shift is at most 16.
        let bits = self.of.trailing_zeros() as u8;
        let class = self.shard - 1;
        Some(Part { bits, path: reversed(class, bits) })
    }
}

/// The name of the share in `--lvmt.proofs`.
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            &Self::FULL => write!(f, "full"),
            Self { shard, of } => write!(f, "{shard}/{of}"),
        }
    }
}

/// Checks that the requested share is that of the witnesses in a store.
pub(crate) fn expect_kept(asked: Option<Share>, found: Option<Share>) -> Result<()> {
    let reason = match (asked, found) {
        (asked, found) if asked == found => return Ok(()),
        (Some(asked), None) => format!(
            "was asked to keep the witnesses `{asked}`, and the state was made without any; open it with proofs `on-request` or `none`, or make another with `{asked}`"
        ),
        (_, Some(found)) => format!(
            "has a state that keeps the witnesses `{found}` current; open it with proofs `{found}`, or make another"
        ),
        (None, None) => return Ok(()),
    };
    Err(crate::unsupported(reason))
}

/// The kept nodes of one tree: those that open the entries with an index that ends in certain bits.
///
/// Nodes and entries are named by their path from the root of the tree, which is the index with its bits reversed:
/// the first bit of the path is the lowest of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    bits: u8,
    path: u32,
}

impl Part {
    /// All nodes of a tree.
    pub(crate) const WHOLE: Self = Self { bits: 0, path: 0 };

    /// Whether the node at the end of a path is kept.
    pub(crate) const fn keeps(self, depth: u8, way: u32) -> bool {
        if depth > self.bits {
            way >> (depth - self.bits) == self.path
        } else {
            way ^ 1 == self.path >> (self.bits - depth)
        }
    }

    /// Whether a node below the end of a path is kept.
    pub(crate) const fn reaches(self, depth: u8, way: u32) -> bool {
        if depth > self.bits {
            way >> (depth - self.bits) == self.path
        } else {
            way == self.path >> (self.bits - depth)
        }
    }
}

/// Reverses the lowest bits of a number.
pub(crate) const fn reversed(number: u32, bits: u8) -> u32 {
    // A shift by 32 is avoided if there are no bits.
    if bits == 0 { 0 } else { number.reverse_bits() >> (u32::BITS - bits as u32) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kept nodes are those that open the entries of the class, no more and no less.
    #[test]
    fn a_part_is_what_opens_its_class() {
        const HEIGHT: u8 = 6;
        for of in [1, 2, 8, 64] {
            for shard in 1..=of {
                let share = Share { shard, of };
                let part = share.part(HEIGHT, &Path::ROOT).unwrap_or(Part::WHOLE);
                for depth in 1..=HEIGHT {
                    for class in 0..1u32 << depth {
                        let opens = (0..1u32 << HEIGHT).any(|index| {
                            index % of + 1 == shard
                                && (index % (1 << depth)) ^ (1 << (depth - 1)) == class
                        });
                        let way = reversed(class, depth);
                        assert_eq!(part.keeps(depth, way), opens, "{share}: {depth}, {class}");
                        if opens {
                            for above in 0..depth {
                                assert!(part.reaches(above, way >> (depth - above)), "{share}");
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn shares_have_one_encoding() {
        for (shard, of) in [(1, 1), (1, 2), (3, 16), (65_536, 65_536)] {
            let share = Share { shard, of };
            assert_eq!(Share::new(shard, of), Some(share));
            assert_eq!(Share::from_bytes(&share.to_bytes()), Some(share));
        }
        for (shard, of) in [(0, 1), (2, 1), (1, 3), (1, 1 << 17), (1, 0)] {
            assert_eq!(Share::new(shard, of), None);
        }
        assert_eq!(Share::from_bytes(&[0; 7]), None);
    }
}
