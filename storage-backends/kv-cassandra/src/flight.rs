//! Many requests under way at once, but not too many.

use crate::{Cluster, error::failed};
use polytrie_kv::KvError;
use std::{
    future::Future,
    sync::mpsc::{Receiver, Sender, channel},
};

/// Requests under way at most: more would only wait in the nodes.
const REQUESTS: usize = 96;
/// Bytes of requests under way at most: a node with a small heap holds each of them a few times over.
const BYTES: usize = 8 << 20;

/// Requests under way, which answer in any order.
pub(crate) struct Flight<'a, T> {
    cluster: &'a Cluster,
    sender: Sender<(usize, Result<T, KvError>)>,
    receiver: Receiver<(usize, Result<T, KvError>)>,
    requests: usize,
    bytes: usize,
}

impl<'a, T: Send + 'static> Flight<'a, T> {
    pub(crate) fn new(cluster: &'a Cluster) -> Self {
        let (sender, receiver) = channel();
        Self { cluster, sender, receiver, requests: 0, bytes: 0 }
    }

    /// Sends a request of so many bytes. Waits while too much is under way; what has been answered goes to `take`.
    ///
    /// # Errors
    ///
    /// Those of earlier requests.
    pub(crate) fn push(
        &mut self,
        bytes: usize,
        request: impl Future<Output = Result<T, KvError>> + Send + 'static,
        take: &mut dyn FnMut(T),
    ) -> Result<(), KvError> {
        while self.requests >= REQUESTS || (self.requests > 0 && self.bytes + bytes > BYTES) {
            self.land(take)?;
        }
        self.requests += 1;
        self.bytes += bytes;
        let sender = self.sender.clone();
        self.cluster.spawn(async move {
            let panicked = |_| Err(failed("waiting for an answer", "a request ended in a panic"));
            let answer = tokio::spawn(request).await.unwrap_or_else(panicked);
            // After an error nobody waits for the rest.
            let _ = sender.send((bytes, answer));
        });
        Ok(())
    }

    /// Waits for all that is under way.
    ///
    /// # Errors
    ///
    /// The first one that comes.
    pub(crate) fn finish(mut self, take: &mut dyn FnMut(T)) -> Result<(), KvError> {
        while self.requests > 0 {
            self.land(take)?;
        }
        Ok(())
    }

    fn land(&mut self, take: &mut dyn FnMut(T)) -> Result<(), KvError> {
        let answer = self.receiver.recv();
        let (bytes, answer) = answer.map_err(|error| failed("waiting for an answer", error))?;
        self.requests -= 1;
        self.bytes -= bytes;
        take(answer?);
        Ok(())
    }
}
