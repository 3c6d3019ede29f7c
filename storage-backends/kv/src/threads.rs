//! Threads that the system may refuse to start.

use crate::KvError;
use parking_lot::Mutex;
use std::thread;

/// Finds out whether the system lets this process start so many more threads at once. For libraries that start threads
/// themselves and panic where they cannot.
///
/// # Errors
///
/// [`KvError::Thread`] if it does not.
pub fn expect_threads(count: usize) -> Result<(), KvError> {
    let gate = Mutex::new(());
    thread::scope(|scope| {
        let held = gate.lock();
        let mut started = Vec::with_capacity(count);
        let mut refused = Ok(());
        while started.len() < count && refused.is_ok() {
            match thread::Builder::new().spawn_scoped(scope, || drop(gate.lock())) {
                Ok(thread) => started.push(thread),
                Err(error) => refused = Err(KvError::thread(error)),
            }
        }
        drop(held);
        // The system counts a thread until it has ended.
        for thread in started {
            let _ = thread.join();
        }
        refused
    })
}
