//! What happens to every request on its way to its method.

use super::{batch::Batches, http::OneAnswer, metrics::Metrics};
use jsonrpsee::{
    MethodResponse,
    core::middleware::{Batch, Notification, RpcServiceT},
    types::{ErrorObject, Request, error::METHOD_NOT_FOUND_CODE},
};
use std::{collections::HashSet, future::Future, sync::Arc, time::Instant};

/// Marks the requests of a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct InBatch;

/// The answer to a request to subscribe that came over HTTP.
pub(super) fn refused(request: &Request<'_>) -> Option<MethodResponse> {
    let subscribes = matches!(request.method_name(), "eth_subscribe" | "eth_unsubscribe");
    (subscribes && request.extensions().get::<OneAnswer>().is_some()).then(|| {
        let (code, message) = (METHOD_NOT_FOUND_CODE, "notifications not supported");
        MethodResponse::error(request.id(), ErrorObject::borrowed(code, message, None))
    })
}

/// Counts requests.
#[derive(Debug, Clone)]
pub(super) struct Watch<S> {
    pub(super) inner: S,
    pub(super) metrics: Arc<Metrics>,
    /// The methods that are there, which are told apart; whoever makes names up must not fill the memory.
    pub(super) names: Arc<HashSet<&'static str>>,
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
        let Self { inner, metrics, names, .. } = self.clone();
        async move {
            let start = Instant::now();
            let name = names.get(request.method_name()).copied().unwrap_or("other");
            let response = match refused(&request) {
                Some(refused) => refused,
                None => inner.call(request).await,
            };
            metrics.answered(name, response.is_success(), start.elapsed());
            response
        }
    }

    fn batch<'a>(&self, batch: Batch<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        let Self { inner, metrics, batches, .. } = self.clone();
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
