//! The middleware between the server and the methods: logging, metrics, and limits of concurrent requests.

use super::{
    batch::Batches,
    connection::{Connection, UnderWay},
    eth::WAITING,
    http::OneAnswer,
    metrics::Metrics,
};
use crate::printable;
use jsonrpsee::{
    Extensions, MethodResponse,
    core::middleware::{Batch, BatchEntry, Notification, RpcServiceT},
    types::{ErrorObject, Id, Request, error::METHOD_NOT_FOUND_CODE},
};
use serde_json::Value;
use std::{collections::HashSet, future::Future, sync::Arc, time::Instant};
use tokio::sync::OwnedSemaphorePermit;
use tracing::Level;

/// The marker of the requests of a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct InBatch;

/// Maximum number of characters of an unknown method's name in logs and errors.
const NAME: usize = 100;

/// Maximum number of characters of a request's parameters in the log.
const PARAMS: usize = 200;

/// Returns the error of an unknown method, or of a subscription over HTTP; `None` for a request that may run.
pub(super) fn refused(
    request: &Request<'_>,
    names: &HashSet<&'static str>,
) -> Option<MethodResponse> {
    if !names.contains(request.method_name()) {
        let name: String = request.method_name().chars().take(NAME).collect();
        let name = printable(&name);
        tracing::warn!("a client asked for the method `{name}`, which does not exist");
        let message = format!("the method {name} does not exist/is not available");
        let error = ErrorObject::owned(METHOD_NOT_FOUND_CODE, message, None::<()>);
        return Some(MethodResponse::error(request.id(), error));
    }
    let subscribes = matches!(request.method_name(), "eth_subscribe" | "eth_unsubscribe");
    (subscribes && request.extensions().get::<OneAnswer>().is_some()).then(|| {
        let (code, message) = (METHOD_NOT_FOUND_CODE, "notifications not supported");
        MethodResponse::error(request.id(), ErrorObject::borrowed(code, message, None))
    })
}

/// Returns the connection of a request over a WebSocket. Over HTTP there is none to watch here, since the client waits
/// for the answer.
fn socket(extensions: &Extensions) -> Option<Arc<Connection>> {
    match extensions.get::<OneAnswer>() {
        Some(_) => None,
        None => extensions.get().cloned(),
    }
}

/// A request of a WebSocket that has a permit to run.
#[derive(Debug)]
struct Begun {
    connection: Arc<Connection>,
    _under_way: UnderWay,
    _turn: Option<OwnedSemaphorePermit>,
}

/// A connection was closed: its requests are not answered any more.
#[derive(Debug)]
struct Closed;

impl Begun {
    /// Waits for a permit, unless the method `waits` for a block. Returns `None` if there is no `connection` to watch.
    async fn new(
        connection: Option<Arc<Connection>>,
        bytes: usize,
        waits: bool,
    ) -> Result<Option<Self>, Closed> {
        let Some(connection) = connection else { return Ok(None) };
        let under_way = connection.begin(bytes);
        let turn = match waits {
            // The method may wait for other requests of the same client.
            true => None,
            false => Some(connection.turn().await.ok_or(Closed)?),
        };
        Ok(Some(Self { connection, _under_way: under_way, _turn: turn }))
    }

    fn answered(&self, response: &MethodResponse) {
        if response.is_method_call() || response.is_batch() {
            self.connection.answered(response.as_json().get().len());
        }
    }
}

fn closed(id: Id<'_>) -> MethodResponse {
    MethodResponse::error(id, ErrorObject::borrowed(-32000, "the connection was closed", None))
}

/// A request that the log shows at level `-v`.
#[derive(Debug)]
pub(super) struct Asked {
    text: String,
    start: Instant,
}

impl Asked {
    /// Records a request; `None` if the log does not show requests.
    pub(super) fn new(request: &Request<'_>) -> Option<Self> {
        let shown = || {
            let params = request.params.as_ref().map_or("[]", |params| params.get());
            let mut text: String = params.chars().take(PARAMS + 1).collect();
            if text.chars().nth(PARAMS).is_some() {
                text.pop();
                text.push('…');
            }
            printable(&format!("{} {text}", request.method_name()))
        };
        tracing::enabled!(Level::DEBUG).then(|| Self { text: shown(), start: Instant::now() })
    }

    /// Writes the log line with the duration and any error.
    pub(super) fn answered(self, response: &MethodResponse) {
        let (text, took) = (self.text, self.start.elapsed().as_secs_f64() * 1000.0);
        let Some(code) = response.as_error_code() else {
            tracing::debug!("{text}: {took:.1} ms");
            return;
        };
        let answer: Option<Value> = serde_json::from_str(response.as_json().get()).ok();
        let message = answer.as_ref().and_then(|answer| answer["error"]["message"].as_str());
        let message = printable(message.unwrap_or_default());
        tracing::debug!("{text}: {took:.1} ms, error {code}: {message}");
    }
}

/// The middleware that counts requests, and bounds the concurrent requests of one WebSocket.
#[derive(Debug, Clone)]
pub(super) struct Watch<S> {
    pub(super) inner: S,
    pub(super) metrics: Arc<Metrics>,
    /// Names of all methods. Unknown names share one counter, so that clients cannot fill the memory.
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
            let (connection, bytes) = (socket(request.extensions()), params_of(&request));
            let waits = WAITING.contains(&name);
            let Ok(begun) = Begun::new(connection, bytes, waits).await else {
                return closed(request.id.into_owned());
            };
            let asked = Asked::new(&request);
            let response = match refused(&request, &names) {
                Some(refused) => refused,
                None => inner.call(request).await,
            };
            if let Some(begun) = begun {
                begun.answered(&response);
            }
            metrics.answered(name, response.is_success(), start.elapsed());
            if let Some(asked) = asked {
                asked.answered(&response);
            }
            response
        }
    }

    fn batch<'a>(&self, batch: Batch<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        let Self { inner, metrics, batches, .. } = self.clone();
        async move {
            let start = Instant::now();
            let entries: Vec<_> = batch.iter().filter_map(|entry| entry.as_ref().ok()).collect();
            let params = |entry: &BatchEntry<'_>| match entry {
                BatchEntry::Call(request) => params_of(request),
                BatchEntry::Notification(_) => 0,
            };
            let bytes = entries.iter().map(|entry| size_of_val(*entry) + params(entry)).sum();
            let connection = entries.iter().find_map(|entry| socket(entry.extensions()));
            let Ok(begun) = Begun::new(connection, bytes, false).await else {
                return closed(Id::Null);
            };
            let response = batches.answer(&inner, batch).await;
            if let Some(begun) = begun {
                begun.answered(&response);
            }
            metrics.answered("batch", response.is_success(), start.elapsed());
            response
        }
    }

    fn notification<'a>(
        &self,
        notification: Notification<'a>,
    ) -> impl Future<Output = MethodResponse> + Send + 'a {
        let inner = self.inner.clone();
        async move {
            let _begun = Begun::new(socket(notification.extensions()), 0, false).await;
            inner.notification(notification).await
        }
    }
}

/// Returns the bytes of the parameters of a request.
fn params_of(request: &Request<'_>) -> usize {
    request.params.as_ref().map_or(0, |params| params.get().len())
}
