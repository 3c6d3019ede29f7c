//! Target for genesis.json: any bytes.

#![no_main]

use alloy_genesis::Genesis;
use libfuzzer_sys::fuzz_target;
use polytrie_chainspec::{ChainSpec, ChainSpecError};

fuzz_target!(|data: &[u8]| {
    if let Some(spec) = check(ChainSpec::parse("fuzz", data)) {
        // The outline that a data directory keeps of the file must give the same chain.
        let outline = spec.outline().expect("it was read from a file");
        let slim = ChainSpec::from_outline("fuzz", outline.as_bytes()).expect("it is an outline");
        assert_eq!(slim.genesis_header(), spec.genesis_header());
        assert_eq!(slim.forks(), spec.forks());
        assert_eq!(slim.outline(), Some(outline));
    }
    // The file is also read with the types that other programs use.
    if let Ok(genesis) = serde_json::from_slice::<Genesis>(data) {
        check(ChainSpec::from_genesis("fuzz", genesis));
    }
});

fn check(read: Result<ChainSpec, ChainSpecError>) -> Option<ChainSpec> {
    match read {
        Ok(spec) => {
            // The header and its hash are made from fields of the file.
            assert_eq!(spec.genesis_hash(), spec.genesis_header().hash_slow());
            Some(spec)
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            None
        }
    }
}
