//! A chain of Amsterdam, or of a fork before it.

use super::sample::sample;
use alloy_eips::eip8282::{
    BUILDER_DEPOSIT_CONTRACT_ADDRESS, BUILDER_DEPOSIT_CONTRACT_CODE, BUILDER_EXIT_CONTRACT_ADDRESS,
    BUILDER_EXIT_CONTRACT_CODE,
};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The forks since the merge, in their order.
const FORKS: [&str; 5] = ["shanghai", "cancun", "prague", "osaka", "amsterdam"];

/// Writes a genesis into this directory with the contracts that blocks call, and an account with ether: the first block is
/// of Amsterdam.
pub(crate) fn genesis(dir: &Path, funded: &str) -> PathBuf {
    genesis_up_to(dir, "amsterdam", funded)
}

/// As [`genesis`]; the first block, and all after it, are of this fork.
pub(crate) fn genesis_up_to(dir: &Path, last: &str, funded: &str) -> PathBuf {
    let text = fs::read_to_string(sample("genesis.json")).unwrap();
    let mut genesis: Value = serde_json::from_str(&text).unwrap();
    let config = genesis["config"].as_object_mut().unwrap();
    config.retain(|_, value| !value.is_number() || value.as_u64() == Some(0));
    let until = FORKS.iter().position(|fork| *fork == last).expect("it is one of these");
    for fork in &FORKS[..=until] {
        config.insert(format!("{fork}Time"), json!(0));
    }
    config.insert("chainId".into(), json!(1337));
    genesis["timestamp"] = json!("0x0");
    genesis["gasLimit"] = json!("0x3938700");
    // The sample has the contracts of the forks before Amsterdam.
    for (address, code) in [
        (BUILDER_DEPOSIT_CONTRACT_ADDRESS, &BUILDER_DEPOSIT_CONTRACT_CODE),
        (BUILDER_EXIT_CONTRACT_ADDRESS, &BUILDER_EXIT_CONTRACT_CODE),
    ] {
        let account = json!({ "balance": "0x0", "nonce": "0x1", "code": code });
        genesis["alloc"][address.to_string()] = account;
    }
    genesis["alloc"][funded] = json!({ "balance": "0x21e19e0c9bab2400000" });
    let file = dir.join(format!("{last}.json"));
    fs::write(&file, genesis.to_string()).unwrap();
    file
}
