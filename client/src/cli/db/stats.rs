//! `polytrie db stats`.

use crate::{
    chain::{ChainDb, Head},
    cli::{
        args::StoredArgs,
        exit::Failure,
        output::{self, ResultArgs},
    },
    datadir::DataDir,
};
use alloy_primitives::{B256, U256};
use clap::Args;
use polytrie_kv::Store;
use polytrie_state::Stamp;
use serde::Serialize;
use std::{fmt::Write as _, path::PathBuf};

/// Show what a data directory holds and how much room it takes.
///
/// Reads only, so it may run beside an import; it sees durable blocks only. RocksDB does not count its
/// rows: there entries and sizes of tables are estimates, and a table that is empty may have an entry.
#[derive(Debug, Args)]
pub(in crate::cli) struct StatsArgs {
    #[command(flatten)]
    result: ResultArgs,
    #[command(flatten)]
    pub(super) data: StoredArgs,
}

/// The result; serialises to the JSON of `--json`.
#[derive(Debug, Serialize)]
struct Stats {
    datadir: PathBuf,
    #[serde(flatten)]
    stamp: Stamp,
    /// The head; `None` until the genesis block is written.
    head: Option<HeadStats>,
    commitment: B256,
    /// Bytes that the engine takes on disk, free pages in its file included.
    disk_bytes: u64,
    tables: Vec<TableRow>,
}

#[derive(Debug, Serialize)]
struct HeadStats {
    number: u64,
    hash: B256,
    state_root: B256,
    timestamp: u64,
    total_difficulty: U256,
}

#[derive(Debug, Serialize)]
struct TableRow {
    name: &'static str,
    entries: u64,
    bytes: u64,
}

pub(super) fn run(args: StatsArgs) -> Result<(), Failure> {
    let result = args.result.open()?;
    let dir = DataDir::open(&args.data.options(true), false)?;
    let commitment = dir.layer.commitment().digest();
    let stats = Stats::of(args.data.datadir, dir.stamp, dir.store, commitment)?;
    result.write(&stats, || stats.table())
}

impl Stats {
    fn of(datadir: PathBuf, stamp: Stamp, store: Store, commitment: B256) -> Result<Self, Failure> {
        let tables = store
            .tables()
            .iter()
            .map(|table| {
                let stats = store.table_stats(*table)?;
                Ok(TableRow { name: table.name, entries: stats.entries, bytes: stats.bytes })
            })
            .collect::<Result<_, Failure>>()?;
        Ok(Self {
            datadir,
            stamp,
            disk_bytes: store.disk_bytes()?,
            head: ChainDb::new(store).head()?.as_ref().map(HeadStats::of),
            commitment,
            tables,
        })
    }

    /// The result as text.
    fn table(&self) -> String {
        let Stamp { format, state, kv, chain, chain_id, genesis_hash, created_by, .. } =
            &self.stamp;
        let mut text = String::new();
        let mut row = |name: &str, value: String| {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{name:<17} {value}");
        };
        row("data directory", self.datadir.display().to_string());
        row("state layer", state.clone());
        row("engine", kv.clone());
        row("chain", format!("{chain} (chain id {chain_id}, genesis {genesis_hash})"));
        row("format", format!("{format}, made by {created_by}"));
        for (name, value) in &self.stamp.parameters {
            row(name, value.clone());
        }
        match &self.head {
            Some(head) => {
                row("head", format!("{} {}", head.number, head.hash));
                row("state root", head.state_root.to_string());
            }
            None => row("head", "none yet".to_owned()),
        }
        if !self.commitment.is_zero() {
            row("commitment", self.commitment.to_string());
        }
        row("on disk", output::bytes(self.disk_bytes));
        let _ = write!(text, "\n{:<18}{:>14}{:>14}", "table", "entries", "size");
        for table in &self.tables {
            let size = output::bytes(table.bytes);
            let _ = write!(text, "\n{:<18}{:>14}{size:>14}", table.name, table.entries);
        }
        text
    }
}

impl HeadStats {
    fn of(head: &Head) -> Self {
        Self {
            number: head.number(),
            hash: head.hash(),
            state_root: head.header.state_root,
            timestamp: head.header.timestamp,
            total_difficulty: head.total_difficulty,
        }
    }
}
