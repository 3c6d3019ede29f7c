//! Mounts small file systems for tests, which can be full or read-only. Tests are skipped without the right to mount.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A file system in memory at this path. It is unmounted when the value is dropped.
pub(crate) struct Mount(pub(crate) PathBuf);

impl Mount {
    /// Mounts a file system of this size. Without the right to mount it prints a message and returns `None`.
    pub(crate) fn new(path: PathBuf, size: &str) -> Option<Self> {
        fs::create_dir(&path).unwrap();
        let options = format!("size={size}");
        if mount(&["-t", "tmpfs", "-o", &options, "tmpfs"], &path) {
            return Some(Self(path));
        }
        polytrie_testing::skipped("no file system can be mounted here");
        None
    }

    pub(crate) fn remount(&self, options: &str) {
        assert!(mount(&["-o", &format!("remount,{options}")], &self.0));
    }
}

fn mount(args: &[&str], path: &Path) -> bool {
    let output = Command::new("mount").args(args).arg(path).output();
    output.is_ok_and(|output| output.status.success())
}

impl Drop for Mount {
    fn drop(&mut self) {
        // It is in use for a moment where another test starts a process, which has copies of this process's files until
        // it runs its program. `-l` takes it away nevertheless.
        let output = Command::new("umount").arg("-l").arg(&self.0).output();
        assert!(output.is_ok_and(|output| output.status.success()));
    }
}
