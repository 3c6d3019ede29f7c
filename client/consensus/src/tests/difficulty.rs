//! The official test vectors of the difficulty, and the edge cases that they leave out.

use super::{chain, rules_at};
use crate::{MIN_DIFFICULTY, next_difficulty};
use alloy_consensus::{EMPTY_OMMER_ROOT_HASH, Header};
use alloy_primitives::{B256, U256};
use polytrie_chainspec::ChainSpec;
use polytrie_testing::for_each_in_suite;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Vector {
    current_block_number: U256,
    current_difficulty: U256,
    current_timestamp: U256,
    parent_difficulty: U256,
    parent_timestamp: U256,
    parent_uncles: U256,
}

impl Vector {
    fn check(&self, spec: &ChainSpec) -> bool {
        let number: u64 = self.current_block_number.to();
        let parent = Header {
            number: number - 1,
            difficulty: self.parent_difficulty,
            timestamp: self.parent_timestamp.to(),
            // In the vectors, 0 stands for a parent without ommers and any other value for one with
            // ommers.
            ommers_hash: if self.parent_uncles.is_zero() {
                EMPTY_OMMER_ROOT_HASH
            } else {
                B256::ZERO
            },
            ..Header::default()
        };
        let timestamp = self.current_timestamp.to();
        next_difficulty(&rules_at(spec, number, timestamp), &parent, timestamp)
            == self.current_difficulty
    }
}

#[test]
fn difficulty_vectors() {
    let mut checked = 0;
    let files = for_each_in_suite("ethereum-tests", "DifficultyTests", |path, bytes| {
        let tests: BTreeMap<String, BTreeMap<String, serde_json::Value>> =
            serde_json::from_slice(bytes).expect("a vector file");
        for networks in tests.into_values() {
            for (network, vectors) in networks.into_iter().filter(|(name, _)| name != "_info") {
                let spec = chain(&network);
                let vectors: BTreeMap<String, Vector> =
                    serde_json::from_value(vectors).expect("vectors");
                for (name, vector) in vectors {
                    assert!(vector.check(&spec), "{path} {name}");
                    checked += 1;
                }
            }
        }
    });
    if files.is_some() {
        assert_eq!(files, Some(17));
        assert_eq!(checked, 18_598);
    }
}

#[test]
fn difficulty_has_a_floor_and_no_ceiling_to_fall_over() {
    let easy = Header {
        difficulty: MIN_DIFFICULTY,
        ommers_hash: EMPTY_OMMER_ROOT_HASH,
        ..Header::default()
    };
    let hard = Header { difficulty: U256::MAX, number: u64::MAX, ..easy.clone() };
    for network in ["Frontier", "Homestead", "Byzantium", "London"] {
        let spec = chain(network);
        assert_eq!(
            next_difficulty(&rules_at(&spec, 1, 10_000), &easy, 10_000),
            MIN_DIFFICULTY,
            "{network}"
        );
        assert_eq!(next_difficulty(&rules_at(&spec, 1, 1), &hard, 1), U256::MAX, "{network}");
    }
}
