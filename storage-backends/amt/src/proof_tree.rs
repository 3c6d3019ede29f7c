//! The nodes that prove all positions of one large vector.

use crate::{Opening, Setup, commit::Terms};
use ark_bn254::{G1Affine, G1Projective};
use ark_ec::CurveGroup;
use rayon::prelude::*;

/// The nodes of a full vector that uses only slot 0, updated when they are needed.
///
/// Every node stores the versions that it has counted. Opening an entry updates its `height` nodes to the present
/// versions, with one small multiple of a point for each entry that changed since the node was last used. A vector
/// that changes and is not opened costs nothing.
#[derive(Debug)]
pub struct ProofTree {
    height: u8,
    /// The nodes; that of depth `d` and class `c` is at `2^d - 2 + c`.
    nodes: Vec<G1Affine>,
    /// The counted versions; that of entry `j` in its node of depth `d` is at `(d-1)·2^height + j`.
    counted: Vec<u64>,
}

impl ProofTree {
    /// Creates the tree of the vector of zeros.
    pub fn new(height: u8) -> Self {
        let n = 1usize << height;
        Self {
            height,
            nodes: vec![G1Affine::identity(); 2 * n - 2],
            counted: vec![0; usize::from(height) * n],
        }
    }

    /// Opens the entry at `index`; `versions` is slot 0 of every entry. `None` if the setup has no tables for proofs,
    /// or is for another height.
    pub fn open(&mut self, setup: &Setup, versions: &[u64], index: u32) -> Option<Opening> {
        let n = 1usize << self.height;
        if setup.height() != self.height || versions.len() != n || !setup.can_prove() {
            return None;
        }
        let siblings: Vec<(u8, usize)> =
            (1..=self.height).map(|d| (d, sibling(index, d))).collect();
        let changes: Vec<G1Projective> = siblings
            .par_iter()
            .map(|(depth, class)| self.change(setup, versions, *depth, *class))
            .collect();
        let nodes: Vec<G1Projective> = siblings
            .iter()
            .zip(changes)
            .map(|((depth, class), change)| change + self.nodes[node(*depth, *class)])
            .collect();
        let nodes = G1Projective::normalize_batch(&nodes);
        for ((depth, class), point) in siblings.iter().zip(&nodes) {
            self.nodes[node(*depth, *class)] = *point;
            let first = usize::from(*depth - 1) * n;
            for j in (*class..n).step_by(1 << depth) {
                self.counted[first + j] = versions[j];
            }
        }
        Some(Opening { basis: setup.point(0, index), nodes })
    }

    /// Returns the sum of the version changes that the node has not counted yet.
    fn change(&self, setup: &Setup, versions: &[u64], depth: u8, class: usize) -> G1Projective {
        let n = 1usize << self.height;
        let counted = &self.counted[usize::from(depth - 1) * n..][..n];
        let mut terms = Terms::default();
        for j in (class..n).step_by(1 << depth) {
            let (now, then) = (versions[j], counted[j]);
            if now != then
                && let Some(quotient) = setup.quotient(depth, j as u32)
            {
                // Versions decrease when a block is undone.
                let quotient = if now > then { quotient } else { -quotient };
                terms.push(quotient, now.abs_diff(then));
            }
        }
        terms.sum()
    }
}

/// Returns the class beside that of `index` at a depth.
fn sibling(index: u32, depth: u8) -> usize {
    (index as usize % (1 << depth)) ^ (1 << (depth - 1))
}

fn node(depth: u8, class: usize) -> usize {
    (1 << depth) - 2 + class
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{Claim, Entry, PowersOfTau, commit, open, verify};

    #[test]
    fn openings_follow_the_vector_forward_and_back() {
        let (powers, _) = PowersOfTau::from_seed(5, "tree");
        let setup = Setup::derive(&powers, true, &mut |_| {});
        let mut tree = ProofTree::new(5);
        let mut versions = vec![0u64; 32];
        for round in 0..12u32 {
            for j in 0..32u32 {
                let version = &mut versions[j as usize];
                match (round * 31 + j * 17) % 5 {
                    0 => *version += u64::from(round * j),
                    1 => *version = version.saturating_sub(3),
                    _ => {}
                }
            }
            let entries: Vec<Entry> = (0..32u32)
                .map(|index| Entry { index, versions: [versions[index as usize], 0, 0, 0, 0, 0] })
                .collect();
            let commitment = commit(&setup, &entries);
            for index in [round, 31 - round, 16] {
                let opening = tree.open(&setup, &versions, index).unwrap();
                assert_eq!(Some(&opening), open(&setup, &entries, index).as_ref());
                let versions = entries[index as usize].versions;
                let claim = Claim { commitment, index, versions, opening: &opening };
                assert!(verify(setup.key(), &[claim]));
            }
        }
    }
}
