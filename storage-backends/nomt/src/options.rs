//! Settings.

use std::path::PathBuf;

/// What can be set about the layer. Nothing of it changes a commitment.
#[derive(Debug, Clone)]
pub struct NomtOptions {
    /// Bytes of the crate's caches: half for pages of the trie, half for leaves of its values. Whole MiB of each, at
    /// least one. Steps that wait to be committed take as much again, up to 256 MiB.
    pub cache_bytes: usize,
    /// Buckets of 4 KiB that its hash table of pages begins with. It grows by itself; the file has holes where nothing is.
    pub buckets: u32,
    /// Threads that fetch pages and compute the trie, at least one.
    pub threads: usize,
    /// The directory of its files, which is made where it is missing; without one they are in [`Self::temporary`] and go
    /// with the layer.
    pub dir: Option<PathBuf>,
    /// The directory for files that go with the layer.
    pub temporary: PathBuf,
    /// Whether nothing is to be committed. The files of [`Self::dir`] are opened when something asks for the trie.
    pub read_only: bool,
}

impl NomtOptions {
    /// [`Self::cache_bytes`] unless something else is asked for: suits 8 GiB.
    pub const CACHE_BYTES: usize = 512 << 20;
    /// [`Self::buckets`] unless something else is asked for: 4 MiB.
    pub const BUCKETS: u32 = 1_024;
    /// [`Self::threads`] unless something else is asked for: suits two cores.
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
