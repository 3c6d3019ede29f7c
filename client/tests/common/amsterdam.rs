//! Writes the genesis of a chain of Amsterdam.

use super::sample::sample;
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Writes a genesis file into `dir` and returns its path. It has the contracts that blocks call, and gives ether to the
/// account `funded`. The first block is of Amsterdam.
pub(crate) fn genesis(dir: &Path, funded: &str) -> PathBuf {
    let text = fs::read_to_string(sample("genesis.json")).unwrap();
    let mut genesis: Value = serde_json::from_str(&text).unwrap();
    let config = genesis["config"].as_object_mut().unwrap();
    config.retain(|_, value| !value.is_number() || value.as_u64() == Some(0));
    for fork in ["shanghai", "cancun", "prague", "osaka", "amsterdam"] {
        config.insert(format!("{fork}Time"), json!(0));
    }
    config.insert("chainId".into(), json!(1337));
    genesis["timestamp"] = json!("0x0");
    genesis["gasLimit"] = json!("0x3938700");
    genesis["alloc"][funded] = json!({ "balance": "0x21e19e0c9bab2400000" });
    let file = dir.join("amsterdam.json");
    fs::write(&file, genesis.to_string()).unwrap();
    file
}
