//! One block while it runs: its reads, its writes, and at the end its commitment and batch.

use crate::{
    change::change,
    shared::{RainChange, RainCore},
    touches::Source,
    version::Version,
    witness::{self, Asked},
};
use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_state::{
    Access, Account, LayerSession, Outcome, Proposal, Result, Wants, WriteSet,
    ahead::{ReadAhead, Reading},
    hash_address, hash_slot, read_code,
};
use polytrie_trie::{SlotValue, cow::CowTrie};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct RainSession {
    proposal: Proposal<RainChange>,
    /// The state before the block.
    parent: Arc<Version>,
    /// Number of the block.
    number: u64,
    announced: Reading<Ahead>,
    /// The storage trie that was read last, with the hash of its account: the next slot is mostly of the same account.
    storage: Option<(B256, CowTrie<SlotValue>)>,
    /// The state within the block, if its root was asked for there.
    so_far: Option<Version>,
    /// The keys and codes that the block asked for, if a witness is to be made.
    asked: Option<Asked>,
    /// Number of levels of the account trie that the witness leaves out.
    witness_levels: u8,
}

impl RainSession {
    pub(crate) fn new(
        proposal: Proposal<RainChange>,
        parent: Arc<Version>,
        number: u64,
        witness_levels: Option<u8>,
    ) -> Self {
        let source = &proposal.change.shared.source;
        let ahead = Ahead { version: parent.clone(), source: source.clone() };
        let announced = Reading::new(&source.touches.readers, ahead);
        Self {
            proposal,
            parent,
            number,
            announced,
            storage: None,
            so_far: None,
            asked: witness_levels.map(|_| Asked::default()),
            witness_levels: witness_levels.unwrap_or_default(),
        }
    }

    fn shared(&self) -> &RainCore {
        &self.proposal.change.shared
    }
}

impl LayerSession for RainSession {
    fn wants(&self) -> Wants {
        self.announced.wants()
    }

    fn hint(&mut self, access: Access) {
        self.announced.want(access);
    }

    fn account(&mut self, _: &Address, hash: &B256) -> Result<Option<Account>> {
        self.announced.close();
        if let Some(asked) = &mut self.asked {
            asked.keys.entry(*hash).or_default();
        }
        let entry = self.parent.account(&self.shared().source.noted(), hash)?;
        Ok(entry.map(|entry| entry.account))
    }

    fn slot(&mut self, _: &Address, account: &B256, _: &U256, hash: &B256) -> Result<U256> {
        self.announced.close();
        if let Some(asked) = &mut self.asked {
            asked.keys.entry(*account).or_default().insert(*hash);
        }
        let store = &self.proposal.change.shared.source.noted();
        let now = self.parent.seq;
        let known = self.storage.as_ref().filter(|(owner, _)| owner == account);
        let value = if let Some((_, storage)) = known {
            store.find(Some(*account), storage, hash, now)?.copied()
        } else {
            let Some(entry) = self.parent.account(store, account)? else { return Ok(U256::ZERO) };
            let value = store.find(Some(*account), &*entry.storage, hash, now)?.copied();
            // From then on the root of this trie is in memory for later readers, too.
            self.storage = Some((*account, CowTrie::clone(&entry.storage)));
            value
        };
        Ok(value.map_or(U256::ZERO, |value| value.0))
    }

    fn code(&mut self, code_hash: &B256) -> Result<Option<Bytes>> {
        if let Some(asked) = &mut self.asked {
            asked.codes.insert(*code_hash);
        }
        read_code(&self.shared().source.store, code_hash)
    }

    fn has_storage(&mut self, _: &Address, hash: &B256) -> Result<bool> {
        self.announced.close();
        if let Some(asked) = &mut self.asked {
            asked.keys.entry(*hash).or_default();
        }
        let entry = self.parent.account(&self.shared().source.noted(), hash)?;
        Ok(entry.is_some_and(|entry| !entry.storage.is_empty()))
    }

    fn state_root_so_far(&mut self, since_last: &WriteSet) -> Result<Option<B256>> {
        self.proposal.check()?;
        if let Some(asked) = &mut self.asked {
            asked.steps.push(since_last.clone());
        }
        let from = self.so_far.take().unwrap_or_else(|| (*self.parent).clone());
        let source = &self.shared().source;
        let (next, _) = change(source, from, since_last, self.parent.seq + 1)?;
        Ok(Some(self.so_far.insert(next).root))
    }

    fn finish(self: Box<Self>, writes: &WriteSet) -> Result<Outcome> {
        let Self { proposal, parent, number, announced, storage, so_far, asked, witness_levels } =
            *self;
        // The change would have to copy any node that these still share.
        announced.end().map_err(|error| proposal.poison(error.into()))?;
        drop((storage, so_far));
        let shared = Arc::clone(&proposal.change.shared);
        let source = &shared.source;
        let witness = asked
            .map(|asked| witness::make(&parent, &source.noted(), &asked, writes, witness_levels))
            .transpose()?;
        let outcome = RainCore::finish(proposal, (number, parent), writes);
        if !shared.is_fork() {
            source.touches.offered.over(number);
        }
        Ok(Outcome { witness, ..outcome? })
    }
}

/// Reads the accounts and slots that a block announces into memory. Any number of threads may read a version, and a
/// node that one of them loads is there for all.
struct Ahead {
    version: Arc<Version>,
    source: Source,
}

impl ReadAhead for Ahead {
    type Wanted = Access;

    fn read(&self, wanted: Vec<Access>) -> bool {
        if self.source.touches.readers.is_slow() {
            let touched = Access::by_hash(&wanted);
            return self.version.gather(&self.source.noted(), &touched).is_ok();
        }
        wanted.into_iter().all(|access| {
            let (address, slot) = access.place();
            let (store, account) = (self.source.noted(), hash_address(&address));
            match slot {
                None => self.version.account(&store, &account).is_ok(),
                Some(slot) => self.version.slot(&store, &account, &hash_slot(&slot)).is_ok(),
            }
        })
    }
}
