//! Worker threads that make the shards' checkpoints beside the blocks.

use crate::SHARD_COUNT;
use polytrie_kv::{Worker, caught};
use polytrie_state::{Result, StateError};
use std::sync::mpsc::{Receiver, Sender, channel};

type Job = Box<dyn FnOnce() + Send>;

/// Worker threads, as many as work in parallel and at most one a shard. Each serves some of the shards.
#[derive(Debug)]
pub(crate) struct Workers {
    // Fields drop in this order: a thread ends when its sender is gone.
    jobs: Vec<Sender<Job>>,
    threads: Vec<Worker>,
}

/// The result of a job that a worker thread was given.
#[derive(Debug)]
pub(crate) struct Awaited<T>(Receiver<Result<T>>);

impl<T> Awaited<T> {
    /// Wraps a result that is there already.
    pub(crate) fn ready(result: T) -> Self {
        let (sender, receiver) = channel();
        // The receiver exists, so the send cannot fail.
        let _ = sender.send(Ok(result));
        Self(receiver)
    }

    /// Waits for the result. Fails with the error of the job, or if its thread has ended.
    pub(crate) fn wait(&self) -> Result<T> {
        self.0.recv().unwrap_or(Err(StateError::Protocol("a shard's thread has ended")))
    }
}

impl Workers {
    /// Starts the worker threads.
    pub(crate) fn start() -> Result<Self> {
        let mut workers = Self { jobs: Vec::new(), threads: Vec::new() };
        for n in 0..rayon::current_num_threads().clamp(1, SHARD_COUNT) {
            let (sender, jobs) = channel::<Job>();
            let work = move || jobs.into_iter().for_each(|job| job());
            workers.threads.push(Worker::start(format!("rain-{n:x}"), work)?);
            workers.jobs.push(sender);
        }
        Ok(workers)
    }

    /// Gives the worker thread of a shard a job, to be done after the jobs it has. The result comes through
    /// [`Awaited`].
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        shard: usize,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Awaited<T> {
        let (sender, receiver) = channel();
        let job = move || {
            let done =
                caught(work).unwrap_or_else(|said| Err(said.in_thread("a shard's thread").into()));
            // The receiver may be gone.
            let _ = sender.send(done);
        };
        // A thread that has ended drops the job, and the receiver reports that.
        let _ = self.jobs[shard % self.jobs.len()].send(Box::new(job));
        Awaited(receiver)
    }
}
