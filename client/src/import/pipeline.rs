//! Reading, decoding and sender recovery ahead of execution, on other threads, in order.

use super::error::{ImportError, Origin};
use crate::{
    blocks::{BlockFileError, BlockReader, RawBlock, ReadProgress, decode_header},
    chain::Candidate,
    executor::{recover_authorities, recover_senders},
};
use alloy_consensus::{Header, Sealed};
use crossbeam_channel::{Receiver, Select, Sender, TryRecvError, bounded};
use parking_lot::{Condvar, Mutex};
use polytrie_chainspec::ChainSpec;
use std::{
    collections::VecDeque,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// Blocks that may be under way between the reader and execution.
const BLOCKS_AHEAD: usize = 256;
/// Bytes of RLP that may be under way; one larger block still passes.
const BYTES_AHEAD: usize = 32 << 20;

/// A block that left the workers.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) content: Content,
    pub(super) place: Origin,
    pub(super) decode: Duration,
    pub(super) recover: Duration,
    /// Given back when the block is on its way into the chain: it takes memory until then.
    pub(super) permit: Permit,
}

/// What the workers did with it.
#[derive(Debug)]
pub(super) enum Content {
    /// Probably stored already: only the header was read.
    Identified(Box<Sealed<Header>>, RawBlock),
    /// Ready for execution.
    Ready(Box<Candidate>),
}

impl Content {
    pub(super) const fn header(&self) -> &Sealed<Header> {
        match self {
            Self::Identified(header, _) => header,
            Self::Ready(candidate) => &candidate.header,
        }
    }
}

/// What is known of the next block.
#[derive(Debug)]
enum Next {
    Promised(Receiver<Answer>),
    Ready(Box<Answer>),
}

type Answer = Result<Prepared, BlockFileError>;

/// One block on its way to a worker, and the way back.
struct Job {
    raw: RawBlock,
    answer: Sender<Answer>,
    permit: Permit,
}

/// The blocks of some files, prepared ahead, in order.
#[derive(Debug)]
pub(super) struct Pipeline {
    ordered: Receiver<Receiver<Answer>>,
    /// Blocks that were asked for ahead of their turn, or the promises of them.
    next: VecDeque<Next>,
    progress: Arc<Mutex<ReadProgress>>,
}

impl Pipeline {
    /// Starts reading. Blocks up to number `known` are probably stored already: they are only identified.
    pub(super) fn start(
        spec: Arc<ChainSpec>,
        files: Vec<PathBuf>,
        threads: usize,
        known: u64,
    ) -> Result<Self, ImportError> {
        expect_files(&files)?;
        let (to_workers, work) = bounded::<Job>(BLOCKS_AHEAD);
        let (to_main, ordered) = bounded(BLOCKS_AHEAD);
        let progress = Arc::new(Mutex::new(ReadProgress::default()));
        let current = Arc::clone(&progress);
        spawn("reader", move || read(files, &current, &to_workers, &to_main))?;
        for _ in 0..threads.max(1) {
            let (work, spec) = (work.clone(), Arc::clone(&spec));
            spawn("prepare", move || {
                for job in work {
                    let Job { raw, answer, permit } = job;
                    // Main may have stopped in the meantime; then nobody wants the answer.
                    let _ = answer.send(prepare(&spec, raw, permit, known));
                }
            })?;
        }
        Ok(Self { ordered, next: VecDeque::new(), progress })
    }

    /// The block that comes after the next `ahead` ones, if it is ready by now.
    pub(super) fn peek(&mut self, ahead: usize) -> Option<&Prepared> {
        while self.next.len() <= ahead {
            self.next.push_back(Next::Promised(self.ordered.try_recv().ok()?));
        }
        let next = &mut self.next[ahead];
        // Whoever asks in its turn for one that does not come learns why.
        if let Next::Promised(answer) = next
            && let Ok(ready) = answer.try_recv()
        {
            *next = Next::Ready(Box::new(ready));
        }
        match next {
            Next::Ready(answer) => Result::as_ref(&**answer).ok(),
            Next::Promised(_) => None,
        }
    }

    /// Waits for what comes next, so long at most; says whether it is there: a block (which may still be with the
    /// workers), an error, or the end.
    pub(super) fn wait(&self, patience: Duration) -> bool {
        if !self.next.is_empty() || !self.ordered.is_empty() {
            return true;
        }
        let mut select = Select::new();
        select.recv(&self.ordered);
        select.ready_timeout(patience).is_ok()
    }

    /// Whether it is known by now that nothing more comes.
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

    /// How far reading has come, in bytes of the current file.
    pub(super) fn read_progress(&self) -> Arc<Mutex<ReadProgress>> {
        Arc::clone(&self.progress)
    }
}

impl Iterator for Pipeline {
    type Item = Result<Prepared, ImportError>;

    fn next(&mut self) -> Option<Self::Item> {
        let answer = match self.next.pop_front() {
            Some(Next::Ready(ready)) => return Some((*ready).map_err(ImportError::from)),
            Some(Next::Promised(answer)) => answer,
            None => self.ordered.recv().ok()?,
        };
        Some(match answer.recv() {
            Ok(answer) => answer.map_err(ImportError::from),
            Err(_) => Err(ImportError::Worker),
        })
    }
}

/// Whether all files are there: one that is not should not be noticed after an hour of importing another one.
///
/// # Errors
///
/// About the first that is not.
pub fn expect_files(files: &[PathBuf]) -> Result<(), BlockFileError> {
    for file in files.iter().filter(|file| file.as_path() != Path::new("-") && !file.exists()) {
        BlockReader::open(file)?;
    }
    Ok(())
}

/// The header of the first block of a file. `None` if it does not decode, and of a pipe, from which it could not be read
/// again.
///
/// # Errors
///
/// If the file cannot be read or is no file of blocks.
pub fn first_header(file: &Path) -> Result<Option<Sealed<Header>>, BlockFileError> {
    if !file.is_file() && !file.is_dir() {
        return Ok(None);
    }
    let first = BlockReader::open(file)?.next().transpose()?;
    Ok(first.and_then(|block| decode_header(&block.rlp).ok()))
}

pub(super) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), ImportError> {
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(work);
    spawned.map(drop).map_err(no_thread)
}

pub(super) fn no_thread(source: io::Error) -> ImportError {
    ImportError::Thread { source }
}

fn read(
    files: Vec<PathBuf>,
    progress: &Mutex<ReadProgress>,
    to_workers: &Sender<Job>,
    to_main: &Sender<Receiver<Answer>>,
) {
    let budget = Arc::new(Budget::default());
    for file in files {
        let blocks: Box<dyn Iterator<Item = Result<RawBlock, BlockFileError>>> =
            match BlockReader::open(&file) {
                Ok(reader) => {
                    *progress.lock() = reader.progress();
                    Box::new(reader)
                }
                Err(error) => Box::new(std::iter::once(Err(error))),
            };
        for block in blocks {
            let (answer, receive) = bounded(1);
            let failed = block.is_err();
            if to_main.send(receive).is_err() {
                return;
            }
            let sent = match block {
                Ok(raw) => {
                    let permit = Budget::take(&budget, raw.rlp.len());
                    to_workers.send(Job { raw, answer, permit }).is_ok()
                }
                Err(error) => answer.send(Err(error)).is_ok(),
            };
            if failed || !sent {
                return;
            }
        }
    }
}

fn prepare(spec: &ChainSpec, raw: RawBlock, permit: Permit, known: u64) -> Answer {
    let start = Instant::now();
    let place = Origin { file: Arc::clone(&raw.file), index: raw.index, offset: raw.offset };
    if let Ok(header) = decode_header(&raw.rlp)
        && header.number <= known
    {
        let content = Content::Identified(Box::new(header), raw);
        let (decode, recover) = (start.elapsed(), Duration::ZERO);
        return Ok(Prepared { content, place, decode, recover, permit });
    }
    let (candidate, decode, recover) = make_ready(spec, raw)?;
    Ok(Prepared { content: Content::Ready(Box::new(candidate)), place, decode, recover, permit })
}

/// Decodes a block, checks its body and recovers its senders; tells the time of the first two and of the
/// last.
pub(super) fn make_ready(
    spec: &ChainSpec,
    raw: RawBlock,
) -> Result<(Candidate, Duration, Duration), BlockFileError> {
    let start = Instant::now();
    let block = raw.decode()?;
    let header = Sealed::new(block.header.clone());
    let body = Candidate::check_body(spec, &block);
    let decode = start.elapsed();
    let start = Instant::now();
    let senders = recover_senders(&block.body.transactions);
    let authorities = recover_authorities(&block.body.transactions);
    let recover = start.elapsed();
    let candidate = Candidate {
        header,
        block,
        rlp: raw.rlp,
        senders,
        authorities,
        accesses: Vec::new(),
        body,
        receipts: raw.receipts,
        total_difficulty: raw.total_difficulty,
    };
    Ok((candidate, decode, recover))
}

/// So many bytes of the budget.
#[derive(Debug)]
pub(super) struct Permit {
    budget: Arc<Budget>,
    bytes: usize,
}

/// Limits the bytes under way.
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
