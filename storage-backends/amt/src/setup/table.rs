//! A table of points, in memory or mapped from a file.

use crate::point::{from_montgomery, to_montgomery};
use ark_bn254::G1Affine;
use ark_ec::AffineRepr;
use memmap2::Mmap;
use std::fmt;

/// Bytes of a point in a table: `x ‖ y`, each four little-endian words in Montgomery form, so that reading one
/// is copying it.
pub(super) const ROW: usize = 64;

/// A table of points.
pub(super) enum Table {
    Owned(Vec<G1Affine>),
    /// A file, and where in it the points begin and end.
    Mapped(Mmap, std::ops::Range<usize>),
}

impl Table {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Owned(points) => points.len(),
            Self::Mapped(_, range) => range.len() / ROW,
        }
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> G1Affine {
        match self {
            Self::Owned(points) => points[at],
            Self::Mapped(file, range) => {
                let (rows, _) = file[range.clone()].as_chunks::<ROW>();
                decode_row(&rows[at])
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

pub(super) fn encode_row(point: &G1Affine) -> [u8; ROW] {
    let mut row = [0; ROW];
    if let Some((x, y)) = point.xy() {
        row[..32].copy_from_slice(&to_montgomery(&x));
        row[32..].copy_from_slice(&to_montgomery(&y));
    }
    row
}

#[inline]
fn decode_row(row: &[u8; ROW]) -> G1Affine {
    let mut halves = [[0; 32]; 2];
    halves[0].copy_from_slice(&row[..32]);
    halves[1].copy_from_slice(&row[32..]);
    // All zeros are the identity, here as there.
    G1Affine::new_unchecked(from_montgomery(&halves[0]), from_montgomery(&halves[1]))
}
