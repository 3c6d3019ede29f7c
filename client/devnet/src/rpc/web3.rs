//! `web3_`.

use super::{Audience, Methods};
use alloy_primitives::{Bytes, keccak256};
use jsonrpsee::core::RegisterMethodError;
use std::collections::BTreeMap;

/// The version of this program.
pub(super) const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// How the node calls itself.
pub(super) const CLIENT_VERSION: &str = concat!("polytrie/v", env!("CARGO_PKG_VERSION"));

/// What methods begin with.
const MODULES: &[&str] = &["debug", "eth", "net", "ots", "polytrie", "trace", "txpool", "web3"];

/// What further methods begin with, where the chain may be changed by hand.
const OWNER_MODULES: &[&str] = &["anvil", "evm", "hardhat", "testing"];

pub(super) fn register(
    methods: &mut Methods,
    audience: &Audience,
) -> Result<(), RegisterMethodError> {
    match audience {
        // Tools for testing refuse to work where the name does not begin as that of a node they know; this one has the
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

/// The modules that there are, with these among them.
fn modules(more: &[&str]) -> BTreeMap<String, &'static str> {
    MODULES.iter().chain(more).map(|name| ((*name).to_owned(), "1.0")).collect()
}
