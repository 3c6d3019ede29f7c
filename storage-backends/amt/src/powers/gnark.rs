//! Powers in the files that EigenDA publishes: gnark-compressed points and nothing else.

use super::{PowersError, PowersOfTau, check_height};
use crate::point::{decompress, decompress_g2};
use polytrie_kv::AtPath;
use rayon::prelude::*;
use std::{fs::File, io::Read, path::Path};

impl PowersOfTau {
    /// Reads `τ^i·G1` (32 bytes each) from one file and `τ^(2^k)·G2` (64 bytes each) from another, and checks them.
    /// Points that are not needed are not read.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, holds too few points, or the points are not powers of one number.
    pub fn read_gnark(height: u8, g1: &Path, g2: &Path) -> Result<Self, PowersError> {
        check_height(height)?;
        let g1 = read_points(g1, 1 << height, height, decompress)?;
        let g2 = read_points(g2, u64::from(height), height, decompress_g2)?;
        Self { height, g1, g2, tau: None }.check()
    }
}

/// Reads the first `needed` points of a file.
fn read_points<const SIZE: usize, P: Send>(
    path: &Path,
    needed: u64,
    height: u8,
    decode: fn(&[u8; SIZE]) -> Option<P>,
) -> Result<Vec<P>, PowersError> {
    let size = SIZE as u64;
    let file = File::open(path).at("read", path)?;
    let mut bytes = Vec::new();
    file.take(size * needed).read_to_end(&mut bytes).at("read", path)?;
    let found = bytes.len() as u64 / size;
    if found < needed {
        return Err(PowersError::TooFew { path: path.into(), found, needed, height });
    }
    let points = bytes.par_chunks_exact(SIZE).enumerate().map(|(index, bytes)| {
        let point = <&[u8; SIZE]>::try_from(bytes).ok().and_then(decode);
        point.ok_or_else(|| PowersError::Point { path: path.into(), index: index as u64 })
    });
    points.collect()
}
