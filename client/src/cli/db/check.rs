//! `polytrie db check`.

use crate::{
    chain::{ChainError, ChainReport, check_state},
    cli::{
        args::{ChainArg, StoredArgs},
        exit::Failure,
        output::{ResultArgs, Ticker},
    },
    datadir::DataDir,
    words::counted,
};
use clap::Args;
use polytrie_state::{BlockRef, CheckReport, StateError};
use serde::Serialize;
use std::time::{Duration, Instant};

/// Look for damage: read every page and row, recompute the commitment from the state, and compare all rows that must agree.
///
/// Exits with 0 if nothing is wrong, with 3 if something is. Reads only, so it may run beside an import; it
/// then checks what was durable when it began.
#[derive(Debug, Args)]
pub(in crate::cli) struct CheckArgs {
    #[command(flatten)]
    chain: ChainArg,
    #[command(flatten)]
    result: ResultArgs,
    #[command(flatten)]
    pub(super) data: StoredArgs,
}

/// The result; serialises to the JSON of `--json`.
#[derive(Debug, Serialize)]
struct Checked {
    clean: bool,
    state: String,
    kv: String,
    head: Option<BlockRef>,
    /// Blocks of the chain, genesis included.
    blocks: u64,
    transactions: u64,
    /// Blocks whose receipts lack the state roots of the time before Byzantium, so that only gas and
    /// bloom were compared.
    receipts_not_comparable: u64,
    side_blocks: u64,
    /// Blocks that can be taken back, each with its undo record.
    undo_records: u64,
    accounts: u64,
    slots: u64,
    /// Rows of the authenticated structure, such as trie nodes.
    nodes: u64,
    seconds: f64,
    problems: Vec<String>,
}

pub(super) fn run(args: CheckArgs) -> Result<(), Failure> {
    let start = Instant::now();
    let mut options = args.data.options(true);
    options.chain = args.chain.chain;
    options.engine.check = true;
    args.result.expect_apart([], options.chain.as_deref())?;
    let result = args.result.open()?;
    // Checking the pages takes as long as reading all of them.
    tracing::info!("checking pages");
    let dir = DataDir::open(&options, false)?;
    let spec = dir.spec()?;
    let db = dir.chain_db();
    let mut ticker = Ticker::new();
    let chain = db.check(&spec, &mut |block| {
        if ticker.is_due() {
            tracing::info!(block, "checking blocks");
        }
    })?;
    let mut problems = chain.problems.clone();
    let mut state = CheckReport::default();
    // A damaged row of that kind is reported by `check_settled` below.
    let is_half_back = matches!(db.is_half_back(), Ok(true));
    if is_half_back {
        // Files beside the rows are as they were before the first step of the undo, so they are sound.
        tracing::warn!(
            "the state is that of no block before the way back has ended, and is not looked at"
        );
    }
    // Until the genesis block is stored, the state is an unfinished load that starts again, so it is not checked.
    if chain.head.is_some() && !is_half_back {
        state = dir.layer.check(&mut |accounts| {
            if ticker.is_due() {
                tracing::info!(accounts, "checking the state");
            }
        })?;
        problems.append(&mut state.problems);
        match check_state(&db, &*dir.layer) {
            // A layer that finds its head damaged only reports that, and the problem is listed already.
            Err(ChainError::State(StateError::Poisoned(_) | StateError::Corrupt(_)))
                if !problems.is_empty() => {}
            found => problems.append(&mut found?),
        }
    }
    match db.check_settled() {
        Ok(()) => {}
        // Nothing is lost: the next command that writes moves to that head by itself.
        Err(unsettled @ (ChainError::Interrupted { .. } | ChainError::HalfBack { .. })) => {
            tracing::warn!("{unsettled}")
        }
        Err(damage) => problems.push(damage.to_string()),
    }
    let checked = Checked::new(&dir, &chain, &state, problems, start.elapsed());
    let written = result.write(&checked, || checked.text());
    let found = match checked.problems.len() {
        0 => return written,
        1 => "one problem was".to_owned(),
        number => format!("{number} problems were"),
    };
    let found = Failure::Machine(format!(
        "the store in {} is damaged: {found} found, expected none; import again into an empty --datadir",
        args.data.datadir.display(),
    ));
    Failure::decide(Err(found), written)
}

impl Checked {
    fn new(
        dir: &DataDir,
        chain: &ChainReport,
        state: &CheckReport,
        problems: Vec<String>,
        time: Duration,
    ) -> Self {
        Self {
            clean: problems.is_empty(),
            state: dir.stamp.state.clone(),
            kv: dir.stamp.kv.clone(),
            head: chain.head,
            blocks: chain.blocks,
            transactions: chain.transactions,
            receipts_not_comparable: chain.receipts_not_comparable,
            side_blocks: chain.side_blocks,
            undo_records: chain.undo_records,
            accounts: state.accounts,
            slots: state.slots,
            nodes: state.nodes,
            seconds: time.as_secs_f64(),
            problems,
        }
    }

    /// The result as text.
    fn text(&self) -> String {
        if !self.clean {
            return self.problems.join("\n");
        }
        let Some(head) = &self.head else {
            return "clean: there is no block yet".to_owned();
        };
        let mut text = format!(
            "clean: head {} {}, {}, {}, {}, {}",
            head.number,
            head.hash,
            counted(self.blocks, "block"),
            counted(self.transactions, "transaction"),
            counted(self.accounts, "account"),
            counted(self.slots, "slot")
        );
        if self.nodes > 0 {
            text.push_str(&format!(", {}", counted(self.nodes, "node")));
        }
        if self.receipts_not_comparable > 0 {
            text.push_str(&format!(
                " (receipts roots of {} before Byzantium are not comparable: the receipts were stored without the state roots that they hold)",
                counted(self.receipts_not_comparable, "block")
            ));
        }
        text
    }
}
