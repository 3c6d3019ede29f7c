//! `web3_`.

use super::Methods;
use alloy_primitives::{Bytes, keccak256};
use jsonrpsee::core::RegisterMethodError;

/// How the node calls itself.
pub(super) const CLIENT_VERSION: &str = concat!("polytrie/v", env!("CARGO_PKG_VERSION"));

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    // Tools for testing refuse to work where the name does not begin as that of a node they know; this one has the
    // methods of anvil.
    methods.add("web3_clientVersion", |rpc, _| {
        Ok(format!("anvil/{CLIENT_VERSION}/{}", rpc.node.kind().name))
    })?;
    methods.add("web3_sha3", |_, args| {
        let bytes: Bytes = args.next()?;
        Ok(keccak256(bytes))
    })
}
