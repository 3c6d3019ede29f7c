//! Passes the accounts and slots of a dump to a layer in order, and computes their roots meanwhile.

use super::{
    StateDumpError, Step,
    gather::{Codes, Collected, Entry, Named, What},
};
use crate::state_root::RootBuilder;
use alloy_primitives::{B256, Bytes, U256};
use polytrie_kv::Run;
use polytrie_state::{Account, GenesisAccount, GenesisSlots, StateError};
use std::{
    cell::RefCell,
    iter,
    sync::atomic::{AtomicBool, Ordering},
};

/// Root and size of the state that was written into the layer.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) root: B256,
    pub(super) accounts: u64,
    pub(super) slots: u64,
}

/// Iterator over a dump in order.
pub(super) struct Sorted<'a>(RefCell<Inner<'a>>);

struct Inner<'a> {
    run: Run<'a, Entry>,
    /// Entry that was read before it was needed.
    next: Option<Entry>,
    codes: &'a mut Codes,
    roots: RootBuilder,
    /// Account whose slots are being read, if there is one.
    open: Option<(B256, Named)>,
    last_slot: Option<B256>,
    last_account: Option<B256>,
    accounts: u64,
    slots: u64,
    /// Error that ended the reading early.
    failed: Option<StateDumpError>,
    interrupt: &'a AtomicBool,
    progress: &'a mut dyn FnMut(Step),
}

polytrie_kv::debug_fields!(Sorted['_] {});

impl<'a> Sorted<'a> {
    pub(super) fn new(
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
            last_account: None,
            accounts: 0,
            slots: 0,
            failed: None,
            interrupt,
            progress,
        })))
    }

    /// Returns the accounts in the form for a layer. After an error, which is kept for [`Self::finish`], there are
    /// no more.
    pub(super) fn accounts(&self) -> impl Iterator<Item = Result<GenesisAccount<'_>, StateError>> {
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

    /// Returns root and size of the state after the layer has read everything, or the error that ended the reading.
    pub(super) fn finish(self) -> Result<Found, StateDumpError> {
        let mut inner = self.0.into_inner();
        if let Some(failed) = inner.failed {
            return Err(failed);
        }
        inner.close()?;
        Ok(Found { root: inner.roots.root(), accounts: inner.accounts, slots: inner.slots })
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
            // Slots come after their account, so this account came twice.
            return Err(twice(&format!("the account with the hash {hash}")));
        };
        if self.last_account.replace(hash) == Some(hash) {
            return Err(twice(&format!("the account with the hash {hash}")));
        }
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
