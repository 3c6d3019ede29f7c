//! What a session does with the hints of its block.

use super::{ReadAhead, Readers, Reading};
use crate::{Access, Wants};
use alloy_primitives::map::HashSet;
use polytrie_kv::KvError;
use std::sync::Arc;

/// The accounts and slots that a block announces. If the store is slow they are read at once, by many threads, before the
/// block reads by itself.
pub struct Announced<R: ReadAhead<Wanted = Access>> {
    readers: Arc<Readers>,
    /// The reading for this block; `None` if the store was fast when the block began.
    reading: Option<Reading<R>>,
    /// The requests so far.
    wanted: HashSet<Access>,
}

impl<R: ReadAhead<Wanted = Access>> Announced<R> {
    /// Begins a block, whose announcements `reader` reads.
    pub fn begin(readers: &Arc<Readers>, reader: impl FnOnce() -> R) -> Self {
        let reading = readers.is_slow().then(|| Reading::new(readers, reader()));
        Self { readers: Arc::clone(readers), reading, wanted: HashSet::default() }
    }

    /// Returns what the session wants: hints, if the store is slow and the block has read nothing yet.
    pub fn wants(&self) -> Wants {
        let slow = self.reading.as_ref().is_some_and(Reading::is_open);
        Wants { hints: slow, slow, ..Wants::default() }
    }

    /// Requests an account or slot.
    pub fn want(&mut self, access: Access) {
        // A session may be that of many blocks in a row, so it does not keep the requests that come too late.
        if let Some(reading) = self.reading.as_ref().filter(|reading| reading.is_open())
            && self.wanted.insert(access)
        {
            reading.want(access);
        }
    }

    /// Reads for the block itself. The first time it waits until all that was requested is read, and requests nothing
    /// from then on: a row that another thread is about to read would be read twice.
    pub fn read<T>(&mut self, read: impl FnOnce() -> T) -> T {
        let Some(reading) = &mut self.reading else { return self.readers.timed(read) };
        if reading.close() {
            // `end` returns the same error.
            let _ = reading.wait();
        }
        // What was read ahead is fast to read, which says nothing about the store: the threads time their reads.
        read()
    }

    /// Ends the reading: no thread reads any more.
    ///
    /// # Errors
    ///
    /// Those of [`Readers::check`].
    pub fn end(&mut self) -> Result<(), KvError> {
        self.reading.take().map_or_else(|| self.readers.check(), Reading::end)
    }
}

polytrie_kv::debug_fields!([R: ReadAhead<Wanted = Access>] Announced[R] { reading });
