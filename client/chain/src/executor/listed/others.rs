//! The threads beside the calling one.

use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::Arc;

/// Threads that do a part of a block. They stay from block to block: a new thread has to get its stack and its share of the
/// heap first, which takes as long as some transactions. The threads that all of the process shares may be busy with
/// something longer, such as the senders of the next blocks.
///
/// A thread that waits for work that it has divided takes on other work of the pool meanwhile. So it must not hold a lock then
/// that such work asks for.
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
            scope.spawn(move |_| *place = Some(work()));
            own()
        });
        (done.expect("the scope has waited for it"), result)
    }

    /// Does `own` on this thread while this many others do `help`, as far as they are free.
    pub(crate) fn helped(&self, count: usize, help: &(dyn Fn() + Sync), own: impl FnOnce()) {
        let Some(pool) = &self.0 else { return own() };
        pool.in_place_scope(|scope| {
            for _ in 0..count {
                scope.spawn(move |_| help());
            }
            own();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polytrie_kv::caught;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

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
    fn threads_outlive_their_panics() {
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
