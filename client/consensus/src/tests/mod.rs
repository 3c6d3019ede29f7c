//! Tests of each rule with one block that keeps it and one that breaks it, and of the published
//! vectors and chains.

mod access_list;
mod body;
mod chain_files;
mod chains;
#[expect(clippy::unwrap_used, reason = "tests")]
mod clique;
mod decoding;
mod difficulty;
mod gas;
mod header;
mod made_up;
mod ommers;
mod result;
mod rlp;
mod suites;
mod transactions;

use super::{next_base_fee, next_difficulty, next_excess_blob_gas};
use alloy_consensus::{Header, Sealable, Sealed};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{B256, U256, keccak256};
use polytrie_chainspec::{ChainSpec, Forks, Rules};

/// Returns the chain of a network of the official tests, such as `Byzantium` or `BerlinToLondonAt5`.
fn chain(network: &str) -> ChainSpec {
    let forks = Forks::test_network(network).expect("a network of the official tests");
    chain_with(forks)
}

fn chain_with(forks: Forks) -> ChainSpec {
    ChainSpec::with_forks("test", 1, forks, Header::default(), [])
}

/// Returns a block in the middle of a chain, with the fields that its forks ask for.
fn block_at(spec: &ChainSpec, number: u64, timestamp: u64) -> Sealed<Header> {
    let rules = rules_at(spec, number, timestamp);
    let mut header = Header {
        number,
        timestamp,
        gas_limit: 8_000_000,
        gas_used: 4_000_000,
        parent_hash: keccak256(number.to_be_bytes()),
        difficulty: if rules.merged { U256::ZERO } else { U256::from(10_000_000u64) },
        ..Header::default()
    };
    add_fork_fields(&rules, &mut header);
    header.seal_slow()
}

/// Returns the rules of a block of a chain that is past the merge from its start, or that never
/// merges.
fn rules_at(spec: &ChainSpec, number: u64, timestamp: u64) -> Rules<'_> {
    spec.rules(number, timestamp, spec.terminal_total_difficulty().is_some())
}

/// Returns a valid block on top of `parent`, `seconds` later, and the rules that apply to it.
fn child_of<'a>(spec: &'a ChainSpec, parent: &Sealed<Header>, seconds: u64) -> (Rules<'a>, Header) {
    let (number, timestamp) = (parent.number + 1, parent.timestamp + seconds);
    let rules = rules_at(spec, number, timestamp);
    let is_london_transition =
        rules.is(EthereumHardfork::London) && parent.base_fee_per_gas.is_none();
    let mut header = Header {
        number,
        timestamp,
        parent_hash: parent.hash(),
        gas_limit: parent.gas_limit * if is_london_transition { 2 } else { 1 },
        gas_used: 21_000,
        difficulty: if rules.merged {
            U256::ZERO
        } else {
            next_difficulty(&rules, parent, timestamp)
        },
        ..Header::default()
    };
    add_fork_fields(&rules, &mut header);
    header.base_fee_per_gas =
        next_base_fee(&rules, parent).map(|fee| fee.try_into().expect("small"));
    header.excess_blob_gas =
        next_excess_blob_gas(&rules, parent).map(|gas| gas.try_into().expect("small"));
    (rules, header)
}

fn add_fork_fields(rules: &Rules<'_>, header: &mut Header) {
    let number = header.number;
    let from = |fork, value| rules.is(fork).then_some(value);
    header.base_fee_per_gas = from(EthereumHardfork::London, 1_000_000_000);
    header.withdrawals_root =
        rules.is(EthereumHardfork::Shanghai).then_some(alloy_consensus::EMPTY_ROOT_HASH);
    header.blob_gas_used = from(EthereumHardfork::Cancun, 0);
    header.excess_blob_gas = from(EthereumHardfork::Cancun, 0);
    header.parent_beacon_block_root = rules.is(EthereumHardfork::Cancun).then_some(B256::ZERO);
    header.requests_hash =
        rules.is(EthereumHardfork::Prague).then_some(alloy_eips::eip7685::EMPTY_REQUESTS_HASH);
    header.block_access_list_hash = rules.is(EthereumHardfork::Amsterdam).then_some(B256::ZERO);
    header.slot_number = from(EthereumHardfork::Amsterdam, number);
}
