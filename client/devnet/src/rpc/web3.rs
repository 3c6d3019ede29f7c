//! `web3_` and `rpc_modules`.

use super::{Audience, Methods};
use alloy_primitives::{Bytes, keccak256};
use jsonrpsee::core::RegisterMethodError;
use std::collections::BTreeMap;

/// Version of this program.
pub(super) const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// Name and version of the node.
pub(super) const CLIENT_VERSION: &str = concat!("polytrie/v", env!("CARGO_PKG_VERSION"));

/// Namespaces of the methods that all callers have.
const MODULES: &[&str] = &["debug", "eth", "net", "ots", "polytrie", "trace", "txpool", "web3"];

/// Namespaces of the additional methods for the owner of the chain.
const OWNER_MODULES: &[&str] = &["anvil", "evm", "hardhat", "testing"];

pub(super) fn register(
    methods: &mut Methods,
    audience: &Audience,
) -> Result<(), RegisterMethodError> {
    match audience {
        // Test tools refuse a node unless its name begins with one that they know, and this node has the
        // methods of anvil.
        Audience::Owner => {
            methods.add("rpc_modules", |_, _| Ok(modules(OWNER_MODULES)))?;
            methods.add("web3_clientVersion", |rpc, _| {
                Ok(format!("anvil/{CLIENT_VERSION}/{}", rpc.node.kind().name))
            })?;
        }
        Audience::Everybody => methods.add("rpc_modules", |_, _| Ok(modules(&[])))?,
        Audience::ConsensusLayer { .. } => {
            methods.add("rpc_modules", |_, _| Ok(modules(&["engine"])))?;
        }
    }
    if !matches!(audience, Audience::Owner) {
        methods.add("web3_clientVersion", |rpc, _| {
            Ok(format!("{CLIENT_VERSION}/{}", rpc.node.kind().name))
        })?;
    }
    methods.add("web3_sha3", |_, args| {
        let bytes: Bytes = args.next()?;
        Ok(keccak256(bytes))
    })
}

/// Returns the common namespaces and those in `more`.
fn modules(more: &[&str]) -> BTreeMap<String, &'static str> {
    MODULES.iter().chain(more).map(|name| ((*name).to_owned(), "1.0")).collect()
}
