//! The entry point: it calls the command line of the library and returns its exit code.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The settings of jemalloc. Freed memory stays with the process for a minute: the next flush or merge takes as much
/// again, and pages that went back to the system cost more than the work that is done in them. Large pages
/// (`thp:always`) are not asked for: with them reads of a trie are quicker, but on virtual machines the first touch
/// of one takes milliseconds, so that one block in a hundred took four times as long as the others.
///
/// jemalloc reads `_RJEM_MALLOC_CONF` in the environment after these settings.
// SAFETY: jemalloc reads a pointer to a C string from this symbol. A reference to the first byte of a string that
// ends in a zero is such a pointer, and no other symbol has the name.
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static ALLOCATOR_SETTINGS: &u8 = &b"dirty_decay_ms:60000\0"[0];

fn main() -> ExitCode {
    polytrie::cli::main()
}
