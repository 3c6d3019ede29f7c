//! The interface of one block in progress in a layer.

use crate::{Access, Account, AccountWrite, Outcome, PendingOutcome, Result, WriteSet};
use alloy_primitives::{Address, B256, Bytes, U256};
use std::{fmt::Debug, sync::Arc};

/// The calls that a layer wants to get before a block ends.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Wants {
    /// Whether [`LayerSession::hint`] does anything.
    pub hints: bool,
    /// Whether reads wait for a disk, so that hints are worth waiting for: those that come before the first read are
    /// read at the same time.
    pub slow: bool,
    /// Number of account changes from which on the layer gets writes as they come ([`LayerSession::stream_hashed`]);
    /// `None` for never.
    pub writes_from: Option<usize>,
}

/// One block in progress in a layer. If it is dropped, the block never happened.
///
/// Reads return the state *before the block*; [`Session`](crate::Session) remembers a block's own writes. The caller
/// passes each key with its hash, so that it is hashed once.
pub trait LayerSession: Debug + Send {
    /// Reads an account as it was before the block; `None` if it did not exist.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged, or the layer failed before.
    fn account(&mut self, address: &Address, hash: &B256) -> Result<Option<Account>>;

    /// Reads the value of a slot before the block.
    ///
    /// # Errors
    ///
    /// Those of [`Self::account`].
    fn slot(&mut self, address: &Address, account: &B256, slot: &U256, hash: &B256)
    -> Result<U256>;

    /// Reads code by its hash.
    ///
    /// # Errors
    ///
    /// If the store fails.
    fn code(&mut self, code_hash: &B256) -> Result<Option<Bytes>>;

    /// Whether the account had any slot before the block.
    ///
    /// # Errors
    ///
    /// Those of [`Self::account`].
    fn has_storage(&mut self, address: &Address, hash: &B256) -> Result<bool>;

    /// Returns the calls that the layer wants before the block ends. Called when the block begins.
    fn wants(&self) -> Wants {
        Wants::default()
    }

    /// Announces that a part of the state will be touched soon. Must return at once and must not fail.
    fn hint(&mut self, access: Access) {
        let _ = access;
    }

    /// Announces accounts that the block names, by the hashes of their addresses: for what costs less for many together.
    /// They need not be touched. Must not wait for a disk and must not fail.
    fn expect(&mut self, accounts: &[B256]) {
        let _ = accounts;
    }

    /// Passes the finalised writes of one transaction, in order. A layer may work on them at once; they come again,
    /// merged, in [`Self::finish`]. Keys come with their hashes, which are known from reading them. `before` values
    /// are not set, a value may be the same as before, and a `wipe` may concern an account without slots.
    ///
    /// The first call comes when the block has made [`Wants::writes_from`] changes, or an intermediate root is
    /// requested. It brings all changes so far, and each later call those of one transaction. A block may end before
    /// the first call.
    ///
    /// # Errors
    ///
    /// If the layer fails to apply them.
    fn stream_hashed(&mut self, writes: Vec<AccountWrite>) -> Result<()> {
        drop(writes);
        Ok(())
    }

    /// Returns the state root after everything applied so far, for receipts before Byzantium (EIP-658); `None` if the
    /// layer cannot compute it cheaply. `since_last` holds the changes since the last call (or the start of the
    /// block); its `before` values are not set, and a `wipe` may concern an account without slots. For a layer that
    /// got the changes through [`Self::stream_hashed`], `since_last` is empty.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged, or a block below was discarded ([`Protocol`](crate::StateError::Protocol)).
    fn state_root_so_far(&mut self, since_last: &WriteSet) -> Result<Option<B256>> {
        let _ = since_last;
        Ok(None)
    }

    /// Ends the block: computes the commitment and the batch. Nothing is durable yet, and the layer stays at the
    /// parent until the outcome is accepted.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged, or a block below was discarded ([`Protocol`](crate::StateError::Protocol)).
    fn finish(self: Box<Self>, writes: &WriteSet) -> Result<Outcome>;

    /// Ends the block in a layer whose [`StateLayer::depth`](crate::StateLayer::depth) is not 0: returns while the
    /// commitment is still being computed. The next block may begin at once and reads the values after this one.
    /// Outcomes are resolved, written and accepted in the order of their blocks.
    ///
    /// # Errors
    ///
    /// Those of [`Self::finish`] that are known at once; later errors come with the outcome.
    fn finish_later(self: Box<Self>, writes: Arc<WriteSet>) -> Result<Box<dyn PendingOutcome>> {
        Ok(Box::new(self.finish(&writes)?))
    }
}
