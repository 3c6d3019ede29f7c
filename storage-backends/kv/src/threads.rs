//! Threads that the system may refuse to start, and that may panic.

use crate::{KvError, Result};
use parking_lot::Mutex;
use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    thread::{self, JoinHandle},
};

/// The message of a panic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Panicked(String);

impl Panicked {
    /// Takes the message from the value that a panic carried.
    pub fn of(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Self(text.unwrap_or("nothing").to_owned())
    }

    /// Returns the error for a thread that panicked with this message.
    pub fn in_thread(self, thread: &'static str) -> KvError {
        KvError::Panicked { thread, said: self.0 }
    }
}

/// Runs code that may panic. What a panic leaves half done must not be used again.
///
/// # Errors
///
/// The message of the panic.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| Panicked::of(&*panic))
}

/// A thread that logs its panics. Dropping this waits until the thread has ended.
#[derive(Debug)]
pub struct Worker(Option<JoinHandle<()>>);

impl Worker {
    /// Starts a thread. If a panic must have consequences, `work` catches it itself ([`caught`]).
    ///
    /// # Errors
    ///
    /// [`KvError::Thread`] if the system refuses.
    pub fn start(name: impl Into<String>, work: impl FnOnce() + Send + 'static) -> Result<Self> {
        let name = name.into();
        let thread = thread::Builder::new().name(name.clone());
        let work = move || {
            caught(work).unwrap_or_else(|said| tracing::error!("thread `{name}` panicked: {said}"));
        };
        Ok(Self(Some(thread.spawn(work).map_err(KvError::thread)?)))
    }

    /// Whether the thread has ended.
    pub fn is_finished(&self) -> bool {
        self.0.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // The thread itself logged the panic.
            let _ = thread.join();
        }
    }
}

/// Checks that the system lets this process start `count` more threads at once. For libraries that start threads
/// themselves and panic if they cannot.
///
/// # Errors
///
/// [`KvError::Thread`] if the system refuses.
pub fn expect_threads(count: usize) -> Result<()> {
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_worker_has_ended_when_it_is_dropped() {
        let (sender, done) = channel();
        let work = move || {
            thread::yield_now();
            sender.send(()).unwrap();
            panic!("on purpose");
        };
        drop(Worker::start("worker", work).unwrap());
        done.try_recv().unwrap();
    }

    #[test]
    fn what_a_panic_said_is_found_in_each_form() {
        assert_eq!(caught(|| 3), Ok(3));
        let said = |work: fn()| caught(work).unwrap_err().to_string();
        assert_eq!(said(|| panic!("words")), "words");
        assert_eq!(said(|| panic!("{} words", 2)), "2 words");
        assert_eq!(said(|| std::panic::panic_any(2)), "nothing");
        let error = caught(|| panic!("words")).unwrap_err().in_thread("a thread");
        assert!(error.to_string().starts_with("a thread panicked: words; "), "{error}");
    }
}
