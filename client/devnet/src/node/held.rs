//! The guard of the locked chain, which notices a panic in the middle of a change.

use super::Node;
use parking_lot::MutexGuard;
use polytrie_chain::{Chain, ChainError};
use std::{
    ops::{Deref, DerefMut},
    thread,
};

/// The locked chain. A panic drops a half-made change; if the chain differs from the published view then, the node is
/// marked as failed.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    chain: MutexGuard<'a, Chain>,
    node: &'a Node,
}

impl<'a> Held<'a> {
    pub(super) const fn new(node: &'a Node, chain: MutexGuard<'a, Chain>) -> Self {
        Self { chain, node }
    }

    /// Whether both the chain and the store have the head that the view shows.
    fn is_whole(&self) -> Result<bool, ChainError> {
        let (shown, stored) = (self.node.view().hash(), self.chain.db().head()?);
        let is_stored = stored.is_some_and(|stored| stored.hash() == shown);
        Ok(is_stored && self.chain.head().hash() == shown)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if !thread::panicking() {
            return;
        }
        match self.is_whole() {
            Ok(true) => {}
            Ok(false) => self.node.fail("a change of the chain was not done whole"),
            Err(error) => {
                self.node.fail(&format!("the chain cannot be read after a panic: {error}"))
            }
        }
    }
}

impl Deref for Held<'_> {
    type Target = Chain;

    fn deref(&self) -> &Chain {
        &self.chain
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut Chain {
        &mut self.chain
    }
}
