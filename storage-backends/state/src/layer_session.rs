//! One block under way in a layer.

use crate::{Access, Account, AccountWrite, Outcome, PendingOutcome, StateError, WriteSet};
use alloy_primitives::{Address, B256, Bytes, U256};
use std::{fmt::Debug, sync::Arc};

/// What a layer wants to know of a block before it ends.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Wants {
    /// Whether [`LayerSession::hint`] does anything.
    pub hints: bool,
    /// From how many changes of accounts on it gets writes as they come ([`LayerSession::stream_hashed`]); `None` for never.
    pub writes_from: Option<usize>,
}

/// One block under way in a layer. Dropped it never happened.
///
/// Reads answer with the state *before the block*; a block's own writes are remembered by
/// [`Session`](crate::Session). The caller passes each key with its hash so that it is hashed once.
pub trait LayerSession: Debug + Send {
    /// The account before the block.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged, or the layer failed before.
    fn account(&mut self, address: &Address, hash: &B256) -> Result<Option<Account>, StateError>;

    /// The value of a slot before the block.
    ///
    /// # Errors
    ///
    /// As [`Self::account`].
    fn slot(
        &mut self,
        address: &Address,
        account: &B256,
        slot: &U256,
        hash: &B256,
    ) -> Result<U256, StateError>;

    /// Code by its hash.
    ///
    /// # Errors
    ///
    /// If the store fails.
    fn code(&mut self, code_hash: &B256) -> Result<Option<Bytes>, StateError>;

    /// Whether the account had any slot before the block.
    ///
    /// # Errors
    ///
    /// As [`Self::account`].
    fn has_storage(&mut self, address: &Address, hash: &B256) -> Result<bool, StateError>;

    /// What the layer wants to know before the block ends; asked once a block.
    fn wants(&self) -> Wants {
        Wants::default()
    }

    /// Something will be touched soon. Must return at once and must not fail.
    fn hint(&mut self, access: Access) {
        let _ = access;
    }

    /// The finalised writes of one transaction, in order. A layer may work on them at once; they come again, merged, in
    /// [`Self::finish`]. Keys come with the hashes that reading them has cost already. `before` values are not set, a
    /// value may be what it was before, and a `wipe` may concern an account without slots.
    ///
    /// The first call comes when the block has made [`Wants::writes_from`] changes, or an intermediate root is asked
    /// for; it brings all of them, and each later one those of a transaction. A block may end before it.
    ///
    /// # Errors
    ///
    /// If the layer fails at them.
    fn stream_hashed(&mut self, writes: Vec<AccountWrite>) -> Result<(), StateError> {
        drop(writes);
        Ok(())
    }

    /// The state root after everything applied so far, for receipts before Byzantium (EIP-658): `None` if
    /// the layer cannot give it cheaply. `since_last` holds what changed since the last call (or the start of
    /// the block); its `before` values are not set, and a `wipe` may concern an account without slots. A layer that
    /// was told by [`Self::stream_hashed`] is not told again: for it there is nothing in `since_last`.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged, or a block below was discarded ([`StateError::Protocol`]).
    fn state_root_so_far(&mut self, since_last: &WriteSet) -> Result<Option<B256>, StateError> {
        let _ = since_last;
        Ok(None)
    }

    /// Computes the commitment and what to write. Nothing is durable yet, and the layer stays at the parent
    /// until the outcome is accepted.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged, or a block below was discarded ([`StateError::Protocol`]).
    fn finish(self: Box<Self>, writes: &WriteSet) -> Result<Outcome, StateError>;

    /// Ends the block in a layer whose [`StateLayer::depth`](crate::StateLayer::depth) is not 0: returns while the
    /// commitment is still being computed. The next block may begin at once and reads the values after this one.
    /// Outcomes are resolved, written and accepted in the order of their blocks.
    ///
    /// # Errors
    ///
    /// As [`Self::finish`], as far as it is known by then; the rest comes with the outcome.
    fn finish_later(
        self: Box<Self>,
        writes: Arc<WriteSet>,
    ) -> Result<Box<dyn PendingOutcome>, StateError> {
        Ok(Box::new(self.finish(&writes)?))
    }
}
