//! `net_`: constant answers, since the node has no network.

use super::Methods;
use alloy_primitives::U64;
use jsonrpsee::core::RegisterMethodError;

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    methods.add("net_version", |rpc, _| Ok(rpc.node.spec().chain_id().to_string()))?;
    methods.alias("net_version", &["eth_networkId"])?;
    methods.add("net_listening", |_, _| Ok(true))?;
    methods.add("net_peerCount", |_, _| Ok(U64::ZERO))
}
