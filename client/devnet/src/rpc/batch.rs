//! Execution of batches of requests.
//!
//! The requests of a batch run one after the other, in their order. Consecutive signed transactions are
//! submitted together: their senders are recovered on all cores, and the block that their arrival triggers can
//! include all of them.

use super::{
    RpcState,
    args::Args,
    error::{RpcError, RpcResult},
    eth::{SEND_RAW, recovered, submit_all},
    middleware::{Asked, InBatch, refused},
};
use alloy_primitives::B256;
use jsonrpsee::{
    MethodResponse, ResponsePayload,
    core::{
        middleware::{Batch, BatchEntry, RpcServiceT},
        server::BatchResponseBuilder,
    },
    types::{ErrorObjectOwned, Params, Request},
};
use std::{collections::HashSet, sync::Arc, thread};
use tokio::{sync::Semaphore, task};

/// Number of transactions whose senders one thread recovers at a time.
const PIECE: usize = 32;

/// The shared data to answer batches.
#[derive(Debug, Clone)]
pub(super) struct Batches {
    shared: Arc<RpcState>,
    /// Names of all methods.
    names: Arc<HashSet<&'static str>>,
    /// Maximum number of bytes of an answer.
    max_response: usize,
    /// Permits for the recovery of senders, one for each core, so that the batches of other connections get
    /// a thread soon.
    cores: Arc<Semaphore>,
}

impl Batches {
    pub(super) fn new(
        shared: Arc<RpcState>,
        names: Arc<HashSet<&'static str>>,
        max_response: u32,
    ) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let cores = Arc::new(Semaphore::new(cores));
        Self { shared, names, max_response: max_response as usize, cores }
    }

    /// Answers the requests of a batch. Signed transactions are submitted together; `inner` answers the other requests.
    pub(super) async fn answer<S>(&self, inner: &S, batch: Batch<'_>) -> MethodResponse
    where
        S: RpcServiceT<MethodResponse = MethodResponse, NotificationResponse = MethodResponse>
            + Sync,
    {
        let mut answers = BatchResponseBuilder::new_with_limit(self.max_response);
        let mut notified = false;
        let mut entries = batch.into_iter().peekable();
        let is_raw = |entry: &Result<BatchEntry<'_>, _>| matches!(entry, Ok(BatchEntry::Call(request)) if request.method_name() == SEND_RAW);
        while let Some(entry) = entries.next() {
            let found = match entry {
                Ok(BatchEntry::Call(first)) if first.method_name() == SEND_RAW => {
                    let mut requests = vec![first];
                    while let Some(Ok(BatchEntry::Call(next))) = entries.next_if(is_raw) {
                        requests.push(next);
                    }
                    self.send_raw(requests).await
                }
                Ok(BatchEntry::Call(mut request)) => {
                    request.extensions_mut().insert(InBatch);
                    let asked = Asked::new(&request);
                    let answer = match refused(&request, &self.names) {
                        Some(refused) => refused,
                        None => inner.call(request).await,
                    };
                    if let Some(asked) = asked {
                        asked.answered(&answer);
                    }
                    vec![answer]
                }
                Ok(BatchEntry::Notification(notification)) => {
                    notified = true;
                    inner.notification(notification).await;
                    continue;
                }
                Err(error) => {
                    let (error, id) = error.into_parts();
                    vec![MethodResponse::error(id, error)]
                }
            };
            for answer in found {
                if let Err(too_large) = answers.append(answer) {
                    return too_large;
                }
            }
        }
        // A batch of notifications gets no answer; an empty batch is an error.
        if answers.is_empty() && notified {
            return MethodResponse::notification();
        }
        MethodResponse::from_batch(answers.finish())
    }

    async fn send_raw(&self, requests: Vec<Request<'_>>) -> Vec<MethodResponse> {
        let params: Vec<_> = requests
            .iter()
            .map(|request| request.params.as_ref().map(|params| params.get().to_owned()))
            .collect();
        let answers = self.take_in(params).await;
        let answer = |(request, answer): (Request<'_>, RpcResult<_>)| {
            let answer = match answer {
                Ok(hash) => ResponsePayload::success(hash),
                Err(error) => ResponsePayload::error(ErrorObjectOwned::from(error)),
            };
            MethodResponse::response(request.id, answer, self.max_response)
        };
        requests.into_iter().zip(answers).map(answer).collect()
    }

    /// Submits transactions; returns the hash of each, or the error for which it was refused.
    async fn take_in(&self, mut params: Vec<Option<String>>) -> Vec<RpcResult<B256>> {
        let wanted = params.len();
        let mut pieces = Vec::new();
        while !params.is_empty() {
            let rest = params.split_off(params.len().min(PIECE));
            let piece = std::mem::replace(&mut params, rest);
            let permit = Arc::clone(&self.cores).acquire_owned().await;
            pieces.push(task::spawn_blocking(move || {
                let txs = piece
                    .iter()
                    .map(|params| recovered(&mut Args::new(&Params::new(params.as_deref()))?))
                    .collect::<Vec<_>>();
                drop(permit);
                txs
            }));
        }
        let mut txs = Vec::with_capacity(wanted);
        let failed = |error| vec![Err(RpcError::internal(&error)); wanted];
        for piece in pieces {
            match piece.await {
                Ok(piece) => txs.extend(piece),
                Err(error) => return failed(error),
            }
        }
        let shared = Arc::clone(&self.shared);
        task::spawn_blocking(move || submit_all(&shared, txs)).await.unwrap_or_else(failed)
    }
}
