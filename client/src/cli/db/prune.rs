//! `polytrie db prune`.

use crate::{
    cli::{
        args::{ChainArg, StoredArgs},
        exit::Failure,
        output::ResultArgs,
    },
    datadir::DataDir,
    words::counted,
};
use clap::Args;
use polytrie_state::Pruned;
use serde::Serialize;

/// Remove what newer versions of keys have replaced and no proof needs.
///
/// Only the layer `lvmt` has something to prune. (`mpt-hash` with --mpt-hash.pruning none keeps all states for good.) Reads,
/// commitment and proofs stay as they are, and so do the undo records of the last 1024 blocks. You may stop it at any time,
/// and run it again.
#[derive(Debug, Args)]
pub(in crate::cli) struct PruneArgs {
    #[command(flatten)]
    chain: ChainArg,
    #[command(flatten)]
    result: ResultArgs,
    #[command(flatten)]
    pub(super) data: StoredArgs,
}

/// The result; serialises to the JSON of `--json`.
#[derive(Debug, Serialize)]
struct Report {
    state: String,
    /// Entries in all, with those that were forgotten earlier.
    entries: u64,
    /// Entries that are still needed.
    needed: u64,
    bytes_before: u64,
    bytes_after: u64,
}

pub(super) fn run(args: PruneArgs) -> Result<(), Failure> {
    let mut options = args.data.options(false);
    options.chain = args.chain.chain;
    let result = args.result.open()?;
    let dir = DataDir::open(&options, false)?;
    let db = dir.chain_db();
    let nothing = dir.layer.pruning().is_none();
    let pruned = match dir.layer.pruning() {
        Some(pruning) => pruning.prune(&mut |visit| db.each_undo_record(visit))?,
        None => Pruned::default(),
    };
    let keeps_all = dir
        .stamp
        .parameters
        .iter()
        .find(|(name, which)| name.ends_with(".pruning") && which.as_str() == "none");
    let keeps_all = keeps_all.map(|(name, which)| format!("{name} {which}"));
    let report = Report {
        state: dir.stamp.state,
        entries: pruned.entries,
        needed: pruned.needed,
        bytes_before: pruned.bytes_before,
        bytes_after: pruned.bytes_after,
    };
    result.write(&report, || match keeps_all {
        Some(setting) => format!("`{}` keeps all states in this directory, which was made so ({setting}), and this command forgets none of them; for fewer, import into a new directory", report.state),
        None => report.text(nothing),
    })
}

impl Report {
    /// The result as text.
    fn text(&self, nothing: bool) -> String {
        let Self { state, entries, needed, bytes_before, bytes_after } = self;
        if nothing {
            return format!("`{state}` keeps nothing that this command could forget");
        }
        format!(
            "forgot {} of {bytes_before}: {needed} of {entries} entries are needed",
            counted(bytes_before - bytes_after, "byte")
        )
    }
}
