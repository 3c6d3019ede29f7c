//! `polytrie db dump`.

use crate::{
    blocks::{ExportError, OutputFile},
    cli::{
        args::StoredArgs,
        exit::Failure,
        output::{self, Ticker},
        signals::on_interrupt_of,
    },
    datadir::DataDir,
    state_dump::{DumpForm, DumpOptions, StateDumpError, write_dump},
    words::counted,
};
use clap::{Args, ValueEnum};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Write the state at the head, one JSON object a line and account, in the order of the hashed addresses.
///
/// Two layers that hold the same state write the same bytes, so `diff` compares them. An account is
/// {"hash","nonce","balance","codeHash","code","storage"}, where "code" and "storage" are left out if there
/// is none; slots stand under the hash of their key, in the order of the hashes. The other formats name accounts and slots
/// themselves, which a directory knows if it was filled with --preimages. `polytrie init --state-dump` reads all of them.
#[derive(Debug, Args)]
pub(in crate::cli) struct DumpArgs {
    /// The file to write; `.gz` at its end compresses it, `-` is standard output.
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// How the state is written.
    #[arg(long, value_name = "FORMAT", default_value = "polytrie")]
    format: Format,
    /// Leave code out (its hash stays).
    #[arg(long)]
    no_code: bool,
    /// Leave storage out.
    #[arg(long)]
    no_storage: bool,
    #[command(flatten)]
    pub(super) data: StoredArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// By hashes, as described above.
    Polytrie,
    /// What reth's `init-state` takes: {"root"}, then an account a line.
    Reth,
    /// What `geth dump --iterative` writes.
    Geth,
    /// The chain's genesis file with the state as its accounts: `geth init` comes to the state root of the head.
    Genesis,
}

pub(super) fn run(args: DumpArgs) -> Result<(), Failure> {
    let form = match args.format {
        Format::Polytrie => DumpForm::Polytrie,
        Format::Reth => DumpForm::Reth,
        Format::Geth => DumpForm::Geth,
        Format::Genesis => DumpForm::Genesis,
    };
    let is_whole = !args.no_code && !args.no_storage;
    if !is_whole && matches!(args.format, Format::Reth | Format::Genesis) {
        let text = "--no-code and --no-storage go with --format polytrie or geth: the other formats are there to be read back";
        return Err(Failure::Usage(text.to_owned()));
    }
    output::expect_not_ours("FILE", &args.file)?;
    let interrupt = on_interrupt_of(&args.file);
    let dir = DataDir::open(&args.data.options(true), false)?;
    let mut out = OutputFile::create(&args.file)?;
    let options = DumpOptions { form, code: !args.no_code, storage: !args.no_storage };
    let mut ticker = Ticker::new();
    let written = write_dump(&dir, options, &mut out, &interrupt, &mut |accounts| {
        if ticker.is_due() {
            tracing::info!(accounts, "dumping");
        }
    });
    let accounts = match written {
        Ok(accounts) => accounts,
        Err(StateDumpError::Write(error)) => {
            let file = Arc::clone(out.name());
            return Err(ExportError::Io { file, error }.into());
        }
        Err(error) => return Err(error.into()),
    };
    out.finish()?;
    let line = format!("wrote {} to {}", counted(accounts, "account"), args.file.display());
    if args.file == Path::new("-") {
        tracing::info!("{line}");
        return Ok(());
    }
    output::line(&line)
}
