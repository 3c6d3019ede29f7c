//! Payloads that are not in the chain: blocks of other branches, blocks whose parents are missing, and invalid blocks.

use alloy_primitives::{B256, Bytes, map::B256Map};
use alloy_rpc_types_engine::{PayloadStatus, PayloadStatusEnum};
use std::{collections::VecDeque, fmt::Display};

/// Maximum number of invalid blocks that are remembered.
const REFUSED: usize = 4096;
/// Maximum number of characters of a reason that are remembered.
const REASON: usize = 1000;
/// Estimated bytes that a payload takes beside its RLP.
const OVERHEAD: usize = 256;

/// The payloads that are kept, by hash. The oldest are dropped when there is no room.
#[derive(Debug)]
pub(super) struct Tree {
    kept: B256Map<Kept>,
    /// Hashes of the payloads in the order of their arrival.
    order: VecDeque<B256>,
    bytes: usize,
    most: usize,
    refused: B256Map<Refusal>,
    refused_order: VecDeque<B256>,
}

/// A payload that is kept.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    /// Hash of the parent.
    pub(super) parent: B256,
    /// Number of the block.
    pub(super) number: u64,
    /// RLP of the block.
    pub(super) rlp: Bytes,
    /// Whether the block and all its ancestors were executed and found valid.
    is_valid: bool,
}

impl Kept {
    /// Creates a payload that was not executed yet.
    pub(super) const fn new(parent: B256, number: u64, rlp: Bytes) -> Self {
        Self { parent, number, rlp, is_valid: false }
    }

    /// Marks the payload as valid.
    pub(super) fn valid(self) -> Self {
        Self { is_valid: true, ..self }
    }
}

/// The reason for which a payload is invalid.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    /// Hash of the last valid ancestor; zero if that is a block of proof of work.
    latest_valid: B256,
    reason: String,
}

impl Refusal {
    pub(super) fn new(latest_valid: B256, reason: &dyn Display) -> Self {
        let reason = reason.to_string().chars().take(REASON).collect();
        Self { latest_valid, reason }
    }

    /// Returns the refusal of a block whose parent is the refused block `parent`.
    pub(super) fn of_child(&self, parent: &B256) -> Self {
        let reason = match self.reason.starts_with(INHERITED) {
            true => self.reason.clone(),
            false => format!("{INHERITED}{parent}: {}", self.reason),
        };
        Self { latest_valid: self.latest_valid, reason }
    }

    pub(super) fn status(&self) -> PayloadStatus {
        let invalid = PayloadStatusEnum::Invalid { validation_error: self.reason.clone() };
        PayloadStatus::new(invalid, Some(self.latest_valid))
    }
}

/// Start of the reason for which a block is invalid if an ancestor is.
const INHERITED: &str = "it stands on the invalid block ";

impl Tree {
    /// Creates an empty tree that keeps at most `most` bytes.
    pub(super) fn new(most: usize) -> Self {
        Self {
            kept: B256Map::default(),
            order: VecDeque::new(),
            bytes: 0,
            most,
            refused: B256Map::default(),
            refused_order: VecDeque::new(),
        }
    }

    /// Returns the maximum number of bytes that are kept.
    pub(super) const fn most(&self) -> usize {
        self.most
    }

    /// Returns a payload, or `None` if it is not kept.
    pub(super) fn get(&self, hash: &B256) -> Option<&Kept> {
        self.kept.get(hash)
    }

    /// Whether a payload is kept and was found valid.
    pub(super) fn is_valid(&self, hash: &B256) -> bool {
        self.kept.get(hash).is_some_and(|kept| kept.is_valid)
    }

    /// Marks a payload as valid, if it is kept.
    pub(super) fn set_valid(&mut self, hash: &B256) {
        if let Some(kept) = self.kept.get_mut(hash) {
            kept.is_valid = true;
        }
    }

    /// Keeps a payload. The oldest payloads are dropped for it; a payload larger than the whole limit is not kept.
    pub(super) fn keep(&mut self, hash: B256, block: Kept) {
        if let Some(kept) = self.kept.get_mut(&hash) {
            kept.is_valid |= block.is_valid;
            return;
        }
        let bytes = block.rlp.len() + OVERHEAD;
        if bytes > self.most {
            let most = self.most;
            tracing::warn!(
                "payload {hash} takes {bytes} bytes and is not kept: --engine.payloads is {most}"
            );
            return;
        }
        while self.bytes + bytes > self.most
            && let Some(oldest) = self.order.front().copied()
        {
            let most = self.most;
            tracing::warn!(
                "payload {oldest} makes room for others: --engine.payloads is {most} bytes"
            );
            self.forget(&oldest);
        }
        self.kept.insert(hash, block);
        self.order.push_back(hash);
        self.bytes += bytes;
    }

    /// Drops a payload.
    pub(super) fn forget(&mut self, hash: &B256) {
        if let Some(kept) = self.kept.remove(hash) {
            self.bytes -= kept.rlp.len() + OVERHEAD;
            self.order.retain(|other| other != hash);
        }
    }

    /// Returns the hashes of the payloads that lead to `tip`, oldest first, and before them the parent of the first;
    /// `None` if `tip` is not kept.
    pub(super) fn branch_to(&self, tip: &B256) -> Option<(B256, Vec<B256>)> {
        let mut kept = self.kept.get(tip)?;
        let mut branch = vec![*tip];
        while let Some(parent) = self.kept.get(&kept.parent) {
            branch.push(kept.parent);
            kept = parent;
        }
        branch.reverse();
        Some((kept.parent, branch))
    }

    /// Returns the refusal of a block that was refused itself, or descends from a refused one; `None` for other blocks.
    pub(super) fn refusal(&mut self, hash: &B256) -> Option<Refusal> {
        if let Some(known) = self.refused.get(hash) {
            return Some(known.clone());
        }
        let (base, branch) = self.branch_to(hash)?;
        let refusal = self.refused.get(&base)?.of_child(&base);
        for above in branch {
            self.refuse(above, refusal.clone());
        }
        Some(refusal)
    }

    /// Remembers an invalid block, and returns the status to answer.
    pub(super) fn refuse(&mut self, hash: B256, refusal: Refusal) -> PayloadStatus {
        self.forget(&hash);
        let status = refusal.status();
        if self.refused.insert(hash, refusal).is_none() {
            self.refused_order.push_back(hash);
        }
        while self.refused_order.len() > REFUSED {
            if let Some(oldest) = self.refused_order.pop_front() {
                self.refused.remove(&oldest);
            }
        }
        status
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// Returns a block with this number on `parent`, with `bytes` bytes of RLP.
    fn block(number: u64, parent: B256, bytes: usize) -> (B256, Kept) {
        let hash = B256::left_padding_from(&[&[9][..], &number.to_be_bytes()].concat());
        (hash, Kept::new(parent, number, vec![7; bytes].into()))
    }

    #[test]
    fn a_branch_ends_where_nothing_is_kept() {
        let mut tree = Tree::new(1 << 20);
        let base = B256::repeat_byte(1);
        let (one, first) = block(1, base, 0);
        let (two, second) = block(2, one, 0);
        tree.keep(two, second.clone());
        assert_eq!(tree.branch_to(&two).unwrap(), (one, vec![two]));
        assert!(tree.branch_to(&one).is_none());
        tree.keep(one, first.valid());
        assert_eq!(tree.branch_to(&two).unwrap(), (base, vec![one, two]));
        assert!(tree.is_valid(&one) && !tree.is_valid(&two));
        tree.keep(two, second.valid());
        assert!(tree.is_valid(&two));
        tree.forget(&one);
        assert_eq!(tree.branch_to(&two).unwrap(), (one, vec![two]));
    }

    #[test]
    fn the_oldest_makes_room() {
        let blocks = [1, 2, 3].map(|number| block(number, B256::ZERO, 1000));
        let bytes = 1000 + OVERHEAD;
        let mut tree = Tree::new(2 * bytes);
        blocks.iter().for_each(|(hash, block)| tree.keep(*hash, block.clone()));
        let there = blocks.each_ref().map(|(hash, _)| tree.get(hash).is_some());
        assert_eq!(there, [false, true, true]);
        assert_eq!((tree.bytes, tree.order.len()), (2 * bytes, 2));
        // A block larger than the limit pushes no other one out.
        let (hash, large) = block(4, B256::ZERO, 3 * bytes);
        tree.keep(hash, large);
        assert_eq!((tree.bytes, tree.order.len()), (2 * bytes, 2));
    }

    #[test]
    fn what_stands_on_an_invalid_block_is_invalid_for_its_reason() {
        let mut tree = Tree::new(1 << 20);
        let [grandparent, parent, child] = [1, 2, 3].map(B256::repeat_byte);
        let refusal = Refusal::new(grandparent, &"its gas is wrong");
        tree.refuse(parent, refusal.clone());
        let status = tree.refuse(child, refusal.of_child(&parent));
        assert_eq!(status.latest_valid_hash, Some(grandparent));
        let reason = status.status.validation_error().unwrap();
        assert!(reason.contains(&parent.to_string()) && reason.ends_with("its gas is wrong"));
        // The invalid ancestor is named once, however far away it is.
        let further = tree.refusal(&child).unwrap().of_child(&child);
        assert_eq!(further.status().status.validation_error().unwrap(), reason);
        // Descendants that came before the refusal are refused too.
        let (hash, waiting) = block(4, child, 0);
        tree.keep(hash, waiting);
        let found = tree.refusal(&hash).unwrap();
        assert_eq!(found.latest_valid, grandparent);
        assert!(tree.get(&hash).is_none());
        for n in 0..=REFUSED as u64 {
            tree.refuse(B256::left_padding_from(&n.to_be_bytes()), refusal.clone());
        }
        assert!(tree.refusal(&parent).is_none());
        assert_eq!(tree.refused.len(), REFUSED);
    }
}
