//! The RPC methods without a network, for fuzzing.

use super::{Audience, RpcLimits, RpcState, ServeError, module, server::STACK};
use crate::Node;
use jsonrpsee::RpcModule;
use polytrie_layers::LayerNeeds;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// The methods of a node for callers in this process. Each request runs as under a server, on a thread with a stack of
/// the same size. Connections, origins and batches are left out.
#[derive(Debug)]
pub struct LocalRpc {
    runtime: Runtime,
    methods: RpcModule<RpcState>,
}

impl LocalRpc {
    /// Registers the methods of a node.
    ///
    /// # Errors
    ///
    /// If the system cannot start a thread.
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

    /// Returns the names of all methods.
    pub fn method_names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.methods.method_names()
    }

    /// Returns the answer to a request; `None` if the text is not a request.
    pub fn answer(&self, request: &str) -> Option<String> {
        let answered = self.runtime.block_on(self.methods.raw_json_request(request, 1));
        answered.ok().map(|(answer, _)| answer.get().to_owned())
    }
}
