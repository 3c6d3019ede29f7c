//! A bounded number of concurrent requests.

use crate::{Cluster, error::failed};
use polytrie_kv::Result;
use std::{
    future::Future,
    sync::mpsc::{Receiver, Sender, channel},
};

/// Most requests that are sent and not answered: more would only wait in the nodes.
const REQUESTS: usize = 96;
/// Most bytes of such requests: a node with a small heap holds each of them a few times over.
const BYTES: usize = 8 << 20;

/// Requests that are sent and not answered; they may be answered in any order.
pub(crate) struct Flight<'a, T> {
    cluster: &'a Cluster,
    sender: Sender<(usize, Result<T>)>,
    receiver: Receiver<(usize, Result<T>)>,
    requests: usize,
    bytes: usize,
}

impl<'a, T: Send + 'static> Flight<'a, T> {
    pub(crate) fn new(cluster: &'a Cluster) -> Self {
        let (sender, receiver) = channel();
        Self { cluster, sender, receiver, requests: 0, bytes: 0 }
    }

    /// Sends a request of so many bytes. Waits while the limits are reached; `take` gets the results that have come.
    ///
    /// # Errors
    ///
    /// The error of an earlier request.
    pub(crate) fn push(
        &mut self,
        bytes: usize,
        request: impl Future<Output = Result<T>> + Send + 'static,
        take: &mut dyn FnMut(T),
    ) -> Result<()> {
        while self.requests >= REQUESTS || (self.requests > 0 && self.bytes + bytes > BYTES) {
            self.land(take)?;
        }
        self.requests += 1;
        self.bytes += bytes;
        let sender = self.sender.clone();
        self.cluster.spawn(async move {
            let panicked = |_| Err(failed("waiting for an answer", "a request ended in a panic"));
            let answer = tokio::spawn(request).await.unwrap_or_else(panicked);
            // After an error the receiver may be gone.
            let _ = sender.send((bytes, answer));
        });
        Ok(())
    }

    /// Waits for all requests that are sent.
    ///
    /// # Errors
    ///
    /// The error of the first request that fails.
    pub(crate) fn finish(mut self, take: &mut dyn FnMut(T)) -> Result<()> {
        while self.requests > 0 {
            self.land(take)?;
        }
        Ok(())
    }

    fn land(&mut self, take: &mut dyn FnMut(T)) -> Result<()> {
        let answer = self.receiver.recv();
        let (bytes, answer) = answer.map_err(|error| failed("waiting for an answer", error))?;
        self.requests -= 1;
        self.bytes -= bytes;
        take(answer?);
        Ok(())
    }
}
