//! Openings: proofs of one entry of a vector.

use crate::{SLOT_BITS, SLOTS, Setup, commit::Entry, commit::Terms};
use ark_bn254::{G1Affine, G1Projective};
use ark_ec::CurveGroup;
use ark_ff::AdditiveGroup;
use rayon::prelude::*;

/// The proof of one entry: its basis point, and for each depth the node that covers the other half.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// The Lagrange polynomial of the entry's index at tau.
    pub basis: G1Affine,
    /// The nodes, depth 1 first: the part of the polynomial that belongs to the sibling of the entry's class, divided
    /// by the polynomial that vanishes on the entry's own class.
    pub nodes: Vec<G1Affine>,
}

/// Opens the entry at `index`, given all entries of the vector that are not zero. Each of them is in exactly one
/// node, so this costs one small multiple of a point an entry; it is the better choice for few entries.
///
/// `None` if the setup has no tables for proofs.
pub fn open(setup: &Setup, entries: &[Entry], index: u32) -> Option<Opening> {
    if !setup.can_prove() {
        return None;
    }
    let height = setup.height();
    let mut terms: Vec<[Terms; SLOTS]> = (0..height).map(|_| Default::default()).collect();
    for entry in entries.iter().filter(|entry| entry.index != index) {
        // The depth at which the two indices differ: there the entry is in the sibling of the class of `index`.
        let depth = (entry.index ^ index).trailing_zeros() as u8 + 1;
        let quotient = setup.quotient(depth, entry.index)?;
        for (slot, version) in entry.versions.iter().enumerate().filter(|(_, v)| **v != 0) {
            terms[usize::from(depth - 1)][slot].push(quotient, *version);
        }
    }
    let sums = |slots: &[Terms; SLOTS]| combine(slots.iter().map(Terms::sum));
    let nodes: Vec<G1Projective> = terms.par_iter().map(sums).collect();
    Some(Opening { basis: setup.point(0, index), nodes: G1Projective::normalize_batch(&nodes) })
}

impl Opening {
    /// Opens the entry at `index`, given incremental nodes: for each depth, the first one first, those of the sibling
    /// of the entry's class, one a slot.
    pub fn of_nodes(setup: &Setup, index: u32, nodes: &[[G1Affine; SLOTS]]) -> Self {
        let sum = |slots: &[G1Affine; SLOTS]| combine(slots.iter().map(|node| (*node).into()));
        let nodes: Vec<G1Projective> = nodes.iter().map(sum).collect();
        Self { basis: setup.point(0, index), nodes: G1Projective::normalize_batch(&nodes) }
    }
}

/// Computes `Σ 2^(40·slot) · sum of the slot`, by Horner's rule.
fn combine(slots: impl DoubleEndedIterator<Item = G1Projective>) -> G1Projective {
    slots.rev().fold(G1Projective::ZERO, |mut sum, slot| {
        for _ in 0..SLOT_BITS {
            sum.double_in_place();
        }
        sum + slot
    })
}
