//! Ommers: headers of blocks off the chain that a later block of the chain may reward.

use super::{
    error::{ConsensusError, OmmerError},
    header::check_header,
};
use alloy_consensus::{Header, Sealed};
use alloy_primitives::B256;
use polytrie_chainspec::Rules;
use std::collections::VecDeque;

/// Greatest number of ommers of a block.
pub const MAX_OMMERS: usize = 2;

/// Number of earlier blocks that matter for a block's ommers: the parent of an ommer must be among them, and the
/// ommer must be neither one of them nor an ommer of one of them.
pub const OMMER_GENERATIONS: usize = 7;

/// The parts of a block that are needed to check the ommers of later blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ancestor {
    /// Header of the block.
    pub header: Sealed<Header>,
    /// Hashes of the block's ommers.
    pub ommers: Vec<B256>,
}

impl Ancestor {
    /// Returns the ancestor for a block that is part of the chain.
    #[must_use]
    pub fn new(header: Sealed<Header>, ommers: &[Header]) -> Self {
        Self { header, ommers: ommers.iter().map(Header::hash_slow).collect() }
    }
}

/// The last [`OMMER_GENERATIONS`] blocks of a chain, up to its head.
///
/// An importer pushes each block that it accepts. After a reorganisation it collects the blocks of the new branch
/// from its store instead, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecentAncestors {
    /// Blocks from the head backwards; each is the parent of the one before it.
    blocks: VecDeque<Ancestor>,
}

impl RecentAncestors {
    /// Returns an empty list, as of a block with unknown ancestors.
    #[must_use]
    pub const fn new() -> Self {
        Self { blocks: VecDeque::new() }
    }

    /// Adds the block that is the head from now on. If the block does not follow the former head, all earlier blocks
    /// are removed.
    pub fn push(&mut self, block: Ancestor) {
        if self.head().is_some_and(|head| head.hash() != block.header.parent_hash) {
            self.blocks.clear();
        }
        self.blocks.truncate(OMMER_GENERATIONS - 1);
        self.blocks.push_front(block);
    }

    /// Returns the head: the block pushed last.
    #[must_use]
    pub fn head(&self) -> Option<&Sealed<Header>> {
        self.blocks.front().map(|block| &block.header)
    }

    /// Whether no block is missing: there are [`OMMER_GENERATIONS`] of them, or they reach back to the genesis
    /// block. While a block is missing, [`check_ommers`] may refuse a valid ommer.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.blocks.len() == OMMER_GENERATIONS
            || self.blocks.back().is_some_and(|oldest| oldest.header.number == 0)
    }

    fn find(&self, hash: B256) -> Option<&Sealed<Header>> {
        self.blocks.iter().map(|block| &block.header).find(|header| header.hash() == hash)
    }

    fn has_ommer(&self, hash: B256) -> bool {
        self.blocks.iter().any(|block| block.ommers.contains(&hash))
    }
}

impl FromIterator<Ancestor> for RecentAncestors {
    /// Collects blocks in the order of the chain, oldest first.
    fn from_iter<I: IntoIterator<Item = Ancestor>>(blocks: I) -> Self {
        let mut recent = Self::new();
        blocks.into_iter().for_each(|block| recent.push(block));
        recent
    }
}

/// Checks the ommers of a block: none after the merge or under Clique, at most two otherwise. Each must be a valid
/// header on top of one of the blocks before the parent (yellow paper, section 11.1), no block of the chain, and not
/// included before.
///
/// `rules` and `header` are those of the block, `ancestors` end with its parent and should be
/// [complete](RecentAncestors::is_complete). A block without ommers costs nothing. [`check_body`](super::check_body)
/// checks that the list has the hash in the header.
///
/// # Errors
///
/// Fails with the first rule that an ommer breaks, or with [`ConsensusError::ParentHash`] if `ancestors` end with
/// another block than the parent.
pub fn check_ommers(
    rules: &Rules<'_>,
    header: &Header,
    ommers: &[Header],
    ancestors: &RecentAncestors,
) -> Result<(), ConsensusError> {
    if ommers.is_empty() {
        return Ok(());
    }
    let hashes = check_ommer_list(rules, ommers)?;
    if let Some(head) = ancestors.head()
        && head.hash() != header.parent_hash
    {
        return Err(ConsensusError::ParentHash {
            found: header.parent_hash,
            expected: head.hash(),
        });
    }
    for (index, (ommer, hash)) in ommers.iter().zip(hashes).enumerate() {
        check_ommer(rules, header, ommer, hash, ancestors)
            .map_err(|source| wrong_ommer(index, hash, source))?;
    }
    Ok(())
}

/// Checks that there are not too many ommers and none twice, which needs no other block. Returns their hashes.
///
/// # Errors
///
/// Fails with the first rule that the list breaks.
pub fn check_ommer_list(rules: &Rules<'_>, ommers: &[Header]) -> Result<Vec<B256>, ConsensusError> {
    let max = if rules.merged || rules.clique().is_some() { 0 } else { MAX_OMMERS };
    if ommers.len() > max {
        return Err(ConsensusError::TooManyOmmers { found: ommers.len(), max });
    }
    let hashes: Vec<B256> = ommers.iter().map(Header::hash_slow).collect();
    let twice = (1..hashes.len()).find(|index| hashes[..*index].contains(&hashes[*index]));
    match twice {
        Some(index) => Err(wrong_ommer(index, hashes[index], OmmerError::AlreadyIncluded)),
        None => Ok(hashes),
    }
}

fn wrong_ommer(index: usize, hash: B256, source: OmmerError) -> ConsensusError {
    ConsensusError::Ommer { index, hash, source: Box::new(source) }
}

fn check_ommer(
    rules: &Rules<'_>,
    header: &Header,
    ommer: &Header,
    hash: B256,
    ancestors: &RecentAncestors,
) -> Result<(), OmmerError> {
    if ancestors.has_ommer(hash) {
        return Err(OmmerError::AlreadyIncluded);
    }
    if ancestors.find(hash).is_some() {
        return Err(OmmerError::IsAncestor);
    }
    let parent = ommer.parent_hash;
    if parent == header.parent_hash {
        return Err(OmmerError::SiblingOfBlock { parent });
    }
    let Some(parent) = ancestors.find(parent) else {
        return Err(OmmerError::UnknownParent { parent, generations: OMMER_GENERATIONS });
    };
    // The parent is an ancestor of a block from before the merge, so the ommer, its child, is not merged either.
    let ommer_rules = rules.spec.rules(ommer.number, ommer.timestamp, false);
    check_header(&ommer_rules, parent, ommer)?;
    Ok(())
}
