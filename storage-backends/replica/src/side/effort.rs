//! The estimate of how much of a trie should be hashed before the block ends.

/// Number of changes that are worth a walk through the trie.
const WORTH_IT: usize = 64;

/// The number of changes of one trie in the block in progress, and in the one before.
///
/// A node that is hashed ahead and changes again is hashed twice. Deep down that is rare: below the depth at which
/// the keys that a block changes all have different prefixes, two of them seldom meet. The number of changes is
/// estimated from the last block.
#[derive(Debug, Default)]
pub(super) struct Effort {
    /// Number of changes in this block.
    changes: usize,
    /// Number of these changes since nodes were last hashed.
    fresh: usize,
    /// Number of changes in the last block.
    before: usize,
}

impl Effort {
    pub(super) const fn add(&mut self, changes: usize) {
        self.changes += changes;
        self.fresh += changes;
    }

    pub(super) const fn changes(&self) -> usize {
        self.changes
    }

    /// Returns the depth from which to hash now, if enough has changed.
    pub(super) fn depth(&mut self) -> Option<usize> {
        if self.fresh < WORTH_IT.max(self.changes / 4) {
            return None;
        }
        self.fresh = 0;
        Some(quiet_depth(self.changes.max(self.before)))
    }

    /// Ends the block.
    pub(super) const fn end(&mut self) {
        *self = Self { changes: 0, fresh: 0, before: self.changes };
    }

    /// Discards the counts of the block, because its hashed nodes are void.
    pub(super) const fn clear(&mut self) {
        *self = Self { changes: 0, fresh: 0, before: self.before };
    }
}

/// Returns the depth at which this many keys have different prefixes, plus one nibble.
const fn quiet_depth(changes: usize) -> usize {
    let mut depth = 2;
    let mut subtrees = 16;
    while subtrees < changes {
        subtrees *= 16;
        depth += 1;
    }
    depth
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_changes_are_quiet_deeper_down() {
        assert_eq!([1, 16, 17, 256, 257, 4096].map(quiet_depth), [2, 2, 3, 3, 4, 4]);
        let mut effort = Effort::default();
        effort.add(63);
        assert_eq!(effort.depth(), None);
        effort.add(1);
        assert_eq!(effort.depth(), Some(3));
        effort.add(1_000);
        assert_eq!(effort.depth(), Some(4));
        effort.add(70);
        assert_eq!(effort.depth(), None, "a quarter of what there is");
        effort.end();
        effort.add(64);
        assert_eq!(effort.depth(), Some(4), "the last block had more");
    }
}
