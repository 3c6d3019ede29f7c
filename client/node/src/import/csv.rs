//! A file with one line of figures for each block, in the columns of other clients' statistics.

use super::{
    error::ImportError,
    lines::{BlockLines, Layout},
};
use polytrie_chain::BlockStats;
use std::{io::Write, path::Path};

const LAYOUT: Layout = Layout {
    heading: "block_number,blocks,slot,txs,gas,time\n",
    number: 0,
    syncs: ["csv: content", "csv: name"],
};

/// A CSV file with the columns `block_number,blocks,slot,txs,gas,time`: `slot` is empty (a block file does not have
/// it), `time` is in nanoseconds.
#[derive(Debug)]
pub struct CsvLog(BlockLines);

impl CsvLog {
    /// Opens the file, or standard output if the path is `-`. The file is not changed before the import begins.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, or has other content.
    pub fn create(path: &Path) -> Result<Self, ImportError> {
        BlockLines::create(path, &LAYOUT).map(Self)
    }

    pub(super) fn begin(&mut self, head: u64) -> Result<(), ImportError> {
        self.0.begin(head)
    }

    pub(super) fn block(&mut self, number: u64, stats: &BlockStats) -> Result<(), ImportError> {
        let time = stats.total().as_nanos();
        self.0.write(|out| writeln!(out, "{number},1,,{},{},{time}", stats.txs, stats.gas))
    }

    pub(super) fn make_durable(&mut self) -> Result<(), ImportError> {
        self.0.make_durable()
    }
}
