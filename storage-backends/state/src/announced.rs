//! What a block says beforehand that it will touch, read by another thread while its first transactions run.

use crate::{Access, Beside, StateError};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
    mpsc::{Receiver, Sender, channel},
};

/// Fewer accesses are over before another thread has woken up.
const FROM: usize = 32;

/// Reads on another thread what a block announces.
pub trait ReadAhead: Send + 'static {
    /// Reads it, so that the block finds it read.
    ///
    /// # Errors
    ///
    /// If the store fails. Nothing more is read then, and nobody is told: the block will meet the same error.
    fn read(&mut self, access: Access) -> Result<(), StateError>;
}

/// What one block announces before it begins to read. Dropped in this order: whoever reads would wait for more.
#[derive(Debug, Default)]
pub struct Announced {
    /// What was announced, while it is little.
    few: Vec<Access>,
    /// Where the rest goes.
    more: Option<Sender<Access>>,
    reading: Option<Reading>,
    is_closed: bool,
}

impl Announced {
    /// Something will be touched soon. `reader` is asked once, if it comes to that.
    pub fn announce<R: ReadAhead>(&mut self, access: Access, reader: impl FnOnce() -> R) {
        if self.is_closed {
            return;
        }
        if let Some(more) = &self.more {
            // Whoever reads may have met an error.
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
    pub fn close(&mut self) {
        if !self.is_closed {
            self.is_closed = true;
            self.more = None;
        }
    }

    /// From now on nobody reads ahead, nor holds anything for it; so it is, too, when this is dropped.
    pub fn end(self) {
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
    fn start(mut reader: impl ReadAhead, accesses: Receiver<Access>) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let stopped = stop.clone();
        let work = Beside::start(move || {
            for access in accesses {
                if stopped.load(Ordering::Relaxed) || reader.read(access).is_err() {
                    return;
                }
            }
        });
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

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::Address;
    use parking_lot::Mutex;

    /// Notes what it reads, up to an error.
    struct Notes {
        read: Arc<Mutex<Vec<Access>>>,
        fails_after: usize,
    }

    impl ReadAhead for Notes {
        fn read(&mut self, access: Access) -> Result<(), StateError> {
            let mut read = self.read.lock();
            if read.len() == self.fails_after {
                return Err(StateError::Protocol("on purpose"));
            }
            read.push(access);
            Ok(())
        }
    }

    fn accesses(count: usize) -> impl Iterator<Item = Access> {
        (0..count).map(|n| Access::Account(Address::with_last_byte(n as u8)))
    }

    #[test]
    fn what_is_announced_is_read_in_order_and_let_go_of() {
        for (fails_after, is_ended) in [(usize::MAX, true), (7, true), (usize::MAX, false)] {
            let read = Arc::<Mutex<Vec<Access>>>::default();
            let mut announced = Announced::default();
            for access in accesses(200) {
                announced.announce(access, || Notes { read: read.clone(), fails_after });
            }
            announced.close();
            announced.announce(Access::Account(Address::ZERO), || -> Notes { unreachable!() });
            if is_ended {
                announced.end();
            } else {
                drop(announced);
            }
            assert_eq!(Arc::strong_count(&read), 1);
            let read = read.lock();
            assert!(read.len() <= fails_after);
            assert!(read.iter().copied().eq(accesses(read.len())));
        }
    }

    #[test]
    fn all_of_it_is_read_if_there_is_time() {
        let read = Arc::<Mutex<Vec<Access>>>::default();
        let mut announced = Announced::default();
        for access in accesses(200) {
            let fails_after = usize::MAX;
            announced.announce(access, || Notes { read: read.clone(), fails_after });
        }
        while read.lock().len() < 200 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn little_is_left_alone() {
        let mut announced = Announced::default();
        for access in accesses(FROM - 1) {
            announced.announce(access, || -> Notes { unreachable!() });
        }
        announced.close();
    }
}
