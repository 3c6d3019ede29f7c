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
    // Test tools refuse a node unless its name begins with one that they know, and to its owner this node has the
    // methods of anvil.
    let (more, prefix): (&[&str], _) = match audience {
        Audience::Owner => (OWNER_MODULES, "anvil/"),
        Audience::Everybody => (&[], ""),
        Audience::ConsensusLayer { .. } => (&["engine"], ""),
    };
    methods.add("rpc_modules", move |_, _| Ok(modules(more)))?;
    methods.add("web3_clientVersion", move |rpc, _| {
        Ok(format!("{prefix}{CLIENT_VERSION}/{}", rpc.node.kind().name))
    })?;
    methods.add("web3_sha3", |_, args| {
        let bytes: Bytes = args.next()?;
        Ok(keccak256(bytes))
    })
}

/// Returns the common namespaces and those in `more`.
fn modules(more: &[&str]) -> BTreeMap<String, &'static str> {
    MODULES.iter().chain(more).map(|name| ((*name).to_owned(), "1.0")).collect()
}
