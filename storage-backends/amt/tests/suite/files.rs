//! Files of powers of a generated tau, in the forms that others write.

use alloy_primitives::keccak256;
use ark_bn254::{Fq, Fr, G1Projective, G2Projective};
use ark_ec::{AffineRepr, CurveGroup, PrimeGroup};
use ark_ff::{BigInteger, Field, PrimeField};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Returns the tau that `PowersOfTau::insecure_dev` derives from a seed.
fn tau(seed: &str) -> Fr {
    let [low, high] =
        [0, 1].map(|n| keccak256([b"polytrie insecure tau", &[n][..], seed.as_bytes()].concat()));
    Fr::from_be_bytes_mod_order(&[high.0, low.0].concat())
}

/// Writes `g1` and `g2` files, gnark-compressed.
pub(crate) fn write_gnark(dir: &Path, height: u8, seed: &str) -> (PathBuf, PathBuf) {
    let tau = tau(seed);
    let mut g1 = Vec::new();
    for i in 0..1u64 << height {
        let point = (G1Projective::generator() * tau.pow([i])).into_affine();
        let (x, y) = point.xy().expect("no power is zero");
        g1.extend(flagged(&x.into_bigint().to_bytes_be(), y > -y));
    }
    let mut g2 = Vec::new();
    for k in 0..height {
        let point = (G2Projective::generator() * tau.pow([1 << k])).into_affine();
        let (x, y) = point.xy().expect("no power is zero");
        let bytes = [x.c1, x.c0].map(|c| c.into_bigint().to_bytes_be()).concat();
        g2.extend(flagged(&bytes, y > -y));
    }
    let paths = (dir.join("g1.point"), dir.join("g2.point.powerOf2"));
    fs::write(&paths.0, g1).expect("a file can be written");
    fs::write(&paths.1, g2).expect("a file can be written");
    paths
}

fn flagged(x: &[u8], larger: bool) -> Vec<u8> {
    let mut out = x.to_vec();
    out[0] |= if larger { 0xc0 } else { 0x80 };
    out
}

/// Writes a `.ptau` file with the sections that are read, and an unused one.
pub(crate) fn write_ptau(dir: &Path, height: u8, seed: &str) -> PathBuf {
    let tau = tau(seed);
    let mut header = 32u32.to_le_bytes().to_vec();
    header.extend(Fq::MODULUS.to_bytes_le());
    header.extend(u32::from(height).to_le_bytes());
    header.extend(28u32.to_le_bytes());
    let mut g1 = Vec::new();
    for i in 0..(2u64 << height) - 1 {
        let point = (G1Projective::generator() * tau.pow([i])).into_affine();
        g1.extend([point.x, point.y].iter().flat_map(montgomery));
    }
    let mut g2 = Vec::new();
    for i in 0..1u64 << height {
        let p = (G2Projective::generator() * tau.pow([i])).into_affine();
        g2.extend([p.x.c0, p.x.c1, p.y.c0, p.y.c1].iter().flat_map(montgomery));
    }
    let mut file = b"ptau".to_vec();
    file.extend(1u32.to_le_bytes());
    file.extend(4u32.to_le_bytes());
    for (kind, content) in [(1u32, header), (7, vec![0; 5]), (2, g1), (3, g2)] {
        file.extend(kind.to_le_bytes());
        file.extend((content.len() as u64).to_le_bytes());
        file.extend(content);
    }
    let path = dir.join("powers.ptau");
    fs::write(&path, file).expect("a file can be written");
    path
}

fn montgomery(coordinate: &Fq) -> Vec<u8> {
    coordinate.0.to_bytes_le()
}
