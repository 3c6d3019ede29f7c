//! Memory warm-up between runs, so that each run finds the same conditions.

use polytrie_node::process::available_bytes;
use std::hint::black_box;

/// Least peak that is assumed, which a small run takes: for the first run of all.
const LEAST: u64 = 128 << 20;
/// Most bytes that are written to. Writing more takes long, and the effect matters to short runs only.
const MOST: u64 = 4 << 30;

/// Writes to half as much memory again as an earlier run's `peak` bytes, and frees it: the next run finds memory that
/// was in use a moment ago. `peak` is 0 if there was no run yet.
///
/// Memory that was not used for seconds can cost several times more to touch than memory that was just freed; on a
/// virtual machine the host may have taken it. Otherwise a run would be faster after one that used much memory, and
/// the order of the layers would show in the result.
pub(super) fn warm_memory(peak: u64) {
    let peak = peak.max(LEAST);
    let bytes = (peak + peak / 2).min(MOST).min(available_bytes() / 2);
    let bytes = usize::try_from(bytes).unwrap_or_default();
    let mut memory: Vec<u8> = Vec::new();
    if memory.try_reserve_exact(bytes).is_ok() {
        // The bytes must not be zero: the system gives out zeros without touching memory.
        memory.resize(bytes, 1);
    }
    drop(black_box(memory));
}
