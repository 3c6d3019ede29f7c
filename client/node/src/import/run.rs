//! One import, from its first block to its report.

use super::{
    CsvLog, ImportEnd, ImportError, ImportOptions, ImportReport, Progress, Shadow, TraceLog,
    WitnessReport,
    ahead::Ahead,
    error::Origin,
    pipeline::{self, Content, Pipeline, Prepared},
    waiting::{Executed, Waiting},
};
use crate::{access_lists::AccessListWriter, prefetch::Prefetchers};
use alloy_primitives::B256;
use polytrie_chain::{BlockStats, Candidate, Chain, ChainError, Inserted};
use polytrie_files::ArchiveEnd;
use polytrie_kv::CountersSnapshot;
use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

/// Interval at which the executing thread checks, while it waits for blocks, whether the user asks to stop.
const LOOK_UP: Duration = Duration::from_millis(100);
/// Time without a block (of a pipe whose writer does other work) after which executed blocks are made durable.
const IDLE: Duration = Duration::from_secs(1);

/// The reason why there are no more blocks.
#[derive(Debug, Clone, Copy)]
enum Ended {
    /// The files have ended, or the last block that was asked for is there.
    Completed,
    /// The user asked to stop.
    Interrupted,
}

/// An import that is running: the chain, the settings, and the figures so far.
#[derive(Debug)]
pub(super) struct Run<'c> {
    chain: &'c mut Chain,
    options: ImportOptions,
    report: ImportReport,
    progress: Progress,
    waiting: Waiting,
    start: Instant,
    /// The store's counters at the start.
    counters: CountersSnapshot,
}

impl<'c> Run<'c> {
    pub(super) fn new(chain: &'c mut Chain, options: ImportOptions) -> Self {
        Self {
            start: Instant::now(),
            report: ImportReport::begin(chain),
            counters: chain.db().store().counters(),
            progress: Progress::new(options.display, &options.files),
            waiting: Waiting::default(),
            chain,
            options,
        }
    }

    /// Imports all blocks, and makes them durable. Returns the figures and the decisive error.
    pub(super) fn finish(mut self) -> ImportEnd {
        let ended = self.blocks();
        // Executed blocks are written if they are valid; if not, that error came first.
        let settled = self.settle();
        let ended = match ended {
            Ok(Ended::Interrupted) => {
                Err(ImportError::Interrupted { head: self.chain.head().number() })
            }
            ended => ended.map(drop),
        };
        // Blocks whose lines, witnesses or lists could not be written are executed again for them, so they must not be
        // durable.
        let is_untold =
            matches!(ended, Err(ImportError::Output { .. } | ImportError::AccessLists(_)));
        // Lines come before the blocks are durable: durable blocks are not imported again, so the files would miss
        // them.
        let noted = match is_untold {
            true => Ok(()),
            false => self.tell().and_then(|()| self.make_files_durable()),
        };
        let flush_start = Instant::now();
        // The chain is flushed first: a shadow that is behind catches up, one that is far ahead cannot go back.
        let flushed = match noted {
            Ok(()) if is_untold => Ok(()),
            Ok(()) => self.chain.flush().map_err(ImportError::from),
            Err(error) => Err(error),
        };
        let shadowed = self.flush_shadow();
        self.report.time.flush_wait = flush_start.elapsed();
        self.progress.finish();
        let mut report = self.reported(flushed.is_ok() && !is_untold);
        let all = [settled, ended, flushed, shadowed];
        let error = decisive(all.into_iter().filter_map(Result::err));
        report.invalid = error.as_ref().and_then(ImportError::invalid_block);
        ImportEnd { report, error }
    }

    /// Completes the report, after all blocks.
    fn reported(self, is_flushed: bool) -> ImportReport {
        let mut report = self.report;
        report.end(self.chain, self.start.elapsed(), self.counters);
        report.leave(self.chain, is_flushed);
        report.shadow = self.options.shadow.as_ref().map(Shadow::report);
        report.witnesses = self.options.witnesses.as_ref().map(WitnessReport::of);
        report.lists_written = self.options.access_lists.as_ref().map(AccessListWriter::written);
        report.prefetchers = self.options.prefetchers.map(Prefetchers::finish);
        report
    }

    /// Inserts blocks until the files end, the last block that was asked for is there, or the user asks to stop.
    fn blocks(&mut self) -> Result<Ended, ImportError> {
        if let Some(csv) = &mut self.options.csv {
            csv.begin(self.chain.head().number())?;
        }
        if let Some(trace) = &mut self.options.trace {
            trace.begin(self.chain.head().number())?;
        }
        let spec = Arc::clone(self.chain.spec());
        let (begun, threads) = (self.options.begun.take(), self.options.threads);
        let files = self.options.files.clone();
        let blocks = Pipeline::start(spec, files, begun, threads, self.chain.head().number())?;
        let mut ahead = Ahead::new(self.options.prefetch, self.chain.spec(), blocks)
            .with_lists(self.options.hints.take());
        // Whether the last block that was asked for is there: a pipe may stay open long after it.
        let mut is_there = false;
        // The greatest number of a block so far, which may still wait for its root, or be on another branch.
        let mut reached = self.chain.head().number();
        while !is_there {
            self.wait(&ahead)?;
            if self.is_interrupted() && !ahead.blocks.has_ended() {
                return Ok(Ended::Interrupted);
            }
            let Some(prepared) = ahead.blocks.next() else { break };
            let Prepared { content, place, decode, recover, read, permit: _permit } = prepared?;
            self.report.time.decode += decode;
            self.report.time.recover += recover;
            let number = content.header().number;
            if let Content::Archive(end) = content {
                let are_stored = self.has_all(&end)?;
                ahead.blocks.answer(are_stored);
                is_there = are_stored && self.pass_over(&end);
                continue;
            }
            if self.options.to.is_some_and(|to| number > to) {
                break;
            }
            reached = reached.max(number);
            is_there = self.take(content, place, &mut ahead)?;
            self.progress.reached(read);
        }
        self.report.lacks_last = self.options.to.is_some_and(|to| to > reached);
        Ok(Ended::Completed)
    }

    /// Inserts a block, or skips it. Returns whether it is the last one that was asked for, and on the canonical chain.
    fn take(
        &mut self,
        content: Content,
        place: Origin,
        ahead: &mut Ahead<Pipeline>,
    ) -> Result<bool, ImportError> {
        let (number, hash) = (content.header().number, content.header().hash());
        if number == self.chain.spec().genesis_header().number {
            self.skip_genesis(hash, place)?;
            return Ok(self.is_last(number));
        }
        if self.is_before_start(number)? {
            self.report.skipped += 1;
            self.progress.skipped(number);
            return Ok(self.is_last(number));
        }
        let candidate = match content {
            Content::Ready(candidate) => *candidate,
            Content::Identified(..) if self.chain.is_known(number, &hash)? => {
                return self.skip(number, hash, place);
            }
            Content::Identified(_, raw) => pipeline::make_ready(self.chain.spec(), raw)?.0,
            // Its blocks come one by one.
            Content::Archive(_) => return Ok(false),
        };
        self.insert(candidate, place, ahead)?;
        let is_there = self.is_last(number) && self.chain.is_canonical(number, &hash)?;
        self.begin_flush()?;
        Ok(is_there)
    }

    /// Whether a block is unknown because the chain begins with the state after it, as most blocks before that are.
    fn is_before_start(&self, number: u64) -> Result<bool, ImportError> {
        let is_before = self.chain.start().is_some_and(|start| number < start);
        Ok(is_before && self.chain.db().canonical(number)?.is_none())
    }

    /// Whether all blocks of a file would be skipped, since its last one is on the chain and names the others.
    fn has_all(&self, end: &ArchiveEnd) -> Result<bool, ImportError> {
        let number = end.last.number;
        if self.is_before_start(number)? {
            // The genesis block is read, as it shows whether the file is of this chain.
            return Ok(end.first > self.chain.spec().genesis_header().number);
        }
        Ok(self.chain.is_canonical(number, &end.last.hash())?)
    }

    /// Skips all blocks of a file. Returns whether the last one that was asked for is among them, or before them.
    fn pass_over(&mut self, end: &ArchiveEnd) -> bool {
        let last = self.options.to.map_or(end.last.number, |to| to.min(end.last.number));
        self.report.skipped += last.checked_sub(end.first).map_or(0, |more| more + 1);
        self.progress.passed(end.bytes);
        self.progress.skipped(last);
        self.options.to.is_some_and(|to| to <= end.last.number)
    }

    /// Skips the genesis block, which is stored already. Fails if it is that of another chain.
    fn skip_genesis(&mut self, found: B256, place: Origin) -> Result<(), ImportError> {
        let expected = self.chain.spec().genesis_hash();
        if found != expected {
            let chain = self.chain.spec().name().to_owned();
            return Err(ImportError::OtherGenesis { place, found, expected, chain });
        }
        self.report.skipped += 1;
        Ok(())
    }

    /// Skips a block that is stored already. Returns what [`Self::take`] does.
    fn skip(&mut self, number: u64, hash: B256, place: Origin) -> Result<bool, ImportError> {
        self.report.skipped += 1;
        self.progress.skipped(number);
        let canonical = self.chain.is_canonical(number, &hash)?;
        if !canonical {
            self.waiting.put_aside(number, hash, place, self.chain.first_undo());
        }
        Ok(self.is_last(number) && canonical)
    }

    /// Inserts a block, and reports it to the progress bar, the CSV files and the shadow.
    fn insert(
        &mut self,
        mut candidate: Candidate,
        place: Origin,
        ahead: &mut Ahead<Pipeline>,
    ) -> Result<(), ImportError> {
        let (number, hash) = (candidate.header.number, candidate.header.hash());
        self.tell_before_branch(&candidate)?;
        if let Some(prefetchers) = &self.options.prefetchers {
            ahead.leave_to_others(prefetchers.read_ahead());
        }
        ahead.begin(&mut candidate, self.chain)?;
        if let Some(prefetchers) = &mut self.options.prefetchers {
            prefetchers.begin(&candidate, &mut ahead.blocks);
        }
        let transactions = candidate.block.body.transactions.len();
        let again = self.options.shadow.is_some().then(|| candidate.clone());
        let inserted = match self.chain.insert(candidate) {
            Ok(inserted) => inserted,
            Err(error) => return Err(self.waiting.blame(error, Some((hash, place)))),
        };
        self.report.prefetched = ahead.executed(transactions, self.chain);
        self.report.listed = ahead.listed();
        if let Some(prefetchers) = &mut self.options.prefetchers {
            prefetchers.executed(self.chain);
        }
        self.count(number, hash, place, inserted)?;
        self.write_witnesses()?;
        self.write_access_lists()?;
        self.write_trace()?;
        if let (Some(shadow), Some(again)) = (&mut self.options.shadow, again) {
            shadow.follow(again, self.chain)?;
        }
        Ok(())
    }

    /// Counts a block by the result of its insertion.
    fn count(
        &mut self,
        number: u64,
        hash: B256,
        place: Origin,
        inserted: Inserted,
    ) -> Result<(), ImportError> {
        match inserted {
            Inserted::Extended(stats) => {
                self.waiting.blocks.push_back(Executed { number, hash, place, stats: *stats });
                self.tell()?;
            }
            Inserted::Known => self.report.skipped += 1,
            Inserted::Side => {
                self.report.side += 1;
                self.waiting.put_aside(number, hash, place, self.chain.first_undo());
            }
            Inserted::Reorganised { executed, .. } => {
                self.report.side += 1;
                self.report.reorganised += 1;
                // Waiting blocks were written before the branch changed, however high their numbers are.
                self.tell_up_to(u64::MAX)?;
                let above_fork = number - executed.len() as u64 + 1;
                for (number, stats) in (above_fork..).zip(&executed) {
                    self.tell_of(number, stats)?;
                }
            }
        }
        Ok(())
    }

    fn write_witnesses(&mut self) -> Result<(), ImportError> {
        let Some(dir) = &mut self.options.witnesses else { return Ok(()) };
        for block in self.chain.take_witnesses() {
            dir.write(self.chain.spec(), block).map_err(|source| ImportError::Output {
                file: dir.path().display().to_string(),
                source,
            })?;
        }
        Ok(())
    }

    fn write_access_lists(&mut self) -> Result<(), ImportError> {
        for block in self.chain.take_access_lists() {
            if let Some(file) = &mut self.options.access_lists {
                file.write(&block)?;
            }
            if let Some(trace) = &mut self.options.trace {
                trace.executed(block);
            }
        }
        Ok(())
    }

    /// Adds the lines of blocks that are verified and whose lists were taken.
    fn write_trace(&mut self) -> Result<(), ImportError> {
        let Some(trace) = &mut self.options.trace else { return Ok(()) };
        self.chain.take_written().iter().try_for_each(|block| trace.written(block))
    }

    /// Lets a group of blocks become durable once the files with lines for each block have theirs: an import that goes
    /// on after a crash does not execute these blocks again.
    fn begin_flush(&mut self) -> Result<(), ImportError> {
        if !self.tells_of_each() || !self.chain.db().store().is_full() {
            return Ok(());
        }
        self.tell()?;
        self.make_files_durable()?;
        Ok(self.chain.db().store().begin_flush().map_err(ChainError::from)?)
    }

    /// Whether there are files with lines, witnesses or lists for each block.
    const fn tells_of_each(&self) -> bool {
        let ImportOptions { csv, trace, witnesses, access_lists, .. } = &self.options;
        csv.is_some() || trace.is_some() || witnesses.is_some() || access_lists.is_some()
    }

    /// Completes the files with lines, witnesses or lists for all blocks so far, if the next block is not on top of the
    /// last one: a layer that takes blocks back may have to make its writes durable (`qmdb`).
    fn tell_before_branch(&mut self, candidate: &Candidate) -> Result<(), ImportError> {
        let last = self.waiting.blocks.back().map(|block| block.hash);
        let last = last.unwrap_or_else(|| self.chain.head().hash());
        if !self.tells_of_each() || candidate.header.parent_hash == last {
            return Ok(());
        }
        self.settle()?;
        self.tell()?;
        self.make_files_durable()
    }

    /// Waits for the next block, for the end, or until the user asks to stop. Makes blocks durable after a second
    /// without one.
    fn wait(&mut self, ahead: &Ahead<Pipeline>) -> Result<(), ImportError> {
        let start = Instant::now();
        let mut is_durable = false;
        while !ahead.blocks.wait(LOOK_UP) && !self.is_interrupted() {
            if !is_durable && start.elapsed() >= IDLE {
                self.settle()?;
                self.tell()?;
                self.make_files_durable()?;
                self.chain.flush()?;
                self.flush_shadow()?;
                is_durable = true;
            }
        }
        Ok(())
    }

    /// Waits until the roots of all blocks so far are verified.
    fn settle(&mut self) -> Result<(), ImportError> {
        self.chain.settle().map_err(|error| self.waiting.blame(error, None))
    }

    /// Reports the blocks that are verified.
    fn tell(&mut self) -> Result<(), ImportError> {
        self.tell_up_to(self.chain.head().number())
    }

    fn tell_up_to(&mut self, head: u64) -> Result<(), ImportError> {
        while let Some(Executed { number, stats, .. }) =
            self.waiting.blocks.pop_front_if(|block| block.number <= head)
        {
            self.tell_of(number, &stats)?;
        }
        Ok(())
    }

    /// Reports a verified block to the report, the progress and the CSV file.
    fn tell_of(&mut self, number: u64, stats: &BlockStats) -> Result<(), ImportError> {
        self.report.add(stats);
        self.progress.block(number, stats);
        self.options.csv.as_mut().map_or(Ok(()), |csv| csv.block(number, stats))
    }

    /// Makes the witnesses, access lists and lines of all verified blocks durable.
    fn make_files_durable(&mut self) -> Result<(), ImportError> {
        if let Some(dir) = &mut self.options.witnesses {
            let file = dir.path().display().to_string();
            dir.make_durable().map_err(|source| ImportError::Output { file, source })?;
        }
        if let Some(file) = &mut self.options.access_lists {
            file.make_durable()?;
        }
        self.write_trace()?;
        self.options.trace.as_mut().map_or(Ok(()), TraceLog::make_durable)?;
        self.options.csv.as_mut().map_or(Ok(()), CsvLog::make_durable)
    }

    fn flush_shadow(&mut self) -> Result<(), ImportError> {
        Ok(self.options.shadow.as_mut().map_or(Ok(()), Shadow::flush)?)
    }

    fn is_interrupted(&self) -> bool {
        self.options.interrupt.load(Ordering::Relaxed)
    }

    /// Whether this block is the last one that was asked for.
    fn is_last(&self, number: u64) -> bool {
        self.options.to == Some(number)
    }
}
/// Returns the error that an import ends with: the first, unless that is an error of a block, a file or the user and
/// the machine failed afterwards, so that blocks said to be kept are not.
fn decisive(errors: impl Iterator<Item = ImportError>) -> Option<ImportError> {
    errors.reduce(|first, later| {
        let (decisive, other) =
            if later.is_ours() && !first.is_ours() { (later, first) } else { (first, later) };
        // Most errors after the first failure of the machine follow from it.
        match other.is_ours() {
            true => tracing::debug!("{other}"),
            false => tracing::warn!("{other}"),
        }
        decisive
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_fails_counts_more_than_what_ended_the_import() {
        let interrupted = || ImportError::Interrupted { head: 7 };
        let failed = |text: &str| ImportError::from(ChainError::Corrupt(text.to_owned()));
        let text = |errors: Vec<ImportError>| decisive(errors.into_iter()).map(|e| e.to_string());
        assert_eq!(text(vec![]), None);
        assert_eq!(text(vec![interrupted()]), Some(interrupted().to_string()));
        assert_eq!(text(vec![interrupted(), failed("a")]), Some(failed("a").to_string()));
        assert_eq!(text(vec![failed("a"), failed("b")]), Some(failed("a").to_string()));
        assert_eq!(text(vec![failed("a"), interrupted()]), Some(failed("a").to_string()));
    }
}
