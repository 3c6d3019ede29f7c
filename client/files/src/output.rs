//! Writing files so that an unfinished one never stands under its final name.

use std::{
    fmt, fs,
    io::{self, BufWriter, Stdout, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use flate2::{Compression, write::GzEncoder};
use polytrie_kv::disk::{Access, File, parent, rename, sync_dir};
use tempfile::NamedTempFile;

use crate::{e2store::BLOCKS_PER_ERA, reader::display_name};
use polytrie_consensus::decode::DecodeError;

const BUFFER: usize = 1 << 20;

/// Why an export did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The file cannot be written.
    #[error(
        "{file} cannot be written ({error}); check the path, its permissions, and the free space"
    )]
    Io {
        /// The file.
        file: Arc<str>,
        /// What the operating system said.
        error: io::Error,
    },
    /// What was to be written is not a block, or not its receipts.
    #[error("what was to be written to {file} as block {number} is not one: {error}")]
    Block {
        /// The file.
        file: Arc<str>,
        /// The number it should have.
        number: u64,
        /// What is wrong with it.
        error: DecodeError,
    },
    /// A file of blocks and receipts that would start in the middle.
    #[error(
        "era1 and ere files start at a multiple of {BLOCKS_PER_ERA}, but the export starts at block {start}; \
         start it at block {before}", before = start - start % BLOCKS_PER_ERA
    )]
    Start {
        /// The first block asked for.
        start: u64,
    },
    /// An era1 file that would go beyond the merge.
    #[error("block {number} is past the merge, where era1 files end; take --format ere{}", before(*first, *number))]
    Merged {
        /// The first block asked for.
        first: u64,
        /// The first one past the merge.
        number: u64,
    },
    /// Blocks out of order.
    #[error("block {found} came to be written to {file}, but {expected} was next")]
    Order {
        /// The file.
        file: Arc<str>,
        /// The block that came.
        found: u64,
        /// The block that was next.
        expected: u64,
    },
    /// More than 8192 blocks for one file.
    #[error("{file} already has the {BLOCKS_PER_ERA} blocks that an era1 or ere file can hold")]
    Full {
        /// The file.
        file: Arc<str>,
    },
    /// No block at all, which an era1 or ere file cannot express.
    #[error("{file} would hold no block, at least one was expected; check the range")]
    Empty {
        /// The file.
        file: Arc<str>,
    },
    /// The directory has a file of that epoch already.
    #[error(
        "{directory} already holds a file of epoch {epoch}, {other}, and {name} would be another one, of which no import \
         could choose; remove that, or name another directory"
    )]
    Epoch {
        /// The directory.
        directory: String,
        /// The epoch.
        epoch: u64,
        /// The file that was to be written.
        name: String,
        /// The file that is there.
        other: String,
    },
}

/// What else can be done where a block is the first that cannot be written.
fn before(first: u64, number: u64) -> String {
    if number > first { format!(", or --to {}", number - 1) } else { String::new() }
}

impl ExportError {
    pub(super) fn io(file: &Arc<str>, error: io::Error) -> Self {
        Self::Io { file: Arc::clone(file), error }
    }

    /// Whether the machine failed, rather than what was asked being wrong.
    pub const fn is_io(&self) -> bool {
        matches!(self, Self::Io { .. })
    }
}

/// A file that is being written: under another name beside it until [`finish`](Self::finish), compressed
/// if its name ends in `.gz`, standard output if it is `-`.
///
/// Dropped without `finish`, it leaves nothing behind, and a file that was there before stays. After `finish` it outlives a
/// loss of power.
/// Devices and pipes are written directly.
pub struct OutputFile {
    name: Arc<str>,
    sink: Sink,
    /// The name it gets.
    path: PathBuf,
}

enum Sink {
    Plain(BufWriter<Target>),
    Gzip(GzEncoder<BufWriter<Target>>),
}

enum Target {
    /// A file under another name, which goes unless it gets its own.
    Beside(NamedTempFile<File>),
    /// What cannot be replaced.
    Device(fs::File),
    Stdout(Stdout),
}

impl fmt::Debug for OutputFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputFile").field("name", &self.name).finish_non_exhaustive()
    }
}

impl OutputFile {
    /// Starts writing to `path`.
    ///
    /// # Errors
    ///
    /// If the file beside it cannot be created.
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

    /// The file as messages name it.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Writes out everything and gives the file its name.
    ///
    /// # Errors
    ///
    /// If something could not be written; then the file does not exist, or is what it was before.
    pub fn finish(self) -> Result<(), ExportError> {
        let path = self.path.clone();
        self.finish_as(&path)
    }

    /// As [`finish`](Self::finish), under another name in the same directory.
    pub(super) fn finish_as(self, path: &Path) -> Result<(), ExportError> {
        let written = self.sink.finish().and_then(|target| match target {
            Target::Beside(file) => {
                file.as_file().sync("output: content")?;
                let (_, temporary) = file.into_parts();
                rename(&temporary, path)?;
                // It has that name now, and there is nothing left to remove.
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

    /// Writes out what is buffered, and gives back where it went.
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

/// Where to write what is to stand at `path`, and that path without links.
fn open(path: &Path) -> io::Result<(Target, PathBuf)> {
    match path.metadata() {
        Ok(meta) if meta.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        // Renaming over a device or a pipe would replace it.
        Ok(meta) if !meta.is_file() => {
            Ok((Target::Device(fs::File::options().write(true).open(path)?), path.to_owned()))
        }
        // Renaming over a link would replace the link.
        Ok(_) => beside(path.canonicalize()?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => beside(path.to_owned()),
        Err(error) => Err(error),
    }
}

fn beside(path: PathBuf) -> io::Result<(Target, PathBuf)> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"));
    };
    let hidden = format!(".{}.partial-", name.to_string_lossy());
    let mut builder = tempfile::Builder::new();
    builder.prefix(&hidden);
    // As any other file: only what is temporary for good is for its owner alone.
    let file = builder.make_in(parent(&path), |path| File::open(path, Access::CreateNew))?;
    Ok((Target::Beside(file), path))
}

/// Writes blocks as a stream of RLP, one after the other with nothing between.
#[derive(Debug)]
pub struct RlpWriter {
    out: OutputFile,
    blocks: u64,
}

impl RlpWriter {
    /// Starts writing to `path`; see [`OutputFile`] for `-` and `.gz`.
    ///
    /// # Errors
    ///
    /// If the file cannot be created.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, ExportError> {
        Ok(Self { out: OutputFile::create(path)?, blocks: 0 })
    }

    /// Writes the RLP of one block.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn push(&mut self, block: &[u8]) -> Result<(), ExportError> {
        self.out.write_all(block).map_err(|error| ExportError::io(&self.out.name, error))?;
        self.blocks += 1;
        Ok(())
    }

    /// Gives the file its name and returns how many blocks it has.
    ///
    /// # Errors
    ///
    /// If not everything could be written.
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

    #[cfg(unix)]
    #[test]
    fn links_and_devices_stay_what_they_are() {
        use std::os::unix::fs::{FileTypeExt, symlink};

        let directory = tempfile::tempdir().unwrap();
        let (target, link) = (directory.path().join("target"), directory.path().join("link"));
        fs::write(&target, b"old").unwrap();
        symlink(&target, &link).unwrap();
        let mut writer = RlpWriter::create(&link).unwrap();
        writer.push(b"new").unwrap();
        writer.finish().unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"new");

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
