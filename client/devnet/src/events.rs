//! What happens, and who hears of it.

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

/// Blocks, and beside them transactions, that a slow receiver may be behind.
const BEHIND: usize = 4096;

/// Chains of which blocks were taken back that are kept for receivers of the event. The store keeps what each of them
/// sees, so they must not be many.
const FORMER: usize = 16;

/// Something happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// There is a new head, on top of the last one.
    Block(Sealed<Header>),
    /// Blocks were taken back.
    Reverted(Reverted),
    /// A transaction can go into the next block. Its blobs are left out.
    Pending(Arc<PoolTransaction>),
}

/// Blocks were taken back.
#[derive(Debug, Clone)]
pub struct Reverted {
    /// The head now.
    pub head: Sealed<Header>,
    /// The chain before. It can be read until others have taken its place, which are some.
    pub former: Weak<FormerChain>,
}

/// A chain before blocks were taken back.
#[derive(Debug)]
pub struct FormerChain {
    /// The number of its head.
    pub head: u64,
    /// Its blocks.
    pub db: ChainDb<Snapshot>,
}

/// A listener that must not miss anything.
pub trait Listener: fmt::Debug + Send + Sync {
    /// Called with each event before the thread that caused it goes on, so it must not take long, nor change the node. After
    /// blocks were taken back no other comes before everybody has heard of it.
    fn hear(&self, event: &Event);
}

/// Everybody who hears of events.
#[derive(Debug)]
pub(super) struct Events {
    listeners: RwLock<Vec<Arc<dyn Listener>>>,
    blocks: broadcast::Sender<Event>,
    /// By themselves: however many come, they push out no blocks.
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
    /// From now on this one hears everything.
    pub(super) fn listen(&self, listener: Arc<dyn Listener>) {
        self.listeners.write().push(listener);
    }

    /// Blocks that are made or taken back from now on, for one who may miss something if it does not keep up.
    pub(super) fn blocks(&self) -> broadcast::Receiver<Event> {
        self.blocks.subscribe()
    }

    /// Subscribes to transactions that wait for a block.
    pub(super) fn pending(&self) -> broadcast::Receiver<Event> {
        self.pending.subscribe()
    }

    /// Tells everybody that blocks of the chain that `former` shows were taken back.
    pub(super) fn tell_reverted(&self, head: Sealed<Header>, former: &View) {
        tracing::info!("back to block {} {}", head.number, head.hash());
        let chain = FormerChain { head: former.head.number(), db: former.db().clone() };
        let chain = Arc::new(chain);
        let event = Event::Reverted(Reverted { head, former: Arc::downgrade(&chain) });
        self.former.lock().push_back(chain);
        self.tell(event);
    }

    /// Tells everybody.
    pub(super) fn tell(&self, event: Event) {
        for listener in &*self.listeners.read() {
            listener.hear(&event);
        }
        let receivers = match event {
            Event::Block(_) | Event::Reverted(_) => &self.blocks,
            Event::Pending(_) => &self.pending,
        };
        // There need not be one.
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
