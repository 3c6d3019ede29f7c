//! Reading, decoding and sender recovery on other threads, ahead of execution, in the order of the blocks.

use super::{
    ahead::Upcoming,
    error::{ImportError, Origin},
};
use alloy_consensus::{Header, Sealed};
use crossbeam_channel::{Receiver, Select, Sender, TryRecvError, bounded};
use parking_lot::{Condvar, Mutex};
use polytrie_chain::Candidate;
use polytrie_chainspec::ChainSpec;
use polytrie_consensus::decode::{block_number, decode_header};
use polytrie_files::{ArchiveEnd, BlockFileError, BlockReader, RawBlock, files_at};
use polytrie_kv::caught;
use std::{
    collections::VecDeque,
    io, mem,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// Most blocks between the reader and execution.
const BLOCKS_AHEAD: usize = 256;
/// Most bytes of blocks and receipts between the reader and execution; one larger block still passes.
const BYTES_AHEAD: usize = 32 << 20;

/// A block as a worker thread has prepared it.
#[derive(Debug)]
pub struct Prepared {
    /// The block.
    pub content: Content,
    pub(super) place: Origin,
    pub(super) decode: Duration,
    pub(super) recover: Duration,
    /// Bytes of the files, as they are on disk, that were read when the block was read.
    pub(super) read: u64,
    /// The block's share of the memory limit, freed when the block is inserted.
    pub permit: Permit,
}

/// The block in the form in which a worker thread leaves it.
#[derive(Debug)]
pub enum Content {
    /// A block that is probably stored already: only its header was decoded.
    Identified(Box<Sealed<Header>>, RawBlock),
    /// A block that is ready for execution.
    Ready(Box<Candidate>),
    /// An era1 or ere file with blocks that are probably stored already. If [`Pipeline::answer`] does not confirm that, its
    /// blocks come next.
    Archive(Box<ArchiveEnd>),
}

impl Content {
    pub(super) const fn header(&self) -> &Sealed<Header> {
        match self {
            Self::Identified(header, _) => header,
            Self::Ready(candidate) => &candidate.header,
            Self::Archive(end) => &end.last,
        }
    }
}

/// The next block, or the channel through which it will come.
#[derive(Debug)]
enum Next {
    Promised(Receiver<Answer>),
    Ready(Box<Answer>),
}

type Answer = Result<Prepared, BlockFileError>;

/// A block on its way to a worker thread, with the channel for the result.
struct Job {
    raw: RawBlock,
    /// Bytes of the files that were read when the block was read.
    read: u64,
    answer: Sender<Answer>,
    permit: Permit,
}

/// A file of blocks. The first block may have been read already.
#[derive(Debug)]
pub struct Begun {
    first: Option<RawBlock>,
    reader: BlockReader,
}

impl Begun {
    /// Opens a file and reads its first block. No block is lost, even of a pipe.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is no file of blocks.
    pub fn open(file: &Path) -> Result<Self, BlockFileError> {
        let mut reader = BlockReader::open(file)?;
        Ok(Self { first: reader.next().transpose()?, reader })
    }

    /// Takes blocks that are in memory; `name` stands in messages in place of a file name.
    ///
    /// # Errors
    ///
    /// If the bytes are no blocks.
    pub fn of_bytes(name: &str, blocks: Vec<u8>) -> Result<Self, BlockFileError> {
        let reader = BlockReader::from_reader(name, std::io::Cursor::new(blocks))?;
        Ok(Self { first: None, reader })
    }

    /// Returns the header of the first block, if it was read.
    ///
    /// # Errors
    ///
    /// If the header does not decode: then the file is no file of blocks.
    pub fn header(&self) -> Result<Option<Sealed<Header>>, BlockFileError> {
        self.first.as_ref().map(RawBlock::decode_header).transpose()
    }
}

impl Iterator for Begun {
    type Item = Result<RawBlock, BlockFileError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.first.take().map(Ok).or_else(|| self.reader.next())
    }
}

/// The blocks of some files, prepared ahead, in order.
#[derive(Debug)]
pub struct Pipeline {
    ordered: Receiver<Receiver<Answer>>,
    /// Blocks that were asked for ahead of their execution, or the channels through which they will come.
    next: VecDeque<Next>,
    /// The answers about archives, for which the reader waits.
    answers: Sender<bool>,
    /// Whether the reader waits for one.
    is_asked: bool,
}

impl Pipeline {
    /// Starts to read the files; the first one may have been opened as `begun`. Blocks up to number `known` are
    /// probably stored already, so only their headers are decoded.
    ///
    /// # Errors
    ///
    /// If a file does not exist, or the system gives no thread.
    pub fn start(
        spec: Arc<ChainSpec>,
        files: Vec<PathBuf>,
        begun: Option<Begun>,
        threads: usize,
        known: u64,
    ) -> Result<Self, ImportError> {
        expect_files(&files)?;
        let (to_workers, work) = bounded::<Job>(BLOCKS_AHEAD);
        let (to_main, ordered) = bounded(BLOCKS_AHEAD);
        let (answers, from_main) = bounded(1);
        let budget = Arc::default();
        let mut reading = Reading { to_workers, to_main, from_main, budget, known, before: 0 };
        spawn("reader", move || {
            if caught(|| reading.files(files, begun)).is_err() {
                // A channel without a sender is an error for its receiver; without one the files would seem to end
                // here.
                let (_, never) = bounded(1);
                let _ = reading.to_main.send(never);
            }
        })?;
        for _ in 0..threads.max(1) {
            let (work, spec) = (work.clone(), Arc::clone(&spec));
            spawn("prepare", move || {
                for job in work {
                    // The executing thread may have stopped meanwhile; then the answer is not needed.
                    let _ = job.answer.send(prepare(&spec, job.raw, (job.read, job.permit), known));
                }
            })?;
        }
        Ok(Self { ordered, next: VecDeque::new(), answers, is_asked: false })
    }

    /// Says whether the blocks of the archive that came last are stored, unless that was said before.
    pub fn answer(&mut self, are_stored: bool) {
        if mem::take(&mut self.is_asked) {
            // The reader has ended if this cannot be sent.
            let _ = self.answers.send(are_stored);
        }
    }

    /// Waits up to `patience` for the next result. Returns whether there is one: a block (which a worker may still
    /// have), an error, or the end.
    pub(super) fn wait(&self, patience: Duration) -> bool {
        if !self.next.is_empty() || !self.ordered.is_empty() {
            return true;
        }
        let mut select = Select::new();
        select.recv(&self.ordered);
        select.ready_timeout(patience).is_ok()
    }

    /// Whether the end of the files is reached.
    pub(super) fn has_ended(&mut self) -> bool {
        if self.next.is_empty() {
            match self.ordered.try_recv() {
                Ok(answer) => self.next.push_back(Next::Promised(answer)),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return true,
            }
        }
        false
    }
}

impl Upcoming for Pipeline {
    fn peek(&mut self, ahead: usize) -> Option<&Candidate> {
        while self.next.len() <= ahead {
            self.next.push_back(Next::Promised(self.ordered.try_recv().ok()?));
        }
        let next = &mut self.next[ahead];
        // The executing thread gets the error when it asks for that block.
        if let Next::Promised(answer) = next
            && let Ok(ready) = answer.try_recv()
        {
            *next = Next::Ready(Box::new(ready));
        }
        match next {
            Next::Ready(answer) => match &**answer {
                Ok(Prepared { content: Content::Ready(candidate), .. }) => Some(candidate),
                _ => None,
            },
            Next::Promised(_) => None,
        }
    }
}

impl Iterator for Pipeline {
    type Item = Result<Prepared, ImportError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.answer(false);
        let prepared = match self.next.pop_front() {
            Some(Next::Ready(ready)) => (*ready).map_err(ImportError::from),
            Some(Next::Promised(answer)) => received(&answer),
            None => received(&self.ordered.recv().ok()?),
        };
        self.is_asked = matches!(&prepared, Ok(Prepared { content: Content::Archive(_), .. }));
        Some(prepared)
    }
}

fn received(answer: &Receiver<Answer>) -> Result<Prepared, ImportError> {
    match answer.recv() {
        Ok(answer) => answer.map_err(ImportError::from),
        Err(_) => Err(ImportError::Worker),
    }
}

/// Checks that all files exist, because a missing one should not be noticed only after an hour of importing another.
///
/// # Errors
///
/// The error of opening the first file that does not exist.
pub fn expect_files(files: &[PathBuf]) -> Result<(), BlockFileError> {
    for file in files.iter().filter(|file| file.as_path() != Path::new("-") && !file.exists()) {
        BlockReader::open(file)?;
    }
    Ok(())
}

pub(super) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), ImportError> {
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(work);
    spawned.map(drop).map_err(no_thread)
}

pub(super) fn no_thread(source: io::Error) -> ImportError {
    ImportError::Thread { source }
}

/// The thread that reads the files.
struct Reading {
    to_workers: Sender<Job>,
    to_main: Sender<Receiver<Answer>>,
    from_main: Receiver<bool>,
    budget: Arc<Budget>,
    /// Number up to which blocks are probably stored already.
    known: u64,
    /// Bytes of the files that were read before the current one.
    before: u64,
}

impl Reading {
    /// Reads the files; the first one may have been opened as `begun`. Returns `None` if the rest is not wanted: after an
    /// error, and if the import has ended.
    fn files(&mut self, files: Vec<PathBuf>, mut begun: Option<Begun>) -> Option<()> {
        for file in files {
            if let Some(begun) = begun.take() {
                self.blocks(begun)?;
                continue;
            }
            for file in self.or_failed(files_at(&file))? {
                if !self.is_stored(&file)? {
                    let reader = self.or_failed(BlockReader::open(&file))?;
                    self.blocks(Begun { first: None, reader })?;
                }
            }
        }
        Some(())
    }

    /// Reads the blocks of a file.
    fn blocks(&mut self, begun: Begun) -> Option<()> {
        let progress = begun.reader.progress();
        for block in begun {
            let raw = self.or_failed(block)?;
            let (answer, receive) = bounded(1);
            self.to_main.send(receive).ok()?;
            let permit = Budget::take(&self.budget, raw.byte_len());
            let read = self.before + progress.read();
            self.to_workers.send(Job { raw, read, answer, permit }).ok()?;
        }
        self.before += progress.total().unwrap_or_else(|| progress.read());
        Some(())
    }

    /// Whether a file is an archive, and all its blocks are stored. The executing thread knows that, once it has executed the
    /// files before.
    fn is_stored(&self, file: &Path) -> Option<bool> {
        let end = ArchiveEnd::read(file).filter(|end| end.last.number <= self.known);
        let Some(end) = end else { return Some(false) };
        let place = Origin { file: Arc::clone(&end.file), index: 0, offset: 0 };
        self.send(Ok(Prepared {
            content: Content::Archive(Box::new(end)),
            place,
            decode: Duration::ZERO,
            recover: Duration::ZERO,
            read: self.before,
            permit: Budget::take(&self.budget, 0),
        }))?;
        self.from_main.recv().ok()
    }

    /// Returns the value, or sends the error.
    fn or_failed<T>(&self, result: Result<T, BlockFileError>) -> Option<T> {
        result.map_err(|error| self.send(Err(error))).ok()
    }

    /// Sends what needs no worker.
    fn send(&self, answer: Answer) -> Option<()> {
        let (sender, receive) = bounded(1);
        self.to_main.send(receive).ok()?;
        sender.send(answer).ok()
    }
}

fn prepare(spec: &ChainSpec, raw: RawBlock, (read, permit): (u64, Permit), known: u64) -> Answer {
    let start = Instant::now();
    let place = Origin { file: Arc::clone(&raw.file), index: raw.index, offset: raw.offset };
    if block_number(&raw.rlp).is_ok_and(|number| number <= known)
        && let Ok(header) = decode_header(&raw.rlp)
    {
        let content = Content::Identified(Box::new(header), raw);
        let (decode, recover) = (start.elapsed(), Duration::ZERO);
        return Ok(Prepared { content, place, decode, recover, read, permit });
    }
    let (candidate, decode, recover) = make_ready(spec, raw)?;
    let content = Content::Ready(Box::new(candidate));
    Ok(Prepared { content, place, decode, recover, read, permit })
}

/// Decodes a block, checks its body and recovers its senders. Returns the time of decoding and checking, and of
/// recovery.
pub(super) fn make_ready(
    spec: &ChainSpec,
    raw: RawBlock,
) -> Result<(Candidate, Duration, Duration), BlockFileError> {
    let start = Instant::now();
    let block = raw.decode()?;
    let (mut candidate, recover) = Candidate::of(spec, block, raw.rlp);
    (candidate.receipts, candidate.total_difficulty) = (raw.receipts, raw.total_difficulty);
    let decode = start.elapsed() - recover;
    Ok((candidate, decode, recover))
}

/// A share of the memory limit, which is freed when it is dropped.
#[derive(Debug)]
pub struct Permit {
    budget: Arc<Budget>,
    bytes: usize,
}

/// The limit on the bytes of blocks in memory.
#[derive(Debug, Default)]
struct Budget {
    used: Mutex<usize>,
    freed: Condvar,
}

impl Budget {
    fn take(budget: &Arc<Self>, bytes: usize) -> Permit {
        let mut used = budget.used.lock();
        while *used > 0 && *used + bytes > BYTES_AHEAD {
            budget.freed.wait(&mut used);
        }
        *used += bytes;
        Permit { budget: Arc::clone(budget), bytes }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        *self.budget.used.lock() -= self.bytes;
        self.budget.freed.notify_one();
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloy_consensus::{Block, BlockBody, TxEnvelope};
    use alloy_primitives::U256;
    use polytrie_files::{EreWriter, Format};
    use std::fs;

    #[derive(Debug)]
    struct Panics;

    impl io::Read for Panics {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            panic!("a test of a panic")
        }
    }

    #[test]
    fn a_panic_of_the_reader_is_not_the_end_of_a_file() {
        let reader = BlockReader::with_format("panics", Panics, Format::Rlp);
        let begun = Begun { first: None, reader };
        let spec = ChainSpec::load("dev").unwrap();
        let mut blocks = Pipeline::start(spec, vec!["-".into()], Some(begun), 1, 0).unwrap();
        let error = blocks.next().unwrap().unwrap_err();
        assert!(matches!(error, ImportError::Worker) && error.is_ours(), "{error}");
        assert!(blocks.next().is_none());
    }

    /// A caller that knows nothing about archives gets all blocks.
    #[test]
    fn the_blocks_of_an_archive_come_unless_they_are_said_to_be_stored() {
        let spec = ChainSpec::load("dev").unwrap();
        let genesis = spec.genesis_header().inner().clone();
        let block = Block::<TxEnvelope> { header: genesis, body: BlockBody::default() };
        let directory = tempfile::tempdir().unwrap();
        let mut out = EreWriter::new("test", Vec::new(), 0, directory.path()).unwrap();
        out.push(&alloy_rlp::encode(&block), &[0xc0], U256::ZERO).unwrap();
        let file = directory.path().join("file");
        fs::write(&file, out.finish().unwrap().0).unwrap();
        for are_stored in [None, Some(false), Some(true)] {
            let files = vec![file.clone(), file.clone()];
            let mut blocks = Pipeline::start(Arc::clone(&spec), files, None, 1, 0).unwrap();
            let (mut archives, mut came) = (0, 0);
            while let Some(prepared) = blocks.next() {
                match prepared.unwrap().content {
                    Content::Archive(_) => {
                        archives += 1;
                        // The second answer is to no question.
                        for answer in are_stored.into_iter().flat_map(|first| [first, !first]) {
                            blocks.answer(answer);
                        }
                    }
                    Content::Identified(..) | Content::Ready(_) => came += 1,
                }
            }
            let expected = if are_stored == Some(true) { 0 } else { 2 };
            assert_eq!((archives, came), (2, expected), "{are_stored:?}");
        }
    }
}
