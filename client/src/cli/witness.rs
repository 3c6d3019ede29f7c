//! `polytrie witness`.

use super::{exit::Failure, input, output};
use crate::{
    datadir::{DataDir, OpenOptions},
    layers::{self, EngineOptions},
    witness::{Verified, WitnessError, WitnessFile, verify},
};
use clap::{Args, Subcommand};
use polytrie_chainspec::ChainSpec;
use std::path::PathBuf;

/// Verify blocks from witnesses, which hold what a block needs of the state (`import --witness` writes them).
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
}

pub(super) fn run(command: WitnessCommand) -> Result<(), Failure> {
    let WitnessCommand::Verify(VerifyArgs { files, chain, datadir }) = command;
    input::expect_stdin_once(files.iter().map(PathBuf::as_path))?;
    let stateless = layers::stateless()?;
    let held = datadir
        .map(|datadir| {
            let engine = EngineOptions { read_only: true, ..EngineOptions::default() };
            let state = Some(stateless.name.to_owned());
            let options =
                OpenOptions { datadir: Some(datadir), state, engine, ..OpenOptions::default() };
            DataDir::open(&options, false)
        })
        .transpose()?;
    let holder = held.as_ref().map(|dir| &*dir.layer);
    // The process that reads our output may close it; the exit code is still that of all files.
    let mut written = Ok(());
    for path in files {
        let name = input::name(&path);
        let text = input::read(&path)?;
        let file: WitnessFile = serde_json::from_slice(&text).map_err(|e| {
            let expected = "expected what `polytrie import --witness` writes";
            Failure::Invalid(format!("{name} holds no witness ({e}), {expected}"))
        })?;
        let spec = match (&chain, &held, &file.chain) {
            (Some(chain), ..) => ChainSpec::load(chain)?,
            (None, Some(dir), _) => dir.spec()?,
            (None, None, Some(chain)) => ChainSpec::load(chain)?,
            (None, None, None) => {
                return Err(Failure::Usage(format!(
                    "{name} does not say of which chain it is; name it with --chain"
                )));
            }
        };
        let verified = verify(&spec, &file, &stateless, holder).map_err(|error| match error {
            WitnessError::Broken(error) => Failure::Machine(format!("{name}: {error}")),
            error => Failure::Invalid(format!("{name}: {error}")),
        })?;
        let Verified { number, hash, state_root, receipts, bytes } = verified;
        let size = output::bytes(bytes as u64);
        let what = if receipts { "receipts root and state root" } else { "gas" };
        written = written.and_then(|()| {
            output::line(&format!(
                "block {number} {hash} state root {state_root}: {what} verified from a witness of {size}"
            ))
        });
    }
    written
}
