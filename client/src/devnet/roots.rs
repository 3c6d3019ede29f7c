//! State roots of blocks that are only simulated.

use super::{Node, NodeError, View};
use crate::chain::{Chain, layer_at};
use alloy_consensus::{Header, Sealed};
use alloy_primitives::B256;
use parking_lot::MutexGuard;
use polytrie_state::{AccountChange, BlockRef, Session, StateLayer, TxWrites};
use std::sync::Arc;

/// Computes the state root after changes on top of a block, without keeping them. Where the block is the head, nobody
/// changes the chain as long as it is there.
#[derive(Debug)]
pub struct Roots<'a>(Option<Begun<'a>>);

#[derive(Debug)]
struct Begun<'a> {
    session: Session,
    layer: Arc<dyn StateLayer>,
    /// Kept where the layer is the chain's own.
    chain: Option<MutexGuard<'a, Chain>>,
}

impl Node {
    /// Begins to compute state roots on top of `parent`, a block that `view` shows. There will be none if the block was
    /// taken back since, or the layer cannot say a state root before a block is finished. For a block before the head
    /// it takes time and memory in proportion to what changed since.
    ///
    /// # Errors
    ///
    /// If the way back to the block is not kept any more, or the layer fails.
    pub fn roots(&self, view: &View, parent: &Sealed<Header>) -> Result<Roots<'_>, NodeError> {
        let chain = self.chain();
        let there = self.db().canonical(parent.number)?;
        if !self.kind().canonical || there.is_none_or(|(hash, _)| hash != parent.hash()) {
            return Ok(Roots(None));
        }
        let (layer, chain) = if chain.head().hash() == parent.hash() {
            (Arc::clone(self.layer()), Some(chain))
        } else {
            let fork = self.layer().fork()?;
            drop(chain);
            (layer_at(fork, parent.number)?, None)
        };
        let parent = BlockRef { number: parent.number, hash: parent.hash() };
        let begun = Session::begin(&*layer, parent).map(Session::with_intermediate_roots).and_then(
            |mut session| {
                if parent.hash == view.hash() {
                    session.apply(&view.cheats.writes())?;
                }
                Ok(session)
            },
        );
        match begun {
            Ok(session) => Ok(Roots(Some(Begun { session, layer, chain }))),
            Err(error) => {
                layer.discard()?;
                Err(error.into())
            }
        }
    }
}

impl Roots<'_> {
    /// The root after these changes, which come after all that were given before; zero if it is not known.
    ///
    /// # Errors
    ///
    /// If the layer fails.
    pub fn after(&mut self, changes: Vec<AccountChange>) -> Result<B256, NodeError> {
        let Some(Begun { session, .. }) = &mut self.0 else { return Ok(B256::ZERO) };
        for change in changes {
            session.apply(&TxWrites { accounts: vec![change] })?;
        }
        Ok(session.state_root_so_far()?.unwrap_or_default())
    }

    /// Ends it: the layer is as it was.
    ///
    /// # Errors
    ///
    /// If the layer fails.
    pub fn end(self) -> Result<(), NodeError> {
        let Some(Begun { session, layer, chain }) = self.0 else { return Ok(()) };
        drop(session);
        layer.discard()?;
        drop(chain);
        Ok(())
    }
}
