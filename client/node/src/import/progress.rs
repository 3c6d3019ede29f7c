//! Progress: a bar on a terminal, a line every eight seconds otherwise.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use polytrie_chain::BlockStats;
use polytrie_files::{files_at, length_of};
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Interval between lines.
const LINE_EVERY: Duration = Duration::from_secs(8);
/// Interval between updates of the bar.
const BAR_EVERY: Duration = Duration::from_millis(200);

/// The form in which progress is shown.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Display {
    /// A bar, which is redrawn.
    Bar,
    /// A line every eight seconds.
    Lines,
    /// No output.
    #[default]
    Quiet,
}

/// The progress of an import, and its display.
#[derive(Debug)]
pub struct Progress {
    display: Display,
    bar: ProgressBar,
    /// Bytes of the files that are not passed over, if known.
    total_bytes: Option<u64>,
    /// Bytes of these files up to the last block that was inserted: the reader may be far ahead of it.
    reached: u64,
    start: Instant,
    shown: Instant,
    interval: Counts,
    all: Counts,
}

#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    blocks: u64,
    txs: u64,
    gas: u64,
}

impl Counts {
    const fn add(&mut self, stats: &BlockStats) {
        self.blocks += 1;
        self.txs += stats.txs;
        self.gas += stats.gas;
    }
}

impl Progress {
    pub(super) fn new(display: Display, files: &[PathBuf]) -> Self {
        // The time left can be estimated only if the size of the input is known.
        let total_bytes: Option<u64> = files.iter().map(|file| bytes_at(file)).sum();
        let bar = match display {
            Display::Bar => bar(total_bytes),
            Display::Lines | Display::Quiet => ProgressBar::hidden(),
        };
        let now = Instant::now();
        Self {
            display,
            bar,
            total_bytes,
            reached: 0,
            start: now,
            shown: now,
            interval: Counts::default(),
            all: Counts::default(),
        }
    }

    /// Records that a block was inserted up to which so many bytes were read.
    pub(super) fn reached(&mut self, bytes: u64) {
        self.reached = bytes;
    }

    /// Records that a file of so many bytes was passed over.
    pub(super) fn passed(&mut self, bytes: u64) {
        if let Some(total) = &mut self.total_bytes {
            *total = total.saturating_sub(bytes);
            self.bar.set_length(*total);
        }
    }

    pub(super) fn block(&mut self, number: u64, stats: &BlockStats) {
        self.interval.add(stats);
        self.all.add(stats);
        self.show(number);
    }

    pub(super) fn skipped(&mut self, number: u64) {
        self.show(number);
    }

    pub(super) fn finish(&mut self) {
        self.bar.finish_and_clear();
    }

    fn show(&mut self, number: u64) {
        let every = match self.display {
            Display::Bar => BAR_EVERY,
            Display::Lines => LINE_EVERY,
            Display::Quiet => return,
        };
        let since = self.shown.elapsed();
        if since < every {
            return;
        }
        let seconds = since.as_secs_f64();
        let tps = self.interval.txs as f64 / seconds;
        let mgas = self.interval.gas as f64 / 1e6 / seconds;
        if self.display == Display::Bar {
            self.bar.set_position(self.reached);
            self.bar.set_message(format!(
                "block {number}  {} txs  {tps:.0} tx/s  {mgas:.0} Mgas/s",
                self.all.txs
            ));
        } else {
            let left = self.seconds_left().map(|s| format!("{s:.0}"));
            tracing::info!(
                block = number,
                blocks = self.all.blocks,
                txs = self.all.txs,
                gas = self.all.gas,
                elapsed = format!("{:.0}", self.start.elapsed().as_secs_f64()),
                tps = format!("{tps:.0}"),
                mgas_per_second = format!("{mgas:.0}"),
                eta = left.as_deref().unwrap_or("unknown"),
                "importing"
            );
        }
        self.shown = Instant::now();
        self.interval = Counts::default();
    }

    fn seconds_left(&self) -> Option<f64> {
        let total = self.total_bytes?;
        let reached = self.reached;
        (reached > 0).then(|| {
            self.start.elapsed().as_secs_f64() * total.saturating_sub(reached) as f64
                / reached as f64
        })
    }
}

/// Returns the number of bytes of a file, or of the archives of a directory; `None` for a pipe.
fn bytes_at(path: &Path) -> Option<u64> {
    files_at(path).ok()?.iter().map(|file| length_of(file)).sum()
}

fn bar(total_bytes: Option<u64>) -> ProgressBar {
    let (bar, template) = match total_bytes {
        Some(total) => {
            (ProgressBar::new(total), "[{elapsed}] {bar:24} {percent:>3}%  {msg}  ETA {eta}")
        }
        None => (ProgressBar::new_spinner(), "[{elapsed}] {spinner}  {msg}"),
    };
    bar.set_draw_target(ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_time_left_is_known_for_files_and_for_a_directory_of_archives() {
        let directory = tempfile::tempdir().unwrap();
        let names = ["dev-00000-00000000.era1", "dev-00001-00000000.ere", "checksums.txt"];
        let files = names.map(|name| directory.path().join(name));
        files.iter().for_each(|file| fs::write(file, [0u8; 100]).unwrap());
        for files in [vec![directory.path().to_owned()], files[..2].to_vec()] {
            let mut progress = Progress::new(Display::Quiet, &files);
            assert_eq!(progress.seconds_left(), None);
            // A file that is passed over says nothing about the time of the others.
            progress.passed(100);
            assert_eq!(progress.seconds_left(), None);
            progress.reached(50);
            assert!(progress.seconds_left().unwrap() > 0.0);
            progress.reached(100);
            assert_eq!(progress.seconds_left(), Some(0.0));
        }
        for unknown in ["-", "/dev/null"] {
            let mut progress = Progress::new(Display::Quiet, &[files[0].clone(), unknown.into()]);
            progress.reached(150);
            assert_eq!(progress.seconds_left(), None, "{unknown}");
        }
    }
}
