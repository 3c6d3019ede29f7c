//! Memory warm-up between runs, so that each run finds the same conditions.

use crate::measure::Machine;
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
    let limit = Machine::this().memory_limit_bytes;
    let bytes = usize::try_from(touched(peak, available_bytes(), limit)).unwrap_or_default();
    let mut memory: Vec<u8> = Vec::new();
    if memory.try_reserve_exact(bytes).is_ok() {
        // The bytes must not be zero: the system gives out zeros without touching memory.
        memory.resize(bytes, 1);
    }
    drop(black_box(memory));
}

/// Returns the number of bytes to write to: at most half of what is available, and of the `limit` of the control group, beyond
/// which the system would kill this process.
fn touched(peak: u64, available: u64, limit: Option<u64>) -> u64 {
    let peak = peak.max(LEAST);
    (peak + peak / 2).min(MOST).min(available.min(limit.unwrap_or(u64::MAX)) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_touched_than_there_is() {
        const GIB: u64 = 1 << 30;
        assert_eq!(touched(0, 64 * GIB, None), LEAST + LEAST / 2);
        assert_eq!(touched(2 * GIB, 64 * GIB, None), 3 * GIB);
        assert_eq!(touched(8 * GIB, 64 * GIB, None), MOST);
        assert_eq!(touched(2 * GIB, 4 * GIB, None), 2 * GIB);
        // The system counts the memory of the whole machine as available, whatever the control group may use.
        assert_eq!(touched(2 * GIB, 64 * GIB, Some(3 * GIB)), 3 * GIB / 2);
        assert_eq!(touched(2 * GIB, 0, None), 0);
    }
}
