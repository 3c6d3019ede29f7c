//! `polytrie bench`.

use super::{exit::Failure, import::on_interrupt, output};
use crate::bench::{
    GenerateError, Generated, Popularity, ProduceError, Sample, Size, Transfer, Workload, generate,
};
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use std::path::PathBuf;

/// Make workloads.
#[derive(Debug, Args)]
pub(super) struct BenchArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Generate(GenerateArgs),
}

pub(super) fn run(args: BenchArgs) -> Result<(), Failure> {
    match args.command {
        Command::Generate(args) => run_generate(&args),
    }
}

/// Write a chain that this program, geth and reth import: DIR/genesis.json and DIR/chain.rlp.
///
/// The chain is past the merge from its first block. The same options always give the same bytes.
#[derive(Debug, Args)]
struct GenerateArgs {
    /// What the blocks hold.
    #[arg(long, value_name = "NAME")]
    workload: Name,
    /// Accounts at genesis [default: 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    accounts: Option<u32>,
    /// Transactions in all blocks together [default: 100000]
    #[arg(long, value_name = "N")]
    txs: Option<u64>,
    /// Transactions in a block [default: 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=50_000))]
    block_txs: Option<u64>,
    /// Which accounts take part: each as often as any other, or a tenth of them in nine tenths of the cases [default:
    /// uniform]
    #[arg(long, value_name = "HOW")]
    popularity: Option<Popularity>,
    /// Percentage of transfers whose recipient does not exist before [default: 5]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(..=100))]
    new_recipients: Option<u64>,
    /// What everything random follows from.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The directory to write to; made if it is not there.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Write parameters and result as JSON to this file; `-` for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Name {
    /// Transfers of ether.
    Transfer,
    /// A thousand small blocks with a little of everything; its size is fixed.
    Sample,
}

/// The JSON of `--json`.
#[derive(Debug, Serialize)]
struct Report<'a> {
    workload: Name,
    seed: u64,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    size: Option<Size>,
    #[serde(flatten)]
    generated: &'a Generated,
}

fn run_generate(args: &GenerateArgs) -> Result<(), Failure> {
    let interrupt = on_interrupt()?;
    let mut size = None;
    let mut workload: Box<dyn Workload> = match args.workload {
        Name::Transfer => {
            let chosen = args.size();
            size = Some(chosen);
            Box::new(Transfer::new(chosen))
        }
        Name::Sample => {
            args.refuse_size()?;
            Box::new(Sample::new(args.seed))
        }
    };
    let generated = generate(&mut *workload, &args.out, &interrupt)?;
    let report = Report { workload: args.workload, seed: args.seed, size, generated: &generated };
    if let Some(file) = &args.json {
        output::json(file, &report)?;
    }
    if output::takes_stdout(args.json.as_deref()) {
        return Ok(());
    }
    let head = &generated.head;
    output::line(&format!("head {} {} state root {}", head.number, head.hash, head.state_root))
}

impl GenerateArgs {
    fn size(&self) -> Size {
        Size {
            accounts: self.accounts.unwrap_or(100_000) as usize,
            txs: self.txs.unwrap_or(100_000),
            block_txs: self.block_txs.unwrap_or(200),
            popularity: self.popularity.unwrap_or(Popularity::Uniform),
            new_recipients: self.new_recipients.unwrap_or(5),
            seed: self.seed,
        }
    }

    /// The sample has the size it has.
    fn refuse_size(&self) -> Result<(), Failure> {
        let given = [
            ("--accounts", self.accounts.is_some()),
            ("--txs", self.txs.is_some()),
            ("--block-txs", self.block_txs.is_some()),
            ("--popularity", self.popularity.is_some()),
            ("--new-recipients", self.new_recipients.is_some()),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(Failure::Usage(format!(
                "{option} does not go with --workload sample, whose size is fixed: leave it out, or choose another workload"
            ))),
            None => Ok(()),
        }
    }
}

impl From<GenerateError> for Failure {
    fn from(error: GenerateError) -> Self {
        match error {
            GenerateError::Io { .. } => Self::Machine(error.to_string()),
            GenerateError::Write(error) => error.into(),
            GenerateError::Open(error) => error.into(),
            GenerateError::Produce(ProduceError::Chain(error)) => error.into(),
            GenerateError::Produce(error) => Self::Machine(error.to_string()),
            GenerateError::Interrupted { .. } => Self::Interrupted(error.to_string()),
        }
    }
}
