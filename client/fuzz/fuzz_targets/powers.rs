//! Target for powers of tau, as a `.ptau` file and as gnark files: any bytes, or valid files with changes
//! by the fuzzer.
//!
//! A file whose powers differ from the valid ones must not be accepted.

#![no_main]

use alloy_primitives::B256;
use ark_bn254::{Fr, G1Affine, G2Affine};
use ark_ec::AffineRepr;
use libfuzzer_sys::{
    arbitrary::{Result, Unstructured},
    fuzz_target,
};
use polytrie_amt::{PowersError, PowersOfTau, VerifyingKey, compress, encode_raw};
use polytrie_fuzz::files;
use std::sync::LazyLock;

/// Exponent of the valid files: they hold `2^POWER` powers.
const POWER: u32 = 3;

struct Good {
    ptau: Vec<u8>,
    g1: Vec<u8>,
    g2: Vec<u8>,
    /// Ids of the verifying keys, by height.
    keys: Vec<B256>,
}

static GOOD: LazyLock<Good> = LazyLock::new(|| {
    let powers = |count: u32| {
        (0..count).map(|i| (0..i).fold(Fr::from(1u64), |power, _| power * Fr::from(1_234_567u64)))
    };
    let in_g1: Vec<G1Affine> =
        powers((2 << POWER) - 1).map(|power| (G1Affine::generator() * power).into()).collect();
    let in_g2: Vec<G2Affine> =
        powers(1 << POWER).map(|power| (G2Affine::generator() * power).into()).collect();
    let header =
        [&32u32.to_le_bytes()[..], &modulus(), &POWER.to_le_bytes(), &POWER.to_le_bytes()].concat();
    let sections = [
        header,
        in_g1.iter().flat_map(encode_raw).collect(),
        in_g2.iter().flat_map(raw_g2).collect(),
    ];
    let mut ptau = [b"ptau".as_slice(), &1u32.to_le_bytes(), &3u32.to_le_bytes()].concat();
    for (kind, section) in (1u32..).zip(sections) {
        ptau.extend(kind.to_le_bytes());
        ptau.extend((section.len() as u64).to_le_bytes());
        ptau.extend(section);
    }
    let g1 = in_g1.iter().flat_map(compress).collect();
    let g2 = (0..POWER).flat_map(|k| compressed_g2(&in_g2[1 << k])).collect();
    let mut good = Good { ptau, g1, g2, keys: Vec::new() };
    for height in 1..=POWER as u8 {
        let key = from_ptau(height, &good.ptau).expect("they are powers");
        assert_eq!(from_gnark(height, &good.g1, &good.g2).expect("they are powers"), key);
        good.keys.push(key);
    }
    good
});

fuzz_target!(|data: &[u8]| {
    let good = &*GOOD;
    let Some((first, rest)) = data.split_first() else { return };
    let height = 1 + first % POWER as u8;
    match first >> 6 {
        0 => drop(check(from_ptau(height, rest))),
        1 => {
            let (g1, g2) = rest.split_at(rest.len().min(32 << height));
            check(from_gnark(height, g1, g2));
        }
        _ => _ = run(height, good, &mut Unstructured::new(rest)),
    }
});

fn run(height: u8, good: &Good, bytes: &mut Unstructured<'_>) -> Result<()> {
    let (mut ptau, mut g1, mut g2) = (good.ptau.clone(), good.g1.clone(), good.g2.clone());
    let which: u8 = bytes.int_in_range(0..=2)?;
    let file = match which {
        0 => &mut ptau,
        1 => &mut g1,
        _ => &mut g2,
    };
    for _ in 0..bytes.int_in_range(0..=3)? {
        let at = bytes.choose_index(file.len().max(1))?;
        match bytes.int_in_range(0..=3)? {
            0 => file.truncate(at),
            1 => {
                let from = bytes.choose_index(file.len().max(1))?;
                let part = file[from..(from + 64).min(file.len())].to_vec();
                let end = (at + part.len()).min(file.len());
                file[at..end].copy_from_slice(&part[..end - at]);
            }
            _ => {
                if let Some(byte) = file.get_mut(at) {
                    *byte = bytes.arbitrary()?;
                }
            }
        }
    }
    let read = match which {
        0 => from_ptau(height, &ptau),
        _ => from_gnark(height, &g1, &g2),
    };
    if let Some(key) = check(read) {
        assert_eq!(key, good.keys[usize::from(height) - 1]);
    }
    Ok(())
}

fn check(read: std::result::Result<B256, PowersError>) -> Option<B256> {
    read.inspect_err(|error| assert!(!error.to_string().is_empty())).ok()
}

fn from_ptau(height: u8, file: &[u8]) -> std::result::Result<B256, PowersError> {
    let dir = files::directory([("ptau", file)]);
    PowersOfTau::read_ptau(height, &dir.path().join("ptau"))
        .map(|powers| VerifyingKey::new(&powers).id())
}

fn from_gnark(height: u8, g1: &[u8], g2: &[u8]) -> std::result::Result<B256, PowersError> {
    let dir = files::directory([("g1", g1), ("g2", g2)]);
    let (g1, g2) = (dir.path().join("g1"), dir.path().join("g2"));
    PowersOfTau::read_gnark(height, &g1, &g2).map(|powers| VerifyingKey::new(&powers).id())
}

/// The modulus of the field, little-endian.
fn modulus() -> [u8; 32] {
    // The generator has y = 2, so its negative has y = modulus − 2.
    let negative = (-G1Affine::generator()).y;
    let mut bytes = le_bytes(&negative);
    bytes[0] += 2;
    bytes
}

fn le_bytes(coordinate: &ark_bn254::Fq) -> [u8; 32] {
    let mut out = [0; 32];
    let plain = polytrie_amt::encode_point(&G1Affine::new_unchecked(*coordinate, *coordinate));
    out.copy_from_slice(&plain[..32]);
    out.reverse();
    out
}

fn raw_g2(point: &G2Affine) -> Vec<u8> {
    [point.x.c0, point.x.c1, point.y.c0, point.y.c1]
        .iter()
        .flat_map(|coordinate| {
            encode_raw(&G1Affine::new_unchecked(*coordinate, *coordinate))[..32].to_vec()
        })
        .collect()
}

fn compressed_g2(point: &G2Affine) -> Vec<u8> {
    let mut bytes = [le_bytes(&point.x.c1), le_bytes(&point.x.c0)].concat();
    bytes.chunks_exact_mut(32).for_each(<[u8]>::reverse);
    bytes[0] |= if point.y > -point.y { 0b1100_0000 } else { 0b1000_0000 };
    bytes
}
