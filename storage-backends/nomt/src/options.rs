//! The settings of the layer.

use std::path::PathBuf;

/// The user's settings of the layer. None of them changes a commitment.
#[derive(Debug, Clone)]
pub struct NomtOptions {
    /// Bytes of the crate's caches: half for pages of the trie, half for leaves of its values, in whole MiB of each,
    /// at least one. Steps that wait to be committed take as much again, up to 256 MiB.
    pub cache_bytes: usize,
    /// Number of buckets of 4 KiB that the crate's hash table of pages begins with. It grows by itself; unused parts
    /// of the file are holes.
    pub buckets: u32,
    /// Number of threads that fetch pages and compute the trie, at least one.
    pub threads: usize,
    /// The directory of the crate's files, which is created if it is missing. If `None`, they are in
    /// [`Self::temporary`] and removed with the layer.
    pub dir: Option<PathBuf>,
    /// The directory for files that are removed with the layer.
    pub temporary: PathBuf,
    /// Whether nothing is committed. The files of [`Self::dir`] are opened when the trie is first needed.
    pub read_only: bool,
}

impl NomtOptions {
    /// The default of [`Self::cache_bytes`]: suits 8 GiB of memory.
    pub const CACHE_BYTES: usize = 512 << 20;
    /// The default of [`Self::buckets`]: 4 MiB.
    pub const BUCKETS: u32 = 1_024;
    /// The default of [`Self::threads`]: suits two cores.
    pub const THREADS: usize = 2;
}

impl Default for NomtOptions {
    fn default() -> Self {
        Self {
            cache_bytes: Self::CACHE_BYTES,
            buckets: Self::BUCKETS,
            threads: Self::THREADS,
            dir: None,
            temporary: std::env::temp_dir(),
            read_only: false,
        }
    }
}
