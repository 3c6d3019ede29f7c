//! The interface by which a test puts a simulated disk in the place of the real one.

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

/// A simulated disk. It hears of every action on files below a directory before the action happens, and may refuse
/// it.
///
/// The files themselves are real ones, so a reader sees them as a process sees its own writes. In addition such a
/// disk knows which part of them would outlive a loss of power.
pub trait SimulatedDisk: Debug + Send + Sync {
    /// Notes that a file is opened. Returns the number by which later calls name it.
    ///
    /// # Errors
    ///
    /// If the disk refuses it.
    fn open(&self, path: &Path, access: Access) -> io::Result<u64>;

    /// Notes that bytes are written to a file at offset `at`. Returns how many of them the disk takes.
    ///
    /// # Errors
    ///
    /// If the disk takes none.
    fn write(&self, file: u64, at: u64, bytes: &[u8]) -> io::Result<usize>;

    /// Notes any other action.
    ///
    /// # Errors
    ///
    /// If the disk refuses it.
    fn act(&self, action: Action<'_>) -> io::Result<()>;
}

/// The purpose for which a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading; the file must be there.
    Read,
    /// Reading and writing; the file must be there.
    Edit,
    /// Reading and writing; the file is created if it is not there.
    Append,
    /// Writing from the beginning; the file is created, or emptied.
    Create,
    /// Writing; the file must not be there.
    CreateNew,
    /// Like [`Self::CreateNew`], and only the owner may read the file.
    CreateSecret,
}

/// An action on files and names, other than opening and writing.
#[derive(Debug, Clone, Copy)]
pub enum Action<'a> {
    /// Bytes of a file are read.
    Read(u64),
    /// A file is cut to a length, or extended with zeros.
    SetLength(u64, u64),
    /// The bytes written to a file become durable. The name is that of the call in the code.
    Sync(u64, &'static str),
    /// The names in a directory become durable. The name is that of the call in the code.
    SyncDir(&'a Path, &'static str),
    /// A file is renamed, and replaces any file of the new name.
    Rename(&'a Path, &'a Path),
    /// A file is removed.
    Remove(&'a Path),
    /// A directory is created.
    CreateDir(&'a Path),
}

/// Number of mounted disks. Outside tests it is 0, and then nothing else is looked at.
static MOUNTED: AtomicUsize = AtomicUsize::new(0);
static MOUNTS: RwLock<Vec<(PathBuf, Arc<dyn SimulatedDisk>)>> = RwLock::new(Vec::new());

/// The mount of a simulated disk in the place of the real one below a directory, until this value is dropped. For
/// tests.
#[derive(Debug)]
pub struct Mount {
    root: PathBuf,
}

impl Mount {
    /// Mounts `disk` at `root` and everything below it.
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

/// Reports an action to the simulated disk that stands in for the real one at this path, if there is one.
pub(super) fn tell(path: &Path, action: Action<'_>) -> io::Result<()> {
    mounted(path).map_or(Ok(()), |disk| disk.act(action))
}
