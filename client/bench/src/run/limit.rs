//! The limit of memory of a run.

use super::{BenchError, Result};
use crate::Settings;
use serde::{Deserialize, Serialize};
use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
};

/// Directory of the control groups.
const ROOT: &str = "/sys/fs/cgroup";

/// A limit of memory, and the mechanism that keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryLimit {
    /// Bytes of the program's own memory and of the pages of files that the system keeps for it, together.
    pub bytes: u64,
    /// Mechanism that keeps the limit.
    pub by: Keeper,
}

/// Mechanism that keeps a limit of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keeper {
    /// The system enforces it: each run has its own control group.
    Cgroup,
    /// Only the sizes of caches keep it: a quarter for the layer, a quarter for the engine, and RocksDB reads past
    /// the page cache.
    Budgets,
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mebibytes = self.bytes >> 20;
        match self.by {
            Keeper::Cgroup => {
                write!(f, "at most {mebibytes} MiB, page cache included (control group)")
            }
            Keeper::Budgets => write!(
                f,
                "caches sized for {mebibytes} MiB, but not enforced: the system gives this user no control group"
            ),
        }
    }
}

impl MemoryLimit {
    /// A limit of `bytes`, enforced by a control group if this system lets us make one. Otherwise a
    /// warning is logged.
    pub fn of(bytes: u64) -> Self {
        let by = match Group::create(bytes) {
            Ok(_) => Keeper::Cgroup,
            Err(error) => {
                tracing::warn!(
                    "no control group can be made ({error}); only the sizes of caches keep the limit"
                );
                Keeper::Budgets
            }
        };
        Self { bytes, by }
    }

    /// The settings with at most a quarter of the limit for the caches of the layer, a quarter for those of the
    /// engine, and a sixteenth for the write buffer, of which two may exist at once.
    pub(super) fn bound(&self, settings: Settings) -> Settings {
        let size = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        let Settings { layer, mut engine } = settings;
        engine.cache = Some(engine.cache.map_or(size / 4, |cache| cache.min(size / 4)));
        engine.buffer = Some(engine.store().overlay_bytes.min(size / 16));
        // Without a control group, pages that the system keeps would not count against the limit.
        engine.direct_io |= self.by == Keeper::Budgets;
        Settings { layer: layer.within(size), engine }
    }

    /// Makes the control group for the next run; `None` if only budgets keep the limit.
    pub(super) fn group(&self) -> Result<Option<Group>> {
        match self.by {
            Keeper::Budgets => Ok(None),
            Keeper::Cgroup => Group::create(self.bytes).map(Some).map_err(|source| {
                BenchError::Process { action: "make a control group for a run", source }
            }),
        }
    }
}

/// A control group. It is removed when the value is dropped.
#[derive(Debug)]
pub(super) struct Group(PathBuf);

impl Group {
    fn create(bytes: u64) -> io::Result<Self> {
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let mut last = io::Error::other("the system has no control groups for memory");
        for parent in parents(&own) {
            match Self::under(&parent, bytes) {
                Ok(group) => return Ok(group),
                Err(error) => last = io::Error::other(format!("{}: {error}", parent.display())),
            }
        }
        Err(last)
    }

    fn under(parent: &Path, bytes: u64) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = parent.join(format!("polytrie-bench-{}-{number}", process::id()));
        fs::create_dir(&dir)?;
        let group = Self(dir);
        let has = |name: &str| group.0.join(name).exists();
        let set = |name: &str, bytes: u64| fs::write(group.0.join(name), bytes.to_string());
        if has("memory.max") {
            set("memory.max", bytes)?;
            // Setting it fails on a system without swap, where it is not needed.
            let _ = set("memory.swap.max", 0);
        } else if has("memory.limit_in_bytes") {
            set("memory.limit_in_bytes", bytes)?;
            let _ = set("memory.memsw.limit_in_bytes", bytes);
        } else {
            return Err(io::Error::other("groups there have no limit of memory"));
        }
        Ok(group)
    }

    /// Moves a process into the group.
    pub(super) fn enter(&self, process: u32) -> Result<()> {
        fs::write(self.0.join("cgroup.procs"), process.to_string()).map_err(|error| {
            let advice = "give this user a group of its own (`systemd-run --user --scope -p Delegate=yes`), or leave out --memory-limit";
            let source = io::Error::other(format!("{error}; {advice}"));
            BenchError::Process { action: "put a run into its control group", source }
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The group is empty when its process has ended. Removing one that is not empty fails, which does no harm.
        let _ = fs::remove_dir(&self.0);
    }
}

/// Groups in which a new one may be made: the group of this process, in the memory hierarchy (version 1) or the only
/// one (version 2), and the root of that hierarchy.
fn parents(own: &str) -> Vec<PathBuf> {
    let mut parents = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let root = match controllers {
            "" => PathBuf::from(ROOT),
            list if list.split(',').any(|name| name == "memory") => Path::new(ROOT).join("memory"),
            _ => continue,
        };
        let own = root.join(path.trim_start_matches('/'));
        if own != root {
            parents.push(own);
        }
        parents.push(root);
    }
    parents
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A user may be allowed to make a group, and not to move a process into it.
    #[test]
    fn a_run_that_may_not_enter_says_what_to_do() {
        let error = Group(PathBuf::from("/no/such/group")).enter(1).map_err(|e| e.to_string());
        assert!(error.is_err_and(|text| text.contains("leave out --memory-limit")));
    }

    #[test]
    fn groups_are_found_in_both_versions() {
        let one = "4:memory:/a/b\n3:cpuset:/\n0::/\n";
        let root = Path::new(ROOT);
        assert_eq!(parents(one), [root.join("memory/a/b"), root.join("memory"), root.to_owned()]);
        assert_eq!(parents("0::/user/x\n"), [root.join("user/x"), root.to_owned()]);
        assert!(parents("").is_empty());
    }
}
