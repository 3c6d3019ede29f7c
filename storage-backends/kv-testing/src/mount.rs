//! Small file systems for tests, which can be full or read-only.

use crate::skipped;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

/// A file system in memory at this path. It is unmounted when the value is dropped.
#[derive(Debug)]
pub struct Mount(pub PathBuf);

impl Mount {
    /// Mounts a file system of this size at `path`, which is created if it is missing. Without the right to mount it reports
    /// that the test is skipped, and returns `None`.
    ///
    /// # Panics
    ///
    /// If the directory cannot be created.
    pub fn new(path: PathBuf, size: &str) -> Option<Self> {
        fs::create_dir_all(&path).expect("create a directory");
        if mount(&["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"], &path) {
            return Some(Self(path));
        }
        skipped("no file system can be mounted here");
        None
    }

    /// Changes options, such as the size.
    ///
    /// # Panics
    ///
    /// If that fails.
    pub fn remount(&self, options: &str) {
        assert!(mount(&["-o", &format!("remount,{options}")], &self.0));
    }
}

fn mount(args: &[&str], path: &Path) -> bool {
    let output = Command::new("mount").args(args).arg(path).output();
    output.is_ok_and(|output| output.status.success())
}

impl Drop for Mount {
    fn drop(&mut self) {
        // It may be in use: a panicking test has files open, and a process that another test starts has copies of this
        // process's files until it runs its program. `-l` takes it away nevertheless.
        let output = Command::new("umount").arg("-l").arg(&self.0).output();
        assert!(output.is_ok_and(|output| output.status.success()) || thread::panicking());
    }
}
