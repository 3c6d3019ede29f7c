//! Threads that the system may refuse to start, and that may panic.

use crate::KvError;
use parking_lot::Mutex;
use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    thread::{self, JoinHandle},
};

/// What a panic said.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Panicked(String);

impl Panicked {
    /// From what the panic carried.
    pub fn of(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Self(text.unwrap_or("nothing").to_owned())
    }

    /// The error of a thread that panicked.
    pub fn in_thread(self, thread: &'static str) -> KvError {
        KvError::Panicked { thread, said: self.0 }
    }
}

/// Does something that may panic. What a panic leaves half done must not be used again.
///
/// # Errors
///
/// What a panic said.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| Panicked::of(&*panic))
}

/// A thread whose panics are logged. Dropping this waits for its end.
#[derive(Debug)]
pub struct Worker(Option<JoinHandle<()>>);

impl Worker {
    /// Starts a thread. Where a panic must have consequences, `work` catches its own ([`caught`]).
    ///
    /// # Errors
    ///
    /// [`KvError::Thread`] if the system refuses.
    pub fn start(
        name: impl Into<String>,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<Self, KvError> {
        let name = name.into();
        let thread = thread::Builder::new().name(name.clone());
        let work = move || {
            caught(work).unwrap_or_else(|said| tracing::error!("thread `{name}` panicked: {said}"));
        };
        Ok(Self(Some(thread.spawn(work).map_err(KvError::thread)?)))
    }

    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        self.0.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // A panic was logged there.
            let _ = thread.join();
        }
    }
}

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
