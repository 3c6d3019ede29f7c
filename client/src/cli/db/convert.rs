//! `polytrie db convert`.

use crate::{
    cli::{
        args::{ENGINE_NAME, LAYER_NAME},
        exit::Failure,
        output::{ResultArgs, Ticker},
        signals::on_interrupt,
    },
    convert::{Converted, convert},
    datadir::{DataDir, OpenOptions},
    layers::{EngineOptions, LayerOptions},
    words::counted,
};
use alloy_primitives::B256;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

/// Turn the state of a data directory into that of another layer, in a new directory.
///
/// The chain and its head stay the same, and an import goes on from there. The states are compared in the end; if
/// either layer has state roots, the new state must have that of the head. The blocks up to the head cannot be taken back in
/// the new directory, since undo records belong to a layer. The commitment of a layer without state roots may depend on the
/// blocks that it executed, and so differ from that of an import. `binary` needs a directory that was filled with --preimages.
#[derive(Debug, Args)]
pub(in crate::cli) struct ConvertArgs {
    /// Directory of chain and state.
    #[arg(long, value_name = "DIR")]
    pub(super) datadir: PathBuf,
    /// The state layer that is expected in it [default: whatever it holds]
    #[arg(long, value_name = "LAYER", value_parser = LAYER_NAME)]
    state: Option<String>,
    /// The layer of the new directory.
    #[arg(long, value_name = "LAYER", value_parser = LAYER_NAME)]
    to: String,
    /// The new directory; made if it is not there.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Key-value engine of the new directory; `memory` keeps nothing, and is refused.
    #[arg(long, value_name = "ENGINE", default_value = "mdbx", value_parser = ENGINE_NAME)]
    kv: String,
    #[command(flatten)]
    result: ResultArgs,
    #[command(flatten)]
    layer: LayerOptions,
}

/// The result; serialises to the JSON of `--json`.
#[derive(Debug, Serialize)]
struct Report {
    from: String,
    to: String,
    number: u64,
    hash: B256,
    commitment: B256,
    accounts: u64,
    slots: u64,
}

pub(super) fn run(args: ConvertArgs) -> Result<(), Failure> {
    if args.kv == "memory" {
        let text = "a directory in memory cannot be written; use --kv mdbx or --kv rocksdb";
        return Err(Failure::Usage(text.to_owned()));
    }
    let stored = OpenOptions {
        datadir: Some(args.datadir.clone()),
        state: args.state,
        // The other settings belong to the new directory.
        layer: args.layer.needs().into(),
        engine: EngineOptions { read_only: true, ..EngineOptions::default() },
        ..OpenOptions::default()
    };
    let result = args.result.open()?;
    let interrupt = on_interrupt();
    let source = DataDir::open(&stored, false)?;
    let options = OpenOptions {
        datadir: Some(args.out.clone()),
        state: Some(args.to),
        kv: Some(args.kv),
        layer: args.layer,
        ..OpenOptions::default()
    };
    let target = DataDir::create_beside(&source, &args.datadir, &options)?;
    let mut ticker = Ticker::new();
    // Either of the two directories may have failed, so the error names both.
    let failed = |error| match Failure::from(error) {
        Failure::Stored(text) => Failure::Stored(format!(
            "converting {} into {}: {text}",
            args.datadir.display(),
            args.out.display()
        )),
        failure => failure,
    };
    let Converted { number, hash, accounts, slots, commitment } =
        convert(&source, &target, &interrupt, &mut |what, accounts| {
            if ticker.is_due() {
                tracing::info!(accounts, "{what}");
            }
        })
        .map_err(failed)?;
    target.seal(&args.out, &args.datadir)?;
    let (from, to) = (source.stamp.state, target.stamp.state);
    let report = Report { from, to, number, hash, commitment, accounts, slots };
    result.write(&report, || {
        format!(
            "converted {} into {}: head {number} {hash}, {}, {}, equal; commitment {commitment}",
            report.from,
            report.to,
            counted(accounts, "account"),
            counted(slots, "slot")
        )
    })
}
