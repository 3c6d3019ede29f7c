//! Numbered pieces of work that several threads do in order, for one that waits for their results.

use parking_lot::{Condvar, Mutex};
use polytrie_state::WAKE_UP;
use std::{
    hint,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Instant,
};

/// Pieces of work with a result each. Any number of threads take them in the order of their numbers. A thread that
/// needs a result does pieces itself as long as that result is missing, so it never waits for a piece that no thread
/// has started.
pub(super) struct InOrder<T> {
    count: usize,
    /// Number of the first piece that no thread has taken. If it is at least `count`, none is started any more.
    next: AtomicUsize,
    /// Result of each piece that is done; the inner `None` means that it failed.
    done: Mutex<Vec<Option<Option<T>>>>,
    changed: Condvar,
}

impl<T> InOrder<T> {
    /// Returns so many pieces, none of them done.
    pub(super) fn new(count: usize) -> Self {
        let mut done = Vec::new();
        done.resize_with(count, || None);
        Self { count, next: AtomicUsize::new(0), done: Mutex::new(done), changed: Condvar::new() }
    }

    /// Returns the number of pieces.
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// Makes every thread stop after its current piece.
    pub(super) fn stop(&self) {
        self.next.store(self.count, Relaxed);
    }

    /// Does the next piece. Returns `false` if there is none.
    pub(super) fn do_next(&self, work: impl FnOnce(usize) -> Option<T>) -> bool {
        let number = self.next.fetch_add(1, Relaxed);
        if number >= self.count {
            return false;
        }
        let mut slot = Slot { all: self, number, result: None };
        slot.result = work(number);
        true
    }

    /// Passes the result of the piece with this number to `read` once it is there; `None` if the piece failed. Until
    /// then the calling thread does other pieces with `work`.
    pub(super) fn when_done<R>(
        &self,
        number: usize,
        mut work: impl FnMut(usize) -> Option<T>,
        read: impl FnOnce(&mut Option<T>) -> R,
    ) -> R {
        loop {
            if let Some(result) = &mut self.done.lock()[number] {
                return read(result);
            }
            if !self.do_next(&mut work) {
                break;
            }
        }
        // The piece is under way. If it is a short one, it is done before this thread could have slept.
        let start = Instant::now();
        while self.done.lock()[number].is_none() && start.elapsed() < WAKE_UP {
            hint::spin_loop();
        }
        let mut done = self.done.lock();
        loop {
            if let Some(result) = &mut done[number] {
                return read(result);
            }
            self.changed.wait(&mut done);
        }
    }
}

/// Guard that stores the result of a piece. If the work panics, it stores a failure, so that no thread waits forever.
struct Slot<'a, T> {
    all: &'a InOrder<T>,
    number: usize,
    result: Option<T>,
}

impl<T> Drop for Slot<'_, T> {
    fn drop(&mut self) {
        self.all.done.lock()[self.number] = Some(self.result.take());
        self.all.changed.notify_all();
    }
}

polytrie_kv::debug_fields!([T] InOrder[T] { next });

#[cfg(test)]
mod tests {
    use super::*;
    use polytrie_kv::caught;
    use std::thread;

    #[test]
    fn every_piece_is_done_once_and_read_by_its_number() {
        for others in 0..4 {
            let (pieces, done) = (InOrder::new(300), AtomicUsize::new(0));
            let work = |number: usize| {
                done.fetch_add(1, Relaxed);
                Some(number * number).filter(|_| number != 7)
            };
            let found: Vec<_> = thread::scope(|scope| {
                for _ in 0..others {
                    scope.spawn(|| while pieces.do_next(work) {});
                }
                (0..300).map(|number| pieces.when_done(number, work, |result| *result)).collect()
            });
            let expected =
                (0..300_usize).map(|number| Some(number * number).filter(|_| number != 7));
            assert_eq!(found, expected.collect::<Vec<_>>());
            assert_eq!(done.into_inner(), 300);
        }
    }

    #[test]
    fn a_thread_that_panics_leaves_a_failure() {
        let pieces = InOrder::new(2);
        caught(|| pieces.do_next(|_| panic!("on purpose"))).expect_err("it panicked");
        assert_eq!(pieces.when_done(0, |_| None, |result: &mut Option<u8>| *result), None);
        assert_eq!(pieces.when_done(1, |_| Some(3), |result| *result), Some(3));
    }

    #[test]
    fn nothing_is_started_after_the_stop() {
        let pieces = InOrder::new(2);
        assert!(pieces.do_next(|_| Some(())));
        pieces.stop();
        assert!(!pieces.do_next(|_| Some(())));
    }
}
