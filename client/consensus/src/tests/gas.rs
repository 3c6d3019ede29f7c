//! Tests of the base fee and of the excess blob gas, with values that no real chain reaches.

use super::{block_at, chain, rules_at};
use crate::{next_base_fee, next_excess_blob_gas};
use alloy_consensus::Header;
use alloy_eips::{eip1559::BaseFeeParams, eip4844::DATA_GAS_PER_BLOB, eip7840::BlobParams};
use alloy_hardforks::{EthereumHardfork, ForkCondition};
use polytrie_chainspec::{ChainSpec, Forks};
use proptest::prelude::*;

fn excess(spec: &ChainSpec, parent: &Header) -> Option<u128> {
    next_excess_blob_gas(&rules_at(spec, parent.number + 1, parent.timestamp + 12), parent)
}

fn cancun_parent(excess: u64, blobs: u64, base_fee: u64) -> Header {
    Header {
        number: 100,
        timestamp: 1_000_000,
        base_fee_per_gas: Some(base_fee),
        excess_blob_gas: Some(excess),
        blob_gas_used: Some(blobs * DATA_GAS_PER_BLOB),
        ..Header::default()
    }
}

#[test]
fn base_fee_rises_falls_and_starts() {
    let spec = chain("BerlinToLondonAt5");
    let at = |number| block_at(&spec, number, 1000).into_inner();
    assert_eq!(next_base_fee(&rules_at(&spec, 4, 1001), &at(3)), None);
    assert_eq!(next_base_fee(&rules_at(&spec, 5, 1001), &at(4)), Some(1_000_000_000));
    let rules = rules_at(&spec, 101, 1001);
    for (used, expected) in
        [(4_000_000, 1_000_000_000), (8_000_000, 1_125_000_000), (0, 875_000_000)]
    {
        let parent = Header { gas_used: used, ..at(100) };
        assert_eq!(next_base_fee(&rules, &parent), Some(expected));
    }
    // The base fee rises by at least 1.
    let parent = Header { gas_used: 4_000_001, base_fee_per_gas: Some(1), ..at(100) };
    assert_eq!(next_base_fee(&rules, &parent), Some(2));
}

#[test]
fn base_fee_beyond_a_header_field_is_still_told() {
    let spec = chain("London");
    let parent = Header {
        base_fee_per_gas: Some(u64::MAX),
        gas_used: 8_000_000,
        ..block_at(&spec, 1, 1).into_inner()
    };
    let expected = u128::from(u64::MAX) + u128::from(u64::MAX / 8);
    assert_eq!(next_base_fee(&rules_at(&spec, 2, 2), &parent), Some(expected));
}

#[test]
fn excess_blob_gas_starts_at_zero_and_follows_the_target() {
    let spec = chain("ShanghaiToCancunAtTime15k");
    assert_eq!(excess(&spec, &block_at(&spec, 1, 14_000)), None);
    assert_eq!(excess(&spec, &block_at(&spec, 1, 14_990)), Some(0));
    let spec = chain("Cancun");
    assert_eq!(excess(&spec, &cancun_parent(0, 3, 7)), Some(0));
    assert_eq!(excess(&spec, &cancun_parent(0, 6, 7)), Some(3 * u128::from(DATA_GAS_PER_BLOB)));
}

#[test]
fn the_block_s_own_schedule_counts_at_a_fork() {
    let forks = Forks::up_to(EthereumHardfork::Osaka)
        .with(EthereumHardfork::Bpo1, ForkCondition::Timestamp(1_000_012));
    let spec = super::chain_with(forks);
    let parent = cancun_parent(10_000_000, 9, 1);
    let blob = u128::from(DATA_GAS_PER_BLOB);
    assert_eq!(excess(&spec, &parent), Some(10_000_000 + 9 * blob - 10 * blob));
    let before = Header { timestamp: 999_999, ..parent };
    assert_eq!(excess(&spec, &before), Some(10_000_000 + 9 * blob - 6 * blob));
}

#[test]
fn reserve_price_slows_the_excess_down_from_osaka_on() {
    // The example of EIP-7918, in which the base fee is far above the price of blobs.
    let parent = cancun_parent(5_000_000, 9, 30_000_000_000);
    let blob = u128::from(DATA_GAS_PER_BLOB);
    assert_eq!(excess(&chain("Prague"), &parent), Some(5_000_000 + 3 * blob));
    assert_eq!(excess(&chain("Osaka"), &parent), Some(5_000_000 + 9 * blob * 3 / 9));
    let parent = cancun_parent(5_000_000, 6, 30_000_000_000);
    assert_eq!(excess(&chain("Prague"), &parent), Some(5_000_000));
    assert_eq!(excess(&chain("Osaka"), &parent), Some(5_000_000 + 6 * blob * 3 / 9));
    // The reserve price is met: 8192 * 16 = 131072 * 1 is not below the blob price.
    let parent = cancun_parent(2_000_000, 6, 16);
    assert_eq!(excess(&chain("Osaka"), &parent), Some(2_000_000));
}

#[test]
fn absurd_parents_give_a_number_and_no_panic() {
    let mut forks = Forks::up_to(EthereumHardfork::Osaka);
    let nothing = BlobParams {
        target_blob_count: 0,
        max_blob_count: 0,
        update_fraction: 0,
        ..BlobParams::osaka()
    };
    forks = forks.with_blob_params(EthereumHardfork::Osaka, nothing);
    let parent = cancun_parent(u64::MAX, 1, u64::MAX);
    let parent = Header { blob_gas_used: Some(u64::MAX), ..parent };
    assert!(excess(&super::chain_with(forks), &parent).is_some());
    let expected = 2 * u128::from(u64::MAX) - 6 * u128::from(DATA_GAS_PER_BLOB);
    assert_eq!(excess(&chain("Osaka"), &parent), Some(expected));
}

proptest! {
    /// The functions agree with those of alloy-eips for all values for which alloy-eips does not
    /// overflow.
    #[test]
    fn agrees_with_alloy_eips(
        base_fee in 0..1u64 << 40, limit in 5000..1u64 << 40, share in 0..=1000u64,
        excess_gas in 0..200_000_000u64, blobs in 0..=9u64,
    ) {
        let mut parent = cancun_parent(excess_gas, blobs, base_fee);
        (parent.gas_limit, parent.gas_used) = (limit, limit / 1000 * share);
        for (network, params) in [
            ("Cancun", BlobParams::cancun()), ("Prague", BlobParams::prague()), ("Osaka", BlobParams::osaka()),
        ] {
            let spec = chain(network);
            let rules = rules_at(&spec, parent.number + 1, parent.timestamp + 12);
            let fee = parent.next_block_base_fee(BaseFeeParams::ethereum()).map(u128::from);
            prop_assert_eq!(next_base_fee(&rules, &parent), fee);
            let gas = parent.next_block_excess_blob_gas(params).map(u128::from);
            prop_assert_eq!(next_excess_blob_gas(&rules, &parent), gas);
        }
    }
}
