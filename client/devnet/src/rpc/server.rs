//! The server: HTTP and WebSocket on one port.

use super::{
    RpcLimits, RpcState,
    batch::Batches,
    connection::{Connection, Connections, Watched},
    http::HttpLayer,
    jwt::JwtSecret,
    middleware::Watch,
    module,
    origins::Origins,
};
use crate::{Node, engine::Engine};
use hyper::{body::Incoming, server::conn::http1};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use jsonrpsee::{
    core::{BoxError, RegisterMethodError, traits::IdProvider},
    server::{
        BatchRequestConfig, HttpRequest, HttpResponse, PingConfig, RandomIntegerIdProvider, Server,
        ServerConfig, ServerHandle, StopHandle, middleware::rpc::RpcServiceBuilder, stop_channel,
    },
    types::SubscriptionId,
};
use polytrie_layers::LayerNeeds;
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use thiserror::Error;
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::Runtime,
};
use tower::{Service, ServiceBuilder, ServiceExt};
use tower_http::cors::{AllowOrigin, Any, CorsLayer};

/// Number of threads that run methods, which may wait for each other.
const METHOD_THREADS: usize = 128;

/// Bytes of the stack of each thread, independent of the system's default. Input of clients is parsed by recursive
/// functions, whose limits fit into this with room to spare.
pub(super) const STACK: usize = 8 << 20;

/// Number of messages that one WebSocket queues; further senders wait.
const MESSAGES: u32 = 64;

/// Time within which the head of a request must arrive, and for which a connection may be idle.
const HEAD_TIME: Duration = Duration::from_secs(120);

/// Interval of the pings of a WebSocket, as in geth. Proxies cut a connection on which nothing is sent for a minute or
/// so, and a subscription may have nothing to tell for hours.
const PING: Duration = Duration::from_secs(30);

/// The kind of callers of a server, which decides about its methods.
#[derive(Debug, Clone)]
pub enum Audience {
    /// The owner of the chain, with all methods, including changes by hand.
    Owner,
    /// Any caller. Sending transactions is the only change of the chain that such a caller can cause.
    Everybody,
    /// A caller with the secret, with the methods of `Everybody` and the Engine API.
    ConsensusLayer {
        /// The engine that the caller drives.
        engine: Arc<Engine>,
        /// The secret for the tokens of the caller.
        secret: JwtSecret,
    },
}

impl Audience {
    /// Returns the prefix of the command line options for this server.
    const fn prefix(&self) -> &'static str {
        match self {
            Self::Owner | Self::Everybody => "http",
            Self::ConsensusLayer { .. } => "authrpc",
        }
    }
}

/// Options of a server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The permitted callers.
    pub audience: Audience,
    /// Address on which it listens.
    pub address: SocketAddr,
    /// Origins whose pages may call it beside those of this machine; `*` for any.
    pub cors: Vec<String>,
    /// Host names by which requests may call it beside `localhost` and addresses; `*` for any.
    pub hosts: Vec<String>,
    /// Maximum number of bytes of a request.
    pub max_request: u32,
    /// Maximum number of bytes of an answer.
    pub max_response: u32,
    /// Maximum number of requests in a batch.
    pub max_batch: u32,
    /// Maximum number of concurrent connections.
    pub max_connections: u32,
    /// Limits of one request.
    pub limits: RpcLimits,
    /// Settings for the verification of proofs.
    pub needs: LayerNeeds,
}

/// The error of a server that cannot start.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The address cannot be used.
    #[error("cannot listen on {address}: {source}; {}", where_else(source, prefix))]
    Listen {
        /// Address on which it should listen.
        address: SocketAddr,
        /// Prefix of the command line options for this server.
        prefix: &'static str,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A configured origin is not valid.
    #[error(
        "--http.corsdomain: `{0}` is not an origin; write for example https://example.org, or * for any"
    )]
    Origin(String),
    /// The threads cannot be started.
    #[error("cannot start the threads of the server: {0}")]
    Threads(io::Error),
    /// Two methods have the same name, which is a bug in this program.
    #[error(transparent)]
    Methods(#[from] RegisterMethodError),
}

/// Returns advice for an address that cannot be used.
fn where_else(error: &io::Error, prefix: &str) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("choose another --{prefix}.port, or end what uses it")
        }
        io::ErrorKind::AddrNotAvailable => {
            format!("choose an --{prefix}.addr that this machine has (0.0.0.0 for all of them)")
        }
        io::ErrorKind::PermissionDenied => format!("choose an --{prefix}.port above 1023"),
        _ => format!("choose another --{prefix}.addr or --{prefix}.port"),
    }
}

/// A running server. Dropping it stops the server.
#[derive(Debug)]
pub struct RunningServer {
    runtime: Runtime,
    handle: ServerHandle,
    address: SocketAddr,
}

impl RunningServer {
    /// Returns the address on which the server listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Refuses new requests, and waits up to 5 seconds for running ones.
    pub fn stop(self) {
        let Self { runtime, handle, .. } = self;
        // The server may have stopped already.
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
/// If the address cannot be used, an origin is not valid, or the threads cannot be started.
pub fn serve(node: Arc<Node>, options: ServerOptions) -> Result<RunningServer, ServeError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(METHOD_THREADS)
        .thread_name("rpc")
        .thread_stack_size(STACK)
        .build()
        .map_err(ServeError::Threads)?;
    let (handle, address) = runtime.block_on(start(node, &options))?;
    Ok(RunningServer { runtime, handle, address })
}

async fn start(
    node: Arc<Node>,
    options: &ServerOptions,
) -> Result<(ServerHandle, SocketAddr), ServeError> {
    let connections = Connections::new(options.max_request as usize, options.max_response as usize);
    let max_response = options.max_response as usize;
    let (engine, secret) = match &options.audience {
        Audience::ConsensusLayer { engine, secret } => (Some(Arc::clone(engine)), Some(*secret)),
        Audience::Owner | Audience::Everybody => (None, None),
    };
    let needs = options.needs.clone();
    let shared = RpcState::new(node, engine, options.limits, max_response, needs);
    let shared = Arc::new(shared);
    let metrics = Arc::clone(&shared.metrics);
    let methods = module(Arc::clone(&shared), &options.audience)?;
    let names = Arc::new(methods.method_names().collect());
    let batches = Batches::new(Arc::clone(&shared), Arc::clone(&names), options.max_response);
    let hosts = Arc::new(options.hosts.clone());
    let origins = Arc::new(Origins::new(&options.cors)?);
    let cors = cors(&origins);
    let http = HttpLayer { shared, hosts, origins, secret, max_request: options.max_request };
    let config = ServerConfig::builder()
        .max_request_body_size(options.max_request)
        .max_response_body_size(options.max_response)
        .max_connections(options.max_connections)
        .max_subscriptions_per_connection(1024)
        .set_batch_request_config(BatchRequestConfig::Limit(options.max_batch))
        .set_id_provider(HexIds)
        .set_message_buffer_capacity(MESSAGES)
        // No client is left for a missing answer to a ping: nothing is read of one that reads slowly, and of one that reads
        // nothing `connection` takes care.
        .enable_ws_ping(PingConfig::new().ping_interval(PING).inactive_limit(Duration::MAX))
        .build();
    let watch = RpcServiceBuilder::new().layer_fn(move |inner| Watch {
        inner,
        metrics: Arc::clone(&metrics),
        names: Arc::clone(&names),
        batches: batches.clone(),
    });
    let prefix = options.audience.prefix();
    let listen = |source| ServeError::Listen { address: options.address, prefix, source };
    let (stop, handle) = stop_channel();
    let service = Server::builder()
        .set_config(config)
        .set_http_middleware(ServiceBuilder::new().layer(cors).layer(http))
        .set_rpc_middleware(watch)
        .to_service_builder()
        .build(methods, stop.clone());
    let listener = TcpListener::bind(options.address).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    tokio::spawn(Arc::clone(&connections).watch());
    tokio::spawn(accept(listener, connections, stop, service));
    Ok((handle, address))
}

/// Accepts connections until the server stops.
async fn accept<S>(
    listener: TcpListener,
    connections: Arc<Connections>,
    stop: StopHandle,
    service: S,
) where
    S: Service<HttpRequest<Incoming>, Response = HttpResponse, Error = BoxError>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    let stopped = stop.clone().shutdown();
    tokio::pin!(stopped);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stopped => return,
        };
        let stream =
            match accepted.and_then(|(stream, _)| stream.set_nodelay(true).map(|()| stream)) {
                Ok(stream) => stream,
                Err(error) => {
                    tracing::debug!("a connection was not taken in: {error}");
                    // If the system has no file descriptors left, a retry without a pause would fail as well.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                }
            };
        tokio::spawn(serve_one(stream, connections.open(), stop.clone(), service.clone()));
    }
}

/// Serves one connection until it ends.
async fn serve_one<S>(stream: TcpStream, connection: Arc<Connection>, stop: StopHandle, service: S)
where
    S: Service<HttpRequest<Incoming>, Response = HttpResponse, Error = BoxError>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    let io = TokioIo::new(Watched::new(stream, Arc::clone(&connection)));
    // A WebSocket outlives this function, and keeps the socket open.
    let service = service.map_request(move |mut request: HttpRequest<Incoming>| {
        request.extensions_mut().insert(Arc::clone(&connection));
        request
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .serve_connection(io, TowerToHyperService::new(service))
        .with_upgrades();
    tokio::pin!(served);
    let ended = tokio::select! {
        ended = &mut served => ended,
        () = stop.shutdown() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("a connection ended: {error}");
    }
}

fn cors(origins: &Arc<Origins>) -> CorsLayer {
    let layer = CorsLayer::new().allow_methods(Any).allow_headers(Any);
    if origins.are_any() {
        return layer.allow_origin(Any);
    }
    let origins = Arc::clone(origins);
    layer.allow_origin(AllowOrigin::predicate(move |origin, _| {
        origin.to_str().is_ok_and(|origin| origins.has(origin))
    }))
}

/// The provider of subscription IDs in hex, as clients expect them.
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
