//! The HTTP layer around the RPC server.
//!
//! Each request is checked in this order: token (if there is a secret), host name, origin. A GET is answered here: the
//! page, `/health` and `/metrics`. The body of a POST is read here with limits of time and size, so that its bytes
//! count towards its connection, and a notification is answered without content.

use super::{RpcState, connection::Connection, jwt::JwtSecret, on_thread, origins::Origins};
use crate::NodeFailure;
use alloy_primitives::bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, header};
use http_body::Body;
use http_body_util::Full;
use jsonrpsee::{
    MethodResponse,
    core::{
        BoxError,
        http_helpers::{HttpError, read_body},
    },
    server::{
        HttpBody, HttpRequest, HttpResponse,
        http::{content_type_is_json, response},
    },
    types::{ErrorObject, Id, error::INVALID_REQUEST_CODE},
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::json;
use std::{
    future::Future,
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::time;
use tower::{Layer, Service};

/// The web page of the node.
const PAGE: &str = include_str!("page.html");

/// Time within which the body of a request must arrive.
const BODY_TIME: Duration = Duration::from_secs(60);

/// Length in bytes of `null`, which the server beneath answers to a notification. No other answer is so short.
const NOTHING: u64 = 4;

/// The marker of requests over HTTP: each has one answer, after which nothing can be sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct OneAnswer;

/// The layer that answers GET requests, and refuses requests with a wrong token, host or origin.
#[derive(Debug, Clone)]
pub(super) struct HttpLayer {
    pub(super) shared: Arc<RpcState>,
    /// Host names by which requests may call the node; `*` for any.
    pub(super) hosts: Arc<Vec<String>>,
    /// Origins of the pages that may call the node.
    pub(super) origins: Arc<Origins>,
    /// The secret for the tokens of callers, if tokens are required.
    pub(super) secret: Option<JwtSecret>,
    /// Maximum number of bytes of a request.
    pub(super) max_request: u32,
}

impl<S> Layer<S> for HttpLayer {
    type Service = HttpService<S>;

    fn layer(&self, inner: S) -> HttpService<S> {
        HttpService { inner, layer: self.clone() }
    }
}

/// The service that [`HttpLayer`] creates.
#[derive(Debug, Clone)]
pub(super) struct HttpService<S> {
    inner: S,
    layer: HttpLayer,
}

type Answer<E> = Pin<Box<dyn Future<Output = Result<HttpResponse, E>> + Send>>;

impl<S, B> Service<HttpRequest<B>> for HttpService<S>
where
    S: Service<HttpRequest, Response = HttpResponse> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = HttpResponse;
    type Error = S::Error;
    type Future = Answer<S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: HttpRequest<B>) -> Self::Future {
        if let Some(secret) = &self.layer.secret
            && let Err(reason) = authorized(secret, request.headers())
        {
            tracing::warn!("a request to the Engine API was refused: {reason}");
            let answer = respond(StatusCode::UNAUTHORIZED, "text/plain", format!("{reason}\n"));
            return Box::pin(std::future::ready(Ok(answer)));
        }
        let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
        if !is_allowed(host.unwrap_or_default(), &self.layer.hosts) {
            let text = "this host is not allowed; name it with --http.vhosts";
            let answer = respond(StatusCode::FORBIDDEN, "text/plain", text.to_owned());
            return Box::pin(std::future::ready(Ok(answer)));
        }
        // Some clients offer HTTP/2 in this header (`h2c`), and continue without it.
        let upgrade = request.headers().get(header::UPGRADE);
        let is_upgrade = upgrade.is_some_and(|to| to.as_bytes().eq_ignore_ascii_case(b"websocket"));
        // Browsers let any page open a WebSocket and read from it. Of a POST they hide only the answer, and whether
        // they send a preflight request first is up to the browser.
        let origin = request.headers().get(header::ORIGIN);
        let origin = origin.map(|origin| origin.to_str().unwrap_or("null"));
        if (is_upgrade || request.method() == Method::POST)
            && let Some(origin) = origin
            && !self.layer.origins.may_call(origin, host.unwrap_or_default())
        {
            let text = "this origin is not allowed; name it with --http.corsdomain";
            let answer = respond(StatusCode::FORBIDDEN, "text/plain", text.to_owned());
            return Box::pin(std::future::ready(Ok(answer)));
        }
        let connection = request.extensions().get::<Arc<Connection>>().cloned();
        let begun = connection.as_ref().map(|connection| connection.begin(0));
        if request.method() == Method::GET && !is_upgrade {
            let (shared, path) = (Arc::clone(&self.layer.shared), request.uri().path().to_owned());
            return Box::pin(async move { Ok(counted(get(shared, &path).await, connection)) });
        }
        let is_json = content_type_is_json(&request);
        let mut request = request.map(HttpBody::new);
        if is_upgrade || request.method() != Method::POST || !is_json {
            return Box::pin(self.inner.call(request));
        }
        drop(begun);
        request.extensions_mut().insert(OneAnswer);
        // The service that was polled for readiness must be the one that is called.
        let next = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, next);
        let answer = post(inner, request, connection.clone(), self.layer.max_request);
        Box::pin(async move { Ok(counted(answer.await?, connection)) })
    }
}

/// Checks the token of a request against the secret.
fn authorized(secret: &JwtSecret, headers: &HeaderMap) -> Result<(), String> {
    let value = headers.get(header::AUTHORIZATION);
    let value = value.and_then(|value| value.to_str().ok());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    secret.check(value, now)
}

/// Counts an answer as unread bytes of its connection.
fn counted(answer: HttpResponse, connection: Option<Arc<Connection>>) -> HttpResponse {
    if let (Some(connection), Some(bytes)) = (connection, answer.body().size_hint().exact()) {
        connection.answered(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
    answer
}

/// Reads the body of a POST with limits of time and size, and passes the request on. A notification is
/// answered without content.
async fn post<S>(
    mut inner: S,
    request: HttpRequest,
    connection: Option<Arc<Connection>>,
    max: u32,
) -> Result<HttpResponse, S::Error>
where
    S: Service<HttpRequest, Response = HttpResponse>,
{
    let (parts, body) = request.into_parts();
    let read = time::timeout(BODY_TIME, read_body(&parts.headers, body, max)).await;
    let (body, single) = match read {
        Ok(Ok(read)) => read,
        Ok(Err(HttpError::Malformed)) => return Ok(response::malformed()),
        // A stream fails if it is too long, or if the client has disconnected.
        Ok(Err(HttpError::TooLarge | HttpError::Stream(_))) => return Ok(response::too_large(max)),
        Err(_) => {
            let text = format!("the request did not come within {BODY_TIME:?}\n");
            return Ok(respond(StatusCode::REQUEST_TIMEOUT, "text/plain", text));
        }
    };
    let _under_way = connection.map(|connection| connection.begin(body.len()));
    let body = Bytes::from(body);
    let passed = HttpBody::new(Full::new(body.clone()));
    let answer = inner.call(HttpRequest::from_parts(parts, passed)).await?;
    if answer.body().size_hint().exact() != Some(NOTHING) {
        return Ok(answer);
    }
    // The server beneath treats a request with an unknown kind of ID as a notification.
    if single && serde_json::from_slice::<RequestHead>(&body).is_ok_and(|head| head.id.is_some()) {
        let message = "the id of a request is a text or a whole number from 0 to 2^64 - 1";
        let error = ErrorObject::borrowed(INVALID_REQUEST_CODE, message, None);
        let text = MethodResponse::error(Id::Null, error).into_json().to_string();
        return Ok(respond(StatusCode::OK, "application/json; charset=utf-8", text));
    }
    let mut answer = HttpResponse::new(HttpBody::empty());
    *answer.status_mut() = StatusCode::NO_CONTENT;
    Ok(answer)
}

/// The ID of a JSON-RPC request, which a notification lacks.
#[derive(Deserialize)]
struct RequestHead {
    id: Option<IgnoredAny>,
}

async fn get(shared: Arc<RpcState>, path: &str) -> HttpResponse {
    match path {
        "/" => respond(StatusCode::OK, "text/html; charset=utf-8", PAGE.to_owned()),
        "/health" => {
            let (status, text) = health(shared.node.view().head.number(), shared.node.failure());
            respond(status, "application/json", text)
        }
        // Some figures wait for locks under which a block is committed, and others for files.
        "/metrics" => match on_thread(move || Ok(shared.metrics_text())).await {
            Ok(text) => respond(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text),
            Err(error) => {
                let text = format!("{}\n", error.message());
                respond(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", text)
            }
        },
        _ => respond(StatusCode::NOT_FOUND, "text/plain", "there is nothing here\n".to_owned()),
    }
}

/// Returns the status and the JSON of `/health`.
fn health(head: u64, failure: Option<NodeFailure>) -> (StatusCode, String) {
    let Some(failure) = failure else {
        return (StatusCode::OK, format!("{{\"status\":\"ok\",\"head\":{head}}}\n"));
    };
    let reason = json!(failure.to_string());
    let text = format!("{{\"status\":\"failed\",\"reason\":{reason},\"head\":{head}}}\n");
    (StatusCode::SERVICE_UNAVAILABLE, text)
}

fn respond(status: StatusCode, content_type: &'static str, body: String) -> HttpResponse {
    let mut response = HttpResponse::new(HttpBody::from(body));
    *response.status_mut() = status;
    let content_type = http::HeaderValue::from_static(content_type);
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

/// Whether a request may name this host. An IP address is always allowed: only a name can be made to resolve to another
/// address (DNS rebinding).
fn is_allowed(host: &str, allowed: &[String]) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.is_empty()
        || name.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || allowed.iter().any(|host| host == "*" || host.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::tests::shared;
    use std::task::Waker;

    #[tokio::test]
    async fn metrics_wait_on_a_thread_that_may_block() {
        let shared = shared();
        let mut answer = Box::pin(get(Arc::clone(&shared), "/metrics"));
        {
            let _busy = shared.node.pool();
            let context = &mut Context::from_waker(Waker::noop());
            assert!(answer.as_mut().poll(context).is_pending());
        }
        assert_eq!(answer.await.status(), StatusCode::OK);
    }

    #[test]
    fn a_node_that_can_store_nothing_is_not_well() {
        assert_eq!(
            health(7, None),
            (StatusCode::OK, "{\"status\":\"ok\",\"head\":7}\n".to_owned())
        );
        let (status, text) = health(7, Some(NodeFailure::Program("half a block".to_owned())));
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(text.contains("\"status\":\"failed\"") && text.contains("half a block"), "{text}");
    }

    #[test]
    fn names_must_be_known_and_addresses_need_not() {
        let none: Vec<String> = Vec::new();
        for host in ["", "localhost", "LOCALHOST:8545", "127.0.0.1:8545", "[::1]:8545", "10.0.0.3"]
        {
            assert!(is_allowed(host, &none), "{host}");
        }
        for host in ["evil.example", "evil.example:8545", "localhost.evil.example"] {
            assert!(!is_allowed(host, &none), "{host}");
        }
        assert!(is_allowed("Node.example:1", &["node.example".to_owned()]));
        assert!(is_allowed("any.example", &["*".to_owned()]));
    }
}
