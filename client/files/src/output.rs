//! Writes files so that an incomplete one never has its final name.

use std::{
    fs::{self, TryLockError},
    io::{self, BufWriter, Stdout, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use flate2::{Compression, write::GzEncoder};
use polytrie_kv::disk::{Access, File, parent, remove_file, rename, sync_dir};
use tempfile::NamedTempFile;

use crate::{e2store::BLOCKS_PER_ERA, reader::display_name};
use polytrie_consensus::decode::DecodeError;

const BUFFER: usize = 1 << 20;

/// Number of random characters at the end of a temporary name.
const RANDOM: usize = 6;

/// Error of an export.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A file that cannot be written.
    #[error(
        "{file} cannot be written ({error}); check the path, its permissions, and the free space"
    )]
    Io {
        /// Name of the file.
        file: Arc<str>,
        /// Error of the operating system.
        error: io::Error,
    },
    /// Bytes that are not a block, or not its receipts.
    #[error("what was to be written to {file} as block {number} is not one: {error}")]
    Block {
        /// Name of the file.
        file: Arc<str>,
        /// Number that the block should have.
        number: u64,
        /// Error in the block or the receipts.
        error: DecodeError,
    },
    /// An era1 or ere file that would start at another block than a multiple of 8192.
    #[error(
        "era1 and ere files start at a multiple of {BLOCKS_PER_ERA}, but the export starts at block {start}; \
         start it at block {before}", before = start - start % BLOCKS_PER_ERA
    )]
    Start {
        /// First block of the export.
        start: u64,
    },
    /// An era1 file that would contain blocks after the merge.
    #[error("block {number} is past the merge, where era1 files end; take --format ere{}", before(*first, *number))]
    Merged {
        /// First block of the export.
        first: u64,
        /// First block after the merge.
        number: u64,
    },
    /// Blocks out of order.
    #[error("block {found} came to be written to {file}, but {expected} was next")]
    Order {
        /// Name of the file.
        file: Arc<str>,
        /// Number of the block.
        found: u64,
        /// Number that the block should have.
        expected: u64,
    },
    /// More than 8192 blocks for one file.
    #[error("{file} already has the {BLOCKS_PER_ERA} blocks that an era1 or ere file can hold")]
    Full {
        /// Name of the file.
        file: Arc<str>,
    },
    /// An era1 or ere file without a block, which these formats do not allow.
    #[error("{file} would hold no block, at least one was expected; check the range")]
    Empty {
        /// Name of the file.
        file: Arc<str>,
    },
    /// A directory that has another file of the same epoch.
    #[error(
        "{directory} already holds a file of epoch {epoch}, {other}, and {name} would be another one, of which no import \
         could choose; remove that, or name another directory"
    )]
    Epoch {
        /// Path of the directory.
        directory: String,
        /// Number of the epoch.
        epoch: u64,
        /// Name of the new file.
        name: String,
        /// Name of the file in the directory.
        other: String,
    },
    /// A directory that has a file of another network.
    #[error(
        "{directory} holds {other}, a file of another network than {network}, and no import takes the files of both; name \
         another directory"
    )]
    Network {
        /// Path of the directory.
        directory: String,
        /// Name of the network.
        network: String,
        /// Name of the file in the directory.
        other: String,
    },
}

/// Returns the end of the message about merged blocks: the last block that the file can have, if there is one.
fn before(first: u64, number: u64) -> String {
    if number > first { format!(", or --to {}", number - 1) } else { String::new() }
}

impl ExportError {
    pub(super) fn io(file: &Arc<str>, error: io::Error) -> Self {
        Self::Io { file: Arc::clone(file), error }
    }

    /// Whether the machine failed rather than the request being wrong.
    pub const fn is_io(&self) -> bool {
        matches!(self, Self::Io { .. })
    }
}

/// A file that is being written. It has another name in the same directory until [`finish`](Self::finish). It is
/// compressed if its name ends in `.gz`; `-` is standard output.
///
/// If it is dropped without `finish`, the new file is removed and an existing file of that name stays. What a killed
/// process leaves is removed by the next one that writes to the same path. After `finish` the file survives a loss of
/// power. Devices and pipes are written directly.
pub struct OutputFile {
    name: Arc<str>,
    sink: Sink,
    /// Final path of the file.
    path: PathBuf,
}

enum Sink {
    Plain(BufWriter<Target>),
    Gzip(GzEncoder<BufWriter<Target>>),
}

enum Target {
    /// A file under a temporary name, which is removed unless it gets its final name.
    Beside(NamedTempFile<File>),
    /// A device or a pipe, which a rename would replace.
    Device(fs::File),
    Stdout(Stdout),
}

polytrie_kv::debug_fields!(OutputFile { name });

impl OutputFile {
    /// Starts a file for `path`.
    ///
    /// # Errors
    ///
    /// Fails if the temporary file cannot be created.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, ExportError> {
        let path = path.as_ref();
        if path.as_os_str() == "-" {
            let sink = Sink::new(Target::Stdout(io::stdout()), false);
            return Ok(Self { name: "standard output".into(), sink, path: path.to_owned() });
        }
        let name = display_name(path);
        let gzip = path.extension().is_some_and(|extension| extension == "gz");
        let (target, path) = open(path).map_err(|error| ExportError::io(&name, error))?;
        Ok(Self { name, sink: Sink::new(target, gzip), path })
    }

    /// Returns the name of the file for messages.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Writes all buffered bytes and gives the file its name.
    ///
    /// # Errors
    ///
    /// Fails if some bytes cannot be written; then the file does not exist, or is unchanged.
    pub fn finish(self) -> Result<(), ExportError> {
        let path = self.path.clone();
        self.finish_as(&path)
    }

    /// Writes `text` as the whole content, and finishes the file.
    ///
    /// # Errors
    ///
    /// As those of [`finish`](Self::finish).
    pub fn write_whole(mut self, text: &str) -> Result<(), ExportError> {
        self.write_all(text.as_bytes()).map_err(|error| ExportError::io(&self.name, error))?;
        self.finish()
    }

    /// Does as [`finish`](Self::finish), with another name in the same directory.
    pub(super) fn finish_as(self, path: &Path) -> Result<(), ExportError> {
        let written = self.sink.finish().and_then(|target| match target {
            Target::Beside(file) => {
                file.as_file().sync("output: content")?;
                // The file stays open, and so locked, until it has its name.
                let (_file, temporary) = file.into_parts();
                rename(&temporary, path)?;
                // The file has its final name now, so there is no temporary file to remove.
                let _ = temporary.keep();
                sync_dir(parent(path), "output: name")
            }
            Target::Device(_) | Target::Stdout(_) => Ok(()),
        });
        written.map_err(|error| ExportError::io(&self.name, error))
    }
}

impl Write for OutputFile {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match &mut self.sink {
            Sink::Plain(sink) => sink.write(data),
            Sink::Gzip(sink) => sink.write(data),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.sink {
            Sink::Plain(sink) => sink.flush(),
            Sink::Gzip(sink) => sink.flush(),
        }
    }
}

impl Sink {
    fn new(target: Target, gzip: bool) -> Self {
        let buffered = BufWriter::with_capacity(BUFFER, target);
        if gzip {
            Self::Gzip(GzEncoder::new(buffered, Compression::default()))
        } else {
            Self::Plain(buffered)
        }
    }

    /// Writes all buffered bytes, and returns the target.
    fn finish(self) -> io::Result<Target> {
        let buffered = match self {
            Self::Plain(sink) => sink,
            Self::Gzip(sink) => sink.finish()?,
        };
        let mut target = buffered.into_inner().map_err(io::IntoInnerError::into_error)?;
        target.flush()?;
        Ok(target)
    }
}

impl Target {
    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::Beside(file) => file,
            Self::Device(file) => file,
            Self::Stdout(stdout) => stdout,
        }
    }
}

impl Write for Target {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.writer().write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer().flush()
    }
}

/// Returns the path of the file that is made where links at the end of `path` lead to nothing yet; else `path` itself.
pub fn behind_links(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    while let Err(error) = path.metadata()
        && error.kind() == io::ErrorKind::NotFound
        && let Ok(target) = path.read_link()
    {
        path = parent(&path).join(target);
    }
    path
}

/// Returns the target for a file at `path`, and that path with its links resolved.
fn open(path: &Path) -> io::Result<(Target, PathBuf)> {
    let path = behind_links(path);
    match path.metadata() {
        Ok(meta) if meta.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        // A rename would replace a device or a pipe.
        Ok(meta) if !meta.is_file() => {
            Ok((Target::Device(fs::File::options().write(true).open(&path)?), path))
        }
        // A rename would replace a link.
        Ok(_) => beside(path.canonicalize()?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => beside(path),
        Err(error) => Err(error),
    }
}

fn beside(path: PathBuf) -> io::Result<(Target, PathBuf)> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"));
    };
    let hidden = format!(".{}.partial-", name.to_string_lossy());
    remove_left_over(parent(&path), &hidden);
    let mut builder = tempfile::Builder::new();
    builder.prefix(&hidden).rand_bytes(RANDOM);
    let file = builder.make_in(parent(&path), |path| {
        // The file gets the usual permissions: `tempfile` would make it readable for its owner only.
        let file = File::open(path, Access::CreateNew)?;
        // Another writer may have taken the file for a left one before it was locked: then there is a next name. Where
        // there are no locks, nothing is removed.
        let is_taken = matches!(file.try_lock(), Err(TryLockError::WouldBlock)) || !path.exists();
        if is_taken { Err(io::ErrorKind::AlreadyExists.into()) } else { Ok(file) }
    })?;
    Ok((Target::Beside(file), path))
}

/// Removes what killed processes have left under temporary names that begin with `hidden`. Files that are still being
/// written are locked.
fn remove_left_over(directory: &Path, hidden: &str) {
    // A directory in which files can be created need not be readable.
    for entry in directory.read_dir().into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let random = name.to_str().and_then(|name| name.strip_prefix(hidden));
        let is_temporary = random.is_some_and(|random| {
            random.len() == RANDOM && random.bytes().all(|byte| byte.is_ascii_alphanumeric())
        });
        if !is_temporary || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        // The lock is held until the file is gone. A file that stays does no harm.
        if let Ok(file) = fs::File::options().write(true).open(&path)
            && file.try_lock().is_ok()
        {
            _ = remove_file(&path);
        }
    }
}

/// Writer of blocks as a stream of RLP, one after the other without bytes between them.
#[derive(Debug)]
pub struct RlpWriter {
    out: OutputFile,
    blocks: u64,
}

impl RlpWriter {
    /// Starts a file for `path`; see [`OutputFile`] for `-` and `.gz`.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be created.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, ExportError> {
        Ok(Self { out: OutputFile::create(path)?, blocks: 0 })
    }

    /// Writes the RLP of one block.
    ///
    /// # Errors
    ///
    /// Fails if the block cannot be written.
    pub fn push(&mut self, block: &[u8]) -> Result<(), ExportError> {
        self.out.write_all(block).map_err(|error| ExportError::io(&self.out.name, error))?;
        self.blocks += 1;
        Ok(())
    }

    /// Gives the file its name and returns the number of blocks.
    ///
    /// # Errors
    ///
    /// Fails if some bytes cannot be written.
    pub fn finish(self) -> Result<u64, ExportError> {
        self.out.finish()?;
        Ok(self.blocks)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::fs;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> = directory
            .read_dir()
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn an_unfinished_file_leaves_the_old_one_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("blocks.rlp");
        fs::write(&path, b"old").unwrap();
        let mut writer = RlpWriter::create(&path).unwrap();
        writer.push(b"new").unwrap();
        assert_eq!(names(directory.path()).len(), 2);
        drop(writer);
        assert_eq!(names(directory.path()), ["blocks.rlp"]);
        assert_eq!(fs::read(&path).unwrap(), b"old");

        let mut writer = RlpWriter::create(&path).unwrap();
        writer.push(b"new").unwrap();
        assert_eq!(writer.finish().unwrap(), 1);
        assert_eq!(names(directory.path()), ["blocks.rlp"]);
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn what_a_killed_process_has_left_is_removed_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("blocks.rlp");
        let others =
            [".blocks.rlp.gz.partial-abCD12", ".blocks.rlp.partial-", ".blocks.rlp.partial-a.b.c."];
        for name in others.iter().chain(&[".blocks.rlp.partial-abCD12"]) {
            fs::write(directory.path().join(name), b"left").unwrap();
        }
        let mut first = RlpWriter::create(&path).unwrap();
        first.push(b"first").unwrap();
        assert_eq!(names(directory.path()).len(), others.len() + 1);
        // The first file is still being written.
        let second = RlpWriter::create(&path).unwrap();
        assert_eq!(names(directory.path()).len(), others.len() + 2);
        drop(second);
        first.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"first");
        let mut expected = others.to_vec();
        expected.push("blocks.rlp");
        assert_eq!(names(directory.path()), expected);
    }

    #[cfg(unix)]
    #[test]
    fn links_and_devices_stay_what_they_are() {
        use std::os::unix::fs::{FileTypeExt, symlink};

        let directory = tempfile::tempdir().unwrap();
        let (target, link) = (directory.path().join("target"), directory.path().join("link"));
        symlink("target", &link).unwrap();
        // The target is not there yet, and then it is.
        for content in [b"old", b"new"] {
            let mut writer = RlpWriter::create(&link).unwrap();
            writer.push(content).unwrap();
            writer.finish().unwrap();
            assert!(link.symlink_metadata().unwrap().is_symlink());
            assert_eq!(fs::read(&target).unwrap(), content);
        }

        let mut writer = RlpWriter::create("/dev/null").unwrap();
        writer.push(b"new").unwrap();
        writer.finish().unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_said() {
        let mut writer = RlpWriter::create("/dev/full").unwrap();
        writer.push(b"block").unwrap();
        let error = writer.finish().unwrap_err();
        assert!(error.is_io());
        assert!(error.to_string().starts_with("/dev/full cannot be written"), "{error}");
    }

    #[test]
    fn what_cannot_be_created_is_an_io_error() {
        let directory = tempfile::tempdir().unwrap();
        for path in [directory.path().to_owned(), directory.path().join("missing/blocks.rlp")] {
            assert!(RlpWriter::create(path).unwrap_err().is_io());
        }
    }
}
