//! JSON-RPC, with one file for each namespace.
//!
//! A method is a function of the node and the parameters. All methods run on threads that may block, so none
//! delays the others. Within one request the chain is read through one [`View`](crate::View), so all answers
//! belong to the same moment.

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
#[cfg(test)]
mod tests;
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
use alloy_eips::BlockId;
use args::Args;
use filters::Filters;
use jsonrpsee::{RpcModule, core::RegisterMethodError, types::ErrorObjectOwned};
use metrics::Metrics;
use polytrie_chain::executor::sandbox::CallError;
use polytrie_kv::caught;
use polytrie_layers::LayerNeeds;
use serde::Serialize;
use std::{
    ops::Deref,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task, time,
};

/// The data that all requests share.
#[derive(Debug)]
pub(crate) struct RpcState {
    node: Arc<Node>,
    /// The engine, if a consensus layer drives the node.
    engine: Option<Arc<Engine>>,
    filters: Arc<Filters>,
    metrics: Arc<Metrics>,
    limits: RpcLimits,
    /// Permits for the bytes of all subscriptions.
    subscriptions: Arc<Semaphore>,
    /// Maximum number of bytes of an answer.
    max_response: usize,
    /// The setup that the layer needs to verify proofs.
    needs: LayerNeeds,
    turns: Turns,
}

impl RpcState {
    /// Creates the shared data of requests to a node. The filters receive its events from now on.
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
        }
    }
}

/// One request: the shared data and the deadline.
#[derive(Debug)]
pub(crate) struct Rpc {
    shared: Arc<RpcState>,
    /// Time at which all work of the request must have ended.
    deadline: Option<Instant>,
}

impl Deref for Rpc {
    type Target = RpcState;

    fn deref(&self) -> &RpcState {
        &self.shared
    }
}

/// Maximum number of bytes of all subscriptions.
const SUBSCRIPTIONS: usize = 64 << 20;

/// Maximum number of concurrent requests for methods that may take much memory or go back through many blocks.
const HEAVY: usize = 2;

/// Maximum number of concurrent requests that search through many blocks. These have separate permits, since
/// applications ask for logs all the time, and a trace may run until its deadline.
const SEARCHES: usize = 2;

/// Maximum number of concurrent subscriptions that read blocks, which may be large. There may be
/// thousands of subscriptions.
const NEWS: usize = 2;

/// Maximum time for which a request waits for a permit.
const PATIENCE: Duration = Duration::from_secs(60);

/// The permits for requests that do something large.
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

/// The kind of permit that a request needs.
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

/// Limits of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RpcLimits {
    /// Maximum gas of a call.
    pub gas_cap: u64,
    /// Maximum time of a call; `None` for no limit.
    pub call_time: Option<Duration>,
    /// Maximum number of blocks of a search for logs.
    pub log_blocks: u64,
    /// Maximum number of logs of a search.
    pub logs: usize,
}

impl Default for RpcLimits {
    /// Returns limits of 50,000,000 gas, 5 seconds, 100,000 blocks and 20,000 logs.
    fn default() -> Self {
        let call_time = Some(Duration::from_secs(5));
        Self { gas_cap: 50_000_000, call_time, log_blocks: 100_000, logs: 20_000 }
    }
}

impl Rpc {
    /// Starts a request; its deadline counts from now.
    fn new(shared: Arc<RpcState>) -> Self {
        let deadline = shared.limits.call_time.and_then(|time| Instant::now().checked_add(time));
        Self { shared, deadline }
    }

    /// Returns the time at which all work of the request must have ended, including any wait for the chain.
    const fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Returns an error if the deadline has passed.
    fn in_time(&self) -> RpcResult<()> {
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(CallError::TooLong.into()),
            _ => Ok(()),
        }
    }
}

/// The methods during registration.
struct Methods(RpcModule<RpcState>);

impl Methods {
    /// Adds a method that runs on a blocking thread.
    fn add<R>(
        &mut self,
        name: &'static str,
        method: impl Fn(&Rpc, &mut Args) -> RpcResult<R> + Clone + Send + Sync + 'static,
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

    /// Adds a method whose caller waits for every microsecond: it runs on the thread that has read the request, which sends
    /// the answer too, so no other thread must wake up for either. Another thread takes over the other requests. The
    /// server needs a runtime with several threads.
    fn add_in_place<R>(
        &mut self,
        name: &'static str,
        method: fn(&Rpc, &mut Args) -> RpcResult<R>,
    ) -> Result<(), RegisterMethodError>
    where
        R: Serialize + Clone + Send + 'static,
    {
        self.0.register_async_method(name, move |params, shared, _| async move {
            let work = || {
                let rpc = Rpc::new(shared);
                Args::new(&params).and_then(|mut args| method(&rpc, &mut args))
            };
            // A panic here would end the connection.
            let answer = task::block_in_place(|| caught(work));
            let answer = answer.unwrap_or_else(|said| Err(RpcError::internal(&said)));
            answer.map_err(ErrorObjectOwned::from)
        })?;
        Ok(())
    }

    /// Adds a method about a block under its two names: the first parameter is a number or tag for one of them, and a
    /// hash for the other.
    fn add_by<R>(
        &mut self,
        [by_number, by_hash]: [&'static str; 2],
        method: fn(&Rpc, BlockId, &mut Args) -> RpcResult<R>,
    ) -> Result<(), RegisterMethodError>
    where
        R: Serialize + Clone + Send + 'static,
    {
        self.add(by_number, move |rpc, args| {
            let tag = args.tag()?;
            method(rpc, tag.into(), args)
        })?;
        self.add(by_hash, move |rpc, args| {
            let hash = args.hash()?;
            method(rpc, hash.into(), args)
        })
    }

    /// Adds a method that may take much memory: at most [`HEAVY`] requests for such methods run at the same time, and
    /// the others wait without a thread. The deadline of a request counts from its permit.
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

    /// Adds a method that searches through many blocks, in the same way as [`Self::add_heavy`]
    /// with [`SEARCHES`] permits.
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
                let text = convert::text_of(&answer);
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

/// Runs blocking work on a thread for it.
async fn on_thread<R: Send + 'static>(
    work: impl FnOnce() -> RpcResult<R> + Send + 'static,
) -> RpcResult<R> {
    task::spawn_blocking(work).await.unwrap_or_else(|error| Err(RpcError::internal(&error)))
}

/// Returns the methods that an audience may call.
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
            eth::register_for_owner(&mut methods)?;
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
