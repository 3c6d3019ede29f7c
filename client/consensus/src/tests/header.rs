//! Tests of `check_header` with a valid header, and with one header for each rule that breaks only
//! that rule.

use super::{block_at, chain, chain_with, child_of};
use crate::{ConsensusError, MAX_GAS_LIMIT, MIN_GAS_LIMIT, check_header};
use alloy_consensus::{Header, Sealable, Sealed};
use alloy_eips::eip4844::DATA_GAS_PER_BLOB;
use alloy_hardforks::{EthereumHardfork, ForkCondition};
use alloy_primitives::{B64, B256, Bytes, U256};
use polytrie_chainspec::{ChainSpec, DaoFork, Forks};

const NETWORKS: [&str; 16] = [
    "Frontier",
    "Homestead",
    "EIP150",
    "EIP158",
    "Byzantium",
    "Constantinople",
    "ConstantinopleFix",
    "Istanbul",
    "Berlin",
    "London",
    "Paris",
    "Shanghai",
    "Cancun",
    "Prague",
    "Osaka",
    "Amsterdam",
];

/// Returns the result of `check_header` for a valid child of block 100 after `change`.
fn changed(network: &str, change: impl FnOnce(&mut Header)) -> Result<(), ConsensusError> {
    let spec = chain(network);
    changed_on(&spec, &block_at(&spec, 100, 1_000_000), change)
}

fn changed_on(
    spec: &ChainSpec,
    parent: &Sealed<Header>,
    change: impl FnOnce(&mut Header),
) -> Result<(), ConsensusError> {
    let (rules, mut header) = child_of(spec, parent, 10);
    change(&mut header);
    check_header(&rules, parent, &header)
}

#[test]
fn a_valid_child_passes_under_every_fork() {
    for network in NETWORKS {
        assert_eq!(changed(network, |_| {}), Ok(()), "{network}");
    }
}

#[test]
fn parent_number_and_time_must_follow() {
    for network in NETWORKS {
        assert!(
            matches!(
                changed(network, |h| h.parent_hash = B256::ZERO),
                Err(ConsensusError::ParentHash { .. })
            ),
            "{network}"
        );
        assert_eq!(
            changed(network, |h| h.number = 102),
            Err(ConsensusError::Number { found: 102, expected: 101 })
        );
        assert_eq!(
            changed(network, |h| h.timestamp = 1_000_000),
            Err(ConsensusError::Timestamp { found: 1_000_000, parent: 1_000_000 })
        );
    }
}

#[test]
fn nothing_follows_the_last_number() {
    let spec = chain("Frontier");
    let parent = block_at(&spec, u64::MAX, 1);
    let header =
        Header { parent_hash: parent.hash(), number: 0, timestamp: 2, ..Header::default() };
    assert_eq!(
        check_header(&spec.rules(0, 2, false), &parent, &header),
        Err(ConsensusError::Number { found: 0, expected: 0 })
    );
}

#[test]
fn extra_data_has_at_most_32_bytes() {
    assert_eq!(changed("Cancun", |h| h.extra_data = vec![1; 32].into()), Ok(()));
    assert_eq!(
        changed("Frontier", |h| h.extra_data = vec![1; 33].into()),
        Err(ConsensusError::ExtraDataTooLong { found: 33, max: 32 })
    );
}

#[test]
fn dao_fork_prescribes_extra_data_for_ten_blocks() {
    let mark = Bytes::from_static(b"dao-hard-fork");
    let forks = |support| {
        Forks::up_to(EthereumHardfork::Homestead).with_dao(Some(DaoFork { block: 101, support }))
    };
    for (support, parent, with_mark, without) in [
        (true, 99, true, true),
        (true, 100, true, false),
        (true, 109, true, false),
        (true, 110, true, true),
        (false, 99, true, true),
        (false, 100, false, true),
        (false, 109, false, true),
        (false, 110, true, true),
    ] {
        let spec = chain_with(forks(support));
        let parent = block_at(&spec, parent, 1_000_000);
        let marked = changed_on(&spec, &parent, |h| h.extra_data = mark.clone());
        let unmarked = changed_on(&spec, &parent, |_| {});
        assert_eq!(marked.is_ok(), with_mark, "{support} {} {marked:?}", parent.number);
        assert_eq!(unmarked.is_ok(), without, "{support} {} {unmarked:?}", parent.number);
        if !with_mark {
            assert_eq!(marked, Err(ConsensusError::DaoExtraDataForbidden));
        }
        if !without {
            assert_eq!(unmarked, Err(ConsensusError::DaoExtraDataMissing { found: Bytes::new() }));
        }
    }
}

#[test]
fn after_the_merge_no_block_bears_the_mark_of_the_dao_fork() {
    let mark = Bytes::from_static(b"dao-hard-fork");
    for support in [true, false] {
        let dao = Some(DaoFork { block: 0, support });
        let spec = chain_with(Forks::up_to(EthereumHardfork::Cancun).with_dao(dao));
        let parent = block_at(&spec, 0, 1_000_000);
        for extra_data in [Bytes::new(), mark.clone()] {
            let found = changed_on(&spec, &parent, |h| h.extra_data = extra_data);
            assert_eq!(found, Ok(()), "{support}");
        }
    }
}

#[test]
fn gas_limit_moves_by_less_than_a_1024th() {
    let bound = 8_000_000 / 1024;
    for limit in [8_000_000 - bound + 1, 8_000_000 + bound - 1] {
        assert_eq!(changed("Frontier", |h| h.gas_limit = limit), Ok(()));
    }
    for limit in [8_000_000 - bound, 8_000_000 + bound] {
        let expected = ConsensusError::GasLimitChange { found: limit, parent: 8_000_000, bound };
        assert_eq!(changed("Prague", |h| h.gas_limit = limit), Err(expected));
    }
}

#[test]
fn gas_limit_is_bounded() {
    let spec = chain("Frontier");
    let parent_with = |gas_limit| {
        Header { gas_limit, gas_used: 0, ..block_at(&spec, 100, 1_000_000).into_inner() }
            .seal_slow()
    };
    let least = parent_with(MIN_GAS_LIMIT + 4);
    assert_eq!(
        changed_on(&spec, &least, |h| (h.gas_limit, h.gas_used) = (MIN_GAS_LIMIT + 1, 0)),
        Ok(())
    );
    assert_eq!(
        changed_on(&spec, &least, |h| h.gas_limit = MIN_GAS_LIMIT - 1),
        Err(ConsensusError::GasLimitTooLow { found: MIN_GAS_LIMIT - 1, min: MIN_GAS_LIMIT })
    );
    let most = parent_with(MAX_GAS_LIMIT);
    assert_eq!(changed_on(&spec, &most, |_| {}), Ok(()));
    assert_eq!(
        changed_on(&spec, &most, |h| h.gas_limit = MAX_GAS_LIMIT + 1),
        Err(ConsensusError::GasLimitTooHigh { found: MAX_GAS_LIMIT + 1, max: MAX_GAS_LIMIT })
    );
}

#[test]
fn gas_limit_doubles_where_london_begins() {
    let spec = chain("BerlinToLondonAt5");
    let parent = block_at(&spec, 4, 1_000);
    let (rules, mut header) = child_of(&spec, &parent, 10);
    assert_eq!(header.gas_limit, 16_000_000);
    assert_eq!(header.base_fee_per_gas, Some(1_000_000_000));
    assert_eq!(check_header(&rules, &parent, &header), Ok(()));
    header.gas_limit = 8_000_000;
    assert!(matches!(
        check_header(&rules, &parent, &header),
        Err(ConsensusError::GasLimitChange { parent: 16_000_000, .. })
    ));
}

#[test]
fn gas_used_stays_within_the_limit() {
    assert_eq!(changed("London", |h| h.gas_used = h.gas_limit), Ok(()));
    assert_eq!(
        changed("London", |h| h.gas_used = h.gas_limit + 1),
        Err(ConsensusError::GasUsedAboveLimit { found: 8_000_001, gas_limit: 8_000_000 })
    );
}

#[test]
fn difficulty_must_be_the_calculated_one() {
    let result = changed("Byzantium", |h| h.difficulty += U256::ONE);
    assert!(matches!(result, Err(ConsensusError::Difficulty { .. })), "{result:?}");
}

#[test]
fn proof_of_work_ends_at_the_merge() {
    let result = changed("London", |h| h.difficulty = U256::ZERO);
    assert!(matches!(result, Err(ConsensusError::ProofOfStakeBeforeMerge { .. })), "{result:?}");
    for network in ["Paris", "Osaka"] {
        assert_eq!(
            changed(network, |h| h.difficulty = U256::ONE),
            Err(ConsensusError::ProofOfWorkAfterMerge { found: U256::ONE })
        );
        let nonce = B64::with_last_byte(1);
        assert_eq!(
            changed(network, |h| h.nonce = nonce),
            Err(ConsensusError::NonceAfterMerge { found: nonce })
        );
        assert_eq!(
            changed(network, |h| h.ommers_hash = B256::ZERO),
            Err(ConsensusError::OmmersHashAfterMerge { found: B256::ZERO })
        );
    }
}

#[test]
fn base_fee_follows_from_the_parent() {
    assert!(matches!(
        changed("London", |h| h.base_fee_per_gas = Some(1)),
        Err(ConsensusError::BaseFee { found: 1, expected: 1_000_000_000 })
    ));
}

#[test]
fn fields_come_with_their_fork() {
    type Field = (&'static str, EthereumHardfork, fn(&mut Header, bool));
    let fields: [Field; 8] = [
        ("base fee", EthereumHardfork::London, |h, on| h.base_fee_per_gas = on.then_some(7)),
        ("withdrawals root", EthereumHardfork::Shanghai, |h, on| {
            h.withdrawals_root = on.then_some(B256::ZERO)
        }),
        ("blob gas used", EthereumHardfork::Cancun, |h, on| h.blob_gas_used = on.then_some(0)),
        ("excess blob gas", EthereumHardfork::Cancun, |h, on| h.excess_blob_gas = on.then_some(0)),
        ("parent beacon block root", EthereumHardfork::Cancun, |h, on| {
            h.parent_beacon_block_root = on.then_some(B256::ZERO);
        }),
        ("requests hash", EthereumHardfork::Prague, |h, on| {
            h.requests_hash = on.then_some(B256::ZERO)
        }),
        ("block access list hash", EthereumHardfork::Amsterdam, |h, on| {
            h.block_access_list_hash = on.then_some(B256::ZERO);
        }),
        ("slot number", EthereumHardfork::Amsterdam, |h, on| h.slot_number = on.then_some(1)),
    ];
    for (field, fork, set) in fields {
        for network in NETWORKS {
            let active = chain(network).forks().activation(fork) != ForkCondition::Never;
            let expected = if active {
                ConsensusError::MissingField { field, fork }
            } else {
                ConsensusError::UnexpectedField { field, fork }
            };
            assert_eq!(changed(network, |h| set(h, !active)), Err(expected), "{network}");
        }
    }
}

#[test]
fn blob_gas_is_whole_blobs_within_the_schedule() {
    for (network, max) in [("Cancun", 6), ("Prague", 9), ("Osaka", 9)] {
        let max = max * DATA_GAS_PER_BLOB;
        assert_eq!(changed(network, |h| h.blob_gas_used = Some(max)), Ok(()));
        let found = max + DATA_GAS_PER_BLOB;
        assert_eq!(
            changed(network, |h| h.blob_gas_used = Some(found)),
            Err(ConsensusError::BlobGasAboveLimit { found, max })
        );
    }
    assert_eq!(
        changed("Cancun", |h| h.blob_gas_used = Some(1)),
        Err(ConsensusError::BlobGasNotMultiple { found: 1, per_blob: DATA_GAS_PER_BLOB })
    );
    assert_eq!(
        changed("Cancun", |h| h.excess_blob_gas = Some(1)),
        Err(ConsensusError::ExcessBlobGas { found: 1, expected: 0 })
    );
}
