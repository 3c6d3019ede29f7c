//! What happens, and who hears of it.

use super::PoolTransaction;
use alloy_consensus::{Header, Sealed};
use parking_lot::RwLock;
use std::{fmt, sync::Arc};
use tokio::sync::broadcast;

/// Events that a slow receiver may be behind.
const BEHIND: usize = 4096;

/// Something happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// There is a new head, on top of the last one.
    Block(Sealed<Header>),
    /// Blocks were taken back; this is the head now.
    Reverted(Sealed<Header>),
    /// A transaction waits for a block.
    Pending(Arc<PoolTransaction>),
}

/// Somebody who must not miss anything.
pub trait Listener: fmt::Debug + Send + Sync {
    /// Called with each event before whoever caused it goes on, so it must not take long, nor change the node. After
    /// blocks were taken back no other comes before everybody has heard of it.
    fn hear(&self, event: &Event);
}

/// Everybody who hears of events.
#[derive(Debug)]
pub(super) struct Events {
    listeners: RwLock<Vec<Arc<dyn Listener>>>,
    receivers: broadcast::Sender<Event>,
}

impl Default for Events {
    fn default() -> Self {
        Self { listeners: RwLock::default(), receivers: broadcast::Sender::new(BEHIND) }
    }
}

impl Events {
    /// From now on this one hears everything.
    pub(super) fn listen(&self, listener: Arc<dyn Listener>) {
        self.listeners.write().push(listener);
    }

    /// What happens from now on, for one who may miss something if it does not keep up.
    pub(super) fn receive(&self) -> broadcast::Receiver<Event> {
        self.receivers.subscribe()
    }

    /// Tells everybody.
    pub(super) fn tell(&self, event: Event) {
        for listener in &*self.listeners.read() {
            listener.hear(&event);
        }
        // There need not be a receiver.
        let _ = self.receivers.send(event);
    }
}
