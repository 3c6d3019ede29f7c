//! `polytrie export`.

use super::{args::StoredArgs, exit::Failure};
use crate::{
    blocks::{Era1Exporter, RlpWriter},
    chain::ChainDb,
    datadir::DataDir,
};
use clap::{Args, ValueEnum};
use std::{
    ffi::OsStr,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Export blocks of the chain, byte for byte as they were imported.
#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The file to write; `.gz` at its end compresses it, `-` is standard output. For era1 the directory
    /// that the files go to.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The first block.
    #[arg(long, value_name = "N", default_value_t = 0)]
    from: u64,
    /// The last block [default: the head]
    #[arg(long, value_name = "N")]
    to: Option<u64>,
    /// A stream of RLP as `geth import` reads it, or era1 files with receipts and total difficulties.
    #[arg(long, value_name = "FORMAT", default_value = "rlp")]
    format: Format,
    #[command(flatten)]
    pub(super) data: StoredArgs,
}

/// Names of block files end like this.
const FILE_ENDINGS: [&str; 4] = ["gz", "rlp", "era1", "hex"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Blocks one after the other.
    Rlp,
    /// Archive files of 8192 blocks.
    Era1,
}

pub(super) fn run(args: ExportArgs) -> Result<(), Failure> {
    if args.format == Format::Era1 {
        check_directory(&args.file)?;
    }
    let dir = DataDir::open_rows(&args.data.options(true))?;
    let db = dir.chain_db();
    let head = db
        .head()?
        .ok_or_else(|| Failure::Invalid("there is no block in the data directory".into()))?
        .number();
    let to = args.to.unwrap_or(head);
    if to > head || args.from > to {
        return Err(Failure::Usage(format!(
            "blocks {} to {to} were asked for, there are blocks 0 to {head}",
            args.from
        )));
    }
    let line = match args.format {
        Format::Rlp => rlp(&db, &args.file, args.from, to)?,
        Format::Era1 => era1(&db, &dir.stamp.chain, &args.file, args.from, to)?,
    };
    if args.file == Path::new("-") {
        tracing::info!("{line}");
        return Ok(());
    }
    writeln!(io::stdout(), "{line}").map_err(|e| Failure::output(&e))
}

fn rlp(db: &ChainDb, file: &Path, from: u64, to: u64) -> Result<String, Failure> {
    let mut out = RlpWriter::create(file)?;
    for number in from..=to {
        let rlp = db.block_rlp(number)?.ok_or_else(|| missing(number))?;
        out.push(&rlp)?;
    }
    let blocks = out.finish()?;
    Ok(format!("exported {blocks} blocks, {from} to {to}, to {}", file.display()))
}

fn era1(
    db: &ChainDb,
    chain: &str,
    directory: &Path,
    from: u64,
    to: u64,
) -> Result<String, Failure> {
    let network =
        Path::new(chain).file_stem().map_or_else(|| chain.into(), |s| s.to_string_lossy());
    fs::create_dir_all(directory)
        .map_err(|e| Failure::Machine(format!("cannot create {}: {e}", directory.display())))?;
    let mut out = Era1Exporter::new(directory, &network, from)?;
    for number in from..=to {
        let rlp = db.block_rlp(number)?.ok_or_else(|| missing(number))?;
        let receipts = db.receipts(number)?.ok_or_else(|| missing(number))?;
        let receipts = alloy_rlp::encode(&receipts);
        let (_, total_difficulty) = db.canonical(number)?.ok_or_else(|| missing(number))?;
        out.push(&rlp, &receipts, total_difficulty)?;
    }
    let files = out.finish()?;
    Ok(format!(
        "exported blocks {from} to {to} to {} files in {}",
        files.len(),
        directory.display()
    ))
}

/// What names a file is no place for a directory of era1 files.
fn check_directory(path: &Path) -> Result<(), Failure> {
    let ending = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    let is_taken = path.exists() && !path.is_dir();
    let is_file = !path.exists() && FILE_ENDINGS.contains(&ending);
    if is_taken || is_file || path == Path::new("-") {
        return Err(Failure::Usage(format!(
            "{} names a file, and era1 needs a directory for its files; name one, or leave --format era1 out to write RLP",
            path.display()
        )));
    }
    Ok(())
}

fn missing(number: u64) -> Failure {
    Failure::Machine(format!("the store is damaged: block {number} is missing"))
}
