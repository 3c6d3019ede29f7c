//! A layer that listens to hints and insists on them.

use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_state::{
    Access, Account, AccountVisit, BlockRef, CheckReport, Commitment, Fork, GenesisAccount,
    LayerSession, Outcome, Proof, SlotVisit, StateError, StateLayer, StateReader, WriteSet,
};
use std::{collections::HashSet, sync::Arc};

/// Another layer that is told what is coming, and panics if it is asked for a slot that nobody
/// announced.
#[derive(Debug)]
pub(crate) struct HintedLayer<L>(Arc<L>);

impl<L: StateLayer> HintedLayer<L> {
    pub(crate) const fn new(layer: Arc<L>) -> Self {
        Self(layer)
    }
}

#[derive(Debug)]
struct HintedSession {
    inner: Box<dyn LayerSession>,
    announced: HashSet<(Address, U256)>,
}

impl<L: StateLayer> StateLayer for HintedLayer<L> {
    fn name(&self) -> &'static str {
        "hinted"
    }
    fn commitment(&self) -> Commitment {
        self.0.commitment()
    }
    fn reader(&self) -> Result<Arc<dyn StateReader>, StateError> {
        self.0.reader()
    }
    fn load(
        &self,
        accounts: &mut dyn Iterator<Item = Result<GenesisAccount<'_>, StateError>>,
    ) -> Result<Commitment, StateError> {
        self.0.load(accounts)
    }
    fn begin(&self, parent: BlockRef) -> Result<Box<dyn LayerSession>, StateError> {
        Ok(Box::new(HintedSession { inner: self.0.begin(parent)?, announced: HashSet::new() }))
    }
    fn accept(&self) -> Result<(), StateError> {
        self.0.accept()
    }
    fn discard(&self) -> Result<(), StateError> {
        self.0.discard()
    }
    fn undo(&self, record: &[u8]) -> Result<Outcome, StateError> {
        self.0.undo(record)
    }
    fn fork(&self) -> Result<Fork, StateError> {
        self.0.fork()
    }
    fn prove(&self, address: &Address, slots: &[U256]) -> Result<Proof, StateError> {
        self.0.prove(address, slots)
    }
    fn accounts(&self, from: B256, visit: &mut AccountVisit<'_>) -> Result<(), StateError> {
        self.0.accounts(from, visit)
    }
    fn slots(
        &self,
        account: B256,
        from: B256,
        visit: &mut SlotVisit<'_>,
    ) -> Result<(), StateError> {
        self.0.slots(account, from, visit)
    }
    fn check(&self, progress: &mut dyn FnMut(u64)) -> Result<CheckReport, StateError> {
        self.0.check(progress)
    }
}

impl LayerSession for HintedSession {
    fn account(&mut self, address: &Address, hash: &B256) -> Result<Option<Account>, StateError> {
        self.inner.account(address, hash)
    }
    fn slot(
        &mut self,
        address: &Address,
        account: &B256,
        slot: &U256,
        hash: &B256,
    ) -> Result<U256, StateError> {
        assert!(self.announced.contains(&(*address, *slot)), "{address} {slot} came unannounced");
        self.inner.slot(address, account, slot, hash)
    }
    fn code(&mut self, code_hash: &B256) -> Result<Option<Bytes>, StateError> {
        self.inner.code(code_hash)
    }
    fn has_storage(&mut self, address: &Address, hash: &B256) -> Result<bool, StateError> {
        self.inner.has_storage(address, hash)
    }
    fn wants_hints(&self) -> bool {
        true
    }
    fn hint(&mut self, access: Access) {
        if let Access::SlotRead(address, slot) | Access::SlotWrite(address, slot) = access {
            self.announced.insert((address, slot));
        }
    }
    fn state_root_so_far(&mut self, since_last: &WriteSet) -> Result<Option<B256>, StateError> {
        self.inner.state_root_so_far(since_last)
    }
    fn finish(self: Box<Self>, writes: &WriteSet) -> Result<Outcome, StateError> {
        self.inner.finish(writes)
    }
}
