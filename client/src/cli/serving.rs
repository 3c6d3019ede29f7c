//! Options of a node that answers requests, and the loop that serves until it is stopped.

use super::{args::core_count, exit::Failure, output};
use crate::{
    devnet::{MinerThreads, Node, NodeError, NodeFailure, PoolLimits},
    layers::{
        LayerNeeds,
        values::{parse_bytes, parse_some_bytes},
    },
    rpc::{Audience, RpcLimits, RunningServer, ServeError, ServerOptions},
};
use clap::Args;
use polytrie_kv::expect_threads;
use std::{
    net::{IpAddr, SocketAddr},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

/// The server.
#[derive(Debug, Args)]
#[command(next_help_heading = "JSON-RPC over HTTP and WebSocket")]
pub(super) struct HttpArgs {
    /// Address to listen on.
    #[arg(long = "http.addr", visible_alias = "host", value_name = "ADDRESS", default_value = "127.0.0.1", value_parser = address)]
    pub(super) addr: IpAddr,
    /// Port to listen on; 0 takes any that is free.
    #[arg(
        long = "http.port",
        visible_alias = "port",
        visible_short_alias = 'p',
        value_name = "PORT",
        default_value_t = 8545
    )]
    port: u16,
    /// Origins whose pages may call the node, beside localhost on any port, separated by commas; `*` for any. Browser
    /// extensions are named too (`chrome-extension://…`) [default: `*` for a chain in memory that is served to this
    /// machine alone, none otherwise]
    #[arg(long = "http.corsdomain", value_name = "ORIGINS", value_delimiter = ',')]
    pub(super) cors: Option<Vec<String>>,
    /// Names by which the node may be called beside localhost, separated by commas; `*` for any.
    #[arg(long = "http.vhosts", value_name = "NAMES", value_delimiter = ',')]
    vhosts: Vec<String>,
    /// Most bytes of a request (k, M, G may follow).
    #[arg(long = "rpc.max-request", value_name = "BYTES", value_parser = parse_some_bytes, default_value = "15M")]
    max_request: usize,
    /// Most bytes of an answer; a trace ends as soon as it would become larger, by an estimate.
    #[arg(long = "rpc.max-response", value_name = "BYTES", value_parser = parse_some_bytes, default_value = "160M")]
    max_response: usize,
    /// Most requests in a batch.
    #[arg(long = "rpc.max-batch", value_name = "N", default_value_t = 1000)]
    max_batch: u32,
    /// Most connections at once.
    #[arg(long = "rpc.max-connections", value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..))]
    max_connections: u32,
    /// Most gas of a call.
    #[arg(long = "rpc.gascap", value_name = "GAS", default_value_t = 50_000_000, value_parser = clap::value_parser!(u64).range(21_000..))]
    gas_cap: u64,
    /// Most seconds of a call (`eth_call`, `eth_estimateGas`, `eth_simulateV1` and the like), of a search, or of the
    /// transactions that are run again for a trace; 0 for no limit.
    #[arg(long = "rpc.evmtimeout", value_name = "SECONDS", default_value_t = 5.0)]
    evm_timeout: f64,
    /// Most blocks that a search for logs may span.
    #[arg(long = "rpc.max-log-blocks", value_name = "N", default_value_t = 100_000)]
    log_blocks: u64,
    /// Most logs that a search may find; a filter returns further ones with its next answer.
    #[arg(long = "rpc.max-logs", value_name = "N", default_value_t = 20_000)]
    logs: usize,
}

/// The transactions that wait.
#[derive(Debug, Args)]
#[command(next_help_heading = "Transaction pool")]
pub(super) struct PoolArgs {
    /// Most transactions that wait for a block.
    #[arg(long = "txpool.max", value_name = "N", default_value_t = 200_000)]
    total: usize,
    /// Most transactions of one sender that wait.
    #[arg(long = "txpool.max-per-sender", value_name = "N", default_value_t = 20_000)]
    per_sender: usize,
    /// Most bytes of waiting transactions (k, M, G may follow).
    #[arg(long = "txpool.max-bytes", value_name = "BYTES", value_parser = parse_bytes, default_value = "256M")]
    bytes: usize,
}

/// Parses an IP address; `localhost` is accepted too.
pub(super) fn address(text: &str) -> Result<IpAddr, String> {
    match text {
        "localhost" => Ok(IpAddr::from([127, 0, 0, 1])),
        _ => text.parse().map_err(|_| {
            "expected an address of this machine, for example 127.0.0.1, or 0.0.0.0 for all of them".to_owned()
        }),
    }
}

impl HttpArgs {
    /// Options of a server for this audience. Pages of the `cors` origins may call it.
    pub(super) fn options(
        &self,
        audience: Audience,
        cors: Vec<String>,
        needs: LayerNeeds,
    ) -> Result<ServerOptions, Failure> {
        let limit = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        let call_time = Duration::try_from_secs_f64(self.evm_timeout).map_err(|_| {
            Failure::Usage(format!(
                "--rpc.evmtimeout {} is not a number of seconds",
                self.evm_timeout
            ))
        })?;
        Ok(ServerOptions {
            audience,
            address: SocketAddr::new(self.addr, self.port),
            cors,
            hosts: self.vhosts.clone(),
            max_request: limit(self.max_request),
            max_response: limit(self.max_response),
            max_batch: self.max_batch,
            max_connections: self.max_connections,
            limits: RpcLimits {
                gas_cap: self.gas_cap,
                call_time: (!call_time.is_zero()).then_some(call_time),
                log_blocks: self.log_blocks,
                logs: self.logs,
            },
            needs,
        })
    }
}

impl PoolArgs {
    /// Limits of the transaction pool.
    pub(super) const fn limits(&self) -> PoolLimits {
        PoolLimits { total: self.total, per_sender: self.per_sender, bytes: self.bytes }
    }
}

super::exit::fails_as!(ServeError [] {
    E::Origin(_) => Usage,
    _ => Machine,
});

super::exit::fails_as!(NodeFailure [Layer] {
    E::Store(_) | E::Lost(_) | E::Program(_) => Machine,
});

/// The failure of a command whose node failed.
pub(super) fn machine(error: NodeError) -> Failure {
    Failure::Machine(error.to_string())
}

/// Fails if the system does not give the threads of so many servers. Each server starts one a core, and would panic.
pub(super) fn expect_room(servers: usize) -> Result<(), Failure> {
    Ok(expect_threads(servers * (core_count() + 2))?)
}

/// Prints the chain that is served, its layer and its head.
pub(super) fn tell_chain(node: &Node) -> Result<(), Failure> {
    let (view, spec) = (node.view(), node.spec());
    output::line(&format!(
        "chain {} (id {}) on {}, head {} {}",
        spec.name(),
        spec.chain_id(),
        node.kind().name,
        view.head.number(),
        view.hash()
    ))
}

/// Serves until an interrupt, or until the node fails. Then it stops the servers, finishes the block in work and
/// makes all blocks durable.
pub(super) fn serve(
    node: &Node,
    interrupt: &AtomicBool,
    threads: MinerThreads,
    servers: impl IntoIterator<Item = RunningServer>,
) -> Result<(), Failure> {
    let failed = wait_for(interrupt, || node.failure().and_then(ending));
    tracing::info!("stopping");
    servers.into_iter().for_each(RunningServer::stop);
    drop(threads);
    let ended = failed.map_or(Ok(()), |failure| Err(failure.into()));
    Failure::decide(ended, node.flush().map_err(machine))?;
    tracing::info!("stopped at block {}", node.view().head.number());
    Ok(())
}

/// Returns the failure if it ends the node.
fn ending(failure: NodeFailure) -> Option<NodeFailure> {
    match failure {
        // What is stored can still be read.
        NodeFailure::Store(_) => None,
        NodeFailure::Lost(_) | NodeFailure::Layer(_) | NodeFailure::Program(_) => Some(failure),
    }
}

/// Waits for an interrupt or a failure. Returns the failure, if there was one.
fn wait_for<F>(interrupt: &AtomicBool, failure: impl Fn() -> Option<F>) -> Option<F> {
    while !interrupt.load(Ordering::Relaxed) {
        if let Some(failure) = failure() {
            return Some(failure);
        }
        thread::sleep(Duration::from_millis(50));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use polytrie_kv::KvError;
    use polytrie_state::StateError;

    #[test]
    fn a_failure_ends_the_wait_as_an_interrupt_does() {
        assert_eq!(wait_for(&AtomicBool::new(false), || Some("failed")), Some("failed"));
        assert_eq!(wait_for(&AtomicBool::new(true), || None::<&str>), None);
    }

    #[test]
    fn a_node_ends_where_nothing_can_be_read_any_more_or_the_layer_has_failed() {
        let error = || KvError::Corrupt("on purpose".to_owned());
        assert!(ending(NodeFailure::Store(error())).is_none());
        assert!(ending(NodeFailure::Lost(error())).is_some());
        let layer = ending(NodeFailure::Layer(StateError::Corrupt("a row".to_owned())));
        assert!(matches!(layer.map(Failure::from), Some(Failure::Stored(_))));
        assert!(ending(NodeFailure::Program("on purpose".to_owned())).is_some());
    }
}
