//! Tests of valid ommers, and of one invalid ommer for each rule.

use super::{block_at, chain, child_of};
use crate::{
    Ancestor, ConsensusError, MAX_OMMERS, OMMER_GENERATIONS, OmmerError, RecentAncestors,
    check_header, check_ommers,
};
use alloy_consensus::{Header, Sealable, Sealed};
use alloy_primitives::{Address, B256, U256};
use polytrie_chainspec::ChainSpec;

/// Returns a chain of ten blocks, oldest first.
fn ten_blocks(spec: &ChainSpec) -> Vec<Sealed<Header>> {
    let mut blocks = vec![block_at(spec, 100, 1_000_000)];
    while blocks.len() < 10 {
        let (_, child) = child_of(spec, &blocks[blocks.len() - 1], 13);
        blocks.push(child.seal_slow());
    }
    blocks
}

/// Returns a valid sibling of the block after `parent`.
fn ommer_on(spec: &ChainSpec, parent: &Sealed<Header>, who: u8) -> Header {
    let (rules, mut ommer) = child_of(spec, parent, 14);
    ommer.beneficiary = Address::with_last_byte(who);
    assert_eq!(check_header(&rules, parent, &ommer), Ok(()));
    ommer
}

/// Returns the result of `check_ommers` for a block with these ommers on top of `blocks`.
fn check(spec: &ChainSpec, blocks: &[Ancestor], ommers: &[Header]) -> Result<(), ConsensusError> {
    let ancestors: RecentAncestors = blocks.iter().cloned().collect();
    let (rules, header) = child_of(spec, ancestors.head().expect("blocks"), 13);
    check_ommers(&rules, &header, ommers, &ancestors)
}

fn reason(result: Result<(), ConsensusError>) -> OmmerError {
    match result {
        Err(ConsensusError::Ommer { source, .. }) => *source,
        other => panic!("expected an ommer error, found {other:?}"),
    }
}

fn without_ommers(blocks: &[Sealed<Header>]) -> Vec<Ancestor> {
    blocks.iter().map(|block| Ancestor::new(block.clone(), &[])).collect()
}

#[test]
fn an_ommer_s_parent_is_two_to_seven_generations_back() {
    for network in ["Frontier", "Byzantium", "London"] {
        let spec = chain(network);
        let blocks = ten_blocks(&spec);
        let ancestors = without_ommers(&blocks);
        for back in 1..=10 {
            let parent = &blocks[10 - back];
            let result = check(&spec, &ancestors, &[ommer_on(&spec, parent, 1)]);
            match back {
                1 => {
                    assert_eq!(reason(result), OmmerError::SiblingOfBlock { parent: parent.hash() })
                }
                2..=OMMER_GENERATIONS => assert_eq!(result, Ok(()), "{network} {back}"),
                _ => {
                    let expected = OmmerError::UnknownParent {
                        parent: parent.hash(),
                        generations: OMMER_GENERATIONS,
                    };
                    assert_eq!(reason(result), expected);
                }
            }
        }
    }
}

#[test]
fn at_most_two_and_none_after_the_merge() {
    let spec = chain("Frontier");
    let blocks = ten_blocks(&spec);
    let ommers: Vec<_> = (1..=3).map(|who| ommer_on(&spec, &blocks[7], who)).collect();
    let ancestors = without_ommers(&blocks);
    assert_eq!(check(&spec, &ancestors, &ommers[..2]), Ok(()));
    assert_eq!(
        check(&spec, &ancestors, &ommers),
        Err(ConsensusError::TooManyOmmers { found: 3, max: MAX_OMMERS })
    );
    let merged = chain("Paris");
    let blocks = ten_blocks(&merged);
    let ommer = ommer_on(&merged, &blocks[7], 1);
    assert_eq!(
        check(&merged, &without_ommers(&blocks), &[ommer]),
        Err(ConsensusError::TooManyOmmers { found: 1, max: 0 })
    );
}

#[test]
fn neither_an_ancestor_nor_included_before() {
    let spec = chain("Homestead");
    let blocks = ten_blocks(&spec);
    let mut ancestors = without_ommers(&blocks);
    assert_eq!(
        reason(check(&spec, &ancestors, &[blocks[7].clone().into_inner()])),
        OmmerError::IsAncestor
    );
    let ommer = ommer_on(&spec, &blocks[5], 1);
    assert_eq!(
        reason(check(&spec, &ancestors, &[ommer.clone(), ommer.clone()])),
        OmmerError::AlreadyIncluded
    );
    assert_eq!(check(&spec, &ancestors, std::slice::from_ref(&ommer)), Ok(()));
    ancestors[8].ommers.push(ommer.hash_slow());
    assert_eq!(reason(check(&spec, &ancestors, &[ommer])), OmmerError::AlreadyIncluded);
}

#[test]
fn an_ommer_s_header_is_valid_itself() {
    let spec = chain("London");
    let blocks = ten_blocks(&spec);
    let ancestors = without_ommers(&blocks);
    let changes: [fn(&mut Header); 6] = [
        |ommer| ommer.difficulty += U256::ONE,
        |ommer| ommer.timestamp = 1,
        |ommer| ommer.gas_limit *= 2,
        |ommer| ommer.number += 1,
        |ommer| ommer.extra_data = vec![0; 33].into(),
        |ommer| ommer.base_fee_per_gas = None,
    ];
    for change in changes {
        let mut ommer = ommer_on(&spec, &blocks[7], 1);
        change(&mut ommer);
        let result = reason(check(&spec, &ancestors, &[ommer]));
        assert!(matches!(result, OmmerError::Header(_)), "{result:?}");
    }
}

#[test]
fn ancestors_must_be_the_block_s_own() {
    let spec = chain("Frontier");
    let blocks = ten_blocks(&spec);
    let ancestors: RecentAncestors = without_ommers(&blocks).into_iter().collect();
    let (rules, mut header) = child_of(&spec, &blocks[9], 13);
    header.parent_hash = B256::ZERO;
    let ommer = ommer_on(&spec, &blocks[7], 1);
    assert_eq!(
        check_ommers(&rules, &header, &[ommer], &ancestors),
        Err(ConsensusError::ParentHash { found: B256::ZERO, expected: blocks[9].hash() })
    );
}

#[test]
fn recent_ancestors_are_seven_and_linked() {
    let spec = chain("Frontier");
    let blocks = ten_blocks(&spec);
    let mut recent = RecentAncestors::new();
    assert!(!recent.is_complete());
    for (index, block) in without_ommers(&blocks).into_iter().enumerate() {
        recent.push(block);
        assert_eq!(recent.head(), Some(&blocks[index]));
        assert_eq!(recent.is_complete(), index + 1 >= OMMER_GENERATIONS);
    }
    // A block of another branch empties the list first.
    recent.push(Ancestor::new(block_at(&spec, 50, 1), &[]));
    assert!(!recent.is_complete());
    let genesis: RecentAncestors =
        [Ancestor::new(spec.genesis_header().clone(), &[])].into_iter().collect();
    assert!(genesis.is_complete());
}
