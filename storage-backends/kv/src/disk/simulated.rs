//! Where a test puts a disk of its own in the place of the real one.

use std::{
    fmt::Debug,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use parking_lot::RwLock;

/// A disk that is told of everything that is done to the files below a directory, before it is done, and may refuse it.
///
/// The files themselves are real ones, so a reader sees them as a process sees what it wrote. What such a disk knows
/// besides is what of them would outlive a loss of power.
pub trait SimulatedDisk: Debug + Send + Sync {
    /// A file is opened; returns by what later calls name it.
    ///
    /// # Errors
    ///
    /// If the disk refuses it.
    fn open(&self, path: &Path, access: Access) -> io::Result<u64>;

    /// Bytes are written to a file; returns how many of them the disk takes.
    ///
    /// # Errors
    ///
    /// If it takes none.
    fn write(&self, file: u64, at: u64, bytes: &[u8]) -> io::Result<usize>;

    /// Something else is done.
    ///
    /// # Errors
    ///
    /// If the disk refuses it.
    fn act(&self, action: Action<'_>) -> io::Result<()>;
}

/// For what a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To be read; it must be there.
    Read,
    /// To be read and written; it must be there.
    Edit,
    /// To be read and written; it is made if it is not there.
    Append,
    /// To be written from its beginning; it is made, or emptied.
    Create,
    /// To be written; it must not be there.
    CreateNew,
    /// As [`Self::CreateNew`], and nobody but its owner may read it.
    CreateSecret,
}

/// What is done to files and names, but for opening and writing.
#[derive(Debug, Clone, Copy)]
pub enum Action<'a> {
    /// Bytes of a file are read.
    Read(u64),
    /// A file is cut, or grows by zeros.
    SetLength(u64, u64),
    /// What was written to a file becomes durable. The name is that of the place in the code.
    Sync(u64, &'static str),
    /// The names in a directory become durable. The name is that of the place in the code.
    SyncDir(&'a Path, &'static str),
    /// A file gets another name, and what has that name goes.
    Rename(&'a Path, &'a Path),
    /// A file is removed.
    Remove(&'a Path),
    /// A directory is made.
    CreateDir(&'a Path),
}

/// So many disks are mounted: in a program none ever is, and then nothing else is looked at.
static MOUNTED: AtomicUsize = AtomicUsize::new(0);
static MOUNTS: RwLock<Vec<(PathBuf, Arc<dyn SimulatedDisk>)>> = RwLock::new(Vec::new());

/// Has a disk stand in for the real one below a directory, for as long as it lives. For tests.
#[derive(Debug)]
pub struct Mount {
    root: PathBuf,
}

impl Mount {
    /// Mounts it.
    pub fn new(root: &Path, disk: Arc<dyn SimulatedDisk>) -> Self {
        MOUNTS.write().push((root.to_owned(), disk));
        MOUNTED.fetch_add(1, Relaxed);
        Self { root: root.to_owned() }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        MOUNTED.fetch_sub(1, Relaxed);
        MOUNTS.write().retain(|(root, _)| *root != self.root);
    }
}

/// The disk that stands in for the real one at this path.
pub(super) fn mounted(path: &Path) -> Option<Arc<dyn SimulatedDisk>> {
    if MOUNTED.load(Relaxed) == 0 {
        return None;
    }
    let mounts = MOUNTS.read();
    mounts.iter().find(|(root, _)| path.starts_with(root)).map(|(_, disk)| Arc::clone(disk))
}

/// Tells the disk that stands in for the real one at this path, if there is one.
pub(super) fn tell(path: &Path, action: Action<'_>) -> io::Result<()> {
    mounted(path).map_or(Ok(()), |disk| disk.act(action))
}
