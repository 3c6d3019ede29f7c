//! `polytrie export`.

use super::{
    args::StoredArgs,
    exit::Failure,
    output::{self, ResultArgs, Ticker},
    signals::{on_interrupt, on_interrupt_of},
};
use crate::{
    blocks::{ArchiveExporter, ArchiveFormat, BLOCKS_PER_ERA, ExportError, RlpWriter},
    chain::{ChainDb, ChainError, ExportBlock},
    datadir::{DataDir, Rows},
    words::counted,
};
use alloy_consensus::{Header, ReceiptEnvelope, TxReceipt, proofs};
use alloy_hardforks::EthereumHardfork;
use clap::{Args, ValueEnum};
use polytrie_chainspec::ChainSpec;
use serde::Serialize;
use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

/// Export blocks of the chain, byte for byte as they were imported.
#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The file to write; `.gz` at its end compresses it, `-` is standard output. For era1 and ere the
    /// directory that the files go to.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The first block [default: 0, or the first one that is here, if the chain begins with a state dump]
    #[arg(long, value_name = "N")]
    from: Option<u64>,
    /// The last block [default: the head]
    #[arg(long, value_name = "N")]
    to: Option<u64>,
    /// A stream of RLP as `geth import` reads it, or files of 8192 blocks with their receipts as `geth import-history` reads
    /// them, and checksums.txt beside them: era1 up to the merge, ere before and after it. Before Byzantium receipts hold
    /// state roots: there both need a layer with state roots, and an import that verified every root. [default: rlp]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    #[command(flatten)]
    result: ResultArgs,
    #[command(flatten)]
    pub(super) data: StoredArgs,
}

/// The result; serialises to the JSON of `--json`.
#[derive(Debug, Serialize)]
struct Exported {
    format: Format,
    from: u64,
    to: u64,
    blocks: u64,
    files: Vec<PathBuf>,
}

/// Callback that sees each block before it is written.
type Pass<'a> = dyn FnMut(&ExportBlock) -> Result<(), Failure> + 'a;

/// Endings of the names of block files.
const FILE_ENDINGS: [&str; 5] = ["gz", "rlp", "era1", "ere", "hex"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    /// Blocks one after the other.
    Rlp,
    /// Archive files of 8192 blocks up to the merge.
    Era1,
    /// Archive files of 8192 blocks before and after the merge.
    Ere,
}

impl Format {
    /// Which archive it is, if it is one.
    const fn archive(self) -> Option<ArchiveFormat> {
        match self {
            Self::Rlp => None,
            Self::Era1 => Some(ArchiveFormat::Era1),
            Self::Ere => Some(ArchiveFormat::Ere),
        }
    }
}

pub(super) fn run(args: ExportArgs) -> Result<(), Failure> {
    let format = args.format.unwrap_or(Format::Rlp);
    let ending = args.file.extension().and_then(OsStr::to_str);
    match (format.archive(), ending) {
        (Some(archive), _) => check_directory(&args.file, archive)?,
        // A file name that ends like an archive, without --format, most likely means an archive.
        (None, Some(named @ ("era1" | "ere"))) if args.format.is_none() => {
            return Err(Failure::Usage(format!(
                "{} would hold RLP, whatever its name says: give --format {named} and a directory for its files, or another name",
                args.file.display()
            )));
        }
        (None, _) => {}
    }
    output::expect_apart(&[("--json", args.result.file()), ("FILE", Some(&args.file))], &[])?;
    let dir = DataDir::open_rows(&args.data.options(true))?;
    dir.chain_db().check_settled()?;
    let head = dir.chain_db().head()?.ok_or_else(Failure::no_block)?.number();
    let first = dir.chain_db().start()?.map_or(0, |start| start + 1);
    if first > head {
        return Err(Failure::Usage(format!(
            "the chain in this directory begins with the state at block {head}, and there is no block after it yet; import some first"
        )));
    }
    let (from, to) = (args.from.unwrap_or(first), args.to.unwrap_or(head));
    if to > head || from > to || from < first {
        let to = args.to.map_or("the head".to_owned(), |to| to.to_string());
        return Err(Failure::Usage(format!(
            "blocks {from} to {to} were asked for, there are blocks {first} to {head}; choose --from and --to among these"
        )));
    }
    let changed = dir.chain_db().changed_by_hand((from, to))?;
    let mut impersonated: Vec<u64> = Vec::new();
    let interrupt = match args.result.file() {
        Some(file) if file != Path::new("-") => on_interrupt(),
        _ => on_interrupt_of(&args.file),
    };
    let result = args.result.open()?;
    let mut ticker = Ticker::new();
    let mut pass = |block: &ExportBlock| {
        let number = block.header.number;
        if interrupt.load(Ordering::Relaxed) {
            return Err(Failure::Interrupted(format!(
                "interrupted at block {number}; the same command begins anew"
            )));
        }
        if ticker.is_due() {
            tracing::info!(block = number, to, "exporting");
        }
        impersonated.extend(block.is_impersonated.then_some(number));
        Ok(())
    };
    let range = (from, to);
    let files = match format.archive() {
        None => rlp(&dir, &args.file, range, &mut pass)?,
        Some(archive) => archives(&dir, &args.file, archive, range, &mut pass)?,
    };
    if let Some(blocks) = in_words(&impersonated) {
        tracing::warn!(
            "accounts were impersonated in {blocks}: nobody signed their transactions, so an import refuses the first of these blocks, as any client does"
        );
    }
    if let Some(blocks) = in_words(&changed) {
        tracing::warn!(
            "the state was changed by hand ahead of {blocks}: the file does not hold these changes, so importing it gives another state, and a layer with state roots refuses the first of these blocks"
        );
    }
    let exported = Exported { format, from, to, blocks: to - from + 1, files };
    let line = exported.text(&args.file);
    if output::takes_stdout(Some(&args.file)) {
        tracing::info!("{line}");
        return result.write_json(&exported);
    }
    result.write(&exported, || line)
}

impl Exported {
    /// The result as text.
    fn text(&self, out: &Path) -> String {
        let Self { format, from, to, blocks, files } = self;
        let out = out.display();
        match format.archive() {
            None => format!("exported {}, {from} to {to}, to {out}", counted(*blocks, "block")),
            Some(_) => {
                let files = counted(files.len(), "file");
                format!("exported blocks {from} to {to} to {files} in {out}")
            }
        }
    }
}

/// A phrase that names the first ten of these blocks and counts the rest; `None` if there are none.
fn in_words(blocks: &[u64]) -> Option<String> {
    const NAMED: usize = 10;
    let (named, others) = blocks.split_at(blocks.len().min(NAMED));
    let list = named.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    match (blocks.len(), others.len()) {
        (0, _) => None,
        (1, _) => Some(format!("block {list}")),
        (_, 0) => Some(format!("the blocks {list}")),
        (_, more) => Some(format!("the blocks {list} and {more} more")),
    }
}

fn rlp(
    dir: &Rows,
    file: &Path,
    (from, to): (u64, u64),
    pass: &mut Pass<'_>,
) -> Result<Vec<PathBuf>, Failure> {
    let mut out = RlpWriter::create(file)?;
    dir.chain_db().export((from, to), |block| {
        pass(&block)?;
        out.push(&block.rlp)?;
        Ok::<_, Failure>(())
    })?;
    out.finish()?;
    Ok(vec![file.to_owned()])
}

fn archives(
    dir: &Rows,
    directory: &Path,
    format: ArchiveFormat,
    (from, to): (u64, u64),
    pass: &mut Pass<'_>,
) -> Result<Vec<PathBuf>, Failure> {
    let (db, spec, chain) = (dir.chain_db(), dir.spec()?, &*dir.stamp.chain);
    let network =
        Path::new(chain).file_stem().map_or_else(|| chain.into(), |s| s.to_string_lossy());
    expect_difficulty(&db, format)?;
    expect_start(&db, format, from)?;
    let mut out = ArchiveExporter::new(format, directory, &network, from)?;
    if format == ArchiveFormat::Era1 {
        expect_before_merge(&db, (from, to))?;
    }
    // The directory is made only after the range is checked, so that a refused command leaves nothing behind.
    output::create_dir(directory)?;
    db.export((from, to), |block| {
        pass(&block)?;
        let ExportBlock { header, rlp, total_difficulty, .. } = block;
        let receipts = db.receipts(header.number)?.ok_or_else(|| {
            let number = header.number;
            ChainError::Corrupt(format!("the receipts of block {number} are missing"))
        })?;
        check_receipts(&spec, &dir.stamp.state, format, &header, &receipts)?;
        out.push(&rlp, &receipts, total_difficulty)?;
        Ok::<_, Failure>(())
    })?;
    Ok(out.finish()?)
}

/// Fails if the total difficulties of the chain are not known: an archive holds them.
fn expect_difficulty(db: &ChainDb, format: ArchiveFormat) -> Result<(), Failure> {
    match db.start()? {
        Some(start) if !db.knows_difficulty()? => {
            let format = format.extension();
            Err(Failure::Usage(format!(
                "{format} files hold total difficulties, and those of this chain are not known, which begins with block {start}: leave --format {format} out to write RLP, or begin it again with `polytrie init --total-difficulty`"
            )))
        }
        _ => Ok(()),
    }
}

/// Fails if the range starts in the first file of a chain that begins in the middle of it.
fn expect_start(db: &ChainDb, format: ArchiveFormat, from: u64) -> Result<(), Failure> {
    let before = from - from % BLOCKS_PER_ERA;
    match db.start()? {
        Some(start) if before < from && before <= start => {
            let (format, after) = (format.extension(), before.saturating_add(BLOCKS_PER_ERA));
            Err(Failure::Usage(format!(
                "{format} files start at a multiple of {BLOCKS_PER_ERA}, and the chain begins with the state at block {start}: start the export at block {after}, or leave --format {format} out to write RLP"
            )))
        }
        _ => Ok(()),
    }
}

/// Fails if the range contains a block past the merge. The error names the first such block.
fn expect_before_merge(db: &ChainDb, (first, last): (u64, u64)) -> Result<(), Failure> {
    let is_merged =
        |number| Ok::<_, ChainError>(db.block_head(number)?.header.difficulty.is_zero());
    if !is_merged(last)? {
        return Ok(());
    }
    let (mut low, mut number) = (first, last);
    while low < number {
        let middle = low.midpoint(number);
        if is_merged(middle)? { number = middle } else { low = middle + 1 }
    }
    Err(ExportError::Merged { first, number }.into())
}

/// Fails if the receipts of a block have another root than its header: an archive holds the receipts.
fn check_receipts(
    spec: &ChainSpec,
    layer: &str,
    format: ArchiveFormat,
    header: &Header,
    receipts: &[ReceiptEnvelope],
) -> Result<(), Failure> {
    let found = proofs::calculate_receipt_root(receipts);
    let (number, expected) = (header.number, header.receipts_root);
    if found == expected {
        return Ok(());
    }
    let rules = spec.rules(number, header.timestamp, header.difficulty.is_zero());
    let lacks_root =
        |receipt: &ReceiptEnvelope| receipt.status_or_post_state().as_post_state().is_none();
    if !rules.is(EthereumHardfork::Byzantium) && receipts.iter().any(lacks_root) {
        let format = format.extension();
        return Err(Failure::Usage(format!(
            "{format} files hold receipts, and those of block {number}, before Byzantium, were stored without their state roots (the layer `{layer}` gives none, or the import had --verify none): leave --format {format} out to write RLP, or import under mpt, mpt-hash, replica or rain with all roots verified"
        )));
    }
    let text =
        format!("the receipts of block {number} make the root {found}, its header has {expected}");
    Err(ChainError::Corrupt(text).into())
}

/// Fails if the path names a file, since an archive format writes a directory of files.
fn check_directory(path: &Path, format: ArchiveFormat) -> Result<(), Failure> {
    let ending = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    let is_taken = path.exists() && !path.is_dir();
    let is_file = !path.exists() && FILE_ENDINGS.contains(&ending);
    if is_taken || is_file || path == Path::new("-") {
        let format = format.extension();
        return Err(Failure::Usage(format!(
            "{} names a file, and {format} needs a directory for its files; name one, or leave --format {format} out to write RLP",
            path.display()
        )));
    }
    Ok(())
}
