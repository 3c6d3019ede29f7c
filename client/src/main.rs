//! Parse, run, exit code; nothing else.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Freed memory stays with the process for a minute: the next flush or merge takes as much again, and pages that went
/// back to the system cost more than what is done in them. Large pages (`thp:always`) are not asked for: with them reads
/// of a trie are quicker, but on virtual machines the first touch of one takes milliseconds, so that a block in a hundred
/// took four times as long as the others.
///
/// `_RJEM_MALLOC_CONF` in the environment is read after it.
// SAFETY: jemalloc reads a pointer to a C string from this symbol, which is what a reference to the first byte of
// bytes that end in a zero is; nothing else has the name.
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static ALLOCATOR_SETTINGS: &u8 = &b"dirty_decay_ms:60000\0"[0];

fn main() -> ExitCode {
    polytrie::cli::main()
}
