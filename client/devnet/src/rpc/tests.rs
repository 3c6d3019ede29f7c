//! What the tests of requests share.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::{Audience, RpcLimits, RpcState, module};
use crate::tests::node;
use jsonrpsee::RpcModule;
use polytrie_layers::LayerNeeds;
use serde_json::{Value, json};
use std::sync::Arc;

/// Returns the shared data of requests to a node without any blocks.
pub(super) fn shared() -> Arc<RpcState> {
    let (limits, needs) = (RpcLimits::default(), LayerNeeds::default());
    Arc::new(RpcState::new(node("raw"), None, limits, 1 << 20, needs))
}

/// Returns the methods that answer the owner of the node.
pub(super) fn methods(shared: &Arc<RpcState>) -> RpcModule<RpcState> {
    module(Arc::clone(shared), &Audience::Owner).unwrap()
}

/// Returns the result of a request, which must have one.
pub(super) async fn call(methods: &RpcModule<RpcState>, method: &str, params: Value) -> Value {
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let (answer, _) = methods.raw_json_request(&request.to_string(), 1).await.unwrap();
    let mut answer: Value = serde_json::from_str(answer.get()).unwrap();
    assert!(answer.get("result").is_some(), "{method}: {answer}");
    answer["result"].take()
}
