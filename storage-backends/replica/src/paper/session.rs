//! One block in progress.

use super::{fetch::Fetching, layer::with_flat};
use crate::{FLAT, flat::Flat};
use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_state::{Access, Account, LayerSession, Lifecycle, Outcome, Result, Wants, WriteSet};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct PaperSession {
    /// The block's session in the layer of the trie.
    pub(super) trie: Box<dyn LayerSession>,
    pub(super) flat: Arc<Flat>,
    pub(super) lifecycle: Arc<Lifecycle>,
    /// The requests for paths; `None` without fetching threads.
    pub(super) fetching: Option<Fetching>,
}

impl LayerSession for PaperSession {
    fn account(&mut self, address: &Address, hash: &B256) -> Result<Option<Account>> {
        self.trie.account(address, hash)
    }

    fn slot(&mut self, _: &Address, account: &B256, _: &U256, hash: &B256) -> Result<U256> {
        FLAT.slot(self.flat.store(), account, hash)
    }

    fn code(&mut self, code_hash: &B256) -> Result<Option<Bytes>> {
        self.trie.code(code_hash)
    }

    fn has_storage(&mut self, address: &Address, hash: &B256) -> Result<bool> {
        self.trie.has_storage(address, hash)
    }

    fn wants(&self) -> Wants {
        Wants { hints: self.fetching.is_some(), ..Wants::default() }
    }

    /// Requests a path, and waits while the queue is full, as the paper has it.
    fn hint(&mut self, access: Access) {
        if let (Some(fetching), (address, Some(slot))) = (&self.fetching, access.place()) {
            fetching.ask(address, slot);
        }
    }

    fn state_root_so_far(&mut self, since_last: &WriteSet) -> Result<Option<B256>> {
        self.trie.state_root_so_far(since_last)
    }

    fn finish(self: Box<Self>, writes: &WriteSet) -> Result<Outcome> {
        let Self { trie, flat, lifecycle, fetching } = *self;
        if let Some(fetching) = &fetching {
            fetching.check().map_err(|error| lifecycle.poison(error))?;
        }
        Ok(with_flat((&flat, &lifecycle), trie.finish(writes)?, writes))
    }
}
