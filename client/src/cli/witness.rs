//! `polytrie witness`.

use super::{
    exit::Failure,
    input,
    output::{self, ResultArgs},
};
use crate::{
    blocks::input_name,
    datadir::{DataDir, OpenOptions},
    layers::{self, EngineOptions, Stateless},
    witness::{Verified, WitnessError, WitnessFile, verify},
};
use clap::{Args, Subcommand};
use polytrie_chainspec::ChainSpec;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Verify blocks from witnesses, which hold the part of the state that a block needs (`import --witness` writes them).
#[derive(Debug, Subcommand)]
pub(super) enum WitnessCommand {
    Verify(VerifyArgs),
}

/// Execute a block from its witness alone, holding no state, and compare receipts root and state root with its header.
///
/// If the witness leaves out the top levels of the trie, they come from --datadir. That may be at another block, as long as
/// nothing that the witness holds has changed in between. Then the state root after the block is another one, and is not
/// compared.
#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    /// Witness files, as `import --witness` writes them; `-` for standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The chain: a built-in name or the path of a genesis.json [default: what the file says]
    #[arg(long, value_name = "CHAIN")]
    chain: Option<String>,
    /// A data directory of the layer `rain` that holds the levels that the witness leaves out.
    #[arg(long, value_name = "DIR")]
    datadir: Option<PathBuf>,
    #[command(flatten)]
    result: ResultArgs,
}

/// The result; serialises to the JSON of `--json`.
#[derive(Debug, Default, Serialize)]
struct Report {
    blocks: Vec<Verified>,
}

pub(super) fn run(command: WitnessCommand) -> Result<(), Failure> {
    let WitnessCommand::Verify(args) = command;
    let files: Vec<&Path> = args.files.iter().map(PathBuf::as_path).collect();
    input::expect_stdin_once(files.iter().copied())?;
    args.result.expect_apart(files.iter().copied(), args.chain.as_deref())?;
    let result = args.result.open()?;
    let stateless = layers::stateless()?;
    let held = args
        .datadir
        .map(|datadir| {
            let engine = EngineOptions { read_only: true, ..EngineOptions::default() };
            let state = Some(stateless.name.to_owned());
            let options =
                OpenOptions { datadir: Some(datadir), state, engine, ..OpenOptions::default() };
            DataDir::open(&options, false)
        })
        .transpose()?;
    // The process that reads our output may close it; the exit code is still that of all files.
    let (mut report, mut written) = (Report::default(), Ok(()));
    let found: Result<(), Failure> = files.into_iter().try_for_each(|path| {
        let verified = verified(path, args.chain.as_deref(), held.as_ref(), &stateless)?;
        if written.is_ok() && !args.result.takes_stdout() {
            written = output::line(&text(&verified));
        }
        report.blocks.push(verified);
        Ok(())
    });
    Failure::decide(found, result.write_json(&report).and(written))
}

/// Verifies the block of a file.
fn verified(
    path: &Path,
    chain: Option<&str>,
    held: Option<&DataDir>,
    stateless: &Stateless,
) -> Result<Verified, Failure> {
    let name = input_name(path);
    let text = input::read(path)?;
    let file: WitnessFile = serde_json::from_slice(&text).map_err(|e| {
        let expected = "expected what `polytrie import --witness` writes";
        Failure::Invalid(format!("{name} holds no witness ({e}), {expected}"))
    })?;
    let spec = match (chain, held, &file.chain) {
        (Some(chain), ..) => ChainSpec::load(chain)?,
        (None, Some(dir), _) => dir.spec()?,
        // The name stands in the file, not on the command line.
        (None, None, Some(chain)) => ChainSpec::built_in(chain).ok_or_else(|| {
            Failure::Invalid(format!(
                "{name}: unknown chain {chain:?}, expected mainnet, sepolia, holesky, hoodi or dev; name the chain with --chain"
            ))
        })?,
        (None, None, None) => {
            return Err(Failure::Usage(format!(
                "{name} does not say of which chain it is; name it with --chain"
            )));
        }
    };
    let holder = held.map(|dir| &*dir.layer);
    verify(&spec, &file, stateless, holder).map_err(|error| match error {
        WitnessError::Broken(error) => Failure::Machine(format!("{name}: {error}")),
        error => Failure::Invalid(format!("{name}: {error}")),
    })
}

/// The result of a block as text.
fn text(Verified { number, hash, state_root, receipts, bytes }: &Verified) -> String {
    let what = if *receipts { "receipts root and state root" } else { "gas" };
    let size = output::bytes(*bytes as u64);
    format!(
        "block {number} {hash} state root {state_root}: {what} verified from a witness of {size}"
    )
}
