//! `polytrie db repair`.

use crate::{
    cli::{args::StoredArgs, exit::Failure, output::ResultArgs},
    datadir::DataDir,
};
use clap::Args;
use polytrie_kv::KvError;
use polytrie_state::BlockRef;
use serde::Serialize;

/// Go back to the last whole state, if blocks that were confirmed to be stored are missing or damaged.
///
/// This removes for good what the journal has after that state, so copy the directory first if the missing data may still be
/// found. Import the blocks after it again. If nothing is missing, nothing changes.
#[derive(Debug, Args)]
pub(in crate::cli) struct RepairArgs {
    #[command(flatten)]
    result: ResultArgs,
    #[command(flatten)]
    pub(super) data: StoredArgs,
}

/// The result; serialises to the JSON of `--json`.
#[derive(Debug, Serialize)]
struct Repaired {
    /// Rows and files that were missing or damaged, in words.
    lost: Vec<String>,
    head: Option<BlockRef>,
}

pub(super) fn run(args: RepairArgs) -> Result<(), Failure> {
    let result = args.result.open()?;
    let lost = DataDir::repair(&args.data.options(false))?;
    let rows = DataDir::open_rows(&args.data.options(true))?;
    let head = rows.chain_db().head()?;
    let words = |lost: KvError| match lost {
        KvError::Lost { what, .. } => what,
        other => other.to_string(),
    };
    let report = Repaired {
        lost: lost.into_iter().map(words).collect(),
        head: head.map(|head| head.block_ref()),
    };
    result.write(&report, || report.text())
}

impl Repaired {
    /// The result as text.
    fn text(&self) -> String {
        let head = match &self.head {
            Some(BlockRef { number, hash }) => format!("head {number} {hash}"),
            None => "there is no block yet".to_owned(),
        };
        match self.lost.is_empty() {
            true => format!("nothing was missing: {head}"),
            false => format!("{}\nback to the last whole state: {head}", self.lost.join("\n")),
        }
    }
}
