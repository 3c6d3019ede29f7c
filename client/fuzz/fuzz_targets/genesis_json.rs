//! Any bytes as a genesis.json.

#![no_main]

use alloy_genesis::Genesis;
use libfuzzer_sys::fuzz_target;
use polytrie_chainspec::ChainSpec;

fuzz_target!(|data: &[u8]| {
    let Ok(genesis) = serde_json::from_slice::<Genesis>(data) else { return };
    match ChainSpec::from_genesis("fuzz", genesis) {
        Ok(spec) => {
            // The header and its hash are made from fields of the file.
            assert_eq!(spec.genesis_hash(), spec.genesis_header().hash_slow());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
