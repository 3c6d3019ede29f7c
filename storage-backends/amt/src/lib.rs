//! AMT: a vector commitment with proofs that can be maintained for all positions at once.
//!
//! A vector of `2^height` entries, each of six 40-bit version numbers, is one point of BN254's G1: the KZG
//! commitment to the polynomial that takes the entries as its values on the roots of unity. Counting a version
//! up by one adds one precomputed point. An entry is opened with one point a level, and any number of openings,
//! of any number of vectors, is verified with `height + 1` pairings.
//!
//! This crate is cryptography only: it knows no keys, no store and no blocks. The README has the algebra.

mod batch;
mod commit;
mod count;
mod fft;
mod multiply;
mod nodes;
mod opening;
mod point;
mod powers;
mod proof_tree;
mod setup;
mod sums;
mod verify;
mod versions;

pub use ark_bn254::{Fr, G1Affine, G2Affine};
pub use commit::{Entry, commit};
pub use count::Counting;
pub use nodes::{Direction, NodeCounting, NodeSum, sum_nodes};
pub use opening::{Opening, open};
pub use point::{
    COMPRESSED_BYTES, POINT_BYTES, RAW_BYTES, check_raw, compress, decode_point, decode_raw,
    decompress, encode_point, encode_raw, identity,
};
pub use powers::{PowersError, PowersOfTau};
pub use proof_tree::ProofTree;
pub use setup::{Derivation, Setup, SetupError};
pub use sums::sum_groups;
pub use verify::{Claim, VerifyingKey, verify};
pub use versions::{SLOT_BITS, SLOTS, VERSION_LIMIT, Versions, is_valid};

/// The largest height of a vector: the polynomial's degree must stay below what ceremonies offer.
pub const MAX_HEIGHT: u8 = 20;
