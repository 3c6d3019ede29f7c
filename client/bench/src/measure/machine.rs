//! The machine of a measurement.

use serde::{Deserialize, Serialize};
use std::{fs, thread};

/// Description of the machine; fields are empty or 0 if the system has no figure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Name of the processor.
    pub cpu: String,
    /// Number of cores that this process may use.
    pub cores: usize,
    /// Size of the memory in bytes.
    pub memory_bytes: u64,
    /// Bytes that the control group may use; `None` if there is no limit.
    pub memory_limit_bytes: Option<u64>,
    /// Operating system and its version.
    pub system: String,
}

impl Machine {
    /// Returns the description of this machine.
    pub fn this() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let after = |text: &str, name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.map(|rest| rest.trim_start_matches([' ', '\t', ':']).to_owned())
        };
        let memory = after(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
        let kib: u64 = memory.trim_end_matches(" kB").parse().unwrap_or_default();
        let release = read("/proc/sys/kernel/osrelease");
        Self {
            cpu: after(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
            cores: thread::available_parallelism().map_or(0, usize::from),
            memory_bytes: kib * 1024,
            memory_limit_bytes: read("/sys/fs/cgroup/memory.max").trim().parse().ok(),
            system: format!("{} {}", std::env::consts::OS, release.trim()).trim().to_owned(),
        }
    }
}
