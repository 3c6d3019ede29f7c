//! What the operating system knows about this process. Linux tells; elsewhere there is nothing to report.

use serde::{Deserialize, Serialize};
use std::{fs, ops::Sub};

/// Bytes that this process caused to be read from and written to storage devices, by system calls or through memory
/// maps, past the page cache.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceIo {
    /// Read from devices.
    pub read_bytes: u64,
    /// Written, or to be written, to devices.
    pub write_bytes: u64,
}

impl DeviceIo {
    /// So far; `None` where the system does not tell.
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

/// The most memory this process ever held, in bytes; 0 where the system does not tell.
pub fn peak_rss_bytes() -> u64 {
    status("VmHWM:")
}

/// The memory this process holds now, in bytes; 0 where the system does not tell.
pub fn rss_bytes() -> u64 {
    status("VmRSS:")
}

/// The memory this process holds now that belongs to it alone, in bytes: not the pages of files it has mapped, which
/// the system takes back when it needs them. 0 where the system does not tell.
pub fn own_rss_bytes() -> u64 {
    status("RssAnon:")
}

fn status(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let kib = line.trim().trim_end_matches("kB").trim_end().parse::<u64>();
    kib.map_or(0, |kib| kib * 1024)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn linux_tells() {
        assert!(peak_rss_bytes() >= own_rss_bytes() && own_rss_bytes() > 0 && rss_bytes() > 0);
    }
}
