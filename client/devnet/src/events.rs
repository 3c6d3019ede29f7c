//! Events of the chain and the pool, and their listeners.
//!
//! A listener is called on the thread that caused the event, and gets every event. A subscriber reads from a channel,
//! and misses the oldest events if it lags too far.

use super::{PoolTransaction, View};
use alloy_consensus::{Header, Sealed};
use parking_lot::{Mutex, RwLock};
use polytrie_chain::ChainDb;
use polytrie_kv::Snapshot;
use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Weak},
};
use tokio::sync::broadcast;

/// Number of events by which a slow receiver may lag, for blocks and for transactions each.
const BEHIND: usize = 4096;

/// Maximum number of former chains that are kept for receivers of a revert. The store keeps the rows that each of them
/// sees, so they must be few.
const FORMER: usize = 16;

/// An event of the chain or the pool.
#[derive(Debug, Clone)]
pub enum Event {
    /// The chain has a new head, whose parent is the last one.
    Block(Sealed<Header>),
    /// Blocks were reverted.
    Reverted(Reverted),
    /// A transaction became executable in the next block. Its blobs are left out.
    Pending(Arc<PoolTransaction>),
}

/// The data of a revert.
#[derive(Debug, Clone)]
pub struct Reverted {
    /// The head after the revert.
    pub head: Sealed<Header>,
    /// The chain before the revert. It can be read until it is dropped for the chains of later reverts.
    pub former: Weak<FormerChain>,
    /// Order of the first view without the reverted blocks. A receiver that began with that view or a later one has not
    /// seen them.
    pub view: u64,
}

/// A chain as it was before blocks were reverted.
#[derive(Debug)]
pub struct FormerChain {
    /// Number of its head.
    pub head: u64,
    /// Snapshot of its blocks.
    pub db: ChainDb<Snapshot>,
}

/// A listener that receives every event.
pub trait Listener: fmt::Debug + Send + Sync {
    /// Handles an event. The thread that caused the event waits for this, so it must be short and must not change the
    /// node. After a revert the next event comes only once every listener has handled that one.
    fn hear(&self, event: &Event);
}

/// The listeners and subscribers of events.
#[derive(Debug)]
pub(super) struct Events {
    listeners: RwLock<Vec<Arc<dyn Listener>>>,
    blocks: broadcast::Sender<Event>,
    /// Channel of transactions. It is separate, so that transactions never push out blocks.
    pending: broadcast::Sender<Event>,
    former: Mutex<VecDeque<Arc<FormerChain>>>,
}

impl Default for Events {
    fn default() -> Self {
        let [blocks, pending] = [(); 2].map(|()| broadcast::Sender::new(BEHIND));
        Self { listeners: RwLock::default(), blocks, pending, former: Mutex::default() }
    }
}

impl Events {
    /// Adds a listener, which receives every event from now on.
    pub(super) fn listen(&self, listener: Arc<dyn Listener>) {
        self.listeners.write().push(listener);
    }

    /// Subscribes to new and reverted blocks. A receiver that lags by more than [`BEHIND`] events misses the oldest.
    pub(super) fn blocks(&self) -> broadcast::Receiver<Event> {
        self.blocks.subscribe()
    }

    /// Subscribes to transactions that become executable. A receiver that lags by more than [`BEHIND`] events
    /// misses the oldest.
    pub(super) fn pending(&self) -> broadcast::Receiver<Event> {
        self.pending.subscribe()
    }

    /// Sends the event that blocks of the chain of `former` were reverted. `view` is the order of the view without them.
    pub(super) fn tell_reverted(&self, head: Sealed<Header>, former: &View, view: u64) {
        tracing::info!("back to block {} {}", head.number, head.hash());
        let chain = FormerChain { head: former.head.number(), db: former.db().clone() };
        let chain = Arc::new(chain);
        let event = Event::Reverted(Reverted { head, former: Arc::downgrade(&chain), view });
        self.former.lock().push_back(chain);
        self.tell(event);
    }

    /// Calls every listener with an event, then sends it to the subscribers.
    pub(super) fn tell(&self, event: Event) {
        for listener in &*self.listeners.read() {
            listener.hear(&event);
        }
        let receivers = match event {
            Event::Block(_) | Event::Reverted(_) => &self.blocks,
            Event::Pending(_) => &self.pending,
        };
        // A send without any receiver is no error.
        let _ = receivers.send(event);
        let mut former = self.former.lock();
        former.retain(|chain| Arc::weak_count(chain) > 0);
        while former.len() > FORMER {
            former.pop_front();
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::impersonate;
    use alloy_consensus::{Sealable, TxLegacy, TypedTransaction};
    use alloy_primitives::Address;

    #[test]
    fn transactions_push_out_no_blocks() {
        let events = Events::default();
        let (mut blocks, mut pending) = (events.blocks(), events.pending());
        events.tell(Event::Block(Header::default().seal_slow()));
        let tx = impersonate(TypedTransaction::from(TxLegacy::default()), Address::ZERO);
        let tx = Arc::new(PoolTransaction::local(tx).unwrap());
        for _ in 0..=BEHIND {
            events.tell(Event::Pending(Arc::clone(&tx)));
        }
        assert!(matches!(blocks.try_recv(), Ok(Event::Block(_))));
        assert!(pending.try_recv().is_err());
        assert!(matches!(pending.try_recv(), Ok(Event::Pending(_))));
    }
}
