//! `polytrie import`.

use super::{
    access_lists::AccessListArgs,
    args::{ChainArg, DataArgs, LAYER_NAME, SlowBlockArg, core_count, prefetch},
    exit::Failure,
    input,
    logging::LogArgs,
    output::{self, ResultArgs, ResultFile, Ticker},
    signals::on_interrupt,
};
use crate::{
    blocks::input_name,
    chain::Chain,
    datadir::{DataDir, NewDir, OpenOptions},
    executor::Prefetch,
    import::{
        self, Begun, CsvLog, Display, ImportEnd, ImportError, ImportOptions, ImportReport, Shadow,
        ShadowError, TraceLog, not_verified,
    },
    layers::values::{MOST_THREADS, some_at_most},
    layers::{self, DEFAULT_LAYER},
    prefetch::{PrefetcherReport, Prefetchers},
    prestate::Prestate,
    state_dump::Step,
    witness::WitnessDir,
    words::counted,
};
use clap::{Args, ValueEnum};
use polytrie_kv::Durability;
use polytrie_state::StateError;
use std::{
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
};

/// Import block files, executing and verifying every block.
///
/// Files are RLP streams as `geth export` writes them, hex lines, era1 or ere files, gzipped or not, or a directory of era1
/// and ere files, one for each 8192 blocks; `-` is standard input. The receipts of era1 and ere files are compared with
/// those of the execution, and the files with checksums.txt beside them, if there is one. Blocks that are stored already
/// are skipped, so a command that was interrupted goes on where it stopped when it is run again.
#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// Block files, in their order, or directories of era1 and ere files; `-` for standard input.
    #[arg(required_unless_present = "prestate", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Execute real blocks without the whole state, from a directory with a JSON file for each of some consecutive blocks. A
    /// file holds a block and the state that it touches, as scripts/fetch-prestate asks a node for it, or is a witness, as
    /// --witness writes it. Everything is checked but state roots, as a part of a state has another root. Nothing is kept: the
    /// state is in --datadir (without it, in memory) until the end of the command, which removes it.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["files", "shadow", "witness", "preimages", "bal",
        "bal_build", "bal_threads", "bal_file", "prefetchers"])]
    prestate: Option<PathBuf>,
    /// With --prestate: accounts in the state, those that the blocks touch included, so that tries are as deep as those of a
    /// state of this size.
    #[arg(
        long,
        value_name = "N",
        requires = "prestate",
        conflicts_with = "files",
        default_value_t = 0
    )]
    accounts: u64,
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
    /// and the same is stored as with `full`. Nothing of such a group is stored before its root is verified: if it is wrong,
    /// its blocks are executed again one by one, and the import names the wrong one. A group ends early at the end of the
    /// import, at Ctrl-C, where branches meet, when no block comes for a second, and when it takes 128 MiB. Blocks from before
    /// Byzantium that have transactions are taken one by one, since their receipts hold state roots, and so is every block
    /// with --shadow or --witness. A wrong root in a header within a group is not noticed if the state is right. A layer without state roots (`raw`, `lmpt`,
    /// `lvmt`, `binary`, `nomt`, `qmdb`) has nothing to compare: there `every=N` is the same as `full`.
    #[arg(long, value_name = "full|every=N|none", default_value = "full", value_parser = parse_verify)]
    verify: Verify,
    /// At an invalid block: `fail` exits with 1; `stop` warns and exits with 0. Earlier blocks are kept in both
    /// cases. A file that breaks off, or that holds no blocks, exits with 1 in any case.
    #[arg(long, value_name = "HOW", default_value = "fail")]
    on_invalid: OnInvalid,
    /// Make blocks durable in groups of this many (or as soon as --kv.buffer bytes have gathered, or no block has come from
    /// a pipe for a second). After a crash, the import goes on from the last group. With `--verify every=M`, at least M
    /// blocks are made durable at once. Under `mpt-hash`, and `replica` with `--replica.mode paper`, each block is written
    /// by itself [default: 4096]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    flush_every: Option<u64>,
    /// Threads that decode blocks and recover senders ahead of execution [default: one a core]
    #[arg(long, value_name = "N", value_parser = some_at_most(MOST_THREADS))]
    threads: Option<usize>,
    /// While a block is executed, run those after it on the state before it, on many threads, so that what they read is
    /// in memory when their turn comes: `auto`, while the store is slow because the state is larger than memory, and no
    /// process of --prefetchers does the same in time; `on` (or --prefetch alone), always; `off`, never.
    #[arg(long, value_name = "WHEN", default_value = "auto", num_args = 0..=1, require_equals = true,
        default_missing_value = "on", value_parser = prefetch())]
    prefetch: Prefetch,
    /// Listen on this address (port 0: any that is free) for processes that read what the next blocks will need, also on other
    /// machines (`polytrie prefetch`). Their nodes are verified by hash before use, and a block waits for them no longer than
    /// it takes without them. Only the layer `rain` uses them. The port checks no identity: a stranger who reaches it sees the
    /// announced blocks, and can waste time and memory of this process, up to a bound, but change nothing. So keep it in a
    /// private network.
    #[arg(long, value_name = "ADDRESS:PORT")]
    prefetchers: Option<SocketAddr>,
    /// Run a second layer in lock-step, in a directory of its own within --datadir, and compare every written value
    /// and, if both have one, every state root; the first difference ends the import with exit code 1.
    #[arg(long, value_name = "LAYER", value_parser = LAYER_NAME)]
    shadow: Option<String>,
    /// Write a witness of each block into this directory, with all that its execution needs of the state, for `polytrie
    /// witness verify`. Only the layer `rain` makes them.
    #[arg(long, value_name = "DIR")]
    witness: Option<PathBuf>,
    /// Levels of the account trie that witnesses leave out, for receivers that hold them.
    #[arg(
        long = "witness.levels",
        value_name = "LEVELS",
        default_value_t = 0,
        requires = "witness",
        conflicts_with = "prestate"
    )]
    witness_levels: u8,
    /// Keep the addresses and slots that blocks add to the state (and those of the genesis) beside their hashes: `polytrie
    /// db dump` needs them for other clients' formats, and `polytrie db convert` for the layer `binary`, which keeps them by
    /// itself. They must be kept from the first block on; a directory that has some goes on keeping them.
    #[arg(long)]
    preimages: bool,
    #[command(flatten)]
    access_lists: AccessListArgs,
    #[command(flatten)]
    result: ResultArgs,
    /// Write one line of figures a block to this file; `-` for standard output. An import that goes on appends to the
    /// lines of the blocks before it; after a crash none of them is missing.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the values that each transaction changes in the state to this file, a line a value, for `polytrie bench store
    /// --trace`; `-` for standard output. Goes on as --csv does; blocks of a branch that is left are removed again.
    #[arg(long, value_name = "FILE", conflicts_with = "shadow")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    slow_block: SlowBlockArg,
    #[command(flatten)]
    pub(super) data: DataArgs,
}

/// The roots that are compared with the headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verify {
    /// Compares the state root of every so many blocks, and all else of every block.
    Every(u64),
    /// Compares all but state and receipts roots.
    None,
}

/// Parses `full`, `none`, or `every=` and a number of at least 1.
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
    args.expect_apart()?;
    let mut options = args.open_options();
    output::expect_outside(
        &[
            ("--json", args.result.file()),
            ("--csv", args.csv.as_deref()),
            ("--trace", args.trace.as_deref()),
            ("--witness", args.witness.as_deref()),
        ],
        &options,
    )?;
    let result = args.result.open()?;
    if let Some(dir) = &args.prestate {
        return run_partial(&args, dir, options, result, logging);
    }
    import::expect_files(&args.files)?;
    let listener = args.listener(&options)?;
    // The logs of an earlier import must survive a mistake about its directory: they are opened before a new
    // directory is made, but after an existing one has been opened.
    let (mut logs, mut begun) = (None, None);
    if options.is_new() {
        begun = check_first(&args, &mut options)?;
        logs = Some(args.create_logs()?);
    }
    let witnesses = args.witness_dir()?;
    // A list file that is only read is opened before a directory is made, so that a wrong path leaves none behind. A
    // file that is written may lie in that directory, so it is opened later.
    let known = match args.access_lists.builds() {
        true => None,
        false => Some(args.access_lists.open(&options)?),
    };
    let interrupt = on_interrupt();
    let (mut chain, dir) = DataDir::open(&options, true)?.into_chain()?;
    keep_preimages(&mut chain, &dir, args.preimages)?;
    let began_at_genesis = chain.head().number() == chain.spec().genesis_header().number;
    let shadow = args
        .shadow
        .as_deref()
        .map(|layer| Shadow::open(layer, &options, &dir, &chain, &interrupt))
        .transpose()?;
    let prefetchers = listener.map(|listener| Prefetchers::start(listener, &chain)).transpose()?;
    if let Some(prefetchers) = &prefetchers {
        tracing::info!("prefetchers connect to {}", prefetchers.address());
    }
    let (csv, trace) = match logs {
        Some(logs) => logs,
        None => args.create_logs()?,
    };
    let (hints, access_lists) = match known {
        Some(known) => known,
        None => args.access_lists.open(&options)?,
    };
    let import_options = ImportOptions {
        files: args.files.clone(),
        begun,
        prefetchers,
        csv,
        trace,
        shadow,
        witnesses,
        hints,
        access_lists,
        ..args.import_options(interrupt, logging)
    };
    let end = import::import(&mut chain, import_options);
    args.end(&chain, end, result, (dir.kind.canonical, began_at_genesis))
}

/// Keeps addresses and slots if that is asked for, or if those of earlier blocks are kept: a gap cannot be filled later.
fn keep_preimages(chain: &mut Chain, dir: &DataDir, is_asked: bool) -> Result<(), Failure> {
    let (has_some, head) = (chain.db().has_preimages()?, chain.head().number());
    if is_asked && !has_some && head > chain.spec().genesis_header().number {
        tracing::warn!(
            "the addresses and slots up to block {head} are not kept, so `db dump` for other clients and `db convert --to binary` will miss them: for these, import all blocks with --preimages into another --datadir"
        );
    }
    // A layer that needs them writes them by itself.
    if is_asked || (has_some && !chain.layer().needs_preimages()) {
        chain.keep_preimages()?;
    }
    // Where the genesis block is there already, its accounts were not read.
    if is_asked && chain.start().is_none() && !chain.spec().has_accounts() {
        let genesis = dir.genesis().map_err(|error| error.to_string()).and_then(|genesis| {
            match genesis.genesis_hash() == chain.spec().genesis_hash() {
                true => Ok(genesis),
                false => Err(format!("{} has another genesis block now", genesis.name())),
            }
        });
        match genesis {
            Ok(genesis) => chain.keep_preimages_from(&genesis)?,
            Err(error) => {
                tracing::warn!("the addresses and slots of the genesis are not kept: {error}");
            }
        }
    }
    Ok(())
}

/// Executes the blocks of --prestate on the part of the state that they touch, in a new data directory that
/// is removed afterwards.
fn run_partial(
    args: &ImportArgs,
    dir: &Path,
    mut options: OpenOptions,
    result: ResultFile,
    logging: &LogArgs,
) -> Result<(), Failure> {
    if options.datadir.is_none() {
        // Another engine needs a directory, and is refused without one.
        options.kv.get_or_insert_with(|| "memory".to_owned());
    }
    // The directory that is made below is removed, however the command ends.
    let interrupt = on_interrupt();
    let new = NewDir::create(&options)?;
    let done = (|| {
        let spec = new.dir().spec()?;
        let prestate = Prestate::read(dir, &spec)?;
        let mut ticker = Ticker::new();
        let progress = &mut |step: Step| {
            if ticker.is_due() {
                tracing::info!(accounts = step.accounts, slots = step.slots, "{}", step.what);
            }
        };
        let mut chain = prestate.begin(new.dir(), args.accounts, &interrupt, progress)?;
        let (first, last) = prestate.range();
        tracing::info!(
            "blocks {first} to {last} name {}, of {} in the state",
            counted(prestate.accounts(), "account"),
            prestate.accounts().max(args.accounts)
        );
        if !prestate.knows_parent() {
            tracing::warn!(
                "the header before block {first} is not known, so the rules that compare its own with that are not checked"
            );
        }
        let name = dir.display().to_string();
        let (csv, trace) = args.create_logs()?;
        let import_options = ImportOptions {
            files: vec![dir.to_owned()],
            begun: Some(Begun::of_bytes(&name, prestate.stream())?),
            csv,
            trace,
            ..args.import_options(interrupt, logging)
        };
        let end = import::import(&mut chain, import_options);
        args.end(&chain, end, result, (false, false))
    })();
    let removed = new.discard();
    Failure::decide(done, removed.map_err(Failure::from))
}

impl ImportArgs {
    /// Options of the import, without its files and further outputs.
    fn import_options(&self, interrupt: Arc<AtomicBool>, logging: &LogArgs) -> ImportOptions {
        let display = match (logging.is_quiet(), logging.can_draw()) {
            (true, _) => Display::Quiet,
            (false, true) => Display::Bar,
            (false, false) => Display::Lines,
        };
        ImportOptions {
            to: self.to,
            threads: self.threads.unwrap_or_else(core_count),
            prefetch: self.prefetch,
            interrupt,
            display,
            ..ImportOptions::plain(Vec::new())
        }
    }

    /// Prints and writes the result of an import. The pair says whether the layer has canonical state roots, and
    /// whether the import began at the genesis block.
    fn end(
        &self,
        chain: &Chain,
        end: ImportEnd,
        result: ResultFile,
        (is_canonical, began_at_genesis): (bool, bool),
    ) -> Result<(), Failure> {
        let ImportEnd { report, error } = end;
        tell(chain, &report, error.is_none());
        if let Some(to) = self.to.filter(|_| report.lacks_last) {
            let head = report.head.number;
            tracing::warn!(
                "block {to} of --to is not in the files; the chain ends at block {head}"
            );
        }
        let line = self.verdict(&report, is_canonical, began_at_genesis);
        let written = if [&self.csv, &self.trace]
            .into_iter()
            .any(|file| output::takes_stdout(file.as_deref()))
        {
            tracing::info!("{line}");
            result.write_json(&report)
        } else {
            result.write(&report, || line)
        };
        let ended = match error {
            Some(error) if report.invalid.is_some() && self.on_invalid == OnInvalid::Stop => {
                tracing::warn!("stopped: {error}");
                Ok(())
            }
            Some(ImportError::Interrupted { head })
                if self.prestate.is_some() || report.kv == "memory" =>
            {
                let text = format!(
                    "interrupted at block {head}; nothing was kept, and the same command begins anew"
                );
                Err(Failure::Interrupted(text))
            }
            Some(error) => Err(error.into()),
            None => Ok(()),
        };
        Failure::decide(ended, written)
    }

    /// Refuses outputs that would overwrite each other or a file that is read, and standard input that is named twice.
    fn expect_apart(&self) -> Result<(), Failure> {
        input::expect_stdin_once(self.files.iter().map(PathBuf::as_path))?;
        let genesis = self.chain.chain.as_deref().map(Path::new);
        let files = input::block_inputs(&self.files, self.prestate.as_deref());
        let inputs: Vec<&Path> = files.iter().map(PathBuf::as_path).chain(genesis).collect();
        let outputs = [
            ("--json", self.result.file()),
            ("--csv", self.csv.as_deref()),
            ("--trace", self.trace.as_deref()),
            ("--bal-file", self.access_lists.output()),
        ];
        output::expect_apart(&outputs, &inputs)
    }

    /// Options that open the data directory.
    fn open_options(&self) -> OpenOptions {
        let mut options = self.data.options();
        options.chain.clone_from(&self.chain.chain);
        options.flush_every = self.flush_every;
        let has_lines = self.csv.is_some() || self.trace.is_some();
        if has_lines || self.witness.is_some() || self.access_lists.builds() {
            // The lines, witnesses and access lists of blocks are written before the blocks become durable.
            options.store.durability = Durability::ByHand;
        }
        options.chain_options.verify_roots = self.verify != Verify::None;
        options.chain_options.verify_every = self.verify_every();
        options.chain_options.keep_writes = self.shadow.is_some() || self.trace.is_some();
        options.chain_options.log_slow_blocks = self.slow_block.least();
        options.chain_options.keep_access_lists =
            self.access_lists.builds() || self.trace.is_some();
        options.chain_options.list_use = self.access_lists.list_use();
        options.chain_options.witness_levels = self.witness.as_ref().map(|_| self.witness_levels);
        options
    }

    /// Number of blocks that share one comparison of the state root.
    const fn verify_every(&self) -> u64 {
        match (self.verify, &self.shadow, &self.witness) {
            (Verify::Every(every), None, None) => every,
            // A shadow compares the root of every block, and a witness belongs to one block.
            _ => 1,
        }
    }

    /// Opens the files of --csv and --trace, which get lines for each block.
    fn create_logs(&self) -> Result<(Option<CsvLog>, Option<TraceLog>), ImportError> {
        let csv = self.csv.as_deref().map(CsvLog::create).transpose()?;
        Ok((csv, self.trace.as_deref().map(TraceLog::create).transpose()?))
    }

    /// Listener that prefetchers connect to, if --prefetchers is set.
    fn listener(&self, options: &OpenOptions) -> Result<Option<TcpListener>, Failure> {
        if self.prefetchers.is_some() && options.is_in_memory() {
            let reason = "--kv memory keeps nothing that prefetchers could read; leave out --prefetchers, or name another engine";
            return Err(Failure::Usage(reason.to_owned()));
        }
        Ok(self.prefetchers.map(Prefetchers::bind).transpose()?)
    }

    fn witness_dir(&self) -> Result<Option<WitnessDir>, Failure> {
        let create = |dir: &Path| {
            WitnessDir::create(dir).map_err(|error| output::cannot_create(dir, &error))
        };
        self.witness.as_deref().map(create).transpose()
    }

    /// One line of result: the head, and which roots were verified.
    fn verdict(&self, report: &ImportReport, is_canonical: bool, began_at_genesis: bool) -> String {
        let verified = match (report.lost, self.verify, is_canonical) {
            (1, ..) => "1 block after it was executed and is lost".to_owned(),
            (lost @ 2.., ..) => format!("{lost} blocks after it were executed and are lost"),
            (_, Verify::None, _) => "roots not verified".to_owned(),
            (_, _, false) => "state root not comparable".to_owned(),
            _ => verified(began_at_genesis, report.blocks, self.verify_every()),
        };
        format!("{} ({verified})", report.head)
    }
}

/// Logs the summary of an import, what was not verified, and what was written beside the chain.
fn tell(chain: &Chain, report: &ImportReport, is_done: bool) {
    tracing::info!("{}", report.summary(is_done));
    for note in not_verified(chain, report) {
        tracing::warn!("{note}");
    }
    if report.witnesses.as_ref().is_some_and(|written| written.blocks == 0) && report.skipped > 0 {
        tracing::warn!(
            "no witness was written: it is made when a block is executed, and these are stored already; import them into another --datadir, or take them back with `polytrie db unwind` first"
        );
    }
    if let Some(lists) = report.lists_written {
        tracing::info!("the access lists of {} were written", counted(lists, "block"));
    }
    if report.listed > 0 {
        tracing::info!("the access lists of {} were known ahead", counted(report.listed, "block"));
    }
    if let Some(prefetchers) = &report.prefetchers {
        let PrefetcherReport { connected, announced, sent } = prefetchers;
        tracing::info!(
            "{}, {} announced to them; in time: {}, late: {}, used: {} of {}; reads that a transaction waits for: {:.2}",
            counted(*connected, "prefetcher"),
            counted(*announced, "block"),
            counted(sent.bags, "bag"),
            sent.late,
            sent.used,
            counted(sent.nodes, "node"),
            report.waited.requests as f64 / report.txs.max(1) as f64
        );
    }
    if let Some(shadow) = &report.shadow {
        let roots =
            if shadow.roots { "and state root" } else { "(its state roots cannot be compared)" };
        tracing::info!(
            "{} compared with `{}`: every value written {roots}",
            counted(shadow.blocks, "block"),
            shadow.state
        );
    }
}

/// Checks all that can be known before there is a data directory. A directory that was made for an import that
/// cannot run would block the next one, which may use another layer or chain. Returns the first file, if its first
/// header was read.
fn check_first(args: &ImportArgs, options: &mut OpenOptions) -> Result<Option<Begun>, Failure> {
    let kind = layers::layer(options.state.as_deref().unwrap_or(DEFAULT_LAYER))?;
    if let Some(layer) = &args.shadow
        && layers::layer(layer)?.name == kind.name
    {
        return Err(ShadowError::Same { layer: layer.clone() }.into());
    }
    if args.witness.is_some() {
        let maker = layers::stateless()?.name;
        if kind.name != maker {
            let reason =
                format!("makes no witnesses of blocks as they are executed; use `{maker}`");
            return Err(StateError::Unsupported { layer: kind.name, reason }.into());
        }
    }
    if args.prefetchers.is_some() {
        layers::expect_bags(kind)?;
    }
    // With `--on-invalid stop` the directory keeps the genesis block even if the first block is invalid.
    let (Some(file), OnInvalid::Fail) = (args.files.first(), args.on_invalid) else {
        return Ok(None);
    };
    let begun = Begun::open(file)?;
    let header = begun.header()?;
    options.first_block = header.map(|header| (PathBuf::from(&*input_name(file)), header));
    Ok(Some(begun))
}

/// A phrase that says which state roots this import compared. Blocks stored earlier may not have been verified.
fn verified(began_at_genesis: bool, blocks: u64, every: u64) -> String {
    match (blocks, began_at_genesis, every) {
        (0, ..) => "no block was executed, no state root verified".to_owned(),
        (_, true, 1) => "every state root verified".to_owned(),
        (_, false, 1) => format!("every state root of {} verified", counted(blocks, "block")),
        (_, true, _) => format!("state root verified every {every} blocks and here"),
        _ => {
            let blocks = counted(blocks, "block");
            format!("state root verified every {every} of {blocks} and here")
        }
    }
}
