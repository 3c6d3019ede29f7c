//! `polytrie db dump`.

use crate::{
    blocks::{ExportError, OutputFile},
    cli::{
        args::StoredArgs,
        exit::Failure,
        output::{self, Ticker},
    },
    datadir::DataDir,
};
use alloy_primitives::{B256, hex};
use clap::Args;
use polytrie_state::{Account, StateError, StateLayer, StateReader};
use std::{
    io::{self, Write},
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Write the state at the head, one JSON object a line and account, in the order of the hashed addresses.
///
/// Two layers that hold the same state write the same bytes, so `diff` compares them. An account is
/// {"hash","nonce","balance","codeHash","code","storage"}, where "code" and "storage" are left out if there
/// is none; slots stand under the hash of their key, in the order of the hashes.
#[derive(Debug, Args)]
pub(in crate::cli) struct DumpArgs {
    /// The file to write; `.gz` at its end compresses it, `-` is standard output.
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// Leave code out (its hash stays).
    #[arg(long)]
    no_code: bool,
    /// Leave storage out.
    #[arg(long)]
    no_storage: bool,
    #[command(flatten)]
    pub(super) data: StoredArgs,
}

pub(super) fn run(args: DumpArgs) -> Result<(), Failure> {
    let dir = DataDir::open(&args.data.options(true), false)?;
    dir.chain_db().check_settled()?;
    let out = OutputFile::create(&args.file)?;
    let mut dump = Dump {
        layer: &*dir.layer,
        reader: dir.layer.reader()?,
        with_code: !args.no_code,
        with_storage: !args.no_storage,
        out,
        failed: None,
        accounts: 0,
        ticker: Ticker::new(),
    };
    let walked = dir.layer.accounts(B256::ZERO, &mut |hash, account| dump.account(hash, &account));
    // Where writing failed, that is why the walk ended.
    if let Some(error) = dump.failed.take() {
        let file = Arc::clone(dump.out.name());
        return Err(ExportError::Io { file, error }.into());
    }
    walked?;
    let accounts = dump.accounts;
    dump.out.finish()?;
    let line = format!("wrote {accounts} accounts to {}", args.file.display());
    if args.file == Path::new("-") {
        tracing::info!("{line}");
        return Ok(());
    }
    output::line(&line)
}

struct Dump<'a> {
    layer: &'a dyn StateLayer,
    reader: Arc<dyn StateReader>,
    with_code: bool,
    with_storage: bool,
    out: OutputFile,
    failed: Option<io::Error>,
    accounts: u64,
    ticker: Ticker,
}

impl Dump<'_> {
    fn account(&mut self, hash: B256, account: &Account) -> Result<ControlFlow<()>, StateError> {
        let Account { nonce, balance, code_hash } = account;
        self.put(format_args!(
            r#"{{"hash":"{hash}","nonce":"{nonce:#x}","balance":"{balance:#x}","codeHash":"{code_hash}""#
        ));
        if self.with_code && account.has_code() {
            let code = self.reader.code(code_hash)?.ok_or_else(|| {
                StateError::Corrupt(format!("the code {code_hash} of account {hash} is missing"))
            })?;
            self.put(format_args!(r#","code":"{}""#, hex::encode_prefixed(code)));
        }
        if self.with_storage {
            self.storage(hash)?;
        }
        self.put(format_args!("}}\n"));
        self.accounts += 1;
        if self.ticker.is_due() {
            tracing::info!(accounts = self.accounts, "dumping");
        }
        Ok(self.flow())
    }

    fn storage(&mut self, account: B256) -> Result<(), StateError> {
        let layer = self.layer;
        let mut separator = r#","storage":{"#;
        layer.slots(account, B256::ZERO, &mut |slot, value| {
            self.put(format_args!(r#"{separator}"{slot}":"{value:#x}""#));
            separator = ",";
            Ok(self.flow())
        })?;
        if separator == "," {
            self.put(format_args!("}}"));
        }
        Ok(())
    }

    /// Writes, unless that failed before.
    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        if self.failed.is_none() {
            self.failed = self.out.write_fmt(text).err();
        }
    }

    const fn flow(&self) -> ControlFlow<()> {
        if self.failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
