//! Memory as every run finds it.

use polytrie_node::process::available_bytes;
use std::hint::black_box;

/// What a small run takes, for the first of all.
const LEAST: u64 = 128 << 20;
/// More than this is not written to: it takes time, and what it evens out matters to short runs.
const MOST: u64 = 4 << 30;

/// Writes to more memory than a run takes that peaked at `peak` bytes, and gives it back: the next run finds memory that
/// was in use a moment ago. 0 if no run was measured yet.
///
/// Memory that was not used for seconds can cost several times more to touch than memory that was just given back; on a
/// virtual machine the host may have taken it. A run would be faster for coming after one that used much memory, and
/// the order of the layers would show in the result.
pub(super) fn warm_memory(peak: u64) {
    let peak = peak.max(LEAST);
    let bytes = (peak + peak / 2).min(MOST).min(available_bytes() / 2);
    let bytes = usize::try_from(bytes).unwrap_or_default();
    let mut memory: Vec<u8> = Vec::new();
    if memory.try_reserve_exact(bytes).is_ok() {
        // Not zeros: those the system gives away without touching memory.
        memory.resize(bytes, 1);
    }
    drop(black_box(memory));
}
