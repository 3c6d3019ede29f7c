//! State roots of blocks that are only simulated.

use super::Node;
use crate::{NodeError, View};
use alloy_primitives::B256;
use polytrie_state::{AccountChange, BlockRef, Session, StateLayer, TxWrites};
use std::{sync::Arc, time::Instant};

/// Computes the state root after changes on top of a block, without keeping them. It works on a layer of its own.
#[derive(Debug)]
pub struct Roots(Option<Begun>);

#[derive(Debug)]
struct Begun {
    session: Session,
    /// Kept as long as the session.
    _layer: Arc<dyn StateLayer>,
}

impl Node {
    /// Begins to compute state roots on top of `parent`, a block that `view` shows. There will be none if the layer cannot
    /// say a state root before a block is finished. For a block before the head it takes time and memory in proportion to
    /// what changed since.
    ///
    /// # Errors
    ///
    /// If the block was taken back, the way back to it is not kept any more or takes longer than `deadline`, or the layer
    /// fails.
    pub fn roots(
        &self,
        view: &View,
        parent: BlockRef,
        deadline: Option<Instant>,
    ) -> Result<Roots, NodeError> {
        if !self.kind.canonical {
            return Ok(Roots(None));
        }
        let layer = self.layer_after(parent, deadline)?;
        let mut session = Session::begin(&*layer, parent)?.with_intermediate_roots();
        if parent.hash == view.hash() {
            session.apply(&view.cheats.writes())?;
        }
        Ok(Roots(Some(Begun { session, _layer: layer })))
    }
}

impl Roots {
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
}
