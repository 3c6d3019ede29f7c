//! Passes the accounts and slots of a dump to a layer in order, and computes their roots meanwhile.

use super::{
    StateDumpError, Step,
    gather::{Codes, Collected, Entry, Named, What},
};
use crate::state_root::RootBuilder;
use alloy_primitives::{B256, Bytes, U256};
use polytrie_kv::Run;
use polytrie_state::{Account, Commitment, GenesisAccount, GenesisSlots, StateError, StateLayer};
use std::{
    cell::RefCell,
    iter,
    sync::atomic::{AtomicBool, Ordering},
};

/// Result of filling a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filled {
    /// State root of the accounts, for any layer.
    pub root: B256,
    /// Commitment of the layer.
    pub commitment: Commitment,
    /// Number of accounts.
    pub accounts: u64,
    /// Number of slots.
    pub slots: u64,
}

impl Collected {
    /// Fills an empty layer with everything that was collected.
    pub(super) fn fill(
        mut self,
        layer: &dyn StateLayer,
        interrupt: &AtomicBool,
        progress: &mut dyn FnMut(Step),
    ) -> Result<Filled, StateDumpError> {
        self.codes.write(0)?;
        let sorted = Sorted::new(&mut self, interrupt, progress)?;
        let loaded = layer.load(&mut sorted.accounts());
        sorted.finish(loaded)
    }
}

/// Iterator over a dump in order.
struct Sorted<'a>(RefCell<Inner<'a>>);

struct Inner<'a> {
    run: Run<'a, Entry>,
    /// Entry that was read before it was needed.
    next: Option<Entry>,
    codes: &'a mut Codes,
    roots: RootBuilder,
    /// Account whose slots are being read, if there is one.
    open: Option<(B256, Named)>,
    last_slot: Option<B256>,
    accounts: u64,
    slots: u64,
    /// Error that ended the reading early.
    failed: Option<StateDumpError>,
    interrupt: &'a AtomicBool,
    progress: &'a mut dyn FnMut(Step),
}

polytrie_kv::debug_fields!(Sorted['_] {});

impl<'a> Sorted<'a> {
    fn new(
        collected: &'a mut Collected,
        interrupt: &'a AtomicBool,
        progress: &'a mut dyn FnMut(Step),
    ) -> Result<Self, StateDumpError> {
        let run = collected.entries.drain()?;
        Ok(Self(RefCell::new(Inner {
            run,
            next: None,
            codes: &mut collected.codes,
            roots: RootBuilder::default(),
            open: None,
            last_slot: None,
            accounts: 0,
            slots: 0,
            failed: None,
            interrupt,
            progress,
        })))
    }

    /// Returns the accounts in the form for a layer. After an error, which is kept for [`Self::finish`], there are
    /// no more.
    fn accounts(&self) -> impl Iterator<Item = Result<GenesisAccount<'_>, StateError>> {
        iter::from_fn(move || {
            let next = self.0.borrow_mut().account();
            let (hash, account, code) = match next {
                Ok(next) => next?,
                Err(error) => return Some(Err(self.fail(error))),
            };
            let slots = iter::from_fn(move || {
                let slot = self.0.borrow_mut().slot();
                slot.map_err(|error| self.fail(error)).transpose()
            });
            Some(Ok(GenesisAccount { hash, account, code, slots: GenesisSlots::new(slots) }))
        })
    }

    fn fail(&self, error: StateDumpError) -> StateError {
        self.0.borrow_mut().failed.get_or_insert(error);
        StateError::Protocol("the dump ended early")
    }

    /// Returns the result after the layer has read everything, or the error that ended the reading, which is then the
    /// reason why the layer failed.
    fn finish(self, loaded: Result<Commitment, StateError>) -> Result<Filled, StateDumpError> {
        let mut inner = self.0.into_inner();
        if let Some(failed) = inner.failed {
            return Err(failed);
        }
        inner.close()?;
        let (root, commitment) = (inner.roots.root(), loaded?);
        Ok(Filled { root, commitment, accounts: inner.accounts, slots: inner.slots })
    }
}

impl Inner<'_> {
    fn entry(&mut self) -> Result<Option<Entry>, StateDumpError> {
        if self.failed.is_some() || self.interrupt.load(Ordering::Relaxed) {
            return Err(StateDumpError::Interrupted);
        }
        match self.next.take() {
            None => Ok(self.run.next().transpose()?),
            next => Ok(next),
        }
    }

    /// Returns the next account.
    fn account(&mut self) -> Result<Option<(B256, Account, Option<Bytes>)>, StateDumpError> {
        self.close()?;
        let Some(entry) = self.entry()? else { return Ok(None) };
        let hash = entry.account;
        let What::Account(named) = entry.what else {
            return Err(StateDumpError::content(format!(
                "the account with the hash {hash} has slots and nothing else; make the dump again"
            )));
        };
        self.accounts += 1;
        let (accounts, slots) = (self.accounts, self.slots);
        (self.progress)(Step { what: "filling the layer", accounts, slots, percent: None });
        let account = named.account;
        let code = self.codes.take(&account.code_hash)?;
        self.open = Some((hash, *named));
        self.last_slot = None;
        Ok(Some((hash, account, code)))
    }

    /// Returns the next slot of the account.
    fn slot(&mut self) -> Result<Option<(B256, U256)>, StateDumpError> {
        let Some((account, _)) = self.open else { return Ok(None) };
        match self.entry()? {
            Some(Entry { account: of, what: What::Slot(slot, value) }) if of == account => {
                if self.last_slot.replace(slot) == Some(slot) {
                    return Err(twice(&format!(
                        "the slot with the hash {slot} of the account with the hash {account}"
                    )));
                }
                self.slots += 1;
                self.roots.slot(slot, &value)?;
                Ok(Some((slot, value)))
            }
            // An account that comes twice stands before the slots of both.
            Some(Entry { account: of, .. }) if of == account => {
                Err(twice(&format!("the account with the hash {account}")))
            }
            other => {
                self.next = other;
                Ok(None)
            }
        }
    }

    /// Ends the account: the root of its storage must be the one in the dump.
    fn close(&mut self) -> Result<(), StateDumpError> {
        while self.open.is_some() && self.slot()?.is_some() {}
        let Some((hash, named)) = self.open.take() else { return Ok(()) };
        let found = self.roots.account(hash, &named.account)?;
        let Some(expected) = named.storage_root.filter(|expected| *expected != found) else {
            return Ok(());
        };
        let cause = match named.hashed {
            true => "make the dump again",
            false => {
                "geth leaves out a slot whose preimage it does not have: run geth with --cache.preimages from its first block on, or use `geth snapshot dump`, which needs no preimages"
            }
        };
        Err(StateDumpError::content(format!(
            "the slots of the account with the hash {hash} make the storage root {found}, but the dump says {expected}: a slot is missing or altered ({cause})"
        )))
    }
}

fn twice(what: &str) -> StateDumpError {
    StateDumpError::content(format!("{what} is there twice; make the dump again"))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use polytrie_kv::Scratch;

    /// An account that comes twice has no slots at first, and they are not what is wrong.
    #[test]
    fn an_account_with_slots_that_comes_twice_is_named_so() {
        let mut collected = Collected::new(Scratch::default());
        for _ in 0..2 {
            let storage_root = Some(B256::repeat_byte(3));
            let named = Named { account: Account::default(), storage_root, hashed: false };
            let account = B256::repeat_byte(1);
            collected.add_account(account, named).unwrap();
            collected.add_slot(account, B256::repeat_byte(2), U256::ONE).unwrap();
        }
        let (never, mut progress) = (AtomicBool::new(false), |_: Step| {});
        let sorted = Sorted::new(&mut collected, &never, &mut progress).unwrap();
        let read = sorted
            .accounts()
            .try_for_each(|account| account?.slots.try_for_each(|slot| slot.map(drop)));
        assert!(read.is_err());
        let error = sorted.finish(read.map(|()| Commitment::none())).unwrap_err().to_string();
        assert!(error.contains("is there twice"), "{error}");
    }
}
