//! State roots of blocks that are only simulated.

use super::{Node, NodeError, View};
use crate::chain::Chain;
use alloy_primitives::B256;
use parking_lot::MutexGuard;
use polytrie_state::{AccountChange, Session, TxWrites};

/// Computes the state root after changes on top of the head, without keeping them. Nobody changes the chain as long as
/// it is there.
#[derive(Debug)]
pub struct Roots<'a> {
    session: Option<Session>,
    chain: MutexGuard<'a, Chain>,
}

impl Node {
    /// Begins to compute state roots on top of the head that `view` shows. If there is a newer one, or the layer cannot
    /// say a state root before the block is finished, there will be none.
    ///
    /// # Errors
    ///
    /// If the layer fails.
    pub fn roots(&self, view: &View) -> Result<Roots<'_>, NodeError> {
        let chain = self.chain();
        let mut roots = Roots { session: None, chain };
        if roots.chain.head().hash() == view.hash() && self.kind().canonical {
            let layer = roots.chain.layer();
            let session = Session::begin(&**layer, view.head.block_ref())?;
            let session = roots.session.insert(session.with_intermediate_roots());
            session.apply(&view.cheats.writes())?;
        }
        Ok(roots)
    }
}

impl Roots<'_> {
    /// The root after these changes, which come after all that were given before; zero if it is not known.
    ///
    /// # Errors
    ///
    /// If the layer fails.
    pub fn after(&mut self, changes: Vec<AccountChange>) -> Result<B256, NodeError> {
        let Some(session) = &mut self.session else { return Ok(B256::ZERO) };
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
        let Self { session, mut chain } = self;
        drop(session);
        Ok(chain.abandon()?)
    }
}
