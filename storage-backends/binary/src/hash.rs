//! The hashes of the EIP ("Node merkelization"), with BLAKE3, which its draft has until another one is chosen.

use crate::Stem;
use alloy_primitives::B256;

/// Hash of two hashes, and of nothing but zeros: nothing. So is what is empty.
pub(crate) fn hash_pair(left: &B256, right: &B256) -> B256 {
    if left.is_zero() && right.is_zero() {
        return B256::ZERO;
    }
    let mut bytes = [0; 64];
    bytes[..32].copy_from_slice(left.as_slice());
    bytes[32..].copy_from_slice(right.as_slice());
    hash(&bytes)
}

/// Hash of a leaf's value. A value of zeros is a value: only a leaf that is not there has the hash zero.
pub(crate) fn hash_value(value: &B256) -> B256 {
    hash(value.as_slice())
}

/// Hash of a stem's node: `stem ‖ 0 ‖ root of its leaves`.
pub(crate) fn hash_stem(stem: &Stem, root: &B256) -> B256 {
    hash_pair(&left_of_stem(stem), root)
}

/// The left half of what is hashed for a stem's node.
pub(crate) fn left_of_stem(stem: &Stem) -> B256 {
    let mut left = B256::ZERO;
    left[..31].copy_from_slice(&stem.0);
    left
}

/// Keys of the tree, too.
pub(crate) fn hash(bytes: &[u8]) -> B256 {
    B256::new(*blake3::hash(bytes).as_bytes())
}
