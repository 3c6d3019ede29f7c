//! One block in progress, and one that waits for its root.

use crate::{
    FLAT,
    hints::Filter,
    overlay::Overlay,
    shared::{Core, ReplicaChange},
    side::{Outbox, Sealing, TrieSide},
};
use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_state::{
    Access, Account, AccountWrite, LayerSession, Outcome, PendingOutcome, Proposal, Result, Wants,
    WriteSet, ahead::Announced, read_code,
};
use std::sync::Arc;

/// Number of writes that are sent to the workers together: waking a thread for each transaction would cost about as
/// much as executing it. The workers get the writes of a smaller block at its end.
const WRITES_AT_ONCE: usize = 64;

/// One block in progress. Waiting blocks answer its reads, and the flat rows below them.
#[derive(Debug)]
pub(crate) struct ReplicaSession {
    proposal: Proposal<ReplicaChange>,
    core: Arc<Core>,
    /// Number of the block.
    number: u64,
    overlay: Overlay,
    filter: Filter,
    /// Whether hints help this block, as it was when the block began.
    hinted: bool,
    /// Number of accounts and slots that the block has read.
    read: usize,
    /// The flat rows that are read ahead.
    ahead: Announced,
    /// Whether the workers get writes before the end of the block.
    streamed: bool,
    out: Outbox,
    /// Whether the block is large enough for threads.
    shared: bool,
}

impl ReplicaSession {
    pub(crate) fn new(proposal: Proposal<ReplicaChange>, number: u64) -> Self {
        let core = proposal.change.core.clone();
        let overlay = core.overlay.lock().clone();
        let hinted = core.side.wants_hints();
        let flat = core.flat.store().clone();
        let ahead = Announced::begin(&core.side.readers, move |wanted| FLAT.look_at(&flat, wanted));
        Self {
            proposal,
            core,
            number,
            overlay,
            filter: Filter::default(),
            hinted,
            read: 0,
            ahead,
            streamed: false,
            out: Outbox::default(),
            shared: false,
        }
    }

    /// Returns the tries, as long as they are those from before the block.
    fn tries(&self) -> Option<&TrieSide> {
        (!self.streamed).then_some(&self.core.side)
    }

    /// Ends the block for the workers, which then compute its root; if `go_on`, the next block begins meanwhile.
    fn end(&mut self, writes: &WriteSet, go_on: bool) -> Result<Sealing> {
        self.filter.count(&self.core.hints);
        self.ahead.end().map_err(|error| self.core.lifecycle.poison(error.into()))?;
        let side = &self.core.side;
        side.ended(self.read, writes);
        let sent = if self.streamed { self.out.send(side, false) } else { side.take(writes) };
        let sealing = sent.and_then(|()| side.finish(go_on));
        sealing.map_err(|error| self.core.lifecycle.poison(error))
    }
}

impl LayerSession for ReplicaSession {
    fn account(&mut self, _: &Address, hash: &B256) -> Result<Option<Account>> {
        self.read += 1;
        if let Some(tries) = self.tries()
            && let Some(account) = tries.account(hash)?
        {
            return Ok(account);
        }
        let Self { core, overlay, ahead, .. } = self;
        match overlay.account(hash) {
            Some(account) => Ok(account),
            None => ahead.read(|| FLAT.account(core.flat.store(), hash)),
        }
    }

    fn slot(&mut self, _: &Address, account: &B256, _: &U256, hash: &B256) -> Result<U256> {
        self.read += 1;
        if let Some(tries) = self.tries()
            && let Some(value) = tries.slot(account, hash)?
        {
            return Ok(value);
        }
        let Self { core, overlay, ahead, .. } = self;
        match overlay.slot(account, hash) {
            Some(value) => Ok(value),
            None => ahead.read(|| FLAT.slot(core.flat.store(), account, hash)),
        }
    }

    fn code(&mut self, code_hash: &B256) -> Result<Option<Bytes>> {
        match self.overlay.code(code_hash) {
            Some(code) => Ok(Some(code)),
            None => read_code(&self.core.store, code_hash),
        }
    }

    fn has_storage(&mut self, _: &Address, hash: &B256) -> Result<bool> {
        if let Some(tries) = self.tries()
            && let Some(found) = tries.has_storage(hash)?
        {
            return Ok(found);
        }
        self.overlay.has_storage(self.core.flat.store(), hash)
    }

    fn hint(&mut self, access: Access) {
        #[cfg(test)]
        if self.core.options.trouble.as_ref().is_some_and(|trouble| trouble.drops_hint()) {
            return;
        }
        self.ahead.want(access);
        self.filter.hint(access, &self.core.side);
    }

    /// Requests writes from the first on if hints help, because writes are the better hints.
    fn wants(&self) -> Wants {
        let from = if self.hinted { 0 } else { WRITES_AT_ONCE };
        #[cfg(test)]
        let from = self.core.options.trouble.as_ref().and_then(|t| t.streams_from).unwrap_or(from);
        Wants { hints: self.hinted, writes_from: Some(from), ..self.ahead.wants() }
    }

    fn stream_hashed(&mut self, writes: Vec<AccountWrite>) -> Result<()> {
        let side = &self.core.side;
        self.streamed = true;
        self.filter.end_transaction(side);
        for write in writes {
            self.out.push(write, side);
        }
        if self.out.count() < WRITES_AT_ONCE {
            return Ok(());
        }
        // After a block below was discarded, the tries are those of the head.
        self.proposal.check()?;
        self.shared = true;
        self.out.send(side, true).map_err(|error| self.core.lifecycle.poison(error))
    }

    fn state_root_so_far(&mut self, _: &WriteSet) -> Result<Option<B256>> {
        self.proposal.check()?;
        let side = &self.core.side;
        let root = self.out.send(side, false).and_then(|()| side.root());
        root.map(Some).map_err(|error| self.core.lifecycle.poison(error))
    }

    fn finish(mut self: Box<Self>, writes: &WriteSet) -> Result<Outcome> {
        self.proposal.check()?;
        self.core.lifecycle.settled()?;
        let sealing = self.end(writes, false)?;
        let Self { proposal, number, .. } = *self;
        ReplicaChange::finish_block(proposal, writes, number, sealing)
    }

    fn finish_later(mut self: Box<Self>, writes: Arc<WriteSet>) -> Result<Box<dyn PendingOutcome>> {
        self.proposal.check()?;
        let go_on = self.shared && self.core.options.depth > 0;
        let sealing = self.end(&writes, go_on)?;
        let Self { mut proposal, core, number, .. } = *self;
        core.overlay.lock().0.push(Arc::clone(&writes));
        proposal.wait()?;
        Ok(Box::new(Waiting { proposal, writes, number, sealing }))
    }
}

/// A block whose root is being computed.
#[derive(Debug)]
struct Waiting {
    proposal: Proposal<ReplicaChange>,
    writes: Arc<WriteSet>,
    number: u64,
    sealing: Sealing,
}

impl PendingOutcome for Waiting {
    fn is_ready(&self) -> bool {
        self.sealing.is_done()
    }

    fn resolve(self: Box<Self>) -> Result<Outcome> {
        let Self { proposal, writes, number, sealing } = *self;
        proposal.change.core.lifecycle.ready()?;
        ReplicaChange::finish_block(proposal, &writes, number, sealing)
    }
}
