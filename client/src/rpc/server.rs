//! HTTP and WebSocket on one port.

use super::{
    HEAVY, Rpc, RpcLimits, batch::Batches, filters::Filters, http::HttpLayer, metrics::Metrics,
    middleware::Watch, module,
};
use crate::{devnet::Node, layers::LayerNeeds};
use jsonrpsee::{
    core::{RegisterMethodError, traits::IdProvider},
    server::{
        BatchRequestConfig, RandomIntegerIdProvider, Server, ServerConfig, ServerHandle,
        middleware::rpc::RpcServiceBuilder,
    },
    types::SubscriptionId,
};
use parking_lot::Mutex;
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use thiserror::Error;
use tokio::{runtime::Runtime, sync::Semaphore};
use tower::ServiceBuilder;
use tower_http::cors::{Any, CorsLayer};

/// Threads that run methods, which may wait for each other.
const METHOD_THREADS: usize = 128;

/// How the server is to be.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Where it listens.
    pub address: SocketAddr,
    /// Origins whose pages may call it; `*` for any, none for none.
    pub cors: Vec<String>,
    /// Names by which it may be called beside `localhost` and addresses; `*` for any.
    pub hosts: Vec<String>,
    /// Bytes of a request.
    pub max_request: u32,
    /// Bytes of an answer.
    pub max_response: u32,
    /// Requests in a batch.
    pub max_batch: u32,
    /// Connections at once.
    pub max_connections: u32,
    /// What one request may ask for.
    pub limits: RpcLimits,
    /// What verifying proofs takes.
    pub needs: LayerNeeds,
}

/// The server cannot run.
#[derive(Debug, Error)]
pub enum ServeError {
    /// It cannot listen.
    #[error("cannot listen on {address}: {source}; {}", where_else(source))]
    Listen {
        /// Where.
        address: SocketAddr,
        /// The operating system's words.
        source: io::Error,
    },
    /// An origin is none.
    #[error("`{0}` is not an origin; write for example https://example.org, or *")]
    Origin(String),
    /// No threads.
    #[error("cannot start the threads of the server: {0}")]
    Threads(io::Error),
    /// Two methods of one name: a mistake in this program.
    #[error(transparent)]
    Methods(#[from] RegisterMethodError),
}

/// What to do about an address that cannot be listened on.
fn where_else(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "choose another --http.port, or end what uses it",
        io::ErrorKind::AddrNotAvailable => {
            "choose an --http.addr that this machine has (0.0.0.0 for all of them)"
        }
        io::ErrorKind::PermissionDenied => "choose an --http.port above 1023",
        _ => "choose another --http.addr or --http.port",
    }
}

/// A server that runs until it is dropped.
#[derive(Debug)]
pub struct RunningServer {
    runtime: Runtime,
    handle: ServerHandle,
    address: SocketAddr,
}

impl RunningServer {
    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no new requests, and waits some seconds for those under way.
    pub fn stop(self) {
        let Self { runtime, handle, .. } = self;
        // It may have stopped already.
        let _ = handle.stop();
        runtime.block_on(async {
            let _ = tokio::time::timeout(Duration::from_secs(3), handle.stopped()).await;
        });
        runtime.shutdown_timeout(Duration::from_secs(2));
    }
}

/// Starts a server for a node.
///
/// # Errors
///
/// If it cannot listen.
pub fn serve(node: Arc<Node>, options: ServerOptions) -> Result<RunningServer, ServeError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(METHOD_THREADS)
        .thread_name("rpc")
        .build()
        .map_err(ServeError::Threads)?;
    let (handle, address) = runtime.block_on(start(node, &options))?;
    Ok(RunningServer { runtime, handle, address })
}

async fn start(
    node: Arc<Node>,
    options: &ServerOptions,
) -> Result<(ServerHandle, SocketAddr), ServeError> {
    let metrics = Arc::new(Metrics::default());
    let heavy = Arc::new(Semaphore::new(HEAVY));
    let filters = Arc::new(Filters::default());
    node.listen(Arc::clone(&filters) as _);
    let new_rpc = || Rpc {
        node: Arc::clone(&node),
        filters: Arc::clone(&filters),
        metrics: Arc::clone(&metrics),
        limits: options.limits,
        max_response: options.max_response as usize,
        needs: options.needs.clone(),
        heavy: Arc::clone(&heavy),
        nonces: Mutex::default(),
    };
    let methods = module(new_rpc())?;
    let names = Arc::new(methods.method_names().collect());
    let rpc = Arc::new(new_rpc());
    let batches = Batches::new(Arc::clone(&rpc), options.max_response);
    let hosts = Arc::new(options.hosts.clone());
    let origins = Arc::new(options.cors.clone());
    let http = HttpLayer { rpc, hosts, cors: origins, max_request: options.max_request };
    let config = ServerConfig::builder()
        .max_request_body_size(options.max_request)
        .max_response_body_size(options.max_response)
        .max_connections(options.max_connections)
        .max_subscriptions_per_connection(1024)
        .set_batch_request_config(BatchRequestConfig::Limit(options.max_batch))
        .set_id_provider(HexIds)
        .set_tcp_no_delay(true)
        .build();
    let watch = RpcServiceBuilder::new().layer_fn(move |inner| Watch {
        inner,
        metrics: Arc::clone(&metrics),
        names: Arc::clone(&names),
        batches: batches.clone(),
    });
    let listen = |source| ServeError::Listen { address: options.address, source };
    let server = Server::builder()
        .set_config(config)
        .set_http_middleware(ServiceBuilder::new().layer(cors(&options.cors)?).layer(http))
        .set_rpc_middleware(watch)
        .build(options.address)
        .await
        .map_err(listen)?;
    let address = server.local_addr().map_err(listen)?;
    Ok((server.start(methods), address))
}

fn cors(origins: &[String]) -> Result<CorsLayer, ServeError> {
    let layer = CorsLayer::new().allow_methods(Any).allow_headers(Any);
    if origins.iter().any(|origin| origin == "*") {
        return Ok(layer.allow_origin(Any));
    }
    let mut allowed: Vec<http::HeaderValue> = Vec::new();
    for origin in origins {
        allowed.push(origin.parse().map_err(|_| ServeError::Origin(origin.clone()))?);
    }
    Ok(layer.allow_origin(allowed))
}

/// Subscriptions have hexadecimal names, as clients expect.
#[derive(Debug)]
struct HexIds;

impl IdProvider for HexIds {
    fn next_id(&self) -> SubscriptionId<'static> {
        match RandomIntegerIdProvider.next_id() {
            SubscriptionId::Num(number) => SubscriptionId::Str(format!("{number:#x}").into()),
            other => other,
        }
    }
}
