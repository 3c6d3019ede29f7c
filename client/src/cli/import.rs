//! `polytrie import`.

use super::{
    args::{ChainArg, DataArgs, MOST_THREADS, at_most},
    exit::Failure,
    logging::LogArgs,
    output::ResultArgs,
};
use crate::{
    datadir::DataDir,
    import::{self, CsvLog, Display, ImportEnd, ImportOptions, Shadow, not_verified},
    witness::WitnessDir,
};
use clap::{Args, ValueEnum};
use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
    thread,
};

/// Import block files, executing and verifying every block.
///
/// Files are RLP streams as `geth export` writes them, the same gzipped, hex lines, or era1 files (or a
/// directory of them); `-` is standard input. Blocks that are stored already are skipped, so a command that
/// was interrupted goes on where it stopped when it is run again.
#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// Block files, in their order; `-` for standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    chain: ChainArg,
    /// Stop after this block.
    #[arg(long, value_name = "N")]
    to: Option<u64>,
    /// What is compared with the headers: `full`, everything of every block; `every=N`, the state root of every Nth
    /// block only, which stands for those before it; `none`, neither state roots nor receipts roots.
    ///
    /// With `every=N` the layer takes N blocks as one, so the changes of a trie's upper part are hashed and written
    /// once for all of them. Everything else is checked block by block, each block can still be taken back by itself,
    /// and what is stored is the same as with `full`. Nothing of such a group is stored before its root is verified: if
    /// it is wrong, its blocks are executed again one by one, and the import names the one that is to blame. A group
    /// ends early at the end of the import, at Ctrl-C, where branches meet, and when it takes 128 MiB. Blocks from
    /// before Byzantium that have transactions are taken one by one, since their receipts hold state roots, and so is
    /// every block with --shadow or --witness. What is not noticed is a wrong root in a header that does not end a group, in a chain
    /// whose state is right. A layer without state roots (`raw`, `lmpt`, `lvmt`) has nothing to compare: there
    /// `every=N` is the same as `full`.
    #[arg(long, value_name = "full|every=N|none", default_value = "full", value_parser = parse_verify)]
    verify: Verify,
    /// At an invalid block: `fail` exits with 1; `stop` warns and exits with 0. What came before is kept
    /// either way.
    #[arg(long, value_name = "HOW", default_value = "fail")]
    on_invalid: OnInvalid,
    /// Make blocks durable in groups of this many (or as soon as 64 MiB have gathered). After a crash, the
    /// import goes on from the last group. With `--verify every=M`, at least M blocks are made durable at once.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..))]
    flush_every: u64,
    /// Threads that decode blocks and recover senders ahead of execution [default: one a core]
    #[arg(long, value_name = "N", value_parser = at_most(MOST_THREADS))]
    threads: Option<usize>,
    /// While a block is executed, run the next one on the state before it, so that what it reads is in memory when its
    /// turn comes. Worth it where the state is larger than memory and a core is free.
    #[arg(long)]
    prefetch: bool,
    /// Run a second layer in lock-step, in a directory of its own within --datadir, and compare every value written
    /// and, where both have one, every state root; the first difference ends the import with exit code 1.
    #[arg(long, value_name = "LAYER")]
    shadow: Option<String>,
    /// Write a witness of each block into this directory: what it takes to execute it without any state, for `polytrie
    /// witness verify`. Only the layer `rain` makes them.
    #[arg(long, value_name = "DIR")]
    witness: Option<PathBuf>,
    /// Levels of the account trie that witnesses leave out, for receivers that hold them.
    #[arg(
        long = "witness.levels",
        value_name = "LEVELS",
        default_value_t = 0,
        requires = "witness"
    )]
    witness_levels: u8,
    #[command(flatten)]
    result: ResultArgs,
    /// Write one line of figures a block to this file.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    #[command(flatten)]
    pub(super) data: DataArgs,
}

/// What is compared with the headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verify {
    /// The state root of every so many blocks, and all else of every block.
    Every(u64),
    /// All but state and receipts roots.
    None,
}

/// `full`, `none`, or `every=` and a number of at least 1.
fn parse_verify(text: &str) -> Result<Verify, String> {
    match (text, text.strip_prefix("every=").map(str::parse)) {
        ("full", _) => Ok(Verify::Every(1)),
        ("none", _) => Ok(Verify::None),
        (_, Some(Ok(every))) if every > 0 => Ok(Verify::Every(every)),
        _ => Err(format!("`{text}` is none of full, none, and every=N with an N of at least 1")),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnInvalid {
    /// Warn and exit with 0.
    Stop,
    /// Exit with 1.
    Fail,
}

pub(super) fn run(args: ImportArgs, logging: &LogArgs) -> Result<(), Failure> {
    let mut options = args.data.options();
    options.chain = args.chain.chain;
    let verify_every = match (args.verify, &args.shadow, &args.witness) {
        (Verify::Every(every), None, None) => every,
        // A shadow compares every block's root, and a witness is that of a block.
        _ => 1,
    };
    options.store.flush_every = args.flush_every;
    options.chain_options.verify_roots = args.verify != Verify::None;
    options.chain_options.verify_every = verify_every;
    let interrupt = on_interrupt()?;
    options.chain_options.keep_writes = args.shadow.is_some();
    options.chain_options.witness_levels = args.witness.as_ref().map(|_| args.witness_levels);
    let (mut chain, dir) = DataDir::open(&options, true)?.into_chain()?;
    let shadow =
        args.shadow.map(|layer| Shadow::open(&layer, &options, &dir, &chain)).transpose()?;
    let csv = args.csv.as_deref().map(CsvLog::create).transpose()?;
    let witnesses = args.witness.as_deref().map(|dir| {
        WitnessDir::create(dir)
            .map_err(|e| Failure::Machine(format!("cannot create {}: {e}", dir.display())))
    });
    let display = match (logging.is_quiet(), logging.can_draw()) {
        (true, _) => Display::Quiet,
        (false, true) => Display::Bar,
        (false, false) => Display::Lines,
    };
    let threads =
        args.threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    let ImportEnd { report, error } = import::import(
        &mut chain,
        ImportOptions {
            files: args.files,
            to: args.to,
            threads,
            prefetch: args.prefetch,
            interrupt,
            display,
            csv,
            shadow,
            witnesses: witnesses.transpose()?,
        },
    );
    tracing::info!("{}", report.summary(error.is_none()));
    for note in not_verified(&chain, &report) {
        tracing::warn!("{note}");
    }
    if let Some(shadow) = &report.shadow {
        let roots =
            if shadow.roots { "and state root" } else { "(its state roots cannot be compared)" };
        tracing::info!(
            "{} blocks compared with `{}`: every value written {roots}",
            shadow.blocks,
            shadow.state
        );
    }
    args.result.write(&report, || {
        let verified = match (args.verify, dir.kind.canonical) {
            (Verify::None, _) => "roots not verified".to_owned(),
            (_, false) => "state root not comparable".to_owned(),
            _ if verify_every == 1 => "every state root verified".to_owned(),
            _ => format!("state root verified every {verify_every} blocks and here"),
        };
        let head = &report.head;
        format!("head {} {} state root {} ({verified})", head.number, head.hash, head.state_root)
    })?;
    match error {
        Some(error) if error.is_invalid_block() && args.on_invalid == OnInvalid::Stop => {
            tracing::warn!("stopped: {error}");
            Ok(())
        }
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

/// A flag that the first SIGINT or SIGTERM sets; the second one ends the process at once.
pub(super) fn on_interrupt() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
            .map_err(|e| Failure::Machine(format!("cannot watch for signals: {e}")))?;
    }
    Ok(flag)
}
