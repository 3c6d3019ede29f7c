//! Parse, run, exit code; nothing else.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Large pages where the system grants them: the trie's nodes are visited in no order, and with pages of 4 KiB every
/// visit misses the processor's table of pages too.
///
/// `_RJEM_MALLOC_CONF` in the environment is read after it.
// SAFETY: jemalloc reads a pointer to a C string from this symbol, which is what a reference to the first byte of
// bytes that end in a zero is; nothing else has the name.
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static ALLOCATOR_SETTINGS: &u8 = &b"thp:always\0"[0];

fn main() -> ExitCode {
    polytrie::cli::main()
}
