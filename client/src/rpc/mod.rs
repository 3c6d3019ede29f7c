//! JSON-RPC, one file per namespace.
//!
//! A method is a function of the node and the parameters. All of them run on threads that may wait, so none holds up
//! the others; what is read of the chain within one request is one moment of it (a [`View`](crate::devnet::View)).

mod anvil;
mod args;
mod batch;
mod convert;
mod debug;
mod dump;
mod error;
mod eth;
mod evm;
mod filters;
mod http;
mod ids;
mod lookup;
mod metrics;
mod middleware;
mod net;
mod otterscan;
mod polytrie;
mod replay;
mod server;
mod subscriptions;
mod testing;
mod trace;
mod txpool;
mod web3;
mod witness;

pub use error::{RpcError, RpcResult};
pub use server::{RunningServer, ServeError, ServerOptions, serve};

use crate::{devnet::Node, layers::LayerNeeds};
use args::Args;
use filters::Filters;
use jsonrpsee::{RpcModule, core::RegisterMethodError, types::ErrorObjectOwned};
use metrics::Metrics;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::value::to_raw_value;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::Semaphore, task};

/// Everything that methods work with.
#[derive(Debug)]
pub struct Rpc {
    node: Arc<Node>,
    filters: Arc<Filters>,
    metrics: Arc<Metrics>,
    limits: RpcLimits,
    /// Bytes of an answer.
    max_response: usize,
    /// What verifying proofs takes.
    needs: LayerNeeds,
    /// Who may work on something large.
    heavy: Arc<Semaphore>,
    /// Held from the choice of a nonce until the transaction with it is in the pool.
    nonces: Mutex<()>,
}

/// Methods at the same time that may take much memory: their answers are gathered at several times their size, or they go
/// back through many blocks.
const HEAVY: usize = 2;

/// How much one request may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RpcLimits {
    /// Gas of a call.
    pub gas_cap: u64,
    /// Time of a call; `None` for no limit.
    pub call_time: Option<Duration>,
    /// Blocks that a search for logs may span.
    pub log_blocks: u64,
    /// Logs that a search may find.
    pub logs: usize,
}

impl Default for RpcLimits {
    /// 50,000,000 gas, 5 seconds, 100,000 blocks, 20,000 logs.
    fn default() -> Self {
        let call_time = Some(Duration::from_secs(5));
        Self { gas_cap: 50_000_000, call_time, log_blocks: 100_000, logs: 20_000 }
    }
}

impl Rpc {
    /// When a call that begins now must have ended.
    fn deadline(&self) -> Option<Instant> {
        self.limits.call_time.and_then(|time| Instant::now().checked_add(time))
    }
}

/// Methods on their way into the server.
struct Methods(RpcModule<Rpc>);

impl Methods {
    /// Adds a method.
    fn add<R>(
        &mut self,
        name: &'static str,
        method: fn(&Rpc, &mut Args) -> RpcResult<R>,
    ) -> Result<(), RegisterMethodError>
    where
        R: Serialize + Clone + Send + 'static,
    {
        self.0.register_blocking_method(name, move |params, rpc, _| {
            let answer = Args::new(&params).and_then(|mut args| method(&rpc, &mut args));
            answer.map_err(ErrorObjectOwned::from)
        })?;
        Ok(())
    }

    /// Adds a method that may take much memory: only [`HEAVY`] requests for such methods run at the same time, and the
    /// others wait without a thread.
    fn add_heavy<R>(
        &mut self,
        name: &'static str,
        method: fn(&Rpc, &mut Args) -> RpcResult<R>,
    ) -> Result<(), RegisterMethodError>
    where
        R: Serialize + 'static,
    {
        self.0.register_async_method(name, move |params, rpc, _| async move {
            // Nobody closes it.
            let permit = Arc::clone(&rpc.heavy).acquire_owned().await;
            let answer = on_thread(move || {
                let answer = method(&rpc, &mut Args::new(&params)?)?;
                let text = to_raw_value(&answer).map_err(|error| RpcError::internal(&error));
                drop(permit);
                text
            });
            answer.await.map_err(ErrorObjectOwned::from)
        })?;
        Ok(())
    }

    /// The same method by other names.
    fn alias(
        &mut self,
        name: &'static str,
        others: &[&'static str],
    ) -> Result<(), RegisterMethodError> {
        for other in others {
            self.0.register_alias(other, name)?;
        }
        Ok(())
    }
}

/// Does what may take a while on a thread that may wait.
async fn on_thread<R: Send + 'static>(
    work: impl FnOnce() -> RpcResult<R> + Send + 'static,
) -> RpcResult<R> {
    task::spawn_blocking(work).await.unwrap_or_else(|error| Err(RpcError::internal(&error)))
}

/// All methods.
fn module(rpc: Rpc) -> Result<RpcModule<Rpc>, RegisterMethodError> {
    let mut methods = Methods(RpcModule::new(rpc));
    eth::register(&mut methods)?;
    net::register(&mut methods)?;
    web3::register(&mut methods)?;
    txpool::register(&mut methods)?;
    debug::register(&mut methods)?;
    trace::register(&mut methods)?;
    testing::register(&mut methods)?;
    evm::register(&mut methods)?;
    anvil::register(&mut methods)?;
    dump::register(&mut methods)?;
    witness::register(&mut methods)?;
    otterscan::register(&mut methods)?;
    polytrie::register(&mut methods)?;
    subscriptions::register(&mut methods)?;
    Ok(methods.0)
}
