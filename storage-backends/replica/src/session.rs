//! One block under way, and one that waits for its root.

use crate::{
    error::gone,
    flat::FLAT,
    hints::Filter,
    layer::Core,
    overlay::Overlay,
    side::{LeafWrite, Sealed, StorageWrite, Writes},
};
use alloy_primitives::{Address, B256, Bytes, U256};
use crossbeam_channel::Receiver;
use polytrie_kv::Batch;
use polytrie_state::{
    Access, Account, AccountWrite, Commitment, LayerSession, Outcome, PendingOutcome, StateError,
    Turn, UndoRecord, WriteSet, read_code, write_codes,
};
use std::sync::Arc;

/// Writes are handed to the workers when so many have come together: waking a thread for each transaction
/// would cost about as much as executing it.
const WRITES_AT_ONCE: usize = 64;

/// One block under way. Reads are answered by blocks that wait, and by the flat rows below them.
#[derive(Debug)]
pub(crate) struct ReplicaSession {
    core: Arc<Core>,
    turn: Turn,
    overlay: Overlay,
    filter: Filter,
    out: Outbox,
    /// Whether the block is large enough for threads.
    shared: bool,
    /// The buffer all reads share.
    value: Vec<u8>,
}

/// Writes on their way to the workers.
#[derive(Debug)]
pub(crate) struct Outbox {
    parts: Vec<Writes>,
    count: usize,
}

impl Outbox {
    pub(crate) fn new(core: &Core) -> Self {
        Self { parts: (0..core.side.parts()).map(|_| Writes::default()).collect(), count: 0 }
    }

    pub(crate) fn push(&mut self, write: AccountWrite, core: &Core) {
        let account = write.hash;
        let wipe = write.wipe || write.after.is_none();
        let storage = wipe || !write.slots.is_empty();
        let leaf = LeafWrite { account, after: write.after, storage };
        self.parts[0].leaves.push(leaf);
        if storage {
            let write = StorageWrite { account, wipe, slots: write.slots };
            self.parts[core.side.part_of(&account)].storage.push(write);
        }
        self.count += 1;
    }

    /// Hands everything over; with `share`, to threads where there are such.
    pub(crate) fn send(&mut self, core: &Core, share: bool) -> Result<(), StateError> {
        self.count = 0;
        let parts = self.parts.iter_mut().enumerate().filter(|(_, writes)| writes.len() > 0);
        core.side.write(parts.map(|(part, writes)| (part, std::mem::take(writes))), share)
    }
}

impl ReplicaSession {
    pub(crate) fn new(core: Arc<Core>, turn: Turn) -> Self {
        let overlay = core.overlay.lock().clone();
        let out = Outbox::new(&core);
        Self {
            core,
            turn,
            overlay,
            filter: Filter::default(),
            out,
            shared: false,
            value: Vec::new(),
        }
    }

    /// Tells the workers that the block is over; afterwards they compute its root, while the next one begins if `go_on`
    /// says so.
    fn end(&mut self, go_on: bool) -> Result<Receiver<Result<Sealed, StateError>>, StateError> {
        self.filter.count(&self.core.hints);
        let sent = self.out.send(&self.core, false).and_then(|()| self.core.side.finish(go_on));
        sent.map_err(|error| self.core.lifecycle.poison(error))
    }
}

impl LayerSession for ReplicaSession {
    fn account(&mut self, _: &Address, hash: &B256) -> Result<Option<Account>, StateError> {
        match self.overlay.account(hash) {
            Some(account) => Ok(account),
            None => FLAT.account(self.core.flat.store(), hash, &mut self.value),
        }
    }

    fn slot(
        &mut self,
        _: &Address,
        account: &B256,
        _: &U256,
        hash: &B256,
    ) -> Result<U256, StateError> {
        match self.overlay.slot(account, hash) {
            Some(value) => Ok(value),
            None => FLAT.slot(self.core.flat.store(), account, hash, &mut self.value),
        }
    }

    fn code(&mut self, code_hash: &B256) -> Result<Option<Bytes>, StateError> {
        match self.overlay.code(code_hash) {
            Some(code) => Ok(Some(code)),
            None => read_code(&self.core.store, code_hash),
        }
    }

    fn has_storage(&mut self, _: &Address, hash: &B256) -> Result<bool, StateError> {
        self.overlay.has_storage(self.core.flat.store(), hash)
    }

    fn wants_hints(&self) -> bool {
        self.core.side.takes_hints()
    }

    fn hint(&mut self, access: Access) {
        #[cfg(test)]
        if self.core.trouble.as_ref().is_some_and(|trouble| trouble.drops_hint()) {
            return;
        }
        self.filter.hint(access, &self.core.side);
    }

    fn wants_hashed(&self) -> bool {
        true
    }

    fn stream_hashed(&mut self, writes: Vec<AccountWrite>) -> Result<(), StateError> {
        self.filter.end_transaction(&self.core.side);
        for write in writes {
            self.out.push(write, &self.core);
        }
        if self.out.count < WRITES_AT_ONCE {
            return Ok(());
        }
        self.shared = true;
        self.out.send(&self.core, true).map_err(|error| self.core.lifecycle.poison(error))
    }

    fn state_root_so_far(&mut self, _: &WriteSet) -> Result<Option<B256>, StateError> {
        self.core.lifecycle.check(&self.turn)?;
        let root = self.out.send(&self.core, false).and_then(|()| self.core.side.root());
        root.map(Some).map_err(|error| self.core.lifecycle.poison(error))
    }

    fn finish(mut self: Box<Self>, writes: &WriteSet) -> Result<Outcome, StateError> {
        self.core.lifecycle.check(&self.turn)?;
        self.core.lifecycle.settled()?;
        let sealed = self.end(false)?;
        let Self { core, turn, .. } = *self;
        let outcome = core.outcome(writes, &sealed)?;
        core.lifecycle.finish(turn)?;
        Ok(outcome)
    }

    fn finish_later(
        mut self: Box<Self>,
        writes: Arc<WriteSet>,
    ) -> Result<Box<dyn PendingOutcome>, StateError> {
        self.core.lifecycle.check(&self.turn)?;
        let sealed = self.end(self.shared && self.core.depth > 0)?;
        let Self { core, turn, .. } = *self;
        core.overlay.lock().0.push(Arc::clone(&writes));
        core.lifecycle.finish_later(turn)?;
        Ok(Box::new(Waiting { core, writes, sealed }))
    }
}

/// A block whose root is being computed.
#[derive(Debug)]
struct Waiting {
    core: Arc<Core>,
    writes: Arc<WriteSet>,
    sealed: Receiver<Result<Sealed, StateError>>,
}

impl PendingOutcome for Waiting {
    fn is_ready(&self) -> bool {
        !self.sealed.is_empty()
    }

    fn resolve(self: Box<Self>) -> Result<Outcome, StateError> {
        self.core.lifecycle.ready()?;
        self.core.outcome(&self.writes, &self.sealed)
    }
}

impl Core {
    /// Everything about a block but its root while workers compute that, and then all of it.
    pub(crate) fn outcome(
        &self,
        writes: &WriteSet,
        sealed: &Receiver<Result<Sealed, StateError>>,
    ) -> Result<Outcome, StateError> {
        let undo = FLAT
            .wiped_slots(self.flat.store(), writes)
            .map(|wiped| UndoRecord::new(writes, wiped).encode());
        let outcome = undo.and_then(|undo| self.complete(writes, sealed, undo));
        outcome.map_err(|error| self.lifecycle.poison(error))
    }

    /// The same with the record for undoing given.
    pub(crate) fn complete(
        &self,
        writes: &WriteSet,
        sealed: &Receiver<Result<Sealed, StateError>>,
        undo: Vec<u8>,
    ) -> Result<Outcome, StateError> {
        let mut own = Batch::new();
        write_codes(&mut own, writes.codes());
        let apart = self.flat.prepare(writes, &mut own);
        let Sealed { root, rows: mut batch } = sealed.recv().map_err(|_| gone())??;
        batch.append(&own);
        self.resolved.lock().push_back((root, apart));
        Ok(Outcome { commitment: Commitment::state_root(root), batch, undo })
    }
}
