//! The threads that work for shards beside the blocks.

use crate::SHARD_COUNT;
use polytrie_kv::KvError;
use polytrie_state::StateError;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc::{Receiver, Sender, channel},
    thread::JoinHandle,
};

type Job = Box<dyn FnOnce() + Send>;

/// As many threads as work in parallel, each of them for some shards.
#[derive(Debug)]
pub(crate) struct Workers {
    threads: Vec<Worker>,
}

/// A thread and what gives it work; both go when the layer does.
type Worker = (Option<Sender<Job>>, Option<JoinHandle<()>>);

/// A result that a shard is working on.
#[derive(Debug)]
pub(crate) struct Awaited<T>(Receiver<Result<T, StateError>>);

impl<T> Awaited<T> {
    /// One that is there.
    pub(crate) fn ready(result: T) -> Self {
        let (sender, receiver) = channel();
        // The receiver is held here.
        let _ = sender.send(Ok(result));
        Self(receiver)
    }

    /// Waits for it.
    pub(crate) fn wait(&self) -> Result<T, StateError> {
        self.0.recv().unwrap_or(Err(StateError::Protocol("a shard's thread has ended")))
    }
}

impl Workers {
    /// Starts the threads.
    pub(crate) fn start() -> Result<Self, StateError> {
        let threads = (0..rayon::current_num_threads().clamp(1, SHARD_COUNT))
            .map(|n| {
                let (sender, jobs) = channel::<Job>();
                let work = move || jobs.into_iter().for_each(|job| job());
                let thread = std::thread::Builder::new()
                    .name(format!("rain-{n:x}"))
                    .spawn(work)
                    .map_err(KvError::thread)?;
                Ok((Some(sender), Some(thread)))
            })
            .collect::<Result<_, StateError>>()?;
        Ok(Self { threads })
    }

    /// Has a shard do something, after what it was asked for before.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        shard: usize,
        work: impl FnOnce() -> Result<T, StateError> + Send + 'static,
    ) -> Awaited<T> {
        let (sender, receiver) = channel();
        let job = move || {
            let done = catch_unwind(AssertUnwindSafe(work))
                .unwrap_or(Err(StateError::Protocol("a shard's thread panicked")));
            // The caller may have gone away.
            let _ = sender.send(done);
        };
        if let Some(thread) = &self.threads[shard % self.threads.len()].0 {
            // A thread that has ended drops the job, and the receiver says so.
            let _ = thread.send(Box::new(job));
        }
        Awaited(receiver)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for (sender, _) in &mut self.threads {
            *sender = None;
        }
        for (_, thread) in &mut self.threads {
            if let Some(thread) = thread.take() {
                // A panic was reported to the caller.
                let _ = thread.join();
            }
        }
    }
}
