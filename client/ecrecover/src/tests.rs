//! Every result is that of the library which recovers one signature after the other.

use super::*;
use alloy_primitives::{U256, b256, keccak256};
use k256::{ecdsa::SigningKey, elliptic_curve::PrimeField};
use polytrie_testing::Seed;
use rand::RngExt;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

const ORDER: B256 = b256!("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141");
const PRIME: B256 = b256!("fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f");

fn number(of: B256) -> U256 {
    of.into()
}

pub(crate) fn sign(key: &SigningKey, hash: B256) -> Signed {
    let (signature, recovery) = key.sign_prehash_recoverable(&hash.0).expect("a key signs");
    let (r, s) = signature.split_bytes();
    let number = |bytes: k256::FieldBytes| U256::from_be_bytes(bytes.into());
    let signature = Signature::new(number(r), number(s), recovery.is_y_odd());
    Signed { hash, signature }
}

/// Compares what `signed` gives together, and in smaller groups, with what each gives alone.
fn check(signed: &[Signed]) -> Vec<Option<Address>> {
    let expected: Vec<_> = signed.iter().map(recover_one).collect();
    for size in [1, 2, 3, 7, 8, 9, 63, 64, 65, usize::MAX] {
        let found: Vec<_> = signed.chunks(size).flat_map(recover).collect();
        assert_eq!(found.len(), expected.len());
        for ((found, expected), signed) in found.iter().zip(&expected).zip(signed) {
            assert_eq!(found, expected, "{signed:?} in groups of {size}");
        }
    }
    expected
}

pub(crate) fn key(random: &mut ChaCha8Rng) -> SigningKey {
    loop {
        if let Ok(key) = SigningKey::from_slice(&random.random::<[u8; 32]>()) {
            return key;
        }
    }
}

#[test]
fn the_signer_of_each_signature_is_found() {
    let seed = Seed::or(1);
    let mut random = ChaCha8Rng::seed_from_u64(seed.value());
    let (mut signed, mut signers) = (Vec::new(), Vec::new());
    for _ in 0..2_000 {
        let key = key(&mut random);
        let point = key.verifying_key().to_encoded_point(false);
        signers.push(Some(Address::from_raw_public_key(&point.as_bytes()[1..])));
        signed.push(sign(&key, random.random::<[u8; 32]>().into()));
    }
    assert_eq!(check(&signed), signers);
    // The other half of the range of s, with the other y, is the same signer.
    for Signed { signature, .. } in &mut signed {
        *signature = Signature::new(signature.r(), number(ORDER) - signature.s(), !signature.v());
    }
    assert_eq!(check(&signed), signers);
}

#[test]
fn numbers_at_the_edges_give_what_one_signature_alone_gives() {
    let seed = Seed::or(2);
    let mut random = ChaCha8Rng::seed_from_u64(seed.value());
    let generator =
        number(b256!("79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"));
    let near = |of: U256| [of.wrapping_sub(U256::ONE), of, of.wrapping_add(U256::ONE)];
    let middles = [U256::ZERO, U256::ONE << 52, U256::ONE << 128, U256::ONE << 255, generator];
    let edges: Vec<_> =
        middles.into_iter().chain([number(ORDER), number(PRIME)]).flat_map(near).collect();
    let mut signed = Vec::new();
    for r in &edges {
        for s in &edges {
            for hash in edges.iter().copied().chain([U256::from_limbs(random.random())]) {
                let signature = Signature::new(*r, *s, random.random());
                signed.push(Signed { hash: hash.into(), signature });
            }
        }
    }
    // x = 1 is where the sums begin: its multiples meet them.
    for _ in 0..200 {
        let s = U256::from_limbs(random.random());
        let signature = Signature::new(U256::ONE, s, random.random());
        signed.push(Signed { hash: random.random::<[u8; 32]>().into(), signature });
    }
    let found = check(&signed);
    assert!(found.iter().any(Option::is_some) && found.iter().any(Option::is_none));
}

/// z/r · G and s/r · R are each other's negatives, or the same point.
#[test]
fn a_key_that_is_no_point_or_twice_a_point_is_no_trouble() {
    let seed = Seed::or(3);
    let mut random = ChaCha8Rng::seed_from_u64(seed.value());
    let mut signed = Vec::new();
    for round in 0..100 {
        let key = key(&mut random);
        let secret = *key.as_nonzero_scalar().as_ref();
        let point = key.verifying_key().to_encoded_point(false);
        let hash = keccak256([round]);
        let of_hash = k256::Scalar::from_repr(hash.0.into()).expect("a hash is below the order");
        let s = of_hash * secret.invert().expect("a secret is not zero");
        let r: [u8; 32] = (*point.x().expect("a key is a point")).into();
        let odd = point.y().expect("a key is a point")[31] & 1 == 1;
        for odd in [odd, !odd] {
            let s = U256::from_be_bytes(s.to_bytes().into());
            signed.push(Signed { hash, signature: Signature::new(U256::from_be_bytes(r), s, odd) });
        }
        signed.push(sign(&key, hash));
    }
    let found = check(&signed);
    for three in found.chunks(3) {
        assert_eq!((three[0], three[1].is_some(), three[2].is_some()), (None, true, true));
    }
}
