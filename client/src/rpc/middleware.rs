//! What happens to every request on its way to its method.

use super::{batch::Batches, metrics::Metrics};
use jsonrpsee::{
    MethodResponse,
    core::middleware::{Batch, Notification, RpcServiceT},
    types::Request,
};
use std::{future::Future, sync::Arc, time::Instant};

/// Marks the requests of a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct InBatch;

/// Counts requests.
#[derive(Debug, Clone)]
pub(super) struct Watch<S> {
    pub(super) inner: S,
    pub(super) metrics: Arc<Metrics>,
    pub(super) batches: Batches,
}

impl<S> RpcServiceT for Watch<S>
where
    S: RpcServiceT<
            MethodResponse = MethodResponse,
            BatchResponse = MethodResponse,
            NotificationResponse = MethodResponse,
        > + Send
        + Sync
        + Clone
        + 'static,
{
    type MethodResponse = MethodResponse;
    type NotificationResponse = MethodResponse;
    type BatchResponse = MethodResponse;

    fn call<'a>(&self, request: Request<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        let Self { inner, metrics, .. } = self.clone();
        async move {
            let start = Instant::now();
            let name = request.method_name().to_owned();
            let response = inner.call(request).await;
            metrics.answered(&name, response.is_success(), start.elapsed());
            response
        }
    }

    fn batch<'a>(&self, batch: Batch<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        let Self { inner, metrics, batches } = self.clone();
        async move {
            let start = Instant::now();
            let response = batches.answer(&inner, batch).await;
            metrics.answered("batch", response.is_success(), start.elapsed());
            response
        }
    }

    fn notification<'a>(
        &self,
        notification: Notification<'a>,
    ) -> impl Future<Output = MethodResponse> + Send + 'a {
        let inner = self.inner.clone();
        async move { inner.notification(notification).await }
    }
}
