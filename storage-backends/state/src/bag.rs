//! What one process reads of a state for another one.

use alloy_primitives::Bytes;
use alloy_rlp::{RlpDecodable, RlpEncodable};
use serde::Serialize;
use std::ops::ControlFlow;

/// A node as it is stored, with its place. The node above it has its hash, which tells whether it is the right one.
#[derive(Debug, Clone, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct BagNode {
    /// Hash of the account that has it in its storage trie; empty for the account trie.
    pub owner: Bytes,
    /// Path of the node from the root, a byte a nibble.
    pub path: Bytes,
    /// Row of the node.
    pub row: Bytes,
}

/// Receives nodes; breaks when it wants no more.
pub type TakeNode<'a> = dyn FnMut(BagNode) -> ControlFlow<()> + 'a;

/// What became of bags that were offered.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BagCounts {
    /// Bags that came before the turn of their block was over.
    pub bags: u64,
    /// Bags that came too late, which were dropped.
    pub late: u64,
    /// Nodes in the former that were kept until the turn of their block.
    pub nodes: u64,
    /// Nodes that are none.
    pub refused: u64,
    /// Nodes that took the place of a read of the store.
    pub used: u64,
}
