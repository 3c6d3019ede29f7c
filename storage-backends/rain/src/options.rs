//! What can be set.

/// What the layer lets a user set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RainOptions {
    /// Levels of the account trie that always stay in memory.
    pub retain: usize,
    /// Bytes of nodes to keep in memory beyond what was changed since the last checkpoints and the levels that
    /// always stay.
    pub cache_bytes: usize,
    /// Whether blocks leave undo records. On a witness they cannot: what a wiped contract held is not in it.
    pub undo: bool,
    /// Whether nodes that blocks read from the store are compared with their hashes: where those who keep it are not trusted, as
    /// other machines may not be.
    pub verify: bool,
}

impl Default for RainOptions {
    /// 4 levels, which take up to 60 MB, 1 GiB, undo records, and a store that is trusted.
    fn default() -> Self {
        Self { retain: 4, cache_bytes: 1 << 30, undo: true, verify: false }
    }
}
