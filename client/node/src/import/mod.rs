//! Import: blocks of files are decoded, checked, executed, committed and written to the store.
//!
//! ```text
//! reader ──► workers: decode, hash, recover senders, check body ──► main: rules, EVM, commitment, write ──► flush
//! (thread)   (threads, ahead of execution, in order again)          (this thread)                        (thread)
//! ```

mod ahead;
mod csv;
mod error;
mod lines;
mod pipeline;
mod progress;
mod report;
mod run;
mod shadow;
mod trace;
mod waiting;

pub use ahead::{Ahead, Upcoming};
pub use csv::CsvLog;
pub use error::ImportError;
pub use pipeline::{Begun, Content, Permit, Pipeline, Prepared, expect_files};
pub use progress::{Display, Progress};
pub use report::{HeadReport, ImportReport, InvalidReport, ShadowReport, TimeSplit, WitnessReport};
pub use shadow::{Difference, Key, SHADOW_PREFIX, Shadow, ShadowError, What};
pub use trace::TraceLog;

use crate::{
    access_lists::{AccessListReader, AccessListWriter},
    prefetch::Prefetchers,
    witness::WitnessDir,
    words::counted,
};
use polytrie_chain::Chain;
use polytrie_chain::executor::Prefetch;
use polytrie_state::CommitmentKind;
use run::Run;
use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
};

/// The settings of an import.
#[derive(Debug, Default)]
pub struct ImportOptions {
    /// Files in the order in which they are read; `-` is standard input.
    pub files: Vec<PathBuf>,
    /// The first of the files, if it was opened already.
    pub begun: Option<Begun>,
    /// Number of the last block to import; `None` for all.
    pub to: Option<u64>,
    /// Number of threads that decode blocks and recover senders.
    pub threads: usize,
    /// Whether blocks are run ahead of their execution, to read the state that they will need.
    pub prefetch: Prefetch,
    /// Other processes that read the state that blocks will need, if there may be any.
    pub prefetchers: Option<Prefetchers>,
    /// A flag that another thread sets to stop the import after the current block.
    pub interrupt: Arc<AtomicBool>,
    /// The form in which progress is shown.
    pub display: Display,
    /// The file with one line of figures for each block. The store must then be flushed by hand
    /// ([`Durability::ByHand`](polytrie_kv::Durability)).
    pub csv: Option<CsvLog>,
    /// The file of the values that transactions write, a line for each, if both
    /// [`ChainOptions::keep_writes`](polytrie_chain::ChainOptions::keep_writes) and
    /// [`ChainOptions::keep_access_lists`](polytrie_chain::ChainOptions::keep_access_lists) are set. It cannot be
    /// combined with a shadow, which takes the writes. The store must then be flushed by hand, too.
    pub trace: Option<TraceLog>,
    /// A second chain under another layer, with which every block is compared.
    pub shadow: Option<Shadow>,
    /// The directory for the witness of each block, if
    /// [`ChainOptions::witness_levels`](polytrie_chain::ChainOptions::witness_levels) is set. The store must then be
    /// flushed by hand, too.
    pub witnesses: Option<WitnessDir>,
    /// Known access lists of blocks. The accesses are read ahead of execution.
    pub hints: Option<AccessListReader>,
    /// The file for the access list of each block, if
    /// [`ChainOptions::keep_access_lists`](polytrie_chain::ChainOptions::keep_access_lists) is set. The store must then
    /// be flushed by hand, too.
    pub access_lists: Option<AccessListWriter>,
}

impl ImportOptions {
    /// Returns settings that import all of these files on one thread, in order, without other files or output.
    pub fn plain(files: Vec<PathBuf>) -> Self {
        Self { files, threads: 1, ..Self::default() }
    }
}

/// The end of an import: its figures, and the error if it failed.
#[derive(Debug)]
pub struct ImportEnd {
    /// The figures.
    pub report: ImportReport,
    /// The error that ended the import early, if one did. The blocks before are durable unless the store failed or a
    /// file of figures, witnesses or access lists could not be written.
    pub error: Option<ImportError>,
}

/// Imports files into a chain. Imported blocks are durable when this returns, with the exceptions that
/// [`ImportEnd::error`] names.
pub fn import(chain: &mut Chain, options: ImportOptions) -> ImportEnd {
    Run::new(chain, options).finish()
}

/// Returns the checks that an import under this layer leaves out, each as a sentence for the user.
pub fn not_verified(chain: &Chain, report: &ImportReport) -> Vec<String> {
    if !chain.options().verify_roots {
        let note = "neither state roots nor receipts roots were compared (--verify none)";
        return vec![note.to_owned()];
    }
    let mut notes = Vec::new();
    let layer = chain.layer().name();
    if chain.options().partial_state {
        let note =
            "state roots were not compared: the state is what the blocks touch, not all of it";
        notes.push(note.to_owned());
    }
    match chain.layer().commitment().kind() {
        CommitmentKind::StateRoot => {}
        _ if chain.options().partial_state => {}
        CommitmentKind::None => notes.push(format!(
            "state roots were not compared: the layer `{layer}` does not authenticate the state"
        )),
        CommitmentKind::Own => notes.push(format!(
            "state roots were not compared: the commitment of the layer `{layer}` is its own, no header holds it"
        )),
    }
    if report.receipts_unchecked > 0 {
        notes.push(format!(
            "receipts roots of {} before Byzantium were not compared: they hold state roots, which the layer `{layer}` does not give",
            counted(report.receipts_unchecked, "block")
        ));
    }
    notes
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
