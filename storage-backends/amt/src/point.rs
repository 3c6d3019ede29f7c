//! The encodings of points.
//!
//! Three forms, each with exactly one encoding a point. Two of them are big-endian:
//!
//! - **plain**, 64 bytes: `x ‖ y`; the identity is all zeros (the curve has no point there);
//! - **compressed**, 32 bytes (G1) or 64 (G2): `x` with two flag bits in front, as gnark writes it and as the
//!   published powers of tau come: `10` the smaller `y`, `11` the larger, `01` the identity;
//! - **raw**, 64 bytes: `x ‖ y`, each four little-endian words in Montgomery form, so that reading one is copying
//!   it; the identity is all zeros.

use ark_bn254::{Fq, Fq2, G1Affine, G2Affine};
use ark_ec::AffineRepr;
use ark_ff::{BigInt, PrimeField};

/// Bytes of a plain G1 point.
pub const POINT_BYTES: usize = 64;

/// Bytes of a raw G1 point.
pub const RAW_BYTES: usize = 64;

/// Bytes of a compressed G1 point.
pub const COMPRESSED_BYTES: usize = 32;

const FLAGS: u8 = 0b1100_0000;
const SMALLER: u8 = 0b1000_0000;
const LARGER: u8 = 0b1100_0000;
const IDENTITY: u8 = 0b0100_0000;

/// Returns the identity of G1: the commitment to the vector of zeros.
pub const fn identity() -> G1Affine {
    G1Affine::identity()
}

/// Encodes a G1 point as `x ‖ y`.
pub fn encode_point(point: &G1Affine) -> [u8; POINT_BYTES] {
    let mut out = [0; POINT_BYTES];
    if let Some((x, y)) = point.xy() {
        out[..32].copy_from_slice(&encode_field(&x));
        out[32..].copy_from_slice(&encode_field(&y));
    }
    out
}

/// Decodes `x ‖ y`; `None` if it is not a point of the curve in its only encoding.
pub fn decode_point(bytes: &[u8; POINT_BYTES]) -> Option<G1Affine> {
    if *bytes == [0; POINT_BYTES] {
        return Some(identity());
    }
    let (x, y) = bytes.split_at(32);
    let point = G1Affine::new_unchecked(decode_field(x)?, decode_field(y)?);
    // The curve has prime order, so every point on it is in the group.
    (!point.is_zero() && point.is_on_curve()).then_some(point)
}

/// Encodes a G1 point in the form in which tables hold it.
pub fn encode_raw(point: &G1Affine) -> [u8; RAW_BYTES] {
    let mut out = [0; RAW_BYTES];
    if let Some((x, y)) = point.xy() {
        out[..32].copy_from_slice(&to_montgomery(&x));
        out[32..].copy_from_slice(&to_montgomery(&y));
    }
    out
}

/// Decodes the bytes of [`encode_raw`] without checks. Other bytes may give a point that is not on the curve.
#[inline]
pub fn decode_raw(bytes: &[u8; RAW_BYTES]) -> G1Affine {
    let (halves, _) = bytes.as_chunks::<32>();
    // All zeros stand for the identity in both forms.
    G1Affine::new_unchecked(from_montgomery(&halves[0]), from_montgomery(&halves[1]))
}

/// Decodes the bytes of [`encode_raw`]; `None` if they are not a point of the curve in its only encoding.
pub fn check_raw(bytes: &[u8; RAW_BYTES]) -> Option<G1Affine> {
    let point = decode_raw(bytes);
    let known = *bytes == [0; RAW_BYTES]
        || !point.is_zero() && is_reduced(&point.x) && is_reduced(&point.y) && point.is_on_curve();
    known.then_some(point)
}

/// Encodes a G1 point, compressed.
pub fn compress(point: &G1Affine) -> [u8; COMPRESSED_BYTES] {
    let Some((x, y)) = point.xy() else {
        let mut out = [0; COMPRESSED_BYTES];
        out[0] = IDENTITY;
        return out;
    };
    let mut out = encode_field(&x);
    out[0] |= if y > -y { LARGER } else { SMALLER };
    out
}

/// Decodes a compressed G1 point; `None` if it is not a point of the curve in its only encoding.
pub fn decompress(bytes: &[u8; COMPRESSED_BYTES]) -> Option<G1Affine> {
    let flags = bytes[0] & FLAGS;
    let mut x = *bytes;
    x[0] &= !FLAGS;
    match flags {
        IDENTITY => (x == [0; COMPRESSED_BYTES]).then(identity),
        SMALLER | LARGER => {
            let x = decode_field(&x)?;
            let (smaller, larger) = G1Affine::get_ys_from_x_unchecked(x)?;
            // No point has y = 0, because the order is odd; so the two always differ.
            Some(G1Affine::new_unchecked(x, if flags == LARGER { larger } else { smaller }))
        }
        _ => None,
    }
}

/// Encodes a G2 point other than the identity, compressed: the second coefficient of `x` comes first.
pub(crate) fn compress_g2(point: &G2Affine) -> [u8; 64] {
    let mut out = [0; 64];
    if let Some((x, y)) = point.xy() {
        out[..32].copy_from_slice(&encode_field(&x.c1));
        out[32..].copy_from_slice(&encode_field(&x.c0));
        out[0] |= if y > -y { LARGER } else { SMALLER };
    }
    out
}

/// Decodes a compressed G2 point; `None` if it is not in the group, is the identity, or is encoded otherwise.
pub(crate) fn decompress_g2(bytes: &[u8; 64]) -> Option<G2Affine> {
    let flags = bytes[0] & FLAGS;
    if flags != SMALLER && flags != LARGER {
        return None;
    }
    let mut first = [0; 32];
    first.copy_from_slice(&bytes[..32]);
    first[0] &= !FLAGS;
    let x = Fq2::new(decode_field(&bytes[32..])?, decode_field(&first)?);
    let (smaller, larger) = G2Affine::get_ys_from_x_unchecked(x)?;
    let point = G2Affine::new_unchecked(x, if flags == LARGER { larger } else { smaller });
    point.is_in_correct_subgroup_assuming_on_curve().then_some(point)
}

/// Decodes a coordinate from four little-endian words in Montgomery form, as tables and `.ptau` files hold it.
pub(crate) fn from_montgomery(bytes: &[u8; 32]) -> Fq {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    Fq::new_unchecked(BigInt(words))
}

/// Encodes a coordinate; the inverse of [`from_montgomery`].
pub(crate) fn to_montgomery(coordinate: &Fq) -> [u8; 32] {
    let mut out = [0; 32];
    for (word, bytes) in coordinate.0.0.iter().zip(out.chunks_exact_mut(8)) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    out
}

/// Whether four words are below the modulus, so that they are a coordinate in Montgomery form.
pub(crate) fn is_reduced(coordinate: &Fq) -> bool {
    coordinate.0 < Fq::MODULUS
}

fn encode_field(coordinate: &Fq) -> [u8; 32] {
    let mut out = [0; 32];
    for (word, bytes) in coordinate.into_bigint().0.iter().rev().zip(out.chunks_exact_mut(8)) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    out
}

fn decode_field(bytes: &[u8]) -> Option<Fq> {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().rev().zip(bytes.chunks_exact(8)) {
        *word = u64::from_be_bytes(bytes.try_into().ok()?);
    }
    Fq::from_bigint(BigInt(words))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use ark_bn254::Fr;
    use ark_ec::CurveGroup;

    #[test]
    fn points_survive_all_encodings() {
        for n in 0..50u64 {
            let point = (G1Affine::generator() * Fr::from(n)).into_affine();
            assert_eq!(decode_point(&encode_point(&point)), Some(point));
            assert_eq!(decompress(&compress(&point)), Some(point));
            let raw = encode_raw(&point);
            assert_eq!((decode_raw(&raw), check_raw(&raw)), (point, Some(point)));
            let twisted = (G2Affine::generator() * Fr::from(n + 1)).into_affine();
            assert_eq!(decompress_g2(&compress_g2(&twisted)), Some(twisted));
        }
    }

    #[test]
    fn what_is_no_point_is_refused() {
        let good = encode_point(&G1Affine::generator());
        let mut off = good;
        off[63] ^= 1;
        assert_eq!(decode_point(&off), None, "off the curve");
        let mut raw = encode_raw(&G1Affine::generator());
        raw[33] ^= 1;
        assert_eq!(check_raw(&raw), None, "off the curve");
        assert_eq!(check_raw(&[0xff; RAW_BYTES]), None, "not reduced");
        let mut wide = good;
        // x + q encodes the same number a second time.
        let modulus: [u64; 4] = Fq::MODULUS.0;
        let mut carry = 0u128;
        for (n, word) in modulus.iter().enumerate() {
            let at = 32 - 8 * (n + 1);
            let old = u64::from_be_bytes(wide[at..at + 8].try_into().unwrap());
            let sum = u128::from(old) + u128::from(*word) + carry;
            wide[at..at + 8].copy_from_slice(&(sum as u64).to_be_bytes());
            carry = sum >> 64;
        }
        assert_eq!(decode_point(&wide), None, "not reduced");
        let compressed = compress(&G1Affine::generator());
        let mut unflagged = compressed;
        unflagged[0] &= !FLAGS;
        assert_eq!(decompress(&unflagged), None);
        let mut odd_identity = compress(&identity());
        odd_identity[31] = 1;
        assert_eq!(decompress(&odd_identity), None);
        // x = 4 belongs to no point: 67 is not a square modulo q.
        let none = (0..20u8).filter(|x| {
            let mut bytes = [0; 32];
            (bytes[0], bytes[31]) = (SMALLER, *x);
            decompress(&bytes).is_none()
        });
        assert!(none.count() > 3, "about half of all x have no point");
    }
}
