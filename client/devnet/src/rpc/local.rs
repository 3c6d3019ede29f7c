//! The methods without a network.

use super::{Audience, RpcLimits, RpcState, ServeError, module, server::STACK};
use crate::Node;
use jsonrpsee::RpcModule;
use polytrie_layers::LayerNeeds;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// The methods of a node for callers in this process: each request goes to its method as a server would hand it over,
/// on a thread with a stack of the same size. What a server does with connections, origins and batches is left out.
#[derive(Debug)]
pub struct LocalRpc {
    runtime: Runtime,
    methods: RpcModule<RpcState>,
}

impl LocalRpc {
    /// The methods of a node.
    ///
    /// # Errors
    ///
    /// If the system gives no threads.
    pub fn new(node: Arc<Node>, limits: RpcLimits) -> Result<Self, ServeError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .thread_name("rpc")
            .thread_stack_size(STACK)
            .build()
            .map_err(ServeError::Threads)?;
        let shared = RpcState::new(node, None, limits, u32::MAX as usize, LayerNeeds::default());
        Ok(Self { runtime, methods: module(Arc::new(shared), &Audience::Owner)? })
    }

    /// The names of all methods.
    pub fn method_names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.methods.method_names()
    }

    /// The answer to a request; `None` if the text is no request.
    pub fn answer(&self, request: &str) -> Option<String> {
        let answered = self.runtime.block_on(self.methods.raw_json_request(request, 1));
        answered.ok().map(|(answer, _)| answer.get().to_owned())
    }
}
