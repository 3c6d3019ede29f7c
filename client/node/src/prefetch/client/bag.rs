//! The bag of a block, and the nodes that were sent lately.

use crate::prefetch::wire::{BAG_BYTES, BAG_NODES};
use polytrie_state::BagNode;
use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::BuildHasher,
    ops::ControlFlow,
};

/// Bytes that a node takes in a frame beside its parts.
const NODE_OVERHEAD: usize = 16;
/// Bytes of a frame for its other fields than nodes.
const FRAME_OVERHEAD: usize = 64;
/// Number of blocks for which a node is not sent again, because the receiver has it; and of the first blocks, whose bags have
/// the levels that it keeps, too.
pub(super) const REMEMBERED: u64 = 64;
/// Number of remembered nodes from which the old ones are removed.
const MOST_REMEMBERED: usize = 1 << 20;

/// A bag that is being filled.
pub(super) struct Filling<'s> {
    /// Number of the block that the bag is for.
    block: u64,
    pub(super) nodes: Vec<BagNode>,
    /// Bytes of nodes that it may still take.
    room: usize,
    sent: &'s mut Sent,
}

impl<'s> Filling<'s> {
    /// Returns an empty bag for the block with this number.
    pub(super) const fn new(block: u64, sent: &'s mut Sent) -> Self {
        Self { block, nodes: Vec::new(), room: BAG_BYTES - FRAME_OVERHEAD, sent }
    }

    /// Takes a node, unless it was sent lately. Breaks if there is no room for it.
    pub(super) fn take(&mut self, node: BagNode) -> ControlFlow<()> {
        let hash = self.sent.hash(&node);
        if self.sent.has(hash, self.block) {
            return ControlFlow::Continue(());
        }
        let rest = self.room.checked_sub(size(&node)).filter(|_| self.nodes.len() < BAG_NODES);
        let Some(rest) = rest else { return ControlFlow::Break(()) };
        self.room = rest;
        self.sent.record(hash, self.block);
        self.nodes.push(node);
        ControlFlow::Continue(())
    }
}

/// Returns the most bytes that a node takes in a frame.
pub(super) fn size(node: &BagNode) -> usize {
    node.owner.len() + node.path.len() + node.row.len() + NODE_OVERHEAD
}

/// The nodes that were sent for the last blocks.
#[derive(Default)]
pub(super) struct Sent {
    hasher: RandomState,
    /// The last block for which a node was sent, by the hash of the node and its place. Two nodes with the same hash
    /// cost a read of the store.
    nodes: HashMap<u64, u64>,
    /// The last block for which old nodes were removed.
    cleared: u64,
}

impl Sent {
    fn hash(&self, node: &BagNode) -> u64 {
        self.hasher.hash_one((&node.owner, &node.path, &node.row))
    }

    /// Whether the node with this hash was sent for a block near to this one.
    fn has(&self, hash: u64, block: u64) -> bool {
        self.nodes.get(&hash).is_some_and(|of| is_near(*of, block))
    }

    /// Records that the node with this hash is sent for a block.
    fn record(&mut self, hash: u64, block: u64) {
        // At most once a block: if no node is old, each node of the block would cause a search through all of them.
        if self.nodes.len() >= MOST_REMEMBERED && self.cleared != block {
            self.cleared = block;
            self.nodes.retain(|_, of| is_near(*of, block));
        }
        // If all of them are near, the node is not recorded and may be sent again.
        if self.nodes.len() < MOST_REMEMBERED {
            self.nodes.insert(hash, block);
        }
    }
}

const fn is_near(of: u64, block: u64) -> bool {
    block.abs_diff(of) < REMEMBERED
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::Bytes;

    /// A node that finds no room is not sent, so it must go into the bag of the next block that needs it.
    #[test]
    fn only_nodes_that_are_sent_are_left_out_later() {
        let node = |row: &'static [u8]| BagNode {
            owner: Bytes::new(),
            path: Bytes::new(),
            row: Bytes::from_static(row),
        };
        let (small, large) = (node(b"small"), node(&[7; 100]));
        let mut sent = Sent::default();
        let mut fill = |block| {
            let mut bag = Filling { block, nodes: Vec::new(), room: 120, sent: &mut sent };
            let is_full = [&small, &large].map(|node| bag.take(node.clone()).is_break());
            let rows: Vec<usize> = bag.nodes.iter().map(|node| node.row.len()).collect();
            (rows, is_full)
        };
        assert_eq!(fill(1), (vec![5], [false, true]));
        assert_eq!(fill(2), (vec![100], [false, false]));
        assert_eq!(fill(3), (vec![], [false, false]));
        assert_eq!(fill(1 + REMEMBERED), (vec![5], [false, false]));
    }

    #[test]
    fn old_nodes_are_looked_for_once_a_block() {
        let mut sent = Sent::default();
        let (block, known) = (1_000, MOST_REMEMBERED as u64);
        (0..known).for_each(|hash| sent.record(hash, block));
        sent.record(known, block);
        assert!(!sent.has(known, block), "there is no room");
        sent.nodes.insert(0, 1);
        sent.record(known, block);
        assert!(sent.nodes.contains_key(&0) && !sent.has(known, block));
        sent.record(known, block + 1);
        assert!(!sent.nodes.contains_key(&0) && sent.has(known, block + 1));
    }
}
