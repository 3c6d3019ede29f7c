//! The hashes of the EIP ("Node merkelization"), with BLAKE3, which its draft uses until a final choice.

use crate::Stem;
use alloy_primitives::B256;

/// Returns the hash of two hashes. Two zero hashes have the hash zero, as an empty subtree has.
pub(crate) fn hash_pair(left: &B256, right: &B256) -> B256 {
    if left.is_zero() && right.is_zero() {
        return B256::ZERO;
    }
    let mut bytes = [0; 64];
    bytes[..32].copy_from_slice(left.as_slice());
    bytes[32..].copy_from_slice(right.as_slice());
    hash(&bytes)
}

/// Returns the hash of a leaf's value. A value of zeros is a value: only a missing leaf has the hash zero.
pub(crate) fn hash_value(value: &B256) -> B256 {
    hash(value.as_slice())
}

/// Returns the hash of a stem's node: `stem ‖ 0 ‖ root of its leaves`.
pub(crate) fn hash_stem(stem: &Stem, root: &B256) -> B256 {
    hash_pair(&left_of_stem(stem), root)
}

/// Returns the left half of the hash input of a stem's node.
pub(crate) fn left_of_stem(stem: &Stem) -> B256 {
    let mut left = B256::ZERO;
    left[..31].copy_from_slice(&stem.0);
    left
}

/// Returns the BLAKE3 hash of bytes; the keys of the tree use it, too.
pub(crate) fn hash(bytes: &[u8]) -> B256 {
    B256::new(*blake3::hash(bytes).as_bytes())
}
