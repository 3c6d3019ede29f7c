//! Opens files, detects their format, and iterates over their blocks.

use std::{
    fmt,
    fs::File,
    io::{self, BufReader, Cursor, Read, Seek, SeekFrom},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    vec,
};

use alloy_primitives::bytes::Bytes;
use flate2::bufread::MultiGzDecoder;

use super::{
    chunk::ChunkReader,
    detect::{self, Content, Format},
    e2store::{DirectoryEntry, HEAD, VERSION_MAGIC, format_of, list_directory, verify_checksum},
    era1::Era1Blocks,
    ere::EreBlocks,
    error::{BlockFileError, BlockFileErrorKind},
    hex::HexLines,
    raw::RawBlock,
    stream,
};
use polytrie_consensus::decode::EncodedReceipts;

/// Size of a read of compressed data, in bytes.
const GZIP_BUFFER: usize = 256 << 10;

/// Iterator over the blocks of one file (or of a directory of era1 and ere files), in their order.
///
/// The iterator ends after the first error. The formats are in the [module's documentation](super).
pub struct BlockReader {
    current: Source,
    /// Files of a directory after the current one.
    following: vec::IntoIter<DirectoryEntry>,
    progress: ReadProgress,
    failed: bool,
}

impl fmt::Debug for BlockReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockReader")
            .field("file", &self.current.file)
            .field("format", &self.current.format())
            .field("index", &self.current.index)
            .field("following", &self.following.len())
            .finish_non_exhaustive()
    }
}

/// Progress of a reader; a handle that any thread may use.
#[derive(Debug, Clone, Default)]
pub struct ReadProgress {
    read: Arc<AtomicU64>,
    total: Option<u64>,
}

impl ReadProgress {
    /// Returns the number of bytes read so far, as on disk (compressed, for gzip).
    pub fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Returns the total number of bytes; `None` for standard input and pipes.
    pub const fn total(&self) -> Option<u64> {
        self.total
    }
}

impl BlockReader {
    /// Opens a file of blocks, a directory of era1 and ere files of one network, or standard input (`-`), and
    /// examines the first bytes.
    ///
    /// An era1 or ere file is compared with `checksums.txt` beside it, if there is one.
    ///
    /// # Errors
    ///
    /// Fails if the file is not there, cannot be read, is empty, or has an unknown format.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, BlockFileError> {
        let path = path.as_ref();
        Self::open_any(path)?.blocks(&input_name(path))
    }

    /// Opens a file as [`Self::open`] does, but accepts JSON too. The file is opened once, so that it may be a
    /// pipe.
    pub(super) fn open_any(path: &Path) -> Result<Opened<Self>, BlockFileError> {
        let file = input_name(path);
        if path.as_os_str() == "-" {
            return Self::of_stream(file, io::stdin());
        }
        let meta = path.metadata().map_err(|error| open_error(&file, error))?;
        if meta.is_dir() {
            return Self::open_directory(path, &file).map(Opened::Blocks);
        }
        let progress =
            ReadProgress { total: meta.is_file().then_some(meta.len()), ..Default::default() };
        Ok(open_file(path, &progress)?.map(|current| Self::of(current, progress)))
    }

    /// Reads blocks from `input`; `name` stands in messages in place of a file's name.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::open`] does.
    pub fn from_reader(
        name: &str,
        input: impl Read + Send + 'static,
    ) -> Result<Self, BlockFileError> {
        let file: Arc<str> = name.into();
        Self::of_stream(Arc::clone(&file), input)?.blocks(&file)
    }

    /// Reads blocks from a stream of a known format: nothing is detected, and gzip is not decompressed.
    pub fn with_format(name: &str, input: impl Read + Send + 'static, format: Format) -> Self {
        let progress = ReadProgress::default();
        let input = Counted { inner: input, read: Arc::clone(&progress.read) };
        let input = ChunkReader::new(Box::new(input), false);
        Self::of(Source::new(name.into(), input, format), progress)
    }

    fn of_stream(
        file: Arc<str>,
        input: impl Read + Send + 'static,
    ) -> Result<Opened<Self>, BlockFileError> {
        let progress = ReadProgress::default();
        let input = Counted { inner: input, read: Arc::clone(&progress.read) };
        let current = Source::open(file, Box::new(input))?;
        Ok(current.map(|current| Self::of(current, progress)))
    }

    fn of(current: Source, progress: ReadProgress) -> Self {
        Self { current, following: Vec::new().into_iter(), progress, failed: false }
    }

    /// Returns the format of the current file, after decompression.
    pub const fn format(&self) -> Format {
        self.current.format()
    }

    /// Returns a handle to the progress of the reading.
    pub fn progress(&self) -> ReadProgress {
        self.progress.clone()
    }

    fn open_directory(path: &Path, file: &Arc<str>) -> Result<Self, BlockFileError> {
        let mut following = list_directory(path, file)?.into_iter();
        let Some(first) = following.next() else {
            return Err(BlockFileError::new(file, BlockFileErrorKind::Directory));
        };
        let total = first.bytes + following.as_slice().iter().map(|entry| entry.bytes).sum::<u64>();
        let progress = ReadProgress { total: Some(total), ..Default::default() };
        let current = open_blocks(&first.path, &progress)?;
        Ok(Self { following, ..Self::of(current, progress) })
    }

    fn advance(&mut self) -> Result<Option<RawBlock>, BlockFileError> {
        loop {
            if let Some(block) = self.current.next_block()? {
                return Ok(Some(block));
            }
            let Some(entry) = self.following.next() else {
                return Ok(None);
            };
            self.current = open_blocks(&entry.path, &self.progress)?;
        }
    }
}

impl Iterator for BlockReader {
    type Item = Result<RawBlock, BlockFileError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.advance();
        self.failed = !matches!(next, Ok(Some(_)));
        next.transpose()
    }
}

/// An opened file: blocks or JSON.
pub(super) enum Opened<B> {
    Blocks(B),
    /// JSON, decompressed, of which no byte is taken yet.
    Json(ChunkReader),
}

impl<B> Opened<B> {
    fn map<C>(self, of: impl FnOnce(B) -> C) -> Opened<C> {
        match self {
            Self::Blocks(blocks) => Opened::Blocks(of(blocks)),
            Self::Json(json) => Opened::Json(json),
        }
    }

    /// Returns the blocks, or an error for JSON.
    fn blocks(self, file: &Arc<str>) -> Result<B, BlockFileError> {
        match self {
            Self::Blocks(blocks) => Ok(blocks),
            Self::Json(_) => Err(BlockFileError::new(file, BlockFileErrorKind::Json)),
        }
    }
}

/// A stream of blocks and its name.
struct Source {
    file: Arc<str>,
    input: ChunkReader,
    splitter: Splitter,
    /// Number of blocks that were returned so far.
    index: u64,
}

enum Splitter {
    Rlp,
    Hex(HexLines),
    Era1(Box<Era1Blocks>),
    Ere(Box<EreBlocks>),
}

impl Source {
    /// Detects the content of `input` by its first bytes, after decompression if it is gzip.
    fn open(file: Arc<str>, input: Box<dyn Read + Send>) -> Result<Opened<Self>, BlockFileError> {
        let fail = |kind| BlockFileError::new(&file, kind);
        let mut chunks = ChunkReader::new(input, false);
        chunks.fill(detect::PEEK).map_err(fail)?;
        let mut content = detect::detect(chunks.data());
        if let Ok(Content::Gzip) = content {
            let (start, rest) = chunks.into_parts();
            chunks = ChunkReader::new(gunzip(start, rest), true);
            chunks.fill(detect::PEEK).map_err(fail)?;
            content = detect::detect(chunks.data());
        }
        let format = match content {
            Ok(Content::Blocks(format)) => format,
            Ok(Content::E2Store) => {
                format_of(|offset| head_in(&mut chunks, offset)).map_err(fail)?
            }
            Ok(Content::Gzip) => {
                let format = "compressed with gzip twice";
                return Err(fail(BlockFileErrorKind::Compressed { format }));
            }
            Err(BlockFileErrorKind::Json) => return Ok(Opened::Json(chunks)),
            Err(kind) => return Err(fail(kind)),
        };
        if format == Format::Hex && chunks.data().starts_with(detect::MARK) {
            chunks.skip(detect::MARK.len());
        }
        Ok(Opened::Blocks(Self::new(file, chunks, format)))
    }

    fn new(file: Arc<str>, input: ChunkReader, format: Format) -> Self {
        let splitter = match format {
            Format::Rlp => Splitter::Rlp,
            Format::Hex => Splitter::Hex(HexLines::new(input.offset())),
            Format::Era1 => Splitter::Era1(Box::default()),
            Format::Ere => Splitter::Ere(Box::default()),
        };
        Self { file, input, splitter, index: 0 }
    }

    /// Returns a source on a file of ere that is read with seeks.
    fn ere(file: Arc<str>, blocks: EreBlocks) -> Self {
        let input = ChunkReader::new(Box::new(io::empty()), false);
        Self { file, input, splitter: Splitter::Ere(Box::new(blocks)), index: 0 }
    }

    const fn format(&self) -> Format {
        match self.splitter {
            Splitter::Rlp => Format::Rlp,
            Splitter::Hex(_) => Format::Hex,
            Splitter::Era1(_) => Format::Era1,
            Splitter::Ere(_) => Format::Ere,
        }
    }

    fn next_block(&mut self) -> Result<Option<RawBlock>, BlockFileError> {
        let next = self.split().map_err(|kind| BlockFileError::new(&self.file, kind))?;
        if next.is_some() {
            self.index += 1;
        } else if self.index == 0 {
            // The file has blank lines only.
            return Err(BlockFileError::new(&self.file, BlockFileErrorKind::Empty));
        }
        Ok(next)
    }

    fn split(&mut self) -> Result<Option<RawBlock>, BlockFileErrorKind> {
        let bare = |rlp: Bytes, offset: u64| RawBlock {
            rlp: rlp.into(),
            file: Arc::clone(&self.file),
            offset,
            index: self.index,
            receipts: None,
            total_difficulty: None,
        };
        Ok(match &mut self.splitter {
            Splitter::Rlp => {
                let offset = self.input.offset();
                stream::next_block(&mut self.input, self.index)?.map(|rlp| bare(rlp, offset))
            }
            Splitter::Hex(lines) => lines
                .next_block(&mut self.input, self.index)?
                .map(|block| bare(block.rlp, block.offset)),
            Splitter::Era1(era1) => era1.next_block(&mut self.input)?.map(|block| RawBlock {
                receipts: Some(EncodedReceipts::Full(block.receipts.into())),
                total_difficulty: Some(block.total_difficulty),
                ..bare(block.rlp, block.offset)
            }),
            Splitter::Ere(ere) => ere.next_block(&mut self.input)?.map(|block| RawBlock {
                receipts: block.receipts.map(|rlp| EncodedReceipts::Slim(rlp.into())),
                total_difficulty: block.total_difficulty,
                ..bare(block.rlp, block.offset)
            }),
        })
    }
}

fn open_blocks(path: &Path, progress: &ReadProgress) -> Result<Source, BlockFileError> {
    open_file(path, progress)?.blocks(&display_name(path))
}

fn open_file(path: &Path, progress: &ReadProgress) -> Result<Opened<Source>, BlockFileError> {
    let name = display_name(path);
    let mut inner = File::open(path).map_err(|error| open_error(&name, error))?;
    let meta = inner.metadata().map_err(|error| open_error(&name, error))?;
    if meta.is_file() && starts_as_e2store(&name, &mut inner)? {
        verify_checksum(path, &name, &mut inner)?;
        let format = format_of(|offset| head_at(&mut inner, offset))
            .map_err(|kind| BlockFileError::new(&name, kind))?;
        rewind(&name, &mut inner)?;
        if format == Format::Ere {
            let blocks = EreBlocks::of_file(inner, meta.len(), Arc::clone(&progress.read));
            return Ok(Opened::Blocks(Source::ere(name, blocks)));
        }
    }
    Source::open(name, Box::new(Counted { inner, read: Arc::clone(&progress.read) }))
}

/// Whether a file starts with the version record; the file is rewound.
fn starts_as_e2store(name: &Arc<str>, file: &mut File) -> Result<bool, BlockFileError> {
    let start = head_at(file, 0).map_err(|kind| BlockFileError::new(name, kind))?;
    rewind(name, file)?;
    Ok(start == Some(VERSION_MAGIC))
}

fn rewind(name: &Arc<str>, file: &mut File) -> Result<(), BlockFileError> {
    file.rewind()
        .map_err(|error| BlockFileError::new(name, BlockFileErrorKind::Read { offset: 0, error }))
}

/// Reads the bytes of a head at this offset of a file. Returns `None` if the file ends before.
pub(super) fn head_at(
    file: &mut File,
    offset: u64,
) -> Result<Option<[u8; HEAD]>, BlockFileErrorKind> {
    let mut head = [0; HEAD];
    let read = file.seek(SeekFrom::Start(offset)).and_then(|_| file.read_exact(&mut head));
    match read {
        Ok(()) => Ok(Some(head)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(BlockFileErrorKind::Read { offset, error }),
    }
}

/// Returns the bytes of a head at this offset of a stream of which no byte is taken yet. `None` if the stream ends
/// before.
fn head_in(
    chunks: &mut ChunkReader,
    offset: u64,
) -> Result<Option<[u8; HEAD]>, BlockFileErrorKind> {
    let Ok(offset) = usize::try_from(offset) else { return Ok(None) };
    let is_there = chunks.fill(offset + HEAD)?;
    let head = chunks.data().get(offset..).and_then(|data| data.first_chunk::<HEAD>());
    Ok(head.filter(|_| is_there).copied())
}

/// Opens a file or standard input (`-`) for reading, and returns it with a handle to its progress.
pub(super) fn open_counted(path: &Path) -> io::Result<(Box<dyn Read + Send>, ReadProgress)> {
    if path.as_os_str() == "-" {
        let progress = ReadProgress::default();
        let input = Counted { inner: io::stdin(), read: Arc::clone(&progress.read) };
        return Ok((Box::new(input), progress));
    }
    let inner = File::open(path)?;
    let meta = inner.metadata()?;
    if meta.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let progress =
        ReadProgress { total: meta.is_file().then_some(meta.len()), ..Default::default() };
    let input = Counted { inner, read: Arc::clone(&progress.read) };
    Ok((Box::new(input), progress))
}

pub(super) fn gunzip(start: Bytes, rest: Box<dyn Read + Send>) -> Box<dyn Read + Send> {
    let compressed = Cursor::new(start).chain(rest);
    Box::new(MultiGzDecoder::new(BufReader::with_capacity(GZIP_BUFFER, compressed)))
}

pub(super) fn display_name(path: &Path) -> Arc<str> {
    path.display().to_string().into()
}

/// Returns the length of a regular file; `None` for standard input (`-`), pipes, and what cannot be looked at.
pub fn length_of(path: &Path) -> Option<u64> {
    let meta = path.metadata().ok().filter(|meta| meta.is_file() && path.as_os_str() != "-")?;
    Some(meta.len())
}

/// Returns the name of a file, or of standard input (`-`), for messages.
pub fn input_name(path: &Path) -> Arc<str> {
    match path.as_os_str() == "-" {
        true => "standard input".into(),
        false => display_name(path),
    }
}

pub(super) fn open_error(file: &Arc<str>, error: io::Error) -> BlockFileError {
    let kind = if error.kind() == io::ErrorKind::NotFound {
        BlockFileErrorKind::NotFound
    } else {
        BlockFileErrorKind::Open { error }
    };
    BlockFileError::new(file, kind)
}

/// A reader that counts the bytes that pass through it, for the progress bar.
struct Counted<R> {
    inner: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(out)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
