//! The settings of the layer.

use std::path::PathBuf;

/// The user's settings of the layer. None of them changes a commitment.
#[derive(Debug, Clone)]
pub struct QmdbOptions {
    /// Bytes of the crate's cache for pages of its files. Steps that wait to be committed take as much again. The
    /// index of all keys is in memory in addition.
    pub cache_bytes: usize,
    /// Number of threads that hash, at least one.
    pub threads: usize,
    /// Number of operations in a file of the crate's log, at least one: whole files are pruned. Existing files must
    /// have been created with the same number.
    pub file_operations: u64,
    /// The directory with the directories of the crate's files, which is created if it is missing. If `None`, they
    /// are in [`Self::temporary`] and removed with the layer.
    pub dir: Option<PathBuf>,
    /// The directory for files that are removed with the layer, if [`Self::dir`] is `None`; else such files are in
    /// that one.
    pub temporary: PathBuf,
    /// Whether no blocks come, and the files in [`Self::dir`] must not change. They are copied when the database is
    /// first needed.
    pub read_only: bool,
}

impl QmdbOptions {
    /// The default of [`Self::cache_bytes`]: suits 8 GiB of memory.
    pub const CACHE_BYTES: usize = 256 << 20;
    /// The default of [`Self::threads`]: suits two cores.
    pub const THREADS: usize = 2;
    /// The default of [`Self::file_operations`]: some hundred MB in all, and few files.
    pub const FILE_OPERATIONS: u64 = 1 << 20;
}

impl Default for QmdbOptions {
    fn default() -> Self {
        Self {
            cache_bytes: Self::CACHE_BYTES,
            threads: Self::THREADS,
            file_operations: Self::FILE_OPERATIONS,
            dir: None,
            temporary: std::env::temp_dir(),
            read_only: false,
        }
    }
}
