//! The threads beside the calling one.

use rayon::{ThreadPool, ThreadPoolBuilder};
use std::{cell::Cell, sync::Arc};

/// Threads that do a part of a block. They stay from block to block: a new thread has to get its stack and its share of the
/// heap first, which takes as long as some transactions. The threads that all of the process shares may be busy with
/// something longer, such as the senders of the next blocks.
#[derive(Debug, Clone)]
pub(crate) struct Others(Option<Arc<ThreadPool>>);

impl Others {
    /// Starts so many threads, and at least two: the work of one may pass on a part of itself, such as the root of the
    /// receipts.
    pub(crate) fn start(threads: usize) -> Self {
        let name = |_| "listed".to_owned();
        let pool = ThreadPoolBuilder::new().num_threads(threads.max(2)).thread_name(name).build();
        let pool = pool.inspect_err(|error| tracing::debug!("blocks have one thread: {error}"));
        Self(pool.ok().map(Arc::new))
    }

    /// Does `work` on another thread and `own` on this one; `work` follows `own` if there is no other thread. Returns the
    /// results of both.
    pub(crate) fn beside<T: Send, R>(
        &self,
        work: impl FnOnce() -> T + Send,
        own: impl FnOnce() -> R,
    ) -> (T, R) {
        let Some(pool) = &self.0 else {
            let result = own();
            return (work(), result);
        };
        let mut done = None;
        let place = &mut done;
        let result = pool.in_place_scope(|scope| {
            scope.spawn(move |_| {
                let _busy = Busy::begin();
                *place = Some(work());
            });
            own()
        });
        (done.expect("the scope has waited for it"), result)
    }

    /// Does `own` on this thread while this many others do `help`, as far as they are free.
    pub(crate) fn helped(&self, count: usize, help: &(dyn Fn() + Sync), own: impl FnOnce()) {
        let Some(pool) = &self.0 else { return own() };
        pool.in_place_scope(|scope| {
            for _ in 0..count {
                scope.spawn(move |_| {
                    if let Some(_busy) = Busy::begin() {
                        help();
                    }
                });
            }
            own();
        });
    }
}

thread_local! {
    /// Whether this thread does a part of a block.
    static IS_BUSY: Cell<bool> = const { Cell::new(false) };
}

/// Mark of a thread that does a part of a block, as long as it exists.
///
/// A thread of the pool that waits for other threads takes on what else the pool has to do. It may hold a lock of the layer
/// then, for which a help that it took on would wait forever.
struct Busy;

impl Busy {
    /// Marks this thread; `None` if it is marked already.
    fn begin() -> Option<Self> {
        match IS_BUSY.replace(true) {
            true => None,
            false => Some(Self),
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        IS_BUSY.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polytrie_kv::caught;
    use rayon::{Yield, yield_now};
    use std::{
        sync::{
            OnceLock,
            atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
        },
        thread,
    };

    #[test]
    fn all_is_done_with_threads_and_without() {
        for others in [Others(None), Others::start(0), Others::start(5)] {
            for count in 0..5 {
                let (mut here, helped) = (0, AtomicUsize::new(0));
                let help = || {
                    helped.fetch_add(1, Relaxed);
                };
                let (there, ()) = others.beside(|| 1, || others.helped(count, &help, || here = 2));
                assert_eq!((there, here), (1, 2));
                let expected = if others.0.is_some() { count } else { 0 };
                assert_eq!(helped.into_inner(), expected);
            }
        }
    }

    #[test]
    fn a_thread_that_waits_within_its_part_does_not_help() {
        let [is_queued, is_over, helps_within] = [(); 3].map(|()| AtomicBool::new(false));
        let part = OnceLock::new();
        let work = || {
            let _ = part.set(thread::current().id());
            while !is_queued.load(Relaxed) {
                thread::yield_now();
            }
            // A thread that waits does the same.
            while yield_now() == Some(Yield::Executed) {}
            is_over.store(true, Relaxed);
        };
        let help = || {
            let is_within = part.get() == Some(&thread::current().id()) && !is_over.load(Relaxed);
            helps_within.fetch_or(is_within, Relaxed);
            // The other help is left to the thread of the part.
            while !is_within && !is_over.load(Relaxed) {
                thread::yield_now();
            }
        };
        let others = Others::start(2);
        others.beside(work, || others.helped(2, &help, || is_queued.store(true, Relaxed)));
        assert!(!helps_within.into_inner());
    }

    /// A thread that has panicked helps again.
    #[test]
    fn a_panic_ends_a_part() {
        let (others, helped) = (Others::start(2), AtomicUsize::new(0));
        for _ in 0..4 {
            let there = || -> u8 { panic!("there") };
            caught(|| others.beside(there, || ())).expect_err("it panicked");
            caught(|| others.helped(2, &|| panic!("help"), || ())).expect_err("it panicked");
        }
        let help = || {
            helped.fetch_add(1, Relaxed);
        };
        others.helped(8, &help, || ());
        assert_eq!(helped.into_inner(), 8);
    }

    #[test]
    fn a_panic_reaches_the_caller() {
        for others in [Others(None), Others::start(2)] {
            let there = || -> u8 { panic!("there") };
            let said = caught(|| others.beside(there, || ())).expect_err("it panicked");
            assert_eq!(said.to_string(), "there");
            let here = || -> u8 { panic!("here") };
            let said = caught(|| others.beside(|| (), here)).expect_err("it panicked");
            assert_eq!(said.to_string(), "here");
        }
    }
}
