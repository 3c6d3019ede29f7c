//! Import: block files through decoding, sender recovery, execution and commitment into the store.
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
pub use report::{HeadReport, ImportReport, ShadowReport, TimeSplit, WitnessReport};
pub use shadow::{Difference, Key, SHADOW_PREFIX, Shadow, ShadowError, What};
pub use trace::TraceLog;

use crate::{
    access_lists::{AccessListReader, AccessListWriter},
    prefetch::Prefetchers,
    witness::WitnessDir,
};
use polytrie_chain::Chain;
use polytrie_chain::executor::Prefetch;
use polytrie_state::CommitmentKind;
use run::Run;
use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
};

/// What to import, and how.
#[derive(Debug)]
pub struct ImportOptions {
    /// Files in their order; `-` is standard input.
    pub files: Vec<PathBuf>,
    /// The first of them, if it was started already.
    pub begun: Option<Begun>,
    /// The last block to import.
    pub to: Option<u64>,
    /// Threads that decode blocks and recover senders.
    pub threads: usize,
    /// Whether blocks are run ahead of their turn, to read what they will need.
    pub prefetch: Prefetch,
    /// Other processes that read what blocks will need, if there may be any.
    pub prefetchers: Option<Prefetchers>,
    /// Set from outside to stop after the block under way.
    pub interrupt: Arc<AtomicBool>,
    /// How progress is shown.
    pub display: Display,
    /// One line of figures a block. The store must then be flushed by hand ([`Durability::ByHand`](polytrie_kv::Durability)).
    pub csv: Option<CsvLog>,
    /// What transactions write, a line a value, if both [`ChainOptions::keep_writes`](polytrie_chain::ChainOptions::keep_writes)
    /// and [`ChainOptions::keep_access_lists`](polytrie_chain::ChainOptions::keep_access_lists) are set; not beside a shadow,
    /// which takes the writes. The store must then be flushed by hand, too.
    pub trace: Option<TraceLog>,
    /// A second chain under another layer, which every block is compared with.
    pub shadow: Option<Shadow>,
    /// Where each block's witness goes, if [`ChainOptions::witness_levels`](polytrie_chain::ChainOptions::witness_levels)
    /// says that there are any. The store must then be flushed by hand, too.
    pub witnesses: Option<WitnessDir>,
    /// What blocks are known to touch, to read it before their turn.
    pub hints: Option<AccessListReader>,
    /// Where the access list of each block goes, if
    /// [`ChainOptions::keep_access_lists`](polytrie_chain::ChainOptions::keep_access_lists) says that there are any. The store
    /// must then be flushed by hand, too.
    pub access_lists: Option<AccessListWriter>,
}

impl ImportOptions {
    /// All of these files and nothing beside: on one thread, in order, without a word.
    pub fn plain(files: Vec<PathBuf>) -> Self {
        Self {
            files,
            begun: None,
            to: None,
            threads: 1,
            prefetch: Prefetch::Off,
            prefetchers: None,
            interrupt: Arc::default(),
            display: Display::Quiet,
            csv: None,
            trace: None,
            shadow: None,
            witnesses: None,
            hints: None,
            access_lists: None,
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
pub fn import(chain: &mut Chain, options: ImportOptions) -> ImportEnd {
    Run::new(chain, options).finish()
}

/// What an import under this layer does not compare, as a sentence for the user.
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
            "receipts roots of {} blocks before Byzantium were not compared: they hold state roots, which the layer `{layer}` does not give",
            report.receipts_unchecked
        ));
    }
    notes
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
