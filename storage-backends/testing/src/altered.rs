//! A layer that differs from another one in a few methods only.
//!
//! A wrapper that forwards by hand the methods it does not change can miss those that have a default, and then
//! differs from the layer in it. Here every method is forwarded, and the lint on the two `impl`s finds a new one.
//! Optional capabilities are those of the layer in it.

use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_state::{
    Access, Account, AccountVisit, AccountWrite, Bags, BlockRef, CheckReport, Commitment, Fork,
    GenesisAccounts, Horizon, LayerSession, Outcome, PastWitnesses, PendingOutcome, Prove, Prune,
    SlotVisit, StateError, StateLayer, StateReader, Stateless, UndoRecords, Wants, WriteSet,
};
use std::{fmt::Debug, sync::Arc};

/// Calls a macro with the signature of each method of [`StateLayer`].
macro_rules! layer_methods {
    ($make:ident) => {
        $make! {
            fn name() -> &'static str;
            fn commitment() -> Commitment;
            fn reader() -> Result<Arc<dyn StateReader>, StateError>;
            fn load(accounts: GenesisAccounts<'_, '_>) -> Result<Commitment, StateError>;
            fn depth() -> usize;
            fn begin(parent: BlockRef) -> Result<Box<dyn LayerSession>, StateError>;
            fn undo(record: &[u8]) -> Result<Outcome, StateError>;
            fn fork() -> Result<Fork, StateError>;
            fn accounts(from: B256, visit: &mut AccountVisit<'_>) -> Result<(), StateError>;
            fn slots(
                account: B256,
                from: B256,
                visit: &mut SlotVisit<'_>,
            ) -> Result<(), StateError>;
            fn check(progress: &mut dyn FnMut(u64)) -> Result<CheckReport, StateError>;
            fn advance(horizon: Horizon) -> ();
            fn needs_preimages() -> bool;
            fn figures() -> Vec<(&'static str, u64)>;
        }
    };
}

/// Calls a macro with the signature of each method of [`LayerSession`] that takes `&mut self`.
macro_rules! session_methods {
    ($make:ident) => {
        $make! {
            fn account(address: &Address, hash: &B256) -> Result<Option<Account>, StateError>;
            fn slot(
                address: &Address,
                account: &B256,
                slot: &U256,
                hash: &B256,
            ) -> Result<U256, StateError>;
            fn code(code_hash: &B256) -> Result<Option<Bytes>, StateError>;
            fn has_storage(address: &Address, hash: &B256) -> Result<bool, StateError>;
            fn hint(access: Access) -> ();
            fn expect(accounts: &[B256]) -> ();
            fn stream_hashed(writes: Vec<AccountWrite>) -> Result<(), StateError>;
            fn state_root_so_far(since_last: &WriteSet) -> Result<Option<B256>, StateError>;
        }
    };
}

macro_rules! ask_layer {
    ($(fn $method:ident($($arg:ident: $type:ty),* $(,)?) -> $result:ty;)*) => {$(
        #[doc = concat!("Instead of [`StateLayer::", stringify!($method), "`] of `inner`.")]
        ///
        /// # Errors
        ///
        /// Those of that method, if it has any.
        fn $method(&self, inner: &Arc<dyn StateLayer> $(, $arg: $type)*) -> $result {
            inner.$method($($arg),*)
        }
    )*};
}

macro_rules! pass_to_layer {
    ($(fn $method:ident($($arg:ident: $type:ty),* $(,)?) -> $result:ty;)*) => {$(
        fn $method(&self $(, $arg: $type)*) -> $result {
            self.change.$method(&self.inner $(, $arg)*)
        }
    )*};
}

macro_rules! ask_session {
    ($(fn $method:ident($($arg:ident: $type:ty),* $(,)?) -> $result:ty;)*) => {$(
        #[doc = concat!("Instead of [`LayerSession::", stringify!($method), "`] of `inner`.")]
        ///
        /// # Errors
        ///
        /// Those of that method, if it has any.
        fn $method(&mut self, inner: &mut dyn LayerSession $(, $arg: $type)*) -> $result {
            inner.$method($($arg),*)
        }
    )*};
}

macro_rules! pass_to_session {
    ($(fn $method:ident($($arg:ident: $type:ty),* $(,)?) -> $result:ty;)*) => {$(
        fn $method(&mut self $(, $arg: $type)*) -> $result {
            self.change.$method(&mut *self.inner $(, $arg)*)
        }
    )*};
}

/// The methods in which an [`AlteredLayer`] differs from the layer in it. An empty implementation changes nothing.
pub trait AlterLayer: Debug + Send + Sync + 'static {
    layer_methods!(ask_layer);
}

/// A change of each session of a layer.
#[derive(Debug)]
pub struct InSessions<S>(pub S);

impl<S: AlterSession + Clone + Sync> AlterLayer for InSessions<S> {
    fn begin(
        &self,
        inner: &Arc<dyn StateLayer>,
        parent: BlockRef,
    ) -> Result<Box<dyn LayerSession>, StateError> {
        Ok(AlteredSession::boxed(inner.begin(parent)?, self.0.clone()))
    }
}

/// A layer with a change.
#[derive(Debug)]
pub struct AlteredLayer<A> {
    inner: Arc<dyn StateLayer>,
    change: A,
}

impl<A: AlterLayer> AlteredLayer<A> {
    /// Wraps a layer with a change.
    pub fn new(inner: Arc<dyn StateLayer>, change: A) -> Self {
        Self { inner, change }
    }
}

#[deny(clippy::missing_trait_methods)]
impl<A: AlterLayer> StateLayer for AlteredLayer<A> {
    layer_methods!(pass_to_layer);

    fn undo_records(&self) -> &dyn UndoRecords {
        self.inner.undo_records()
    }

    fn proofs(&self) -> Option<&dyn Prove> {
        self.inner.proofs()
    }

    fn past_witnesses(&self) -> Option<&dyn PastWitnesses> {
        self.inner.past_witnesses()
    }

    fn stateless(&self) -> Option<&dyn Stateless> {
        self.inner.stateless()
    }

    fn bags(&self) -> Option<&dyn Bags> {
        self.inner.bags()
    }

    fn pruning(&self) -> Option<&dyn Prune> {
        self.inner.pruning()
    }
}

/// The methods in which an [`AlteredSession`] differs from the session in it.
pub trait AlterSession: Debug + Send + Sized + 'static {
    session_methods!(ask_session);

    /// Replaces [`LayerSession::wants`] of `inner`.
    fn wants(&self, inner: &dyn LayerSession) -> Wants {
        inner.wants()
    }

    /// Replaces [`LayerSession::finish`] of `inner`.
    ///
    /// # Errors
    ///
    /// Those of that method.
    fn finish(
        self,
        inner: Box<dyn LayerSession>,
        writes: &WriteSet,
    ) -> Result<Outcome, StateError> {
        inner.finish(writes)
    }

    /// Replaces [`LayerSession::finish_later`] of `inner`.
    ///
    /// # Errors
    ///
    /// Those of that method.
    fn finish_later(
        self,
        inner: Box<dyn LayerSession>,
        writes: Arc<WriteSet>,
    ) -> Result<Box<dyn PendingOutcome>, StateError> {
        inner.finish_later(writes)
    }
}

/// A session with a change.
#[derive(Debug)]
pub struct AlteredSession<A> {
    inner: Box<dyn LayerSession>,
    change: A,
}

impl<A: AlterSession> AlteredSession<A> {
    /// Wraps a session with a change, in the form that [`AlterLayer::begin`] returns.
    pub fn boxed(inner: Box<dyn LayerSession>, change: A) -> Box<dyn LayerSession> {
        Box::new(Self { inner, change })
    }
}

#[deny(clippy::missing_trait_methods)]
impl<A: AlterSession> LayerSession for AlteredSession<A> {
    session_methods!(pass_to_session);

    fn wants(&self) -> Wants {
        self.change.wants(&*self.inner)
    }

    fn finish(self: Box<Self>, writes: &WriteSet) -> Result<Outcome, StateError> {
        self.change.finish(self.inner, writes)
    }

    fn finish_later(
        self: Box<Self>,
        writes: Arc<WriteSet>,
    ) -> Result<Box<dyn PendingOutcome>, StateError> {
        self.change.finish_later(self.inner, writes)
    }
}
