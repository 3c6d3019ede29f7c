//! A file with content that must outlive a loss of power.

use super::simulated::{Access, Action, SimulatedDisk, mounted};
use std::{
    fs::{self, Metadata, OpenOptions, TryLockError},
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
    sync::Arc,
};

/// A file of the operating system, or a file on a disk that a test [mounts](super::Mount).
#[derive(Debug)]
pub struct File {
    file: fs::File,
    /// The disk that stands in for the real one, and its number for this file.
    disk: Option<(Arc<dyn SimulatedDisk>, u64)>,
}

impl File {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub fn open(path: &Path, access: Access) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        match access {
            Access::Read => options.read(true),
            Access::Edit => options.read(true).write(true),
            Access::Append => options.read(true).write(true).create(true).truncate(false),
            Access::Create => options.write(true).create(true).truncate(true),
            Access::CreateNew => options.write(true).create_new(true),
            Access::CreateSecret => for_its_owner(&mut options).write(true).create_new(true),
        };
        let disk = match mounted(path) {
            Some(disk) => {
                let file = disk.open(path, access)?;
                Some((disk, file))
            }
            None => None,
        };
        Ok(Self { file: options.open(path)?, disk })
    }

    /// Returns the metadata of the file.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }

    /// Locks the file until it is closed.
    ///
    /// # Errors
    ///
    /// If it is locked already, or the file system has no locks.
    pub fn try_lock(&self) -> Result<(), TryLockError> {
        self.file.try_lock()
    }

    /// Cuts the file to `length` bytes, or extends it with zeros.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub fn set_len(&self, length: u64) -> io::Result<()> {
        if let Some((disk, file)) = &self.disk {
            disk.act(Action::SetLength(*file, length))?;
        }
        self.file.set_len(length)
    }

    /// Makes the bytes written to the file durable, but not its name. `place` names the call in the code, for tests
    /// that leave out one sync; no two calls share a name.
    ///
    /// # Errors
    ///
    /// The error of the operating system. Bytes written since the last sync may then never become durable, even if a
    /// later sync succeeds: they must be written again.
    pub fn sync(&self, place: &'static str) -> io::Result<()> {
        match &self.disk {
            Some((disk, file)) => disk.act(Action::Sync(*file, place)),
            // This makes its length durable as well; no other metadata is needed.
            None => self.file.sync_data(),
        }
    }
}

/// Lets only the owner read the file that is created, from the first moment on.
#[cfg(unix)]
fn for_its_owner(options: &mut OpenOptions) -> &mut OpenOptions {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600)
}

#[cfg(not(unix))]
fn for_its_owner(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some((disk, file)) = &self.disk {
            disk.act(Action::Read(*file))?;
        }
        self.file.read(buffer)
    }
}

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some((disk, file)) = &self.disk else { return self.file.write(bytes) };
        let taken = disk.write(*file, self.file.stream_position()?, bytes)?;
        self.file.write_all(&bytes[..taken])?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}
