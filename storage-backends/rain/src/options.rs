//! The settings of the layer.

/// The settings of the layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RainOptions {
    /// Number of levels of the account trie that always stay in memory.
    pub retain: usize,
    /// Bytes of nodes to keep in memory, beside those changed since the last checkpoints and the levels that always
    /// stay.
    pub cache_bytes: usize,
    /// Whether blocks leave undo records. On a witness they cannot: what a wiped contract held is not in it.
    pub undo: bool,
    /// Whether the hashes of nodes that blocks read from the store are checked, as they must be where other machines
    /// that are not trusted keep it.
    pub verify: bool,
}

impl Default for RainOptions {
    /// Returns the defaults: 4 levels, which take up to 60 MB; a cache of 1 GiB; undo records; and a store that is
    /// trusted.
    fn default() -> Self {
        Self { retain: 4, cache_bytes: 1 << 30, undo: true, verify: false }
    }
}
