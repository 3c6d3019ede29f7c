//! The node's side: it accepts prefetchers, announces blocks to them, and hands their bags to the layer.
//!
//! - `shared.rs`: the connected prefetchers, the blocks that each has to work on, and the bags that have come,
//! - `informing.rs`: the news of a newer state in the store,
//! - `connections.rs`: the threads of the connections.

mod connections;
mod informing;
mod shared;
#[cfg(test)]
mod tests;

use super::PrefetchError;
use crate::import::Upcoming;
use alloy_primitives::B256;
use connections::accept;
use informing::Informing;
use polytrie_chain::{Candidate, Chain};
use polytrie_kv::Worker;
use polytrie_state::{BagCounts, StateLayer};
use serde::Serialize;
use shared::Shared;
use std::{
    net::{SocketAddr, TcpListener},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

/// Number of blocks by which blocks are announced earlier than the last late bag took; and least number of blocks without
/// a node after which prefetchers count as idle.
const SPARE: usize = 4;
/// Blocks are announced at most so many blocks before their execution.
const FARTHEST: usize = 64;
/// Most time for which a block waits for its bag.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The prefetchers of a node.
#[derive(Debug)]
pub struct Prefetchers {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// The thread that accepts connections. Its drop waits until they are closed.
    acceptor: Option<Worker>,
    /// Number of the last block that was announced.
    announced: u64,
    /// The durable progress of the store that prefetchers are informed of.
    durable: u64,
    informing: Informing,
    /// Number of nodes that had come in time when the last block was executed.
    brought: u64,
    /// Number of blocks that were executed since that number grew, while a prefetcher was ready; zero if none is connected.
    idle: usize,
    /// Beginning of the turn of a block without a bag and its number of transactions, if it is such a block's turn.
    alone_since: Option<(Instant, u32)>,
    /// Time that each transaction of the last block without a bag took. A block waits for no longer than its transactions
    /// would take like that.
    alone: Duration,
}

/// The work that prefetchers have done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PrefetcherReport {
    /// Number of connections that said hello.
    pub connected: u64,
    /// Number of announcements. A block is announced to one prefetcher, and again to another one if the first is late, away
    /// or gone.
    pub announced: u64,
    /// The bags and nodes that they sent.
    #[serde(flatten)]
    pub sent: BagCounts,
}

impl Prefetchers {
    /// Listens on an address. Called before other work, so that an address in use is reported first.
    ///
    /// # Errors
    ///
    /// If the address cannot be listened on.
    pub fn bind(address: SocketAddr) -> Result<TcpListener, PrefetchError> {
        TcpListener::bind(address).map_err(|source| PrefetchError::Listen { address, source })
    }

    /// Starts to accept prefetchers for the blocks that will be executed on a chain.
    ///
    /// # Errors
    ///
    /// If the layer does not support prefetchers, or the system gives no thread.
    pub fn start(listener: TcpListener, chain: &Chain) -> Result<Self, PrefetchError> {
        let layer = Arc::clone(chain.layer());
        let durable = chain.db().store().progress().durable;
        Self::of(listener, chain.spec().genesis_hash(), layer, durable)
    }

    pub(super) fn of(
        listener: TcpListener,
        genesis: B256,
        layer: Arc<dyn StateLayer>,
        durable: u64,
    ) -> Result<Self, PrefetchError> {
        let shared = Arc::new(Shared::new(genesis, layer)?);
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        let failed = |source| PrefetchError::Listen { address: unknown, source };
        let address = listener.local_addr().map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let acceptor = {
            let shared = Arc::clone(&shared);
            Worker::start("prefetchers", move || accept(&shared, &listener))?
        };
        let acceptor = Some(acceptor);
        let (alone_since, alone) = (None, Duration::ZERO);
        let (announced, brought, idle) = (0, 0, 0);
        let informing = Informing::default();
        Ok(Self {
            address,
            shared,
            acceptor,
            announced,
            durable,
            informing,
            brought,
            idle,
            alone_since,
            alone,
        })
    }

    /// Returns the address on which it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether there are prefetchers that are ready, and bring nodes in time. They are idle if none has come for more blocks
    /// than lie between the announcement of a block and its turn: they may hang, or be far too slow.
    pub fn read_ahead(&self) -> bool {
        self.shared.is_any_ready() && self.idle <= self.shared.nearest.load(Relaxed).max(SPARE)
    }

    /// Begins the turn of a block: announces those after it, and waits for its bag if a prefetcher is at work on it. The
    /// wait is no longer than a block takes without a bag. Reading beside the prefetcher would read each row twice.
    pub fn begin(&mut self, block: &Candidate, upcoming: &mut impl Upcoming) {
        self.announce(upcoming);
        let (number, transactions) = (block.header.number, block.block.body.transactions.len());
        // No block has as many transactions as would not fit.
        let transactions = u32::try_from(transactions).unwrap_or(u32::MAX);
        let patience = self.alone.saturating_mul(transactions).min(LONGEST_WAIT);
        let is_alone = transactions > 0 && !self.wait(number, patience, upcoming);
        self.shared.turn_of.store(number, Relaxed);
        self.alone_since = is_alone.then(|| (Instant::now(), transactions));
    }

    /// Waits for the bag of a block, and goes on announcing others. Returns whether it has come.
    pub(super) fn wait(
        &mut self,
        number: u64,
        patience: Duration,
        upcoming: &mut impl Upcoming,
    ) -> bool {
        let (shared, until) = (Arc::clone(&self.shared), Instant::now() + patience);
        loop {
            {
                let mut came = shared.came.lock();
                if came.contains(&number) {
                    return true;
                }
                if patience.is_zero() || !self.read_ahead() || !shared.expects(number) {
                    return false;
                }
                if shared.news.wait_until(&mut came, until).timed_out() {
                    shared.is_late_with(number);
                    return came.contains(&number);
                }
            }
            // The prefetcher that sent a bag has time for another block.
            self.announce(upcoming);
        }
    }

    /// Announces blocks that are executed soon, in their order and as many as prefetchers have time for. Each goes to one of
    /// them, and again to another one if the first is late, away or gone. Those whose bags would be late go to none.
    pub fn announce(&mut self, upcoming: &mut impl Upcoming) {
        if !self.shared.is_any_ready() {
            return;
        }
        let (before, nearest) = (self.announced, self.shared.nearest.load(Relaxed));
        for place in 0..FARTHEST {
            let Some(next) = upcoming.peek(place) else {
                // A pipe may never have so many blocks, and without bags nothing would show that they take less by now.
                if self.announced == before {
                    self.shared.was_in_time();
                }
                return;
            };
            let number = next.header.number;
            if next.block.body.transactions.is_empty() {
                continue;
            }
            if number <= self.announced && !self.shared.is_abandoned(number) {
                self.shared.announce_again(next);
            } else if place >= nearest {
                if !self.shared.announce(next) {
                    return;
                }
                self.announced = self.announced.max(number);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn was_late(&self, blocks: usize) {
        self.shared.was_late(blocks);
    }

    /// Ends the turn of the blocks up to the head, and informs prefetchers if a newer state is durable than before. The turn
    /// of a block whose root is that of a group lasts until the group ends, as the root takes its nodes.
    pub fn executed(&mut self, chain: &Chain) {
        self.shared.executed.fetch_add(1, Relaxed);
        if let Some((since, transactions)) = self.alone_since.take() {
            self.alone = since.elapsed() / transactions;
        }
        self.shared.forget_until(self.shared.turn_of.load(Relaxed));
        if let Some(bags) = self.shared.layer.bags() {
            bags.over(chain.head().number());
            let brought = bags.counts().nodes;
            self.count(brought);
        }
        let durable = chain.db().store().progress().durable;
        if durable > self.durable {
            self.durable = durable;
            self.informing.begin(&self.shared);
        }
        self.informing.go_on(&self.shared);
    }

    /// Counts a block that was executed, by the number of nodes that have come in time so far.
    pub(super) fn count(&mut self, brought: u64) {
        if brought != self.brought || self.shared.open.lock().is_empty() {
            (self.brought, self.idle) = (brought, 0);
        } else if self.shared.is_any_ready() {
            self.idle += 1;
        }
    }

    /// Tells prefetchers that the node is done, and waits until their connections are closed.
    pub fn finish(mut self) -> PrefetcherReport {
        self.end();
        PrefetcherReport {
            connected: self.shared.connected.load(Relaxed),
            announced: self.shared.announced.load(Relaxed),
            sent: self.shared.layer.bags().map(|bags| bags.counts()).unwrap_or_default(),
        }
    }

    fn end(&mut self) {
        let _ = self.shared.ended.set(Instant::now());
        self.shared.open.lock().clear();
        self.acceptor = None;
    }
}

impl Drop for Prefetchers {
    /// Ends all connections. Afterwards the layer is not used any more, and the store may be closed.
    fn drop(&mut self) {
        self.end();
    }
}
