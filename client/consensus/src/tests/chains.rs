//! Real chains, with every block put through all checks that need no execution.

use crate::{
    Ancestor, OMMER_GENERATIONS, RecentAncestors, check_body, check_header, check_ommers,
    tests::chain_files::{era1_blocks, rlp_blocks},
};
use alloy_consensus::{Block, Sealable, TxEnvelope};
use alloy_primitives::{B256, U256, b256, map::HashMap};
use polytrie_chainspec::ChainSpec;
use polytrie_testing::fixture;

/// All blocks of a chain that were added, on every branch, each with its total difficulty.
#[derive(Debug)]
pub(super) struct Tree<'a> {
    spec: &'a ChainSpec,
    blocks: HashMap<B256, (Ancestor, U256)>,
}

impl<'a> Tree<'a> {
    /// Creates a tree that holds the genesis block alone.
    pub(super) fn new(spec: &'a ChainSpec) -> Self {
        let genesis = spec.genesis_header().clone();
        let entry = (Ancestor::new(genesis.clone(), &[]), genesis.difficulty);
        Self { spec, blocks: [(genesis.hash(), entry)].into_iter().collect() }
    }

    /// Checks a block and adds it. Returns its hash and total difficulty, or the reason why it is
    /// invalid.
    pub(super) fn add(&mut self, block: &Block<TxEnvelope>) -> Result<(B256, U256), String> {
        let header = block.header.clone().seal_slow();
        let Some((parent, difficulty)) = self.blocks.get(&header.parent_hash) else {
            return Err(format!("no block {}", header.parent_hash));
        };
        let merged = self.spec.is_merged_after(*difficulty);
        let rules = self.spec.rules(header.number, header.timestamp, merged);
        check_header(&rules, &parent.header, &header)
            .and_then(|()| check_body(&rules, block))
            .and_then(|()| {
                check_ommers(
                    &rules,
                    &header,
                    &block.body.ommers,
                    &self.ancestors(header.parent_hash),
                )
            })
            .map_err(|error| error.to_string())?;
        let total = difficulty + header.difficulty;
        let hash = header.hash();
        self.blocks.insert(hash, (Ancestor::new(header, &block.body.ommers), total));
        Ok((hash, total))
    }

    /// Removes a block that a later check found invalid.
    pub(super) fn remove(&mut self, hash: B256) {
        self.blocks.remove(&hash);
    }

    fn ancestors(&self, mut hash: B256) -> RecentAncestors {
        let mut blocks = Vec::new();
        while blocks.len() < OMMER_GENERATIONS
            && let Some((block, _)) = self.blocks.get(&hash)
        {
            hash = block.header.parent_hash;
            blocks.push(block.clone());
        }
        blocks.into_iter().rev().collect()
    }

    /// Adds the blocks of a file except genesis and returns the hash of the last one.
    fn follow(&mut self, blocks: &[Block<TxEnvelope>]) -> B256 {
        let mut head = self.spec.genesis_hash();
        for block in blocks.iter().filter(|block| block.header.number > 0) {
            match self.add(block) {
                Ok((hash, _)) => head = hash,
                Err(error) => panic!("block {}: {error}", block.header.number),
            }
        }
        head
    }
}

/// Checks that the blocks of a file lead from the genesis of `chain` (a name, or a path among the
/// fixtures) to `head`. Returns the number of their ommers, or `None` if a fixture is absent.
fn follows(chain: &str, file: &str, head: B256) -> Option<usize> {
    let blocks = rlp_blocks(file)?;
    let spec = if chain.ends_with(".json") {
        ChainSpec::load(&fixture(chain)?.to_string_lossy()).expect(chain)
    } else {
        ChainSpec::load(chain).expect(chain)
    };
    assert_eq!(Tree::new(&spec).follow(&blocks), head, "{file}");
    Some(blocks.iter().map(|block| block.body.ommers.len()).sum())
}

#[test]
fn mainnet_s_first_thousand() {
    let head = b256!("c31b362e591aa07faa977dbc492ae43cd47eef291920435153bbbf3acaf2fc2f");
    follows("mainnet", "chains/frontier-1000/1000.blocks", head);
}

#[test]
fn every_fork_from_frontier_to_muir_glacier() {
    let head = b256!("8e8dfbabab379f2459d97ac3ec2c0ccfbbe920edc5c19043b89dc94f9ec2f707");
    follows("chains/condense/foundation.conf.json", "chains/condense/export.rlp.gz", head);
}

#[test]
fn every_fork_from_shanghai_to_prague() {
    let head = b256!("44e3809c9a3cda717f00aea3a9da336d149612c8d5657fbc0028176ef8d94d2a");
    follows("chains/ethtest/genesis.json", "chains/ethtest/chain.rlp", head);
}

#[test]
fn every_fork_from_frontier_to_osaka() {
    let head = b256!("d226371d0b1551adb03fb52b71f08e3e11247fe9b1af994768af8cdaa8e7dcd7");
    let ommers = follows("chains/rpc-compat/genesis.json", "chains/rpc-compat/chain.rlp", head);
    assert!(ommers.is_none_or(|ommers| ommers == 18), "{ommers:?}");
}

#[test]
fn london_with_a_fixed_difficulty() {
    let head = b256!("03290a909cff32be9ce85f27c50570e9a94212dfb212c15f7a15cbdda70a7abc");
    follows(
        "chains/london/testLondonGenesis.json",
        "chains/london/testLondonBlockchain.blocks",
        head,
    );
}

#[test]
fn two_branches_of_a_fork() {
    for branch in ["outdated", "upgraded"] {
        let (Some(common), Some(blocks), Some(genesis)) = (
            rlp_blocks("chains/fork/common.blocks"),
            rlp_blocks(&format!("chains/fork/fork-{branch}.blocks")),
            fixture(&format!("chains/fork/genesis-{branch}.json")),
        ) else {
            return;
        };
        let spec = ChainSpec::load(&genesis.to_string_lossy()).expect(branch);
        let mut tree = Tree::new(&spec);
        tree.follow(&common);
        let head = tree.follow(&blocks).to_string();
        let expected = if branch == "outdated" { "0xfee4cb23" } else { "0xba10c781" };
        assert!(head.starts_with(expected), "{head}");
    }
}

/// A block that only has a wrong seal passes, because the seal is not checked.
#[test]
fn a_wrong_seal_passes() {
    let (Some(common), Some(wrong)) = (
        rlp_blocks("chains/frontier-1000/1000.blocks"),
        rlp_blocks("chains/frontier-1000/badpow.blocks"),
    ) else {
        return;
    };
    let spec = ChainSpec::load("mainnet").expect("mainnet");
    let mut tree = Tree::new(&spec);
    tree.follow(&common);
    tree.follow(&wrong);
}

fn era1_follows(chain: &str, files: &[&str], head: B256, ommers: usize) {
    let spec = ChainSpec::load(chain).expect(chain);
    let mut tree = Tree::new(&spec);
    let (mut last, mut found) = (spec.genesis_hash(), 0);
    for file in files {
        let Some(blocks) = era1_blocks(file) else {
            return;
        };
        assert_eq!(blocks.len(), 8192);
        for (block, total) in blocks.iter().filter(|(block, _)| block.header.number > 0) {
            let (hash, difficulty) = tree.add(block).unwrap_or_else(|error| {
                panic!("{file}: block {}: {error}", block.header.number);
            });
            assert_eq!(difficulty, *total, "{file}: block {}", block.header.number);
            last = hash;
            found += block.body.ommers.len();
        }
    }
    assert_eq!((last, found), (head, ommers), "{chain}");
}

#[test]
fn mainnet_s_first_era() {
    let head = b256!("a6860fefa339c963e1bb622526cc8dd4344eedd2a9b969e74de5cccc445fbed4");
    era1_follows("mainnet", &["era1/mainnet-00000-5ec1ffb8.era1"], head, 1410);
}

#[test]
fn sepolia_s_first_two_eras() {
    let head = b256!("c78ee2bdde8cab9c2c3d23214f2dbc6a4ab63fefa2510b12004bfa9538f2f442");
    let files = ["era1/sepolia-00000-643a00f7.era1", "era1/sepolia-00001-f3ea493e.era1"];
    era1_follows("sepolia", &files, head, 0);
}
