//! Senders of a block's transactions.

use super::in_order::InOrder;
use alloy_consensus::{Transaction, TxEnvelope};
use alloy_primitives::{Address, B256};
use polytrie_consensus::TransactionError;
use polytrie_kv::caught;
use std::{ops::Range, sync::Arc};
use thiserror::Error;

/// Error of a transaction from which no sender can be recovered; the block is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("transaction {index} ({hash}) is invalid: {reason}")]
pub struct SenderError {
    /// Index of the transaction in the block, from 0.
    pub index: usize,
    /// Hash of the transaction.
    pub hash: B256,
    /// Reason why no sender can be recovered.
    pub reason: TransactionError,
}

/// Senders of a block's transactions: known, or recovered while the block is executed.
#[derive(Debug, Clone, Copy)]
pub struct Senders<'a>(Source<'a>);

#[derive(Debug, Clone, Copy)]
enum Source<'a> {
    Known(&'a [Address]),
    Recovery(&'a Recovering),
}

impl<'a> Senders<'a> {
    /// Returns senders that are known, in the order of the transactions.
    pub const fn known(senders: &'a [Address]) -> Self {
        Self(Source::Known(senders))
    }

    /// Returns the number of senders.
    pub(super) const fn count(&self) -> usize {
        match self.0 {
            Source::Known(senders) => senders.len(),
            Source::Recovery(recovery) => recovery.transactions.len(),
        }
    }

    /// Whether no sender has to be waited for.
    pub(super) const fn are_known(&self) -> bool {
        matches!(self.0, Source::Known(_))
    }

    /// Returns the sender of the transaction with this number, and waits for it if it is being recovered. The first
    /// transactions should be asked for first.
    ///
    /// # Errors
    ///
    /// Fails if the signature belongs to no public key.
    pub(super) fn get(&self, number: usize) -> Result<Address, SenderError> {
        match self.0 {
            Source::Known(senders) => Ok(senders[number]),
            Source::Recovery(recovery) => recovery.get(number),
        }
    }
}

/// Senders that several threads recover, as long as this or a clone of it is there.
#[derive(Debug, Clone)]
pub struct Recovery(Arc<Recovering>);

#[derive(Debug)]
struct Recovering {
    transactions: Vec<TxEnvelope>,
    /// Number of transactions in a group, but for the last one.
    group: usize,
    /// Senders of each group.
    groups: InOrder<Vec<Result<Address, SenderError>>>,
}

impl Recovery {
    /// Begins to recover the senders of `transactions` on all cores but that of the caller.
    pub(crate) fn begin(transactions: &[TxEnvelope]) -> Self {
        let (recovery, rest) = Self::begin_in_pool(transactions);
        if recovery.0.groups.count() > 1 && rayon::current_num_threads() > 1 {
            rayon::spawn(rest);
        }
        recovery
    }

    /// Begins to recover the senders of `transactions` on all cores but one, which executes the block. The caller is a thread
    /// of the pool, and has to go on with the returned work.
    pub fn begin_in_pool(transactions: &[TxEnvelope]) -> (Self, Box<dyn FnOnce() + Send>) {
        let shared = Arc::new(Recovering::new(transactions.to_vec(), polytrie_ecrecover::few()));
        let recover = || {
            let shared = Arc::downgrade(&shared);
            // A sender whose recovery has panicked is recovered again by the thread that needs it, which panics, too.
            move || {
                drop(caught(
                    || while shared.upgrade().is_some_and(|shared| shared.recover_next()) {},
                ));
            }
        };
        for _ in 2..rayon::current_num_threads().min(shared.groups.count()) {
            rayon::spawn(recover());
        }
        let rest = Box::new(recover());
        (Self(shared), rest)
    }

    /// Passes the senders to `work` before they are all there. The calling thread recovers senders too: those that `work`
    /// would have to wait for, and then the rest. Returns the senders as [`recover_senders`] does, and the result of
    /// `work`, which may have met a transaction without a sender.
    pub(crate) fn beside<R>(
        &self,
        work: impl FnOnce(Senders<'_>) -> R,
    ) -> (Result<Vec<Address>, SenderError>, R) {
        let recovering = &*self.0;
        let result = work(Senders(Source::Recovery(recovering)));
        while recovering.recover_next() {}
        let all = 0..recovering.transactions.len();
        (all.map(|number| recovering.get(number)).collect(), result)
    }
}

impl Recovering {
    fn new(transactions: Vec<TxEnvelope>, group: usize) -> Self {
        let groups = InOrder::new(transactions.len().div_ceil(group));
        Self { transactions, group, groups }
    }

    /// Recovers the senders of the next group. Returns `false` if all are taken.
    fn recover_next(&self) -> bool {
        self.groups.do_next(|group| Some(self.recover(group)))
    }

    fn get(&self, number: usize) -> Result<Address, SenderError> {
        let (group, in_group) = (number / self.group, number % self.group);
        let recover = |group| Some(self.recover(group));
        let done = self.groups.when_done(group, recover, |senders| {
            senders.as_ref().map(|senders| senders[in_group].clone())
        });
        // If a thread has panicked instead, the panic goes on when all end.
        done.unwrap_or_else(|| self.recover(group).swap_remove(in_group))
    }

    fn recover(&self, group: usize) -> Vec<Result<Address, SenderError>> {
        let first = group * self.group;
        let last = self.transactions.len().min(first + self.group);
        recovered(&self.transactions, first..last).collect()
    }
}

/// Recovers the senders of the transactions with these numbers.
fn recovered(
    transactions: &[TxEnvelope],
    numbers: Range<usize>,
) -> impl Iterator<Item = Result<Address, SenderError>> {
    let found = polytrie_consensus::recover_senders(&transactions[numbers.clone()]);
    numbers.zip(found).map(|(index, sender)| {
        sender.map_err(|reason| SenderError { index, hash: *transactions[index].tx_hash(), reason })
    })
}

/// Recovers the senders of `transactions`, in their order.
///
/// The result depends on no fork, so a caller may compute it ahead of the chain on another core. The upper half of
/// `s`, which is allowed before Homestead only, is checked in
/// [`check_transaction`](polytrie_consensus::check_transaction).
///
/// # Errors
///
/// Fails with the first transaction that has a signature of no public key.
pub fn recover_senders(transactions: &[TxEnvelope]) -> Result<Vec<Address>, SenderError> {
    recovered(transactions, 0..transactions.len()).collect()
}

/// Recovers the accounts whose signatures let `transactions` set their code (EIP-7702). A signature that does not
/// recover is left out, because the result is only a hint.
pub(crate) fn recover_authorities(transactions: &[TxEnvelope]) -> Vec<Address> {
    transactions
        .iter()
        .filter_map(Transaction::authorization_list)
        .flatten()
        .filter_map(|authorization| authorization.recover_authority().ok())
        .collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloy_consensus::{SignableTransaction, TxLegacy};
    use alloy_primitives::{Signature, U256};

    fn transaction(nonce: u64, signature: Signature) -> TxEnvelope {
        TxEnvelope::Legacy(TxLegacy { nonce, ..TxLegacy::default() }.into_signed(signature))
    }

    fn signed(count: u64) -> Vec<TxEnvelope> {
        (0..count).map(|nonce| transaction(nonce, Signature::test_signature())).collect()
    }

    /// Calls `test` on a thread of pools with one, two and four threads.
    fn on_pools(test: impl Fn() + Sync) {
        for threads in [1, 2, 4] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(&test);
        }
    }

    #[test]
    fn on_all_cores_the_same_senders_come_out() {
        let mut transactions = signed(100);
        let senders = recover_senders(&transactions).unwrap();
        let recover = |transactions: &[_]| Recovery::begin(transactions).beside(|_| ()).0;
        on_pools(|| assert_eq!(recover(&transactions), Ok(senders.clone())));
        assert_eq!(recover(&[]), Ok(Vec::new()));
        for bad in [80, 40] {
            transactions[bad] =
                transaction(bad as u64, Signature::new(U256::ZERO, U256::ZERO, false));
        }
        let first = recover_senders(&transactions).unwrap_err();
        assert_eq!(first.index, 40);
        on_pools(|| assert_eq!(recover(&transactions), Err(first.clone())));
    }

    #[test]
    fn groups_of_any_size_give_the_same_senders() {
        for group in [1, 3, 16, 100] {
            for count in [0, 1, group - 1, group, group + 1, 2 * group + 2] {
                let mut transactions = signed(count as u64);
                let beside = |transactions: &[_]| {
                    let recovering = Recovering::new(transactions.to_vec(), group);
                    Recovery(Arc::new(recovering)).beside(|_| ()).0
                };
                assert_eq!(beside(&transactions), recover_senders(&transactions));
                for bad in [count.saturating_sub(1), group, group - 1, 0] {
                    let Some(tx) = transactions.get_mut(bad) else { continue };
                    *tx = transaction(bad as u64, Signature::new(U256::ZERO, U256::ZERO, false));
                    assert_eq!(beside(&transactions).unwrap_err().index, bad);
                }
            }
        }
    }

    #[test]
    fn work_gets_each_sender_and_may_end_early() {
        let mut transactions = signed(50);
        transactions[30] = transaction(30, Signature::new(U256::ZERO, U256::ZERO, false));
        let all: Vec<_> = recovered(&transactions, 0..50).collect();
        on_pools(|| {
            for used in [0, 1, 50] {
                let (senders, found) = Recovery::begin(&transactions).beside(|senders| {
                    assert_eq!(senders.count(), 50);
                    (0..used).map(|number| senders.get(number)).collect::<Vec<_>>()
                });
                assert_eq!(found, all[..used]);
                assert_eq!(senders.unwrap_err().index, 30);
            }
        });
    }

    #[test]
    fn a_panic_of_the_work_reaches_the_caller() {
        let transactions = signed(20);
        let work = |senders: Senders<'_>| assert!(senders.count() == 0, "on purpose");
        let said = caught(|| Recovery::begin(&transactions).beside(work).0).unwrap_err();
        assert_eq!(said.to_string(), "on purpose");
    }
}
