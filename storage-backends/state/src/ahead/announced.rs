//! What a session does with the hints of its block.

use super::{ReadAhead, Readers, Reading};
use crate::{Access, Result, Wants};
use alloy_primitives::map::HashSet;
use polytrie_kv::KvError;
use std::{sync::Arc, time::Instant};

/// Reads accounts and slots, for the cache in which the block finds them.
type Look = dyn Fn(&[Access]) -> Result<()> + Send + Sync;

/// A reader of the rows of accounts and slots. The block then finds them in a cache: that of the layer, the store, the
/// engine or the system.
pub struct AccessReader {
    readers: Arc<Readers>,
    look: Box<Look>,
}

impl AccessReader {
    /// Creates a reader that calls `look` for some accounts and slots at a time, and times that for `readers`.
    pub fn new(
        readers: &Arc<Readers>,
        look: impl Fn(&[Access]) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self { readers: Arc::clone(readers), look: Box::new(look) }
    }
}

impl ReadAhead for AccessReader {
    type Wanted = Access;

    fn read(&self, wanted: Vec<Access>) -> bool {
        let start = Instant::now();
        let looked = (self.look)(&wanted);
        self.readers.took(start.elapsed(), wanted.len());
        looked.is_ok()
    }
}

/// The accounts and slots that a block announces. If the store is slow they are read at once, by many threads, before the
/// block reads by itself.
pub struct Announced {
    readers: Arc<Readers>,
    /// The reading for this block; `None` if the store was fast when the block began.
    reading: Option<Reading<AccessReader>>,
    /// The requests so far.
    wanted: HashSet<Access>,
}

impl Announced {
    /// Begins a block. `look` reads what it announces, on the threads of `readers`.
    pub fn begin(
        readers: &Arc<Readers>,
        look: impl Fn(&[Access]) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        let slow = readers.is_slow();
        let reading = slow.then(|| Reading::new(readers, AccessReader::new(readers, look)));
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

polytrie_kv::debug_fields!(AccessReader { readers });
polytrie_kv::debug_fields!(Announced { reading });
