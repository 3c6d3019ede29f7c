//! `web3_`.

use super::Methods;
use alloy_primitives::{Bytes, keccak256};
use jsonrpsee::core::RegisterMethodError;
use serde_json::{Value, json};

/// How the node calls itself.
pub(super) const CLIENT_VERSION: &str = concat!("polytrie/v", env!("CARGO_PKG_VERSION"));

/// What methods begin with.
const MODULES: &[&str] = &[
    "anvil", "debug", "eth", "evm", "hardhat", "net", "ots", "polytrie", "testing", "trace",
    "txpool", "web3",
];

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    methods.add("rpc_modules", |_, _| {
        let modules = MODULES.iter().map(|name| ((*name).to_owned(), json!("1.0")));
        Ok(Value::Object(modules.collect()))
    })?;
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
