//! A table of points, in memory or mapped from a file.

use crate::point::{RAW_BYTES, decode_raw};
use ark_bn254::G1Affine;
use memmap2::Mmap;
use std::fmt;

/// A table of points.
pub(super) enum Table {
    Owned(Vec<G1Affine>),
    /// A mapped file, with the range of bytes that hold the points.
    Mapped(Mmap, std::ops::Range<usize>),
}

impl Table {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Owned(points) => points.len(),
            Self::Mapped(_, range) => range.len() / RAW_BYTES,
        }
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> G1Affine {
        match self {
            Self::Owned(points) => points[at],
            Self::Mapped(file, range) => {
                let (rows, _) = file[range.clone()].as_chunks::<RAW_BYTES>();
                decode_raw(&rows[at])
            }
        }
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if matches!(self, Self::Owned(_)) { "Owned" } else { "Mapped" };
        f.debug_tuple(kind).field(&self.len()).finish()
    }
}
