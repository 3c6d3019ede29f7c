//! State roots of simulated blocks.

use super::Node;
use crate::{PendingBlock, Result, View};
use alloy_primitives::B256;
use polytrie_state::{AccountChange, BlockRef, Session, StateLayer, TxWrites};
use std::{sync::Arc, time::Instant};

/// Computes state roots after changes on top of a block, on a separate layer, without storing the changes.
#[derive(Debug)]
pub struct Roots(Option<Begun>);

#[derive(Debug)]
struct Begun {
    session: Session,
    /// The layer of the session; it must live as long.
    _layer: Arc<dyn StateLayer>,
}

impl Node {
    /// Starts to compute state roots on top of `pending` if it is given, otherwise on top of `parent`, a block that
    /// `view` shows. The roots are zero if the layer has no canonical state root. For a block before the head this takes
    /// time and memory in proportion to the changes since then.
    ///
    /// # Errors
    ///
    /// If the block was reverted, the undo records back to it are not kept any more or take longer than `deadline`, or
    /// the layer fails.
    pub fn roots(
        &self,
        view: &View,
        parent: BlockRef,
        pending: Option<&PendingBlock>,
        deadline: Option<Instant>,
    ) -> Result<Roots> {
        if !self.kind.canonical {
            return Ok(Roots(None));
        }
        let stored = pending.map_or(parent, PendingBlock::parent);
        let layer = self.fork_after(stored, deadline)?.layer;
        let mut session = Session::begin(&*layer, stored)?.with_intermediate_roots();
        match pending {
            Some(pending) => session.apply(&pending.changes)?,
            None if parent.hash == view.hash() => session.apply(&view.cheats.writes())?,
            None => {}
        }
        Ok(Roots(Some(Begun { session, _layer: layer })))
    }
}

impl Roots {
    /// Applies these changes on top of all earlier ones and returns the state root; zero if the layer has none.
    ///
    /// # Errors
    ///
    /// If the layer fails.
    pub fn after(&mut self, changes: Vec<AccountChange>) -> Result<B256> {
        let Some(Begun { session, .. }) = &mut self.0 else { return Ok(B256::ZERO) };
        for change in changes {
            session.apply(&TxWrites { accounts: vec![change] })?;
        }
        Ok(session.state_root_so_far()?.unwrap_or_default())
    }
}
