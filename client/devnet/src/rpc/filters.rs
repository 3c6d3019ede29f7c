//! Filters that clients poll.
//!
//! Each poll returns the news since the last one. Of blocks and logs a filter stores only the number of the first
//! unreported block, and an answer reads them from the chain. The number advances once the answer is complete
//! ([`Filters::told`]), so a failed answer loses nothing. A revert lowers the number. A filter for logs also keeps a
//! reference to the former chain then, whose logs are reported as removed. Pending transactions are stored in the
//! filter until the next poll.

use super::eth::LogFilter;
use crate::{Event, FormerChain, Listener, PoolTransaction, Reverted, View};
use alloy_primitives::{B256, U256};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

/// Time without a poll after which the next new filter removes this one, and its former chain is released.
const PATIENCE: Duration = Duration::from_secs(5 * 60);

/// Maximum number of filters; for a new one the filter whose last poll is oldest is removed.
const MOST: usize = 4096;

/// Maximum number of bytes of transactions that all filters together hold until the next poll. Beyond it, the filter
/// whose last poll is oldest loses its transactions.
const PENDING_BYTES: usize = 64 << 20;

/// Maximum number of bytes of the conditions of all filters together. Beyond it, the filter whose last poll is
/// oldest is removed.
const FILTER_BYTES: usize = 64 << 20;

/// The kind of news that a filter collects.
#[derive(Debug, Clone)]
pub(super) enum FilterKind {
    /// Hashes of new blocks.
    Blocks,
    /// Executable transactions of the pool, with all their fields or only their hashes.
    Pending { full: bool },
    /// Logs that match the filter.
    Logs(Arc<LogFilter>),
}

impl FilterKind {
    fn bytes(&self) -> usize {
        match self {
            Self::Blocks | Self::Pending { .. } => 0,
            Self::Logs(filter) => filter.bytes(),
        }
    }
}

/// The filters of all clients.
#[derive(Debug, Default)]
pub(super) struct Filters {
    all: Mutex<All>,
}

#[derive(Debug, Default)]
struct All {
    filters: BTreeMap<u64, Entry>,
    last: u64,
    /// Bytes of pending transactions in all filters.
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    kind: FilterKind,
    /// Order of the view from which the filter begins.
    since: u64,
    /// Number of the first block that was not reported.
    next: u64,
    /// Blocks from `next` on that were reported and then reverted.
    taken_back: Option<TakenBack>,
    /// Number of polls.
    polls: u64,
    /// Whether an answer to the last poll is being made.
    is_answering: bool,
    /// Reverts since that poll.
    meanwhile: Option<Meanwhile>,
    pending: Pending,
    /// Bytes of the pending transactions.
    bytes: usize,
    /// Whether pending transactions were dropped for want of room.
    lost: bool,
    asked: Instant,
}

impl Entry {
    fn new(kind: FilterKind, since: u64, next: u64) -> Self {
        Self {
            kind,
            since,
            next,
            taken_back: None,
            polls: 0,
            is_answering: false,
            meanwhile: None,
            pending: Pending::default(),
            bytes: 0,
            lost: false,
            asked: Instant::now(),
        }
    }
}

/// Reported blocks that were reverted.
#[derive(Debug, Clone)]
pub(super) struct TakenBack {
    /// The chain that had the blocks.
    pub(super) former: Weak<FormerChain>,
    /// The number after that of the last block.
    pub(super) end: u64,
}

/// Reverts while an answer was made.
#[derive(Debug)]
struct Meanwhile {
    /// The chain before the first of these reverts.
    former: Weak<FormerChain>,
    /// Number of the lowest reverted block.
    lowest: u64,
}

/// Transactions since the last poll, as hashes or in full.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pub(super) hashes: Vec<B256>,
    pub(super) full: Vec<Arc<PoolTransaction>>,
}

/// The news since the last poll of a filter.
#[derive(Debug)]
pub(super) struct Poll {
    id: u64,
    poll: u64,
    pub(super) kind: FilterKind,
    /// View whose head is the last block of this answer.
    pub(super) view: Arc<View>,
    /// Number of the first new block; there is none if it is above the head.
    pub(super) from: u64,
    /// Blocks from `from` on that were reported before and then reverted.
    pub(super) taken_back: Option<TakenBack>,
    /// The new transactions; `None` if some of them were dropped.
    pub(super) pending: Option<Pending>,
}

impl Poll {
    /// Returns the number of the first block after those of a complete answer.
    pub(super) fn end(&self) -> u64 {
        self.from.max(self.view.head.number() + 1)
    }
}

impl Filters {
    /// Adds a filter for blocks after the head; returns its ID.
    pub(super) fn add(&self, kind: FilterKind, view: impl FnOnce() -> Arc<View>) -> u64 {
        let mut all = self.all.lock();
        all.make_room(kind.bytes());
        all.last += 1;
        let id = all.last;
        let view = view();
        all.filters.insert(id, Entry::new(kind, view.order, view.head.number() + 1));
        id
    }

    pub(super) fn remove(&self, id: U256) -> bool {
        u64::try_from(id).is_ok_and(|id| self.all.lock().remove(id))
    }

    pub(super) fn kind(&self, id: U256) -> Option<FilterKind> {
        let id = u64::try_from(id).ok()?;
        Some(self.all.lock().filters.get(&id)?.kind.clone())
    }

    /// Returns the news up to the head. Blocks stay new until [`Self::told`] confirms the answer.
    pub(super) fn poll(&self, id: U256, view: impl FnOnce() -> Arc<View>) -> Option<Poll> {
        let id = u64::try_from(id).ok()?;
        let mut all = self.all.lock();
        let entry = all.filters.get_mut(&id)?;
        entry.asked = Instant::now();
        entry.polls += 1;
        (entry.is_answering, entry.meanwhile) = (true, None);
        // A former chain that is not kept any more makes the answer an error, once.
        let taken_back = match &entry.taken_back {
            Some(lost) if lost.former.strong_count() == 0 => entry.taken_back.take(),
            taken_back => taken_back.clone(),
        };
        // The view is read under the lock: reverts from now on are noted once the lock is free.
        let view = view();
        let (poll, kind) = (entry.polls, entry.kind.clone());
        // If the head lies below the blocks that were reported, the event of its revert is still to come, and lowers
        // the number.
        let from = entry.next;
        let lost = mem::take(&mut entry.lost);
        let pending = mem::take(&mut entry.pending);
        let bytes = mem::take(&mut entry.bytes);
        all.bytes -= bytes;
        let pending = (!lost).then_some(pending);
        Some(Poll { id, poll, kind, view, from, taken_back, pending })
    }

    /// Confirms that the client got the blocks before `next`, and the removed logs of all reverted blocks but those in
    /// `left`. Of two concurrent answers only that to the later poll counts, which has the blocks of the other one too.
    pub(super) fn told(&self, poll: &Poll, next: u64, left: Option<TakenBack>) {
        let mut all = self.all.lock();
        let Some(entry) = all.filters.get_mut(&poll.id) else { return };
        if entry.polls != poll.poll {
            return;
        }
        entry.is_answering = false;
        (entry.next, entry.taken_back) = (next, left);
        // A revert during the answer makes some of its blocks outdated.
        if let Some(meanwhile) = entry.meanwhile.take() {
            entry.take_back(meanwhile.lowest, &meanwhile.former);
        }
    }
}

impl Listener for Filters {
    fn hear(&self, event: &Event) {
        let mut all = self.all.lock();
        match event {
            Event::Block(_) => all.forget_chains(),
            // The blocks after the new head are new again, but not for a filter that began with the view of them.
            Event::Reverted(Reverted { head, former, view }) => {
                let lowest = head.number + 1;
                for entry in all.filters.values_mut().filter(|entry| entry.since < *view) {
                    entry.take_back(lowest, former);
                    if entry.is_answering {
                        let first = || Meanwhile { former: Weak::clone(former), lowest };
                        let meanwhile = entry.meanwhile.get_or_insert_with(first);
                        meanwhile.lowest = meanwhile.lowest.min(lowest);
                    }
                }
            }
            Event::Pending(tx) => all.keep(tx, PENDING_BYTES),
        }
    }
}

impl Entry {
    /// Notes that the blocks from `lowest` on were reverted; they are in the chain `former`.
    fn take_back(&mut self, lowest: u64, former: &Weak<FormerChain>) {
        let end = self.next;
        if lowest >= end {
            return;
        }
        self.next = lowest;
        // Blocks that were reverted earlier were above these, in a chain that has these too.
        if self.taken_back.is_none() && matches!(self.kind, FilterKind::Logs(_)) {
            self.taken_back = Some(TakenBack { former: Weak::clone(former), end });
        }
    }

    fn is_old(&self, now: Instant) -> bool {
        now.duration_since(self.asked) >= PATIENCE
    }
}

impl All {
    /// Releases the former chains of filters that are no longer polled.
    fn forget_chains(&mut self) {
        let now = Instant::now();
        let old = self.filters.values_mut().filter(|entry| entry.is_old(now));
        let kept = old.flat_map(|entry| {
            let meanwhile = entry.meanwhile.as_mut().map(|meanwhile| &mut meanwhile.former);
            entry
                .taken_back
                .as_mut()
                .map(|taken_back| &mut taken_back.former)
                .into_iter()
                .chain(meanwhile)
        });
        kept.for_each(|former| *former = Weak::new());
    }

    /// Removes filters until there is room for another one whose condition takes `bytes` bytes.
    fn make_room(&mut self, bytes: usize) {
        let now = Instant::now();
        let old = self.filters.iter().filter(|(_, entry)| entry.is_old(now));
        let gone: Vec<_> = old.map(|(id, _)| *id).collect();
        for id in gone {
            self.remove(id);
        }
        let held = |all: &Self| all.filters.values().map(|entry| entry.kind.bytes()).sum::<usize>();
        while self.filters.len() >= MOST || held(self) + bytes > FILTER_BYTES {
            let oldest = self.filters.iter().min_by_key(|(_, entry)| entry.asked);
            let Some(id) = oldest.map(|(id, _)| *id) else { return };
            self.remove(id);
        }
    }

    fn remove(&mut self, id: u64) -> bool {
        let Some(entry) = self.filters.remove(&id) else { return false };
        self.bytes -= entry.bytes;
        true
    }

    /// Adds a transaction to all filters that collect them, and drops transactions beyond `most` bytes in all.
    fn keep(&mut self, tx: &Arc<PoolTransaction>, most: usize) {
        for entry in self.filters.values_mut().filter(|entry| !entry.lost) {
            let bytes = match entry.kind {
                FilterKind::Pending { full: false } => {
                    entry.pending.hashes.push(tx.hash());
                    size_of::<B256>()
                }
                FilterKind::Pending { full: true } => {
                    entry.pending.full.push(Arc::clone(tx));
                    tx.bytes
                }
                FilterKind::Blocks | FilterKind::Logs(_) => continue,
            };
            entry.bytes += bytes;
            self.bytes += bytes;
        }
        while self.bytes > most {
            let keeping = self.filters.values_mut().filter(|entry| entry.bytes > 0);
            let Some(oldest) = keeping.min_by_key(|entry| entry.asked) else { return };
            oldest.pending = Pending::default();
            oldest.lost = true;
            self.bytes -= mem::take(&mut oldest.bytes);
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{MineOptions, impersonate, tests::node};
    use alloy_consensus::{TxLegacy, TypedTransaction};
    use alloy_primitives::Address;

    fn transaction(nonce: u64) -> Arc<PoolTransaction> {
        let tx = TypedTransaction::from(TxLegacy { nonce, ..Default::default() });
        Arc::new(PoolTransaction::local(impersonate(tx, Address::ZERO)).unwrap())
    }

    fn all(kinds: impl IntoIterator<Item = FilterKind>) -> All {
        let entries = kinds.into_iter().map(|kind| Entry::new(kind, 0, 0));
        All { filters: (1..).zip(entries).collect(), ..All::default() }
    }

    #[test]
    fn many_transactions_are_kept_for_who_wants_them() {
        let kinds = [FilterKind::Blocks, FilterKind::Pending { full: false }];
        let mut all = all(kinds);
        for nonce in 0..30_000 {
            all.keep(&transaction(nonce), PENDING_BYTES);
        }
        assert_eq!(all.filters[&1].pending.hashes.len(), 0);
        assert_eq!(all.filters[&2].pending.hashes.len(), 30_000);
        assert_eq!(all.bytes, 30_000 * 32);
        assert!(all.remove(2));
        assert_eq!(all.bytes, 0);
    }

    /// A view changes before the event of its revert comes, and a client may ask in between.
    #[test]
    fn an_answer_before_the_event_of_a_revert_loses_no_removed_log() {
        let node = node("raw");
        let (filters, start) = (Filters::default(), node.view());
        let id = filters.add(FilterKind::Logs(Arc::default()), || node.view());
        let poll = |view: &Arc<View>| filters.poll(U256::from(id), || Arc::clone(view)).unwrap();
        for _ in 0..3 {
            node.mine(MineOptions::EVEN_EMPTY).unwrap().unwrap();
        }
        let late = node.view();
        for (view, expected) in [(&late, (1, 4)), (&start, (4, 4))] {
            let poll = poll(view);
            assert_eq!((poll.from, poll.end()), expected);
            filters.told(&poll, poll.end(), None);
        }
        let former = FormerChain { head: late.head.number(), db: late.db().clone() };
        let former = Arc::new(former);
        let (head, chain) = (start.head.header.clone(), Arc::downgrade(&former));
        let view = late.order + 1;
        filters.hear(&Event::Reverted(Reverted { head, former: chain, view }));
        let poll = poll(&start);
        assert_eq!((poll.from, poll.taken_back.unwrap().end), (1, 4));
    }

    /// A client may ask for a filter in between, too.
    #[test]
    fn a_filter_from_before_the_event_of_a_revert_has_no_news_of_it() {
        let node = node("raw");
        let mine = || node.mine(MineOptions::EVEN_EMPTY).unwrap().unwrap();
        let (first, _) = (mine(), mine());
        let former = node.view();
        node.rollback(1).unwrap();
        mine();
        let filters = Filters::default();
        let id = filters.add(FilterKind::Blocks, || node.view());
        let former = FormerChain { head: former.head.number(), db: former.db().clone() };
        let former = Arc::new(former);
        let (chain, view) = (Arc::downgrade(&former), node.view().order);
        filters.hear(&Event::Reverted(Reverted { head: first, former: chain, view }));
        assert_eq!(filters.poll(U256::from(id), || node.view()).unwrap().from, 3);
    }

    #[test]
    fn large_filters_push_out_those_that_were_not_asked_for_longest() {
        let address = |i: u64| alloy_primitives::Address::from_word(B256::from(U256::from(i)));
        let addresses: Vec<_> = (0..1_000).map(address).collect();
        let filter: LogFilter =
            serde_json::from_value(serde_json::json!({ "address": addresses })).unwrap();
        let kind = FilterKind::Logs(Arc::new(filter));
        let fit = FILTER_BYTES / kind.bytes();
        let mut all = all((0..fit).map(|_| kind.clone()));
        all.make_room(kind.bytes());
        assert_eq!(all.filters.len(), fit - 1);
        all.make_room(0);
        assert_eq!(all.filters.len(), fit - 1);
    }

    #[test]
    fn what_is_too_much_is_lost_to_who_did_not_ask_for_longest() {
        let mut all = all([FilterKind::Pending { full: true }, FilterKind::Pending { full: true }]);
        let size = transaction(0).bytes;
        for nonce in 0..3 {
            all.keep(&transaction(nonce), 5 * size);
        }
        let kept = |all: &All| {
            [1, 2].map(|id| (all.filters[&id].pending.full.len(), all.filters[&id].lost))
        };
        assert_eq!(kept(&all), [(0, true), (3, false)]);
        assert_eq!(all.bytes, 3 * size);
        // A filter that lost transactions collects again only after the client was informed.
        for nonce in 3..6 {
            all.keep(&transaction(nonce), 5 * size);
        }
        assert_eq!(kept(&all), [(0, true), (0, true)]);
        assert_eq!(all.bytes, 0);
    }
}
