//! A whole state as a stream, which a worker thread reads ahead.

use alloy_primitives::{B256, U256};
use crossbeam_channel::{Receiver, Sender, bounded};
use polytrie_kv::KvError;
use polytrie_state::{Account, Result, StateError, StateLayer};
use std::{
    cell::RefCell,
    iter,
    ops::ControlFlow,
    sync::atomic::{AtomicBool, Ordering},
    thread::{self, Scope},
};

/// Number of slots in a portion: 64 KiB.
pub(super) const PORTION: usize = 1_024;

/// Greatest number of accounts and portions that are read ahead.
pub(super) const AHEAD: usize = 64;

/// Slots by hash, with their values.
pub(super) type Slots = Vec<(B256, U256)>;

/// Iterator over the accounts of a state in the order of their hashes, and after each account over its slots in
/// the order of theirs.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    found: Receiver<Result<Found>>,
    /// Item that was received before it was needed.
    next: RefCell<Option<Found>>,
    interrupt: &'a AtomicBool,
}

#[derive(Debug)]
enum Found {
    Account(B256, Account),
    /// A portion of the slots of the last account: full portions, then the remaining slots.
    Slots(Slots),
}

impl<'a> Walk<'a> {
    /// Starts the worker thread. The thread ends with the walk, and the walk ends with an error soon after
    /// `interrupt` is set.
    ///
    /// # Errors
    ///
    /// Fails if the system gives no thread.
    pub(super) fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        layer: &'scope dyn StateLayer,
        interrupt: &'a AtomicBool,
    ) -> Result<Self> {
        let (sender, found) = bounded(AHEAD);
        let work = move || {
            if let Err(error) = read(layer, &sender) {
                // The receiver may be dropped already.
                let _ = sender.send(Err(error));
            }
        };
        thread::Builder::new().spawn_scoped(scope, work).map_err(KvError::thread)?;
        Ok(Self { found, next: RefCell::default(), interrupt })
    }

    /// Returns the next account, and skips the remaining slots of the one before.
    pub(super) fn account(&self) -> Result<Option<(B256, Account)>> {
        loop {
            match self.receive()? {
                Some(Found::Slots(_)) => {}
                Some(Found::Account(hash, account)) => return Ok(Some((hash, account))),
                None => return Ok(None),
            }
        }
    }

    /// Returns the next portion of the account's slots: [`PORTION`] of them, or fewer at the end. `None` if
    /// there are no more.
    pub(super) fn portion(&self) -> Result<Option<Slots>> {
        let found = self.receive()?;
        if let Some(Found::Slots(portion)) = found {
            return Ok(Some(portion));
        }
        *self.next.borrow_mut() = found;
        Ok(None)
    }

    /// Returns the account's slots.
    pub(super) fn slots(&self) -> impl Iterator<Item = Result<(B256, U256)>> {
        let mut portion = Vec::new().into_iter();
        iter::from_fn(move || {
            if portion.as_slice().is_empty() {
                match self.portion() {
                    Ok(more) => portion = more.unwrap_or_default().into_iter(),
                    Err(error) => return Some(Err(error)),
                }
            }
            portion.next().map(Ok)
        })
    }

    fn receive(&self) -> Result<Option<Found>> {
        if self.interrupt.load(Ordering::Relaxed) {
            return Err(StateError::Protocol("the walk was interrupted"));
        }
        match self.next.borrow_mut().take() {
            None => self.found.recv().ok().transpose(),
            found => Ok(found),
        }
    }
}

/// Sends the whole state, until the receiver is dropped.
fn read(layer: &dyn StateLayer, sender: &Sender<Result<Found>>) -> Result<()> {
    let send = |found| match sender.send(Ok(found)) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    };
    layer.accounts(B256::ZERO, &mut |hash, account| {
        if send(Found::Account(hash, account)).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let (mut portion, mut flow) = (Slots::new(), ControlFlow::Continue(()));
        layer.slots(hash, B256::ZERO, &mut |slot, value| {
            portion.push((slot, value));
            if portion.len() == PORTION {
                flow = send(Found::Slots(std::mem::take(&mut portion)));
            }
            Ok(flow)
        })?;
        if !portion.is_empty() && flow.is_continue() {
            flow = send(Found::Slots(portion));
        }
        Ok(flow)
    })
}
