//! What a block says beforehand that it will touch, brought into memory by another thread while its first transactions
//! run. A version is read by any number of threads, and a node that one of them loads is there for all.

use crate::{touches::Touches, version::Version};
use parking_lot::Mutex;
use polytrie_kv::Store;
use polytrie_state::{Access, StateError, hash_address, hash_slot};
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
    /// Until it starts: all threads may have something else to do.
    waiting: Arc<Mutex<Option<Job>>>,
    stop: Arc<AtomicBool>,
    /// Nothing is ever sent.
    end: Receiver<()>,
}

impl Reading {
    fn start(reader: Reader, accesses: Receiver<Access>) -> Self {
        let (ended, end) = channel();
        let waiting = Arc::new(Mutex::new(Some(Job { reader, accesses, _ended: ended })));
        let stop = Arc::<AtomicBool>::default();
        let (taken, stopped) = (waiting.clone(), stop.clone());
        rayon::spawn(move || {
            let job = taken.lock().take();
            if let Some(job) = job {
                job.run(&stopped);
            }
        });
        Self { waiting, stop, end }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if self.waiting.lock().take().is_none() {
            // It ends with the sender, after one key at most.
            let _ = self.end.recv();
        }
    }
}

/// What the other thread does. Dropped in this order: the version is let go of before the end is told.
#[derive(Debug)]
struct Job {
    reader: Reader,
    accesses: Receiver<Access>,
    _ended: Sender<()>,
}

impl Job {
    fn run(self, stop: &AtomicBool) {
        for access in &self.accesses {
            // Whoever needs what cannot be read finds out.
            if stop.load(Ordering::Relaxed) || self.reader.read(access).is_err() {
                return;
            }
        }
    }
}

/// What the other thread reads.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) version: Arc<Version>,
    pub(crate) store: Store,
    pub(crate) touches: Arc<Touches>,
}

impl Reader {
    fn read(&self, access: Access) -> Result<(), StateError> {
        let rows = self.touches.noting(&self.store);
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
