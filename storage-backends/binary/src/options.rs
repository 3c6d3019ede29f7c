//! The settings of the layer.

/// The user's settings of the layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BinaryOptions {
    /// Number of levels of the tree in one row. The rows depend on it.
    pub group_depth: GroupDepth,
    /// Bytes of groups to keep in memory.
    pub cache_bytes: usize,
    /// The rows from which accounts and slots are read.
    pub reads: Reads,
    /// Whether flat rows are read ahead on many threads even if the store is fast; no result depends on it.
    pub read_ahead: bool,
}

impl Default for BinaryOptions {
    /// Returns groups of 5 levels, 256 MiB of them in memory, and reads of flat rows.
    fn default() -> Self {
        Self {
            group_depth: GroupDepth::DEFAULT,
            cache_bytes: 256 << 20,
            reads: Reads::Flat,
            read_ahead: false,
        }
    }
}

/// The rows from which accounts and slots are read. Stored rows and results are the same with both.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// The flat rows: one read of the store each.
    #[default]
    Flat,
    /// The tree, group by group, like in a client without flat rows.
    Tree,
}

/// The number of levels of the tree in one row: 1 to 8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GroupDepth(u8);

impl GroupDepth {
    /// The default of 5 levels: rows of 1 to 2 KiB, and the default of go-ethereum's groups.
    pub const DEFAULT: Self = Self(5);

    /// Creates a group depth; `None` if it is not 1 to 8.
    pub const fn new(levels: u8) -> Option<Self> {
        match levels {
            1..=8 => Some(Self(levels)),
            _ => None,
        }
    }

    /// Returns the number of levels.
    pub const fn levels(self) -> u8 {
        self.0
    }

    /// Whether a group begins at this depth.
    pub(crate) const fn begins_at(self, depth: usize) -> bool {
        depth.is_multiple_of(self.0 as usize)
    }
}
