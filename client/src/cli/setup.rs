//! `polytrie setup`: makes the setup that a layer needs before its first run.

use super::{
    exit::Failure,
    output::{self, ResultArgs},
};
use crate::layers::lvmt;
use alloy_primitives::B256;
use clap::{Args, Subcommand};
use polytrie_amt::{PowersError, PowersOfTau, Setup, SetupError, VerifyingKey};
use serde::Serialize;
use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

/// Prepare what a state layer needs before it can run.
#[derive(Debug, Subcommand)]
pub(super) enum SetupCommand {
    Lvmt(LvmtSetupArgs),
}

/// Derive the tables of `lvmt` from powers of tau, and keep them.
///
/// The powers come from a ceremony: files of points as EigenDA publishes them (--g1 and --g2), or a .ptau file of
/// snarkjs. They are checked against each other by pairings first. With --insecure-dev they follow from a seed: good for
/// devnets and benchmarks, and marked as such in every data directory and proof.
#[derive(Debug, Args)]
pub(super) struct LvmtSetupArgs {
    /// Powers of tau in G1, 32 bytes each, gnark-compressed.
    #[arg(long, value_name = "FILE", requires = "g2", conflicts_with_all = ["ptau", "insecure_dev"])]
    g1: Option<PathBuf>,
    /// Powers tau^(2^k) in G2, 64 bytes each, gnark-compressed.
    #[arg(long, value_name = "FILE", requires = "g1", conflicts_with_all = ["ptau", "insecure_dev"])]
    g2: Option<PathBuf>,
    /// Powers of tau as snarkjs keeps them.
    #[arg(long, value_name = "FILE", conflicts_with = "insecure_dev")]
    ptau: Option<PathBuf>,
    /// Use a tau that follows from the seed: for development only.
    #[arg(long)]
    insecure_dev: bool,
    /// The seed of --insecure-dev.
    #[arg(long, value_name = "TEXT", default_value = "dev", requires = "insecure_dev",
        conflicts_with_all = ["g1", "g2", "ptau"])]
    seed: String,
    /// Directory of the setup, where no other one may be [default: polytrie/lvmt in the user's cache; lvmt-insecure-dev for --insecure-dev]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Leave out the tables for proofs: a seventh of the time and a quarter of the space, but `--lvmt.proofs` can
    /// only be `none`.
    #[arg(long)]
    no_proofs: bool,
    /// Height of the trees: 2^height entries each. It is part of the commitment.
    #[arg(long, value_name = "H", default_value_t = 16, value_parser = clap::value_parser!(u8).range(1..=20))]
    height: u8,
    #[command(flatten)]
    result: ResultArgs,
}

/// The result; serialises to the JSON of `--json`.
#[derive(Debug, Serialize)]
struct Made {
    setup: B256,
    insecure: bool,
    height: u8,
    proofs: bool,
    dir: PathBuf,
    table_bytes: u64,
    seconds: Seconds,
}

#[derive(Debug, Serialize)]
struct Seconds {
    read_and_check: f64,
    derive: f64,
    write: f64,
}

pub(super) fn run(command: SetupCommand) -> Result<(), Failure> {
    match command {
        SetupCommand::Lvmt(args) => lvmt(&args),
    }
}

fn lvmt(args: &LvmtSetupArgs) -> Result<(), Failure> {
    let out = match &args.out {
        Some(out) => out.clone(),
        None => lvmt::default_dir(args.insecure_dev)?,
    };
    let inputs: Vec<&Path> =
        [&args.g1, &args.g2, &args.ptau].into_iter().flatten().map(PathBuf::as_path).collect();
    output::expect_apart(&[("--json", args.result.file())], &inputs)?;
    let start = Instant::now();
    let powers = powers(args)?;
    // Checked before the tables are derived, which takes long.
    expect_place(&out, &VerifyingKey::new(&powers), !args.no_proofs)?;
    fs::create_dir_all(&out).map_err(|e| {
        Failure::Machine(format!("cannot make {}: {e}; name a directory with --out", out.display()))
    })?;
    let result = args.result.open()?;
    let read_and_check = start.elapsed().as_secs_f64();
    tracing::info!("the powers of tau are good ({read_and_check:.1} s)");

    let start = Instant::now();
    let setup = Setup::derive(&powers, !args.no_proofs, &mut |step| {
        let seconds = start.elapsed().as_secs_f64();
        tracing::info!("derived {} of {} tables ({seconds:.1} s)", step.done, step.total);
    });
    let derive = start.elapsed().as_secs_f64();

    let start = Instant::now();
    setup.write(&out).map_err(|error: SetupError| Failure::Machine(error.to_string()))?;
    let made = Made {
        setup: setup.id(),
        insecure: setup.is_insecure(),
        height: setup.height(),
        proofs: setup.can_prove(),
        table_bytes: setup.table_bytes(),
        dir: out,
        seconds: Seconds { read_and_check, derive, write: start.elapsed().as_secs_f64() },
    };
    result.write(&made, || {
        let kind = if made.insecure { "INSECURE setup for development" } else { "setup" };
        format!(
            "{kind} {} of height {} in {}: {} MiB of tables, derived in {derive:.1} s",
            made.setup,
            made.height,
            made.dir.display(),
            made.table_bytes >> 20,
        )
    })
}

/// Refuses an output directory where something would be lost: another setup, without which its data can be neither
/// opened nor verified, or this setup's tables for proofs. A damaged setup is overwritten.
fn expect_place(out: &Path, key: &VerifyingKey, proofs: bool) -> Result<(), Failure> {
    let Ok(found) = VerifyingKey::open(out) else { return Ok(()) };
    let dir = out.display();
    if found.id() != key.id() {
        return Err(Failure::Usage(format!(
            "there is another setup in {dir}: {} of height {}, and this one is {} of height {}; name another directory with --out, or remove that one if no data directory and no proof rests on it",
            found.id(),
            found.height(),
            key.id(),
            key.height()
        )));
    }
    if !proofs && Setup::open(out, true).is_ok() {
        return Err(Failure::Usage(format!(
            "this setup is in {dir} already, with the tables for proofs, which --no-proofs would take away; leave it as it is, remove the directory first, or name another one with --out"
        )));
    }
    Ok(())
}

fn powers(args: &LvmtSetupArgs) -> Result<PowersOfTau, Failure> {
    let powers = match (&args.g1, &args.g2, &args.ptau, args.insecure_dev) {
        (Some(g1), Some(g2), ..) => PowersOfTau::read_gnark(args.height, g1, g2),
        (_, _, Some(ptau), _) => PowersOfTau::read_ptau(args.height, ptau),
        (_, _, _, true) => PowersOfTau::insecure_dev(args.height, &args.seed),
        _ => {
            return Err(Failure::Usage(
                "powers of tau are needed: --g1 FILE and --g2 FILE, or --ptau FILE; or --insecure-dev, for development"
                    .into(),
            ));
        }
    };
    powers.map_err(|error| match error {
        PowersError::Io(_) => Failure::Machine(error.to_string()),
        PowersError::Height(_) => Failure::Usage(error.to_string()),
        _ => Failure::Invalid(error.to_string()),
    })
}
