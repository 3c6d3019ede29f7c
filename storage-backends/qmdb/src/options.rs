//! Settings.

use std::path::PathBuf;

/// What can be set about the layer. Nothing of it changes a commitment.
#[derive(Debug, Clone)]
pub struct QmdbOptions {
    /// Bytes of the crate's cache for pages of its files. Steps that wait to be committed take as much again. The index of
    /// all keys is in memory beside it.
    pub cache_bytes: usize,
    /// Threads that hash, at least one.
    pub threads: usize,
    /// Operations of a file of its log, at least one: whole files are pruned. Those that are there must have been made with as
    /// many.
    pub file_operations: u64,
    /// The directory that has those of its files, which is made where it is missing; without one they are in
    /// [`Self::temporary`] and go with the layer.
    pub dir: Option<PathBuf>,
    /// The directory for files that go with the layer, if [`Self::dir`] names none; else they lie there.
    pub temporary: PathBuf,
    /// Whether no blocks come, and none of the files in [`Self::dir`] may change. They are copied when something asks for them.
    pub read_only: bool,
}

impl QmdbOptions {
    /// [`Self::cache_bytes`] unless something else is asked for: suits 8 GiB.
    pub const CACHE_BYTES: usize = 256 << 20;
    /// [`Self::threads`] unless something else is asked for: suits two cores.
    pub const THREADS: usize = 2;
    /// [`Self::file_operations`] unless something else is asked for: some hundred MB in all, and few files.
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
