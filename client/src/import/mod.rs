//! Import: block files through decoding, sender recovery, execution and commitment into the store.
//!
//! ```text
//! reader ──► workers: decode, hash, recover senders, check body ──► main: rules, EVM, commitment, write ──► flush
//! (thread)   (threads, ahead of execution, in order again)          (this thread)                        (thread)
//! ```

mod csv;
mod error;
mod pipeline;
mod progress;
mod report;
mod shadow;

pub use csv::CsvLog;
pub use error::ImportError;
pub use pipeline::{expect_files, first_header};
pub use progress::{Display, Progress};
pub use report::{ImportReport, ShadowReport, TimeSplit, WitnessReport};
pub use shadow::{Difference, Key, SHADOW_PREFIX, Shadow, ShadowError, What};

use crate::{
    chain::{BlockStats, Chain, ChainError, InsertError, Inserted},
    executor::{Prefetch, Prefetcher},
    witness::WitnessDir,
};
use alloy_primitives::B256;
use error::Origin;
use pipeline::{Content, Pipeline, Prepared};
use polytrie_state::CommitmentKind;
use std::{
    collections::{HashMap, VecDeque},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// How often whoever waits for blocks looks whether the user asks to stop.
const LOOK_UP: Duration = Duration::from_millis(100);
/// How long nothing has come (from a pipe whose writer does something else) when what was executed is made durable.
const IDLE: Duration = Duration::from_secs(1);

/// What to import, and how.
#[derive(Debug)]
pub struct ImportOptions {
    /// Files in their order; `-` is standard input.
    pub files: Vec<PathBuf>,
    /// The last block to import.
    pub to: Option<u64>,
    /// Threads that decode blocks and recover senders.
    pub threads: usize,
    /// Whether blocks are run ahead of their turn, to read what they will need.
    pub prefetch: Prefetch,
    /// Set from outside to stop after the block under way.
    pub interrupt: Arc<AtomicBool>,
    /// How progress is shown.
    pub display: Display,
    /// One line of figures a block.
    pub csv: Option<CsvLog>,
    /// A second chain under another layer, which every block is compared with.
    pub shadow: Option<Shadow>,
    /// Where each block's witness goes, if [`ChainOptions::witness_levels`](crate::chain::ChainOptions::witness_levels)
    /// says that there are any.
    pub witnesses: Option<WitnessDir>,
}

impl ImportOptions {
    /// All of these files and nothing beside: on one thread, in order, without a word.
    pub fn plain(files: Vec<PathBuf>) -> Self {
        Self {
            files,
            to: None,
            threads: 1,
            prefetch: Prefetch::Off,
            interrupt: Arc::default(),
            display: Display::Quiet,
            csv: None,
            shadow: None,
            witnesses: None,
        }
    }
}

/// How an import ended, with what it had done by then.
#[derive(Debug)]
pub struct ImportEnd {
    /// The figures.
    pub report: ImportReport,
    /// Why it ended early, if it did. What came before is durable in every case but a failing store.
    pub error: Option<ImportError>,
}

/// Imports files into a chain. Everything imported is durable when this returns.
pub fn import(chain: &mut Chain, mut options: ImportOptions) -> ImportEnd {
    let start = Instant::now();
    let mut report = ImportReport::begin(chain);
    let counters = chain.db().store().counters();
    let mut progress = Progress::new(options.display, &options.files);
    let mut waiting = Waiting::default();
    let store = chain.db().store().clone();
    store.hold_back(options.csv.is_some() || options.witnesses.is_some());
    let begun = options.csv.as_mut().map_or(Ok(()), |csv| csv.begin(chain.head().number()));
    let ended =
        begun.and_then(|()| run(chain, &mut options, &mut report, &mut progress, &mut waiting));
    // What was executed is written if it stands; if not, that is the first thing that went wrong.
    let settled = chain.settle().map_err(|error| waiting.blame(error, None));
    let ended = match ended {
        Ok(Ended::Interrupted) => Err(ImportError::Interrupted { head: chain.head().number() }),
        ended => ended.map(drop),
    };
    let told = waiting.tell(chain, &mut options, &mut report, &mut progress);
    let ended = settled.and(told).and(ended);
    // Before the blocks are durable: what is there already is not imported again, and would be told of by nobody.
    let written = options.csv.as_mut().map_or(Ok(()), CsvLog::flush);
    let flush_start = Instant::now();
    // The chain first: a shadow that is behind catches up, one that is far ahead cannot come back.
    let flushed = chain.flush().map_err(ImportError::from);
    let shadowed = options.shadow.as_mut().map_or(Ok(()), Shadow::flush).map_err(ImportError::from);
    report.time.flush_wait = flush_start.elapsed();
    store.hold_back(false);
    progress.finish();
    report.end(chain, start.elapsed(), counters);
    report.leave(chain, flushed.is_ok());
    report.shadow = options.shadow.as_ref().map(Shadow::report);
    report.witnesses = options.witnesses.as_ref().map(WitnessReport::of);
    // The first thing that went wrong is the one to tell.
    let error = ended.and(flushed).and(shadowed).and(written).err();
    ImportEnd { report, error }
}

fn run(
    chain: &mut Chain,
    options: &mut ImportOptions,
    report: &mut ImportReport,
    progress: &mut Progress,
    waiting: &mut Waiting,
) -> Result<Ended, ImportError> {
    let mut pipeline = Pipeline::start(
        Arc::clone(chain.spec()),
        options.files.clone(),
        options.threads,
        chain.head().number(),
    )?;
    progress.follow(pipeline.read_progress());
    let mut prefetcher = Prefetcher::new(options.prefetch, chain.spec());
    // Whether the last block that was asked for is there: a pipe may have nothing more to say for long.
    let mut is_there = false;
    while !is_there {
        wait(chain, options, report, progress, waiting, &pipeline)?;
        if options.interrupt.load(Ordering::Relaxed) && !pipeline.has_ended() {
            return Ok(Ended::Interrupted);
        }
        let Some(prepared) = pipeline.next() else { break };
        let Prepared { content, place, decode, recover, permit: _permit } = prepared?;
        report.time.decode += decode;
        report.time.recover += recover;
        let number = content.header().number;
        if options.to.is_some_and(|to| number > to) {
            break;
        }
        let is_last = options.to == Some(number);
        if number == chain.spec().genesis_header().number {
            let (found, expected) = (content.header().hash(), chain.spec().genesis_hash());
            if found != expected {
                let chain = chain.spec().name().to_owned();
                return Err(ImportError::OtherGenesis { place, found, expected, chain });
            }
            report.skipped += 1;
            is_there = is_last;
            continue;
        }
        let mut candidate = match content {
            Content::Ready(candidate) => *candidate,
            Content::Identified(header, _) if chain.is_known(number, &header.hash())? => {
                report.skipped += 1;
                progress.skipped(number);
                let canonical = chain.is_canonical(number, &header.hash())?;
                if !canonical {
                    waiting.aside.insert(header.hash(), place);
                }
                is_there = is_last && canonical;
                continue;
            }
            Content::Identified(_, raw) => pipeline::make_ready(chain.spec(), raw)?.0,
        };
        let hash = candidate.header.hash();
        if let Some(prefetcher) = &mut prefetcher {
            candidate.accesses = prefetcher.take(&hash);
            run_ahead(prefetcher, &mut pipeline, chain)?;
        }
        let transactions = candidate.block.body.transactions.len();
        let again = options.shadow.is_some().then(|| candidate.clone());
        let inserted = match chain.insert(candidate) {
            Ok(inserted) => inserted,
            Err(error) => return Err(waiting.blame(error, Some((hash, place)))),
        };
        if let Some(prefetcher) = &mut prefetcher {
            prefetcher.executed(transactions, || chain.db().store().counters().slow_engine_gets);
            report.prefetched = prefetcher.transactions();
        }
        match inserted {
            Inserted::Extended(stats) => {
                waiting.blocks.push_back(Executed { number, hash, place, stats });
                waiting.tell(chain, options, report, progress)?;
            }
            Inserted::Known => report.skipped += 1,
            Inserted::Side => {
                report.side += 1;
                waiting.aside.insert(hash, place);
            }
            Inserted::Reorganised { executed, .. } => {
                report.side += 1;
                report.reorganised += 1;
                // What waited was written before the branch changed, however high it stood.
                waiting.tell_up_to(u64::MAX, options, report, progress)?;
                let above_fork = number - executed.len() as u64 + 1;
                for (number, stats) in (above_fork..).zip(&executed) {
                    tell(number, stats, options, report, progress)?;
                }
            }
        }
        is_there = is_last && chain.is_canonical(number, &hash)?;
        if let Some(dir) = &mut options.witnesses {
            for block in chain.take_witnesses() {
                dir.write(chain.spec(), block).map_err(|source| ImportError::Output {
                    file: dir.path().display().to_string(),
                    source,
                })?;
            }
        }
        if let (Some(shadow), Some(again)) = (&mut options.shadow, again) {
            shadow.follow(again, chain)?;
        }
        hand_on(chain, options, report, progress, waiting)?;
    }
    Ok(Ended::Completed)
}

/// Lets a group of blocks become durable, once the files that tell of each block have them: an import that goes on after
/// a crash does not execute them again.
fn hand_on(
    chain: &Chain,
    options: &mut ImportOptions,
    report: &mut ImportReport,
    progress: &mut Progress,
    waiting: &mut Waiting,
) -> Result<(), ImportError> {
    let store = chain.db().store();
    if !store.is_full() {
        return Ok(());
    }
    waiting.tell(chain, options, report, progress)?;
    options.csv.as_mut().map_or(Ok(()), CsvLog::flush)?;
    Ok(store.hand_on().map_err(ChainError::from)?)
}

/// Begins to run blocks that are ready ahead of their turn, as many as there is room for.
fn run_ahead(
    prefetcher: &mut Prefetcher,
    pipeline: &mut Pipeline,
    chain: &Chain,
) -> Result<(), ImportError> {
    let mut place = prefetcher.blocks_ahead();
    while prefetcher.has_room()
        && let Some(prepared) = pipeline.peek(place)
    {
        if let Content::Ready(next) = &prepared.content
            && let Ok(senders) = &next.senders
        {
            let reader = || chain.layer().reader_ahead();
            prefetcher
                .begin(next.header.hash(), &next.block, senders, reader)
                .map_err(ChainError::from)?;
        }
        place += 1;
    }
    Ok(())
}

/// Waits for the next block, for the end, or until the user asks to stop.
fn wait(
    chain: &mut Chain,
    options: &mut ImportOptions,
    report: &mut ImportReport,
    progress: &mut Progress,
    waiting: &mut Waiting,
    pipeline: &Pipeline,
) -> Result<(), ImportError> {
    let start = Instant::now();
    let mut is_durable = false;
    while !pipeline.wait(LOOK_UP) && !options.interrupt.load(Ordering::Relaxed) {
        if !is_durable && start.elapsed() >= IDLE {
            chain.settle().map_err(|error| waiting.blame(error, None))?;
            waiting.tell(chain, options, report, progress)?;
            options.csv.as_mut().map_or(Ok(()), CsvLog::flush)?;
            chain.flush()?;
            options.shadow.as_mut().map_or(Ok(()), Shadow::flush)?;
            is_durable = true;
        }
    }
    Ok(())
}

/// Why there are no more blocks.
#[derive(Debug, Clone, Copy)]
enum Ended {
    /// The files end, or what was asked for is there.
    Completed,
    /// The user asked to stop.
    Interrupted,
}

/// Reports a block that stands.
fn tell(
    number: u64,
    stats: &BlockStats,
    options: &mut ImportOptions,
    report: &mut ImportReport,
    progress: &mut Progress,
) -> Result<(), ImportError> {
    report.add(stats);
    progress.block(number, stats);
    options.csv.as_mut().map_or(Ok(()), |csv| csv.block(number, stats))
}

/// Blocks that may turn out to be invalid, with their places.
#[derive(Debug, Default)]
struct Waiting {
    /// Those that were executed and whose root may not be known yet, oldest first.
    blocks: VecDeque<Executed>,
    /// Those of other branches, which were not executed.
    aside: HashMap<B256, Origin>,
}

#[derive(Debug)]
struct Executed {
    number: u64,
    hash: B256,
    place: Origin,
    stats: BlockStats,
}

impl Waiting {
    /// Reports the blocks that stand by now.
    fn tell(
        &mut self,
        chain: &Chain,
        options: &mut ImportOptions,
        report: &mut ImportReport,
        progress: &mut Progress,
    ) -> Result<(), ImportError> {
        self.tell_up_to(chain.head().number(), options, report, progress)
    }

    fn tell_up_to(
        &mut self,
        head: u64,
        options: &mut ImportOptions,
        report: &mut ImportReport,
        progress: &mut Progress,
    ) -> Result<(), ImportError> {
        while let Some(Executed { number, stats, .. }) =
            self.blocks.pop_front_if(|block| block.number <= head)
        {
            tell(number, &stats, options, report, progress)?;
        }
        Ok(())
    }

    /// An error with the place of the block that it is about: the one at hand, or one that came before it. One that
    /// came with an earlier import has none.
    fn blame(&self, error: InsertError, at_hand: Option<(B256, Origin)>) -> ImportError {
        match error {
            InsertError::Invalid(block) => {
                let waited = self.blocks.iter().find(|waiting| waiting.hash == block.hash);
                let place = at_hand
                    .filter(|(hash, _)| *hash == block.hash)
                    .map(|(_, place)| place)
                    .or_else(|| waited.map(|waited| waited.place.clone()))
                    .or_else(|| self.aside.get(&block.hash).cloned());
                match place {
                    Some(place) => ImportError::Invalid { place, block },
                    None => ImportError::Stored { block },
                }
            }
            InsertError::Broken(error) => {
                let place = at_hand.map(|(_, place)| place);
                ImportError::Broken { place, error: Box::new(error) }
            }
        }
    }
}

/// What a user must be told about what an import under this layer did not compare.
pub fn not_verified(chain: &Chain, report: &ImportReport) -> Vec<String> {
    if !chain.options().verify_roots {
        let note = "neither state roots nor receipts roots were compared (--verify none)";
        return vec![note.to_owned()];
    }
    let mut notes = Vec::new();
    let layer = chain.layer().name();
    match chain.layer().commitment().kind() {
        CommitmentKind::StateRoot => {}
        CommitmentKind::None => notes.push(format!(
            "state roots were not compared: the layer `{layer}` does not authenticate the state"
        )),
        CommitmentKind::Own => notes.push(format!(
            "state roots were not compared: the commitment of the layer `{layer}` is its own, no header holds it"
        )),
    }
    if report.receipts_unchecked > 0 {
        notes.push(format!(
            "receipts roots of {} blocks before Byzantium were not compared: they hold state roots, which the layer `{layer}` does not give",
            report.receipts_unchecked
        ));
    }
    notes
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
