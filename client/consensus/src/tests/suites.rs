//! The official blockchain tests, as far as they need no execution. Every valid block must pass, and
//! every block that is invalid for a reason other than its execution must be refused.

use super::chains::Tree;
use alloy_consensus::{Block, Header, TxEnvelope};
use alloy_primitives::hex;
use alloy_rlp::Decodable;
use polytrie_chainspec::{ChainSpec, Forks};
use polytrie_testing::for_each_in_suite;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct BlockchainTest {
    network: String,
    #[serde(rename = "genesisBlockHeader")]
    genesis: serde_json::Map<String, Value>,
    blocks: Vec<TestBlock>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TestBlock {
    /// The RLP in hexadecimal. Some tests hold other text here, which no decoder accepts.
    rlp: String,
    block_header: Option<IgnoredAny>,
    expect_exception: Option<String>,
}

/// The names of the errors that only execution can find.
const BY_EXECUTION: [&str; 16] = [
    "GAS_ALLOWANCE_EXCEEDED",
    "GAS_USED_OVERFLOW",
    "INSUFFICIENT_ACCOUNT_FUNDS",
    "INSUFFICIENT_MAX_FEE_PER_BLOB_GAS",
    "INSUFFICIENT_MAX_FEE_PER_GAS",
    "INTRINSIC_GAS_TOO_LOW",
    "INVALID_GAS_USED",
    "INVALID_LOG_BLOOM",
    "INVALID_RECEIPTS_ROOT",
    "INVALID_REQUESTS",
    "INVALID_STATE_ROOT",
    "NONCE_MISMATCH_TOO_HIGH",
    "NONCE_MISMATCH_TOO_LOW",
    "PRIORITY_GREATER_THAN_MAX_FEE_PER_GAS",
    "SENDER_NOT_EOA",
    "GAS_ABOVE_LIMIT",
];

/// The name used for the error of an invalid block for which the test gives none.
const UNSAID: &str = "unsaid";

fn is_by_execution(exception: &str) -> bool {
    if exception == UNSAID {
        return true;
    }
    exception
        .split('|')
        .filter_map(|one| one.split_once('.'))
        .any(|(_, rule)| BY_EXECUTION.contains(&rule))
}

/// Reads the genesis header. In the tests its fields have other names.
fn genesis(json: &serde_json::Map<String, Value>) -> Header {
    let renamed = json.iter().map(|(key, value)| {
        let key = match key.as_str() {
            "bloom" => "logsBloom",
            "coinbase" => "miner",
            "receiptTrie" => "receiptsRoot",
            "transactionsTrie" => "transactionsRoot",
            "uncleHash" => "sha3Uncles",
            same => same,
        };
        (key.to_owned(), value.clone())
    });
    let header: Header = serde_json::from_value(renamed.collect()).expect("a header");
    assert_eq!(json["hash"], header.hash_slow().to_string());
    header
}

fn decode(rlp: &str) -> Option<Block<TxEnvelope>> {
    let bytes = hex::decode(rlp).ok()?;
    let mut rest = &bytes[..];
    let block = Block::decode(&mut rest).ok()?;
    rest.is_empty().then_some(block)
}

/// The numbers of blocks that were valid, that were refused, and that only execution can judge.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    valid: usize,
    refused: usize,
    by_execution: usize,
}

fn run(name: &str, test: &BlockchainTest, counts: &mut Counts) {
    let forks =
        Forks::test_network(&test.network).unwrap_or_else(|| panic!("{name}: {}", test.network));
    let genesis = genesis(&test.genesis);
    let spec = ChainSpec::with_forks(name, 1, forks, genesis, []);
    let mut tree = Tree::new(&spec);
    for (index, block) in test.blocks.iter().enumerate() {
        let found = match decode(&block.rlp) {
            Some(block) => tree.add(&block),
            None => Err("not a block".to_owned()),
        };
        // Older tests do not say why a block is invalid: they only leave out its header.
        let exception = match (&block.expect_exception, &block.block_header) {
            (Some(exception), _) => Some(exception.as_str()),
            (None, None) => Some(UNSAID),
            (None, Some(_)) => None,
        };
        match (exception, found) {
            (None, Ok(_)) => counts.valid += 1,
            (None, Err(error)) => panic!("{name}: block {index} is valid, but found: {error}"),
            (Some(_), Err(_)) => counts.refused += 1,
            (Some(exception), Ok((hash, _))) if is_by_execution(exception) => {
                counts.by_execution += 1;
                // No later block may build on it.
                tree.remove(hash);
            }
            (Some(exception), Ok(_)) => {
                panic!("{name}: block {index} passed, expected {exception}")
            }
        }
    }
}

fn run_suite(suite: &str, folder: &str, expected: Counts) {
    let mut counts = Counts::default();
    let files = for_each_in_suite(suite, folder, |path, bytes| {
        let tests: BTreeMap<String, BlockchainTest> =
            serde_json::from_slice(bytes).unwrap_or_else(|error| panic!("{path}: {error}"));
        for (name, test) in tests {
            run(&format!("{path} {name}"), &test, &mut counts);
        }
    });
    if files.is_some() {
        assert_eq!(counts, expected);
    }
}

#[test]
fn ethereum_tests() {
    run_suite(
        "ethereum-tests",
        "BlockchainTests",
        Counts { valid: 15_555, refused: 631, by_execution: 202 },
    );
}

#[test]
fn legacy_tests() {
    run_suite(
        "legacytests-constantinople",
        "Constantinople/BlockchainTests",
        Counts { valid: 34_232, refused: 449, by_execution: 72 },
    );
}

#[test]
fn execution_spec_tests() {
    run_suite(
        "eest-prague",
        "blockchain_tests",
        Counts { valid: 2314, refused: 135, by_execution: 48 },
    );
}
