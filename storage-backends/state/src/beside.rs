//! Work that another thread does if one is idle.

use parking_lot::Mutex;
use polytrie_kv::{Panicked, caught};
use std::{
    panic::resume_unwind,
    sync::{
        Arc,
        mpsc::{Receiver, RecvError, Sender, TryRecvError, channel},
    },
    thread,
    time::{Duration, Instant},
};

/// Time that a thread needs to go to sleep and wake up again, about.
pub const WAKE_UP: Duration = Duration::from_micros(50);

/// A piece of work for another thread that the caller need not wait for: all threads may be busy with something that
/// takes longer, such as recovering the senders of the next blocks.
pub struct Beside<T> {
    /// The work, until a thread begins it.
    waiting: Arc<Mutex<Option<Work<T>>>>,
    result: Receiver<Result<T, Panicked>>,
}

/// The work, and the channel for its result.
type Work<T> = (Box<dyn FnOnce() -> (T, Rest) + Send>, Sender<Result<T, Panicked>>);

/// What a thread goes on with when it has sent a result.
type Rest = Box<dyn FnOnce()>;

impl<T: Send + 'static> Beside<T> {
    /// Offers the work to the thread pool.
    pub fn start(work: impl FnOnce() -> T + Send + 'static) -> Self {
        Self::start_and_go_on(move || (work(), || ()))
    }

    /// Does as [`Self::start`]. The thread that has done the work goes on with what comes with the result, which is on its
    /// way meanwhile: so no other thread has to wake up for that.
    pub fn start_and_go_on<R: FnOnce() + 'static>(
        work: impl FnOnce() -> (T, R) + Send + 'static,
    ) -> Self {
        let (sender, result) = channel();
        let work = move || {
            let (result, rest) = work();
            (result, Box::new(rest) as Rest)
        };
        let waiting: Arc<Mutex<Option<Work<T>>>> =
            Arc::new(Mutex::new(Some((Box::new(work), sender))));
        let taken = waiting.clone();
        rayon::spawn(move || {
            let work = taken.lock().take();
            let Some((work, sender)) = work else { return };
            let (result, rest) = match caught(work) {
                Ok((result, rest)) => (Ok(result), Some(rest)),
                Err(said) => (Err(said), None),
            };
            // The caller may have dropped the receiver.
            let _ = sender.send(result);
            // No caller waits for the rest.
            drop(rest.map(caught));
        });
        Self { waiting, result }
    }

    /// Waits for the result if a thread has begun the work; otherwise cancels it and returns `None`. A panic of the
    /// work resumes here.
    pub fn finish(self) -> Option<T> {
        if self.waiting.lock().take().is_some() {
            return None;
        }
        match self.wait() {
            Ok(Ok(result)) => Some(result),
            Ok(Err(said)) => resume_unwind(Box::new(said.to_string())),
            // The thread sends a result before it drops the sender.
            Err(_) => None,
        }
    }

    /// Waits for the result. It mostly comes before this thread could have slept.
    fn wait(&self) -> Result<Result<T, Panicked>, RecvError> {
        let start = Instant::now();
        loop {
            match self.result.try_recv() {
                Ok(result) => return Ok(result),
                Err(TryRecvError::Disconnected) => return Err(RecvError),
                Err(TryRecvError::Empty) if start.elapsed() < WAKE_UP => thread::yield_now(),
                Err(TryRecvError::Empty) => return self.result.recv(),
            }
        }
    }
}

polytrie_kv::debug_fields!([T] Beside[T] {});

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    #[test]
    fn work_is_done_once_or_never() {
        let begun = Arc::new(AtomicU32::new(0));
        let mut finished = 0;
        for number in 0..1_000 {
            let counted = begun.clone();
            let work = Beside::start(move || {
                counted.fetch_add(1, Ordering::Relaxed);
                number
            });
            if let Some(result) = work.finish() {
                assert_eq!(result, number);
                finished += 1;
            }
            assert_eq!(begun.load(Ordering::Relaxed), finished);
        }
    }

    #[test]
    fn what_comes_after_a_result_is_not_waited_for() {
        let (end, ended) = channel();
        let (go, may_go) = channel();
        let work = Beside::start_and_go_on(move || {
            (7, move || {
                may_go.recv().expect("the test goes on");
                end.send(()).expect("the test waits");
            })
        });
        let result = loop {
            // A thread that has begun the work cannot be stopped any more.
            if work.waiting.lock().is_none() {
                break work.finish();
            }
            thread::yield_now();
        };
        assert_eq!(result, Some(7));
        go.send(()).expect("the thread waits");
        ended.recv().expect("the thread goes on");
    }

    #[test]
    fn a_panic_reaches_the_caller_in_its_words() {
        let begun = Arc::new(AtomicBool::new(false));
        let seen = begun.clone();
        let work = Beside::start(move || {
            seen.store(true, Ordering::Relaxed);
            panic!("on purpose");
        });
        while !begun.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        let said = caught(|| work.finish()).expect_err("it panicked");
        assert_eq!(said.to_string(), "on purpose");
    }
}
