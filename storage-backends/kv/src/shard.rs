//! Spreading what many threads touch over several cache lines.

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::{
    cell::UnsafeCell,
    fmt,
    ops::{Deref, DerefMut},
    sync::atomic::{AtomicUsize, Ordering},
};

/// A value alone on its cache lines (two of them: processors fetch lines in pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);

impl<T> Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// A small number of this thread: 0 for the first thread that asks, 1 for the second, and so on. Reduced
/// modulo a number of shards it gives every thread a shard of its own as long as there are enough.
pub(crate) fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    // During the destruction of a thread's locals any shard does.
    NUMBER.try_with(|number| *number).unwrap_or_default()
}

/// A readers-writer lock for what is read all the time and written seldom.
///
/// An ordinary one is a counter that all readers change: two threads that read in a loop spend more time on
/// handing its cache line to each other than on reading. Here every thread locks a shard of its own, and a
/// writer locks all of them.
///
/// As with other fair locks, a thread that holds a read guard must not ask for a second one.
pub(crate) struct Sharded<T> {
    shards: Box<[Padded<RwLock<()>>]>,
    value: UnsafeCell<T>,
}

// SAFETY: `read` hands out shared references in several threads at once, hence `T: Sync`; `write` hands out an
// exclusive reference (with which the value may be moved out) in any thread, hence `T: Send`. The two never
// coexist, see `read` and `write`.
unsafe impl<T: Send + Sync> Sync for Sharded<T> {}

impl<T> Sharded<T> {
    pub(crate) fn new(value: T) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        // More than threads that run at once, since the numbers of those that do are not consecutive.
        let shards = (0..(threads * 4).clamp(8, 64)).map(|_| Padded::default()).collect();
        Self { shards, value: UnsafeCell::new(value) }
    }

    pub(crate) fn read(&self) -> ReadGuard<'_, T> {
        let shard = &self.shards[thread_number() % self.shards.len()];
        ReadGuard { lock: self, _shard: shard.read() }
    }

    pub(crate) fn write(&self) -> WriteGuard<'_, T> {
        // Always in the same order, so two writers cannot hold a part each.
        WriteGuard { _shards: self.shards.iter().map(|shard| shard.write()).collect(), lock: self }
    }
}

impl<T> fmt::Debug for Sharded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the value: whoever prints it may hold a guard.
        f.debug_struct("Sharded").finish_non_exhaustive()
    }
}

/// Shared access to the value of a [`Sharded`].
pub(crate) struct ReadGuard<'a, T> {
    lock: &'a Sharded<T>,
    _shard: RwLockReadGuard<'a, ()>,
}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: an exclusive reference exists only while some thread holds all shards for writing, and this
        // guard holds one of them for reading.
        unsafe { &*self.lock.value.get() }
    }
}

/// Exclusive access to the value of a [`Sharded`].
pub(crate) struct WriteGuard<'a, T> {
    lock: &'a Sharded<T>,
    _shards: Vec<RwLockWriteGuard<'a, ()>>,
}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: as in `deref_mut`; the reference borrows the guard.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: there is at least one shard and this guard holds all of them for writing, so there is no
        // other guard; the reference borrows this one exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}

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
    fn threads_have_numbers_of_their_own() {
        let here = thread_number();
        assert_eq!(here, thread_number());
        let there = std::thread::spawn(thread_number).join();
        assert!(there.is_ok_and(|there| there != here));
    }
}
