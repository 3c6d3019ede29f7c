//! Locks and numbers that spread the accesses of many threads over several cache lines.

use crossbeam_utils::sync::{ShardedLock, ShardedLockReadGuard, ShardedLockWriteGuard};
use std::sync::{
    PoisonError,
    atomic::{AtomicUsize, Ordering},
};

/// Returns a small number for this thread: 0 for the first thread that calls this, 1 for the second, and so on.
/// Modulo a number of shards, it gives every thread a separate shard as long as there are enough.
pub(crate) fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    // While a thread's locals are destroyed, any shard serves.
    NUMBER.try_with(|number| *number).unwrap_or_default()
}

/// A readers-writer lock for data that is read all the time and written seldom.
///
/// An ordinary lock is a counter that all readers change: two threads that read in a loop spend more time on moving
/// its cache line than on reading. Here every thread locks a separate shard, and a writer locks all of them.
///
/// A thread that holds a read guard must not request a second one: a writer may wait in between. A panic under a
/// guard does not poison the lock; callers that may leave a half-done change handle that themselves.
pub(crate) struct Sharded<T>(ShardedLock<T>);

impl<T> Sharded<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(ShardedLock::new(value))
    }

    pub(crate) fn read(&self) -> ShardedLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> ShardedLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value without locking; the exclusive reference shows that no other thread has the lock.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

// The value is left out, because the caller may hold a guard.
crate::debug_fields!([T] Sharded[T] {});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_excludes_everyone() {
        let lock = Sharded::new((0_u64, 0_u64));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for i in 0..5_000 {
                        if i % 10 == 0 {
                            let mut value = lock.write();
                            value.0 += 1;
                            std::hint::black_box(&mut *value);
                            value.1 += 1;
                        } else {
                            let value = lock.read();
                            assert_eq!(value.0, value.1);
                        }
                    }
                });
            }
        });
        assert_eq!(*lock.read(), (2_000, 2_000));
    }

    #[test]
    fn a_panic_does_not_poison() {
        let lock = Sharded::new(7);
        let panicked = std::thread::scope(|scope| {
            let held = scope.spawn(|| {
                let _held = lock.write();
                panic!("under the lock");
            });
            held.join().is_err()
        });
        assert!(panicked);
        assert_eq!(*lock.read(), 7);
        *lock.write() = 8;
        assert_eq!(*lock.read(), 8);
    }

    #[test]
    fn threads_have_numbers_of_their_own() {
        let here = thread_number();
        assert_eq!(here, thread_number());
        let there = std::thread::spawn(thread_number).join();
        assert!(there.is_ok_and(|there| there != here));
    }
}
