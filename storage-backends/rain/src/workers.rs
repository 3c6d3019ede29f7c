//! The threads that work for shards beside the blocks.

use crate::SHARD_COUNT;
use polytrie_kv::{Worker, caught};
use polytrie_state::StateError;
use std::sync::mpsc::{Receiver, Sender, channel};

type Job = Box<dyn FnOnce() + Send>;

/// As many threads as work in parallel, each of them for some shards.
#[derive(Debug)]
pub(crate) struct Workers {
    // Fields drop in this order: without senders the threads end.
    jobs: Vec<Sender<Job>>,
    threads: Vec<Worker>,
}

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
        let mut workers = Self { jobs: Vec::new(), threads: Vec::new() };
        for n in 0..rayon::current_num_threads().clamp(1, SHARD_COUNT) {
            let (sender, jobs) = channel::<Job>();
            let work = move || jobs.into_iter().for_each(|job| job());
            workers.threads.push(Worker::start(format!("rain-{n:x}"), work)?);
            workers.jobs.push(sender);
        }
        Ok(workers)
    }

    /// Has a shard do something, after what it was asked for before.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        shard: usize,
        work: impl FnOnce() -> Result<T, StateError> + Send + 'static,
    ) -> Awaited<T> {
        let (sender, receiver) = channel();
        let job = move || {
            let done =
                caught(work).unwrap_or_else(|said| Err(said.in_thread("a shard's thread").into()));
            // The caller may be gone.
            let _ = sender.send(done);
        };
        // A thread that has ended drops the job, and the receiver says so.
        let _ = self.jobs[shard % self.jobs.len()].send(Box::new(job));
        Awaited(receiver)
    }
}
