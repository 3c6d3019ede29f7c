//! The chain while somebody works with it.

use super::Node;
use crate::chain::{Chain, ChainError};
use parking_lot::MutexGuard;
use std::{
    ops::{Deref, DerefMut},
    thread,
};

/// The chain, to be changed. What a panic leaves half made is discarded before anybody else gets the chain; where the chain
/// cannot be as everybody sees it, the node has failed.
#[derive(Debug)]
pub(in crate::devnet) struct Held<'a> {
    chain: MutexGuard<'a, Chain>,
    node: &'a Node,
}

impl<'a> Held<'a> {
    pub(super) const fn new(node: &'a Node, chain: MutexGuard<'a, Chain>) -> Self {
        Self { chain, node }
    }

    /// Discards a block that is half made. Whether the chain is what the view shows then.
    fn mend(&mut self) -> Result<bool, ChainError> {
        self.chain.abandon()?;
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
        match self.mend() {
            Ok(true) => {}
            Ok(false) => self.node.fail("a change of the chain was not done whole"),
            Err(error) => self.node.fail(&format!("a block that was half made stays: {error}")),
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
