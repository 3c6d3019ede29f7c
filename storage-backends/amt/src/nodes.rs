//! The nodes of the proof trees of many vectors, updated incrementally.
//!
//! A node has a depth and a class, and stands for the entries of that class. Here it is one sum a slot, each of which
//! uses the quotients of slot 0: one table serves all slots, and [`Opening::of_nodes`](crate::Opening::of_nodes)
//! combines the sums. The increment of a version is one addition a depth.

use crate::{
    Setup,
    commit::Terms,
    sums::{Part, sum_parts},
};
use ark_bn254::{G1Affine, G1Projective};
use ark_ec::{AffineRepr, CurveGroup};
use rayon::prelude::*;

/// The direction in which versions are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Versions are incremented by one.
    Up,
    /// Versions are decremented by one.
    Back,
}

/// A batch of version steps in any number of nodes. Their new values are computed together.
#[derive(Debug)]
pub struct NodeCounting<'a> {
    setup: &'a Setup,
    direction: Direction,
    nodes: Vec<G1Affine>,
    /// The quotients to be added, by their index in the table.
    terms: Vec<u32>,
    /// The index behind the last term of each node.
    ends: Vec<u32>,
}

impl<'a> NodeCounting<'a> {
    /// Creates an empty batch; `None` if the setup has no tables for proofs.
    pub fn new(setup: &'a Setup, direction: Direction) -> Option<Self> {
        let (nodes, terms, ends) = (Vec::new(), Vec::new(), Vec::new());
        setup.can_prove().then_some(Self { setup, direction, nodes, terms, ends })
    }

    /// Adds the next node with its present value, for one slot: for each of these entries of its class, the version
    /// in that slot is counted.
    ///
    /// # Panics
    ///
    /// If there is no such depth or entry.
    pub fn node(&mut self, before: G1Affine, depth: u8, entries: impl IntoIterator<Item = u32>) {
        let height = self.setup.height();
        assert!((1..=height).contains(&depth), "no such depth");
        self.terms.extend(entries.into_iter().map(|index| {
            assert!(index >> height == 0, "no such entry");
            // The index is at most 20 · 2^20.
            u32::from(depth - 1) << height | index
        }));
        self.nodes.push(before);
        // A block changes far fewer than 2^27 keys, and a key is in 20 nodes at most.
        self.ends.push(self.terms.len() as u32);
    }

    /// Returns the new nodes, in order. The number of threads does not change the result.
    pub fn finish(self) -> Vec<G1Affine> {
        let Self { setup, direction, nodes, terms, ends } = &self;
        sum_parts(ends, |part: &Part, points| {
            if part.first && !nodes[part.group as usize].is_zero() {
                points.push(nodes[part.group as usize]);
            }
            let quotients = terms[part.range()].iter();
            points.extend(quotients.filter_map(|at| setup.quotient_row(*at as usize)).map(
                |quotient| match direction {
                    Direction::Up => quotient,
                    Direction::Back => -quotient,
                },
            ));
        })
    }
}

/// The terms of a node: its depth, and entries of its class with their versions in one slot.
#[derive(Debug, Clone)]
pub struct NodeSum {
    /// The depth, from 1 to the height.
    pub depth: u8,
    /// The index and version of each entry.
    pub versions: Vec<(u32, u64)>,
}

/// Sums nodes from scratch: the oracle of incremental ones. `None` if the setup has no tables for proofs.
pub fn sum_nodes(setup: &Setup, nodes: &[NodeSum]) -> Option<Vec<G1Affine>> {
    let sum = |node: &NodeSum| {
        let mut terms = Terms::default();
        for (index, version) in &node.versions {
            terms.push(setup.quotient(node.depth, *index)?, *version);
        }
        Some(terms.sum())
    };
    let sums: Vec<G1Projective> = nodes.par_iter().map(sum).collect::<Option<_>>()?;
    Some(G1Projective::normalize_batch(&sums))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{Entry, Opening, PowersOfTau, SLOTS, identity, open};

    const HEIGHT: u8 = 5;

    /// All nodes of a vector, one for each slot.
    type Nodes = Vec<Vec<[G1Affine; SLOTS]>>;

    fn count(setup: &Setup, nodes: &mut Nodes, direction: Direction, changes: &[(usize, u32)]) {
        let mut counting = NodeCounting::new(setup, direction).unwrap();
        let mut places = Vec::new();
        for depth in 1..=HEIGHT {
            for class in 0..1u32 << depth {
                let above = nodes[usize::from(depth - 1)][class as usize];
                for (slot, before) in above.into_iter().enumerate() {
                    let own = changes
                        .iter()
                        .filter(|(s, index)| *s == slot && index % (1 << depth) == class);
                    counting.node(before, depth, own.map(|(_, index)| *index));
                    places.push((usize::from(depth - 1), class as usize, slot));
                }
            }
        }
        for ((depth, class, slot), sum) in places.into_iter().zip(counting.finish()) {
            nodes[depth][class][slot] = sum;
        }
    }

    #[test]
    fn kept_nodes_open_what_sums_from_nothing_open() {
        let (powers, _) = PowersOfTau::from_seed(HEIGHT, "nodes");
        let setup = Setup::derive(&powers, true, &mut |_| {});
        let empty: Nodes = (1..=HEIGHT).map(|d| vec![[identity(); SLOTS]; 1 << d]).collect();
        let mut nodes = empty.clone();
        let mut versions = vec![[0u64; SLOTS]; 32];
        let mut done = Vec::new();
        for round in 0..6u32 {
            let changes: Vec<(usize, u32)> =
                (0..round * 9).map(|k| ((k % 6) as usize, (k * k + round) % 32)).collect();
            for (slot, index) in &changes {
                versions[*index as usize][*slot] += 1;
            }
            count(&setup, &mut nodes, Direction::Up, &changes);
            done.push(changes);
            let entries: Vec<Entry> = (0u32..)
                .zip(&versions)
                .map(|(index, versions)| Entry { index, versions: *versions })
                .collect();
            for index in 0..32 {
                let siblings: Vec<_> = (1..=HEIGHT)
                    .map(|d| {
                        let class = (index % (1 << d)) ^ (1 << (d - 1));
                        nodes[usize::from(d - 1)][class as usize]
                    })
                    .collect();
                let opening = Opening::of_nodes(&setup, index, &siblings);
                assert_eq!(Some(opening), open(&setup, &entries, index), "entry {index}");
            }
            let of_slot_3 = (0..32).step_by(4).map(|j| (j, versions[j as usize][3])).collect();
            let sum = sum_nodes(&setup, &[NodeSum { depth: 2, versions: of_slot_3 }]);
            assert_eq!(sum, Some(vec![nodes[1][0][3]]));
        }
        for changes in done.iter().rev() {
            count(&setup, &mut nodes, Direction::Back, changes);
        }
        assert_eq!(nodes, empty);
        let bare = Setup::derive(&powers, false, &mut |_| {});
        assert!(NodeCounting::new(&bare, Direction::Up).is_none());
    }
}
