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

pub use csv::CsvLog;
pub use error::ImportError;
pub use progress::{Display, Progress};
pub use report::{ImportReport, TimeSplit};

use crate::chain::{Chain, InsertError, Inserted};
use pipeline::{Content, Pipeline, Prepared};
use polytrie_state::CommitmentKind;
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

/// What to import, and how.
#[derive(Debug)]
pub struct ImportOptions {
    /// Files in their order; `-` is standard input.
    pub files: Vec<PathBuf>,
    /// The last block to import.
    pub to: Option<u64>,
    /// Threads that decode blocks and recover senders.
    pub threads: usize,
    /// Set from outside to stop after the block under way.
    pub interrupt: Arc<AtomicBool>,
    /// How progress is shown.
    pub display: Display,
    /// One line of figures a block.
    pub csv: Option<CsvLog>,
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
    let ended = run(chain, &mut options, &mut report, &mut progress);
    let flush_start = Instant::now();
    let flushed = chain.flush().map_err(ImportError::from);
    report.time.flush_wait = flush_start.elapsed();
    progress.finish();
    let written = options.csv.take().map_or(Ok(()), CsvLog::finish);
    report.end(chain, start.elapsed(), counters);
    // The first thing that went wrong is the one to tell.
    let error = ended.and(flushed).and(written).err();
    ImportEnd { report, error }
}

fn run(
    chain: &mut Chain,
    options: &mut ImportOptions,
    report: &mut ImportReport,
    progress: &mut Progress,
) -> Result<(), ImportError> {
    let mut pipeline = Pipeline::start(
        Arc::clone(chain.spec()),
        options.files.clone(),
        options.threads,
        chain.head().number(),
    )?;
    progress.follow(pipeline.read_progress());
    for prepared in &mut pipeline {
        if options.interrupt.load(Ordering::Relaxed) {
            return Err(ImportError::Interrupted { head: chain.head().number() });
        }
        let Prepared { content, place, decode, recover } = prepared?;
        report.time.decode += decode;
        report.time.recover += recover;
        let number = content.header().number;
        if options.to.is_some_and(|to| number > to) {
            break;
        }
        if number == chain.spec().genesis_header().number {
            let (found, expected) = (content.header().hash(), chain.spec().genesis_hash());
            if found != expected {
                let chain = chain.spec().name().to_owned();
                return Err(ImportError::OtherGenesis { place, found, expected, chain });
            }
            report.skipped += 1;
            continue;
        }
        let candidate = match content {
            Content::Ready(candidate) => *candidate,
            Content::Identified(header, _) if chain.is_known(number, &header.hash())? => {
                report.skipped += 1;
                progress.skipped(number);
                continue;
            }
            Content::Identified(_, raw) => pipeline::make_ready(chain.spec(), raw)?.0,
        };
        match chain.insert(candidate) {
            Ok(Inserted::Extended(stats)) => {
                report.add(&stats);
                progress.block(number, &stats);
                if let Some(csv) = &mut options.csv {
                    csv.block(number, &stats)?;
                }
            }
            Ok(Inserted::Known) => report.skipped += 1,
            Ok(Inserted::Side) => report.side += 1,
            Ok(Inserted::Reorganised { executed, .. }) => {
                report.side += 1;
                report.reorganised += 1;
                report.blocks += executed;
            }
            Err(InsertError::Invalid(block)) => return Err(ImportError::Invalid { place, block }),
            Err(InsertError::Broken(error)) => {
                return Err(ImportError::Broken { place: Some(place), error: Box::new(error) });
            }
        }
    }
    Ok(())
}

/// What a user must be told about what an import under this layer did not compare.
pub fn not_verified(chain: &Chain, report: &ImportReport) -> Vec<String> {
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
