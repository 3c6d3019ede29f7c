//! JSON-RPC, one file per namespace.
//!
//! A method is a function of the node and the parameters. All of them run on threads that may wait, so none holds up
//! the others; what is read of the chain within one request is one moment of it (a [`View`](crate::View)).

mod access_lists;
mod anvil;
mod args;
mod batch;
mod built;
mod connection;
mod convert;
mod debug;
mod dump;
mod engine;
mod error;
mod eth;
mod evm;
mod filters;
mod http;
mod jwt;
#[cfg(feature = "fuzzing")]
mod local;
mod lookup;
mod metrics;
mod middleware;
mod net;
mod origins;
mod otterscan;
mod polytrie;
mod ranges;
mod replay;
mod server;
mod subscriptions;
mod testing;
mod trace;
mod txpool;
mod web3;
mod witness;

pub use dump::{read_state, write_state};
pub use error::{RpcError, RpcResult};
pub use jwt::{JwtError, JwtSecret};
#[cfg(feature = "fuzzing")]
pub use local::LocalRpc;
pub use server::{Audience, RunningServer, ServeError, ServerOptions, serve};

use crate::{Node, engine::Engine};
use args::Args;
use filters::Filters;
use jsonrpsee::{RpcModule, core::RegisterMethodError, types::ErrorObjectOwned};
use metrics::Metrics;
use parking_lot::Mutex;
use polytrie_chain::executor::sandbox::CallError;
use polytrie_layers::LayerNeeds;
use serde::Serialize;
use serde_json::value::to_raw_value;
use std::{
    ops::Deref,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task, time,
};

/// What all requests share.
#[derive(Debug)]
pub(crate) struct RpcState {
    node: Arc<Node>,
    /// What a consensus layer talks to, where it does.
    engine: Option<Arc<Engine>>,
    filters: Arc<Filters>,
    metrics: Arc<Metrics>,
    limits: RpcLimits,
    /// Bytes that all subscriptions may take.
    subscriptions: Arc<Semaphore>,
    /// Bytes of an answer.
    max_response: usize,
    /// What verifying proofs takes.
    needs: LayerNeeds,
    turns: Turns,
    /// Held from the choice of a nonce until the transaction with it is in the pool.
    nonces: Mutex<()>,
}

impl RpcState {
    /// What the requests to a node share. Its filters hear of what happens from now on.
    fn new(
        node: Arc<Node>,
        engine: Option<Arc<Engine>>,
        limits: RpcLimits,
        max_response: usize,
        needs: LayerNeeds,
    ) -> Self {
        let filters = Arc::new(Filters::default());
        node.listen(Arc::clone(&filters) as _);
        Self {
            node,
            engine,
            filters,
            metrics: Arc::default(),
            limits,
            subscriptions: Arc::new(Semaphore::new(SUBSCRIPTIONS)),
            max_response,
            needs,
            turns: Turns::default(),
            nonces: Mutex::default(),
        }
    }
}

/// One request: what it works with, and the time that it has.
#[derive(Debug)]
pub(crate) struct Rpc {
    shared: Arc<RpcState>,
    /// When all of its work must have ended.
    deadline: Option<Instant>,
}

impl Deref for Rpc {
    type Target = RpcState;

    fn deref(&self) -> &RpcState {
        &self.shared
    }
}

/// Bytes that all subscriptions may take.
const SUBSCRIPTIONS: usize = 64 << 20;

/// Requests at the same time for methods that may take much memory or go back through many blocks.
const HEAVY: usize = 2;

/// Requests at the same time that search through many blocks. They have turns of their own, since applications ask for logs
/// all the time, and one that is traced may take as long as it is allowed.
const SEARCHES: usize = 2;

/// Subscriptions at the same time that read blocks, which may be large, for what they tell: there may be thousands of them.
const NEWS: usize = 2;

/// The longest time for which a request waits for its turn.
const PATIENCE: Duration = Duration::from_secs(60);

/// The turns that requests wait for before they do something large.
#[derive(Debug)]
struct Turns {
    heavy: Arc<Semaphore>,
    searches: Arc<Semaphore>,
    news: Arc<Semaphore>,
}

impl Default for Turns {
    fn default() -> Self {
        let [heavy, searches, news] =
            [HEAVY, SEARCHES, NEWS].map(|most| Arc::new(Semaphore::new(most)));
        Self { heavy, searches, news }
    }
}

/// What a request waits for before it begins.
#[derive(Debug, Clone, Copy)]
enum Turn {
    Heavy,
    Search,
}

impl Turns {
    async fn take(&self, turn: Turn) -> RpcResult<OwnedSemaphorePermit> {
        let turns = match turn {
            Turn::Heavy => &self.heavy,
            Turn::Search => &self.searches,
        };
        let permit = time::timeout(PATIENCE, Arc::clone(turns).acquire_owned()).await;
        permit.map_err(drop).and_then(|permit| permit.map_err(drop)).map_err(|()| {
            RpcError::server(format!(
                "the node is busy: other requests that take as much were not done within {PATIENCE:?}; ask again"
            ))
        })
    }
}

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
    /// A request that begins now.
    fn new(shared: Arc<RpcState>) -> Self {
        let deadline = shared.limits.call_time.and_then(|time| Instant::now().checked_add(time));
        Self { shared, deadline }
    }

    /// When everything that the request asks for must have ended, waiting for the chain included.
    const fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Ends a search that goes on for too long.
    fn in_time(&self) -> RpcResult<()> {
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(CallError::TooLong.into()),
            _ => Ok(()),
        }
    }
}

/// Methods on their way into the server.
struct Methods(RpcModule<RpcState>);

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
            let rpc = Rpc::new(rpc);
            let answer = Args::new(&params).and_then(|mut args| method(&rpc, &mut args));
            answer.map_err(ErrorObjectOwned::from)
        })?;
        Ok(())
    }

    /// Adds a method that may take much memory: only [`HEAVY`] requests for such methods run at the same time, and the
    /// others wait without a thread. The time of a request begins with its turn.
    fn add_heavy<R>(
        &mut self,
        name: &'static str,
        method: fn(&Rpc, &mut Args) -> RpcResult<R>,
    ) -> Result<(), RegisterMethodError>
    where
        R: Serialize + 'static,
    {
        self.add_in_turn(name, Turn::Heavy, method)
    }

    /// Adds a method that searches through many blocks: as [`Self::add_heavy`], with [`SEARCHES`] turns.
    fn add_search<R>(
        &mut self,
        name: &'static str,
        method: fn(&Rpc, &mut Args) -> RpcResult<R>,
    ) -> Result<(), RegisterMethodError>
    where
        R: Serialize + 'static,
    {
        self.add_in_turn(name, Turn::Search, method)
    }

    fn add_in_turn<R>(
        &mut self,
        name: &'static str,
        turn: Turn,
        method: fn(&Rpc, &mut Args) -> RpcResult<R>,
    ) -> Result<(), RegisterMethodError>
    where
        R: Serialize + 'static,
    {
        self.0.register_async_method(name, move |params, shared, _| async move {
            let permit = shared.turns.take(turn).await?;
            let answer = on_thread(move || {
                let rpc = Rpc::new(shared);
                let answer = method(&rpc, &mut Args::new(&params)?)?;
                let text = to_raw_value(&answer).map_err(|error| RpcError::internal(&error));
                drop(permit);
                text
            });
            answer.await.map_err(ErrorObjectOwned::from)
        })?;
        Ok(())
    }

    /// Registers other names of a method.
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

/// The methods that an audience may call.
fn module(
    shared: Arc<RpcState>,
    audience: &Audience,
) -> Result<RpcModule<RpcState>, RegisterMethodError> {
    let mut methods = Methods(RpcModule::from_arc(shared));
    eth::register(&mut methods)?;
    net::register(&mut methods)?;
    web3::register(&mut methods, audience)?;
    txpool::register(&mut methods)?;
    debug::register(&mut methods)?;
    ranges::register(&mut methods)?;
    trace::register(&mut methods)?;
    witness::register(&mut methods)?;
    access_lists::register(&mut methods)?;
    otterscan::register(&mut methods)?;
    polytrie::register(&mut methods)?;
    subscriptions::register(&mut methods)?;
    match audience {
        Audience::Owner => {
            testing::register(&mut methods)?;
            evm::register(&mut methods)?;
            anvil::register(&mut methods)?;
            dump::register(&mut methods)?;
        }
        Audience::Everybody => {}
        Audience::ConsensusLayer { .. } => engine::register(&mut methods)?,
    }
    Ok(methods.0)
}
