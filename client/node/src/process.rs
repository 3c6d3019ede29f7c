//! Figures of the operating system about this process. Only Linux has them.

use serde::{Deserialize, Serialize};
use std::{fs, ops::Sub};

/// Bytes that this process caused to be read from and written to storage devices, by system calls or memory maps,
/// without those from the page cache.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceIo {
    /// Bytes read from devices.
    pub read_bytes: u64,
    /// Bytes written, or queued to be written, to devices.
    pub write_bytes: u64,
}

impl DeviceIo {
    /// Returns the figures so far; `None` if the system has none.
    pub fn now() -> Option<Self> {
        let text = fs::read_to_string("/proc/self/io").ok()?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().parse().ok()
        };
        Some(Self { read_bytes: field("read_bytes:")?, write_bytes: field("write_bytes:")? })
    }
}

impl Sub for DeviceIo {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            write_bytes: self.write_bytes.saturating_sub(earlier.write_bytes),
        }
    }
}

/// Processor time since the machine started, in the system's ticks.
#[derive(Debug, Clone, Copy)]
pub struct ProcessorTime {
    /// Time of all cores, idle or not.
    all: u64,
    /// Time in which cores were busy for any process, and for other virtual machines if the system knows it.
    busy: u64,
    /// Time in which cores were busy for this process and for ended processes that it had started.
    own: u64,
}

impl ProcessorTime {
    /// Returns the times so far; `None` if the system has none.
    pub fn now() -> Option<Self> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let own = fs::read_to_string("/proc/self/stat").ok()?;
        Self::parse(&stat, &own)
    }

    fn parse(stat: &str, own: &str) -> Option<Self> {
        let numbers = |text: &str, skip: usize, count: usize| -> Option<Vec<u64>> {
            let numbers = text.split_whitespace().skip(skip).take(count);
            let numbers: Option<Vec<u64>> = numbers.map(|number| number.parse().ok()).collect();
            numbers.filter(|numbers| numbers.len() == count)
        };
        // user nice system idle iowait irq softirq steal; later fields are part of these.
        let stat = numbers(stat.lines().next()?.strip_prefix("cpu ")?, 0, 8)?;
        let all: u64 = stat.iter().sum();
        // The name in parentheses may hold anything. Eleven fields after it come user and system time of this process,
        // then those of its children.
        let own = numbers(own.rsplit_once(')')?.1, 11, 4)?.iter().sum();
        Some(Self { all, busy: all - stat[3] - stat[4], own })
    }

    /// Returns the part of all processor time since `earlier` that other processes took, from 0 to 1.
    pub fn of_others(&self, earlier: &Self) -> f64 {
        let busy = self.busy.saturating_sub(earlier.busy);
        let others = busy.saturating_sub(self.own.saturating_sub(earlier.own));
        others as f64 / self.all.saturating_sub(earlier.all).max(1) as f64
    }
}

/// Returns the greatest memory of this process so far, in bytes; 0 if the system has no figure.
pub fn peak_rss_bytes() -> u64 {
    status("VmHWM:")
}

/// Returns the memory of this process now, in bytes; 0 if the system has no figure.
pub fn rss_bytes() -> u64 {
    status("VmRSS:")
}

/// Returns the memory that belongs to this process alone, in bytes: without pages of mapped files, which the system
/// takes back when it needs them. 0 if the system has no figure.
pub fn own_rss_bytes() -> u64 {
    status("RssAnon:")
}

/// Returns the memory that processes can still allocate without swapping, in bytes; 0 if the system has no figure.
pub fn available_bytes() -> u64 {
    field("/proc/meminfo", "MemAvailable:")
}

fn status(name: &str) -> u64 {
    field("/proc/self/status", name)
}

fn field(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let kib = line.trim().trim_end_matches("kB").trim_end().parse::<u64>();
    kib.map_or(0, |kib| kib * 1024)
}

#[cfg(all(test, target_os = "linux"))]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn what_others_did_is_left_over() {
        let at = |stat: &str, own: &str| ProcessorTime::parse(stat, own).unwrap();
        let before = at(
            "cpu  100 0 50 1000 20 0 0 0 0 0\ncpu0 1 2",
            "7 (a ) b) S 1 1 1 0 -1 4 9 0 0 0 10 5 20 5 20",
        );
        let after = at(
            "cpu  160 0 70 1100 30 0 0 10 0 0\n",
            "7 (a ) b) S 1 1 1 0 -1 4 9 0 0 0 12 6 57 15 20",
        );
        // 200 ticks passed, 90 of them busy, 50 for this process and its children.
        assert!((after.of_others(&before) - 0.2).abs() < 1e-12);
        assert!(ProcessorTime::parse("intr 5", "7 (a) S").is_none());
        assert!(ProcessorTime::now().is_some());
    }

    #[test]
    fn linux_tells() {
        // The other tests of this process may take memory between two reads, so the peak is read last.
        let own = own_rss_bytes();
        assert!(own > 0 && rss_bytes() > 0 && peak_rss_bytes() >= own);
        assert!(available_bytes() > 0);
    }
}
