//! A whole state as a stream, read ahead by a thread.

use alloy_primitives::{B256, U256};
use crossbeam_channel::{Receiver, Sender, bounded};
use polytrie_kv::KvError;
use polytrie_state::{Account, StateError, StateLayer};
use std::{
    cell::RefCell,
    iter,
    ops::ControlFlow,
    sync::atomic::{AtomicBool, Ordering},
    thread::{self, Scope},
};

/// Slots that are handed over at once: 64 KiB.
pub(super) const PORTION: usize = 1_024;

/// Accounts and portions of slots that are read ahead.
pub(super) const AHEAD: usize = 64;

/// Slots by hash, with their values.
pub(super) type Slots = Vec<(B256, U256)>;

/// The accounts of a state in order of their hash, and after each of them its slots, in order of theirs.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    found: Receiver<Result<Found, StateError>>,
    /// What was received too early.
    next: RefCell<Option<Found>>,
    interrupt: &'a AtomicBool,
}

#[derive(Debug)]
enum Found {
    Account(B256, Account),
    /// Some of the slots of the account that came last, full portions and then the rest.
    Slots(Slots),
}

impl<'a> Walk<'a> {
    /// Starts reading. The thread ends with the walk, and the walk with an error soon after `interrupt` was set.
    ///
    /// # Errors
    ///
    /// If the system gives no thread.
    pub(super) fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        layer: &'scope dyn StateLayer,
        interrupt: &'a AtomicBool,
    ) -> Result<Self, StateError> {
        let (sender, found) = bounded(AHEAD);
        let work = move || {
            if let Err(error) = read(layer, &sender) {
                // The receiver may be gone.
                let _ = sender.send(Err(error));
            }
        };
        thread::Builder::new().spawn_scoped(scope, work).map_err(KvError::thread)?;
        Ok(Self { found, next: RefCell::default(), interrupt })
    }

    /// The next account. What is left of the slots of the one before is passed over.
    pub(super) fn account(&self) -> Result<Option<(B256, Account)>, StateError> {
        loop {
            match self.receive()? {
                Some(Found::Slots(_)) => {}
                Some(Found::Account(hash, account)) => return Ok(Some((hash, account))),
                None => return Ok(None),
            }
        }
    }

    /// Some more of the account's slots: [`PORTION`] of them unless they are the last ones; `None` after these.
    pub(super) fn portion(&self) -> Result<Option<Slots>, StateError> {
        let found = self.receive()?;
        if let Some(Found::Slots(portion)) = found {
            return Ok(Some(portion));
        }
        *self.next.borrow_mut() = found;
        Ok(None)
    }

    /// The account's slots.
    pub(super) fn slots(&self) -> impl Iterator<Item = Result<(B256, U256), StateError>> {
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

    fn receive(&self) -> Result<Option<Found>, StateError> {
        if self.interrupt.load(Ordering::Relaxed) {
            return Err(StateError::Protocol("the walk was interrupted"));
        }
        match self.next.borrow_mut().take() {
            None => self.found.recv().ok().transpose(),
            found => Ok(found),
        }
    }
}

/// Sends everything, until the receiver is gone.
fn read(
    layer: &dyn StateLayer,
    sender: &Sender<Result<Found, StateError>>,
) -> Result<(), StateError> {
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
