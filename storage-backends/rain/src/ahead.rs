//! What a block says beforehand that it will touch, brought into memory by another thread while its first transactions
//! run. A version is read by any number of threads, and a node that one of them loads is there for all.

use crate::{touches::Source, version::Version};
use polytrie_state::{Access, StateError, hash_address, hash_slot};
use polytrie_trie::Beside;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
    mpsc::{Receiver, Sender, channel},
};

/// Fewer accesses are over before another thread has woken up.
const FROM: usize = 32;

/// What one block announces before it begins to read. Dropped in this order: whoever reads would wait for more.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// What was announced, while it is little.
    few: Vec<Access>,
    /// Where the rest goes.
    more: Option<Sender<Access>>,
    reading: Option<Reading>,
    is_closed: bool,
}

impl Ahead {
    /// Something will be touched soon. `reader` is asked once, if it comes to that.
    pub(crate) fn announce(&mut self, access: Access, reader: impl FnOnce() -> Reader) {
        if self.is_closed {
            return;
        }
        if let Some(more) = &self.more {
            // Whoever reads has met an error, and so will the block.
            let _ = more.send(access);
            return;
        }
        self.few.push(access);
        if self.few.len() == FROM {
            let (more, accesses) = channel();
            for access in self.few.drain(..) {
                let _ = more.send(access);
            }
            self.more = Some(more);
            self.reading = Some(Reading::start(reader(), accesses));
        }
    }

    /// The block reads now, so it is too late to announce more.
    pub(crate) fn close(&mut self) {
        if !self.is_closed {
            self.is_closed = true;
            self.more = None;
        }
    }

    /// Nobody reads ahead any more, nor holds a version for it.
    pub(crate) fn end(self) {
        let Self { more, reading, .. } = self;
        drop(more);
        drop(reading);
    }
}

/// Another thread that reads, until this is dropped.
#[derive(Debug)]
struct Reading {
    work: Option<Beside<()>>,
    stop: Arc<AtomicBool>,
}

impl Reading {
    fn start(reader: Reader, accesses: Receiver<Access>) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let stopped = stop.clone();
        let work = Beside::start(move || reader.read_all(&accesses, &stopped));
        Self { work: Some(work), stop }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // It ends after one key at most.
        self.work.take().and_then(Beside::finish);
    }
}

/// What the other thread reads.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) version: Arc<Version>,
    pub(crate) source: Source,
}

impl Reader {
    fn read_all(self, accesses: &Receiver<Access>, stop: &AtomicBool) {
        for access in accesses {
            // Whoever needs what cannot be read finds out.
            if stop.load(Ordering::Relaxed) || self.read(access).is_err() {
                return;
            }
        }
    }

    fn read(&self, access: Access) -> Result<(), StateError> {
        let rows = self.source.noted();
        match access {
            Access::Account(address) => {
                self.version.account(&rows, &hash_address(&address))?;
            }
            Access::SlotRead(address, slot) | Access::SlotWrite(address, slot) => {
                self.version.slot(&rows, &hash_address(&address), &hash_slot(&slot))?;
            }
        }
        Ok(())
    }
}
