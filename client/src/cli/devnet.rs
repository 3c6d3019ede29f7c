//! `polytrie devnet`: runs a node with a private chain.

use super::{
    args::{ChainArg, DataArgs, SlowBlockArg},
    authrpc::AuthArgs,
    bench::user_cache,
    exit::Failure,
    logging::LogArgs,
    output,
    serving::{HttpArgs, PoolArgs, expect_room, machine, serve, tell_chain},
    signals::on_interrupt,
};
use crate::{
    bench::{self, Cache, Settings, Subject},
    blocks::OutputFile,
    chain::Chain,
    consensus::{MAX_GAS_LIMIT, MIN_GAS_LIMIT},
    datadir::{DataDir, OpenOptions},
    devnet::{DEFAULT_MNEMONIC, DevAccounts, Miner, MiningMode, Node, NodeOptions, dev_genesis},
    layers::LAYERS,
    rpc::{self, Audience, RunningServer},
};
use alloy_primitives::{
    Address, U256,
    utils::{format_ether, parse_units},
};
use clap::{Arg, Args};
use polytrie_chainspec::ChainSpec;
use polytrie_kv::Durability;
use polytrie_state::Stamp;
use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Chain id of a new `dev` chain by default.
const DEFAULT_CHAIN_ID: u64 = 1337;
/// Ether of each account in a new `dev` chain by default.
const DEFAULT_BALANCE: &str = "10000";

/// Run a private chain that wallets and tools talk to over JSON-RPC.
///
/// Blocks are made as soon as a transaction comes, by the same executor and state layers as an import. Without
/// --datadir everything is in memory and gone at the end. The chain is `dev` (every fork to Osaka, accounts of a
/// mnemonic with plenty of ether) unless --chain names another or the directory holds one. Ctrl-C (or SIGTERM) ends it:
/// the current block is finished and made durable, and the exit code is 0.
#[derive(Debug, Args)]
#[command(mut_args(with_authrpc))]
pub(super) struct DevnetArgs {
    #[command(flatten)]
    chain: ChainArg,
    /// Change nothing: serve what the directory holds now. What an import beside it adds is not seen before the next
    /// start.
    #[arg(long)]
    read_only: bool,
    /// Seconds between blocks, empty or not; 0 makes one as soon as there is a transaction.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, conflicts_with = "read_only")]
    block_time: f64,
    /// Make blocks only when asked to (`evm_mine`).
    #[arg(long, conflicts_with = "block_time")]
    no_mining: bool,
    /// Accounts with ether that the node signs for.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=1000))]
    accounts: u32,
    /// Ether of each of them, in a new `dev` chain [default: 10000]
    #[arg(long, value_name = "ETHER")]
    balance: Option<String>,
    /// The words of the mnemonic from which the accounts follow.
    #[arg(long, value_name = "WORDS", default_value = DEFAULT_MNEMONIC)]
    mnemonic: String,
    /// Chain id of a new `dev` chain; any other has the id it has [default: 1337]
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u64).range(1..))]
    chain_id: Option<u64>,
    /// Gas limit that blocks move towards.
    #[arg(long, value_name = "GAS", value_parser = clap::value_parser!(u64).range(MIN_GAS_LIMIT..=MAX_GAS_LIMIT))]
    gas_limit: Option<u64>,
    /// Address that receives the tips.
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "0x0000000000000000000000000000000000000000"
    )]
    coinbase: Address,
    /// Blocks before the head whose state can be read and proven. More are kept where a snapshot needs them, and all of
    /// them in memory.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..))]
    history: u64,
    #[command(flatten)]
    files: StateFileArgs,
    /// Serve the Engine API too, on a port of its own: a consensus layer chooses the blocks, and the node makes none by
    /// itself.
    #[arg(long, help_heading = "Engine API over HTTP and WebSocket", conflicts_with_all = ["read_only", "block_time"])]
    authrpc: bool,
    #[command(flatten)]
    auth: AuthArgs,
    #[command(flatten)]
    http: HttpArgs,
    #[command(flatten)]
    pool: PoolArgs,
    #[command(flatten)]
    slow_block: SlowBlockArg,
    #[command(flatten)]
    pub(super) data: DataArgs,
}

impl DevnetArgs {
    /// Refuses to write the state over a file that is read.
    fn expect_apart(&self) -> Result<(), Failure> {
        let engine = self.data.options().engine;
        let inputs = [
            self.chain.chain.as_deref().map(Path::new),
            self.auth.file(),
            engine.login.as_ref().map(|(_, password)| password.as_path()),
            engine.tls_ca.as_deref(),
        ];
        self.files.expect_apart(&inputs.into_iter().flatten().collect::<Vec<_>>())
    }
}

/// Refuses the options of the Engine API where that is not served. clap drops a requirement that conflicts with another option,
/// so what conflicts with --authrpc is named for them, too.
fn with_authrpc(option: Arg) -> Arg {
    match option.get_id().as_str() {
        "auth_addr" | "auth_port" | "secret" | "payloads" => {
            option.requires("authrpc").conflicts_with_all(["read_only", "block_time"])
        }
        _ => option,
    }
}

/// Files of the whole state.
#[derive(Debug, Args)]
#[command(next_help_heading = "State files, as anvil writes them")]
struct StateFileArgs {
    /// Begin with the state in this file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["datadir", "read_only"])]
    load_state: Option<PathBuf>,
    /// Write the state to this file at the end; in a directory, to `state.json`.
    #[arg(long, value_name = "FILE")]
    dump_state: Option<PathBuf>,
    /// Begin with the state in this file, if it is there, and write it there at the end: anvil's --state.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["datadir", "read_only", "load_state", "dump_state"])]
    state_file: Option<PathBuf>,
}

impl StateFileArgs {
    const fn are_named(&self) -> bool {
        self.load_state.is_some() || self.dump_state.is_some() || self.state_file.is_some()
    }

    /// Reads the state of --load-state or --state-file into the node, if there is such a file.
    fn load(&self, node: &Node) -> Result<(), Failure> {
        let path = match (&self.load_state, &self.state_file) {
            (Some(path), _) => within(path),
            (None, Some(path)) if within(path).exists() => within(path),
            _ => return Ok(()),
        };
        let name = path.display();
        let cannot_read = |error: io::Error| {
            Failure::Machine(format!(
                "cannot read the state in {name}: {error}; --state-file takes one that is not there yet"
            ))
        };
        let mut file = BufReader::new(File::open(&path).map_err(cannot_read)?);
        // A directory can be opened, too: that it is no file shows at the first read.
        file.fill_buf().map_err(cannot_read)?;
        rpc::read_state(node, file)
            .map_err(|error| Failure::Invalid(format!("{name}: {}", error.message())))?;
        tracing::info!(
            "the state in {name} was loaded; the head is block {}",
            node.view().head.number()
        );
        Ok(())
    }

    /// The option that names the file for the state at the end, and the path of that file.
    fn written(&self) -> Option<(&'static str, PathBuf)> {
        match (&self.dump_state, &self.state_file) {
            (Some(path), _) => Some(("--dump-state", within(path))),
            (None, Some(path)) => Some(("--state-file", within(path))),
            (None, None) => None,
        }
    }

    /// Refuses to write the state over one of these inputs. The file of --load-state may be written anew.
    fn expect_apart(&self, inputs: &[&Path]) -> Result<(), Failure> {
        let Some((option, path)) = self.written() else { return Ok(()) };
        output::expect_apart(&[(option, Some(path.as_path()))], inputs)
    }

    /// Opens the file that the state is written to at the end; `None` if no option names one. The file is opened at
    /// the start, so that a path that cannot be written fails before the work is done.
    fn output(&self) -> Result<Option<OutputFile>, Failure> {
        Ok(self.written().map(|(_, path)| OutputFile::create(path)).transpose()?)
    }
}

/// Writes the state of a node that has stopped to the file.
fn dump(node: &Node, mut file: OutputFile) -> Result<(), Failure> {
    let name = Arc::clone(file.name());
    rpc::write_state(node, &mut file).map_err(|error| {
        Failure::Machine(format!("cannot write the state to {name}: {}", error.message()))
    })?;
    file.finish()?;
    tracing::info!("the state was written to {name}");
    Ok(())
}

/// The path itself, or `state.json` in it if it is a directory.
fn within(path: &Path) -> PathBuf {
    if path.is_dir() { path.join("state.json") } else { path.to_owned() }
}

pub(super) fn run(args: DevnetArgs, logging: &LogArgs) -> Result<(), Failure> {
    let interrupt = on_interrupt();
    args.expect_apart()?;
    let accounts = DevAccounts::new(&args.mnemonic, args.accounts)
        .map_err(|error| Failure::Usage(error.to_string()))?;
    let mining = mining(&args)?;
    let needs = args.data.options().layer.needs();
    let server_options = args.http.options(Audience::Owner, origins(&args), needs)?;
    let (chain, dir) = open(&args, &accounts)?.into_chain()?;
    if !args.read_only {
        expect_no_signers(&chain)?;
    }
    let options = NodeOptions {
        accounts,
        mining,
        read_only: args.read_only,
        pool: args.pool.limits(),
        gas_limit: args.gas_limit,
        beneficiary: args.coinbase,
        is_driven: false,
    };
    let node = Node::new(chain, dir, options).map_err(machine)?;
    args.files.load(&node)?;
    let state_file = args.files.output()?;
    let threads = Miner::start(&node)?;
    expect_room(1 + usize::from(args.authrpc))?;
    let driven = match args.authrpc {
        true => {
            let secret = args.auth.secret(&args.data)?;
            let server = args.auth.serve(&node, &secret, &server_options)?;
            secret.tell(&server)?;
            Some(server)
        }
        false => None,
    };
    let server = rpc::serve(Arc::clone(&node), server_options)?;
    if !logging.is_quiet() {
        greet(&args, &node)?;
    }
    // Scripts wait for this line, so it is the last one.
    let address = server.address();
    output::line(&format!("listening on http://{address} and ws://{address}"))?;
    warn_if_open(&args, &server);
    serve(&node, &interrupt, threads, driven.into_iter().chain([server]))?;
    let is_kept = args.data.options().datadir.is_some();
    if is_kept && state_file.is_none() && node.has_changes_by_hand() {
        tracing::warn!(
            "what was changed by hand after block {} is in no block, and gone; the next time, make one before the end (evm_mine)",
            node.view().head.number()
        );
    }
    state_file.map_or(Ok(()), |file| dump(&node, file))
}

/// Fails if the next block of the chain must be sealed by a signer of Clique, which a devnet cannot do.
fn expect_no_signers(chain: &Chain) -> Result<(), Failure> {
    let (spec, head) = (chain.spec(), chain.head());
    let merged = spec.is_merged_after(head.total_difficulty);
    match spec.rules(head.number(), head.header.timestamp, merged).clique() {
        None => Ok(()),
        Some(_) => Err(Failure::Usage(format!(
            "the blocks of {} are sealed by the signers of Clique, and this program seals none: add --read-only to serve those that were imported",
            spec.name()
        ))),
    }
}

fn mining(args: &DevnetArgs) -> Result<MiningMode, Failure> {
    if args.no_mining || args.authrpc {
        return Ok(MiningMode::Manual);
    }
    if args.block_time == 0.0 {
        return Ok(MiningMode::OnArrival);
    }
    let period = Duration::try_from_secs_f64(args.block_time).ok().filter(|time| !time.is_zero());
    period.map(MiningMode::Every).ok_or_else(|| {
        Failure::Usage(format!("--block-time {} is not a number of seconds", args.block_time))
    })
}

/// Opens the data directory, or makes a new one. Without --datadir the chain is in memory.
fn open(args: &DevnetArgs, accounts: &DevAccounts) -> Result<DataDir, Failure> {
    let mut options: OpenOptions = args.data.options();
    options.chain.clone_from(&args.chain.chain);
    options.chain_options.undo_blocks = args.history;
    options.chain_options.log_slow_blocks = args.slow_block.least();
    options.engine.read_only = args.read_only;
    options.layer.executes = !args.read_only;
    if args.block_time > 0.0 {
        // With a block time, each block can wait for the disk. Blocks that are made for each transaction cannot.
        options.store.durability = Durability::EveryWrite;
    }
    if options.datadir.is_none() {
        if args.read_only {
            return Err(Failure::Usage(
                "--read-only needs --datadir: there is nothing to serve otherwise".into(),
            ));
        }
        options.kv.get_or_insert_with(|| "memory".into());
        equip(&mut options)?;
    }
    let is_new = !args.read_only && options.is_new();
    if is_new && options.chain.as_deref().is_none_or(|chain| chain == "dev") {
        let chain_id = args.chain_id.unwrap_or(DEFAULT_CHAIN_ID);
        let balance = balance(args.balance.as_deref().unwrap_or(DEFAULT_BALANCE))?;
        let genesis = dev_genesis(chain_id, accounts.addresses(), balance);
        return Ok(DataDir::create_with(&options, &genesis)?);
    }
    if let (Some(ether), Some(chain)) = (&args.balance, &options.chain)
        && chain != "dev"
    {
        return Err(Failure::Usage(format!(
            "--balance {ether} is for the accounts of a new `dev` chain, and in {chain} accounts have what its genesis says; leave the option out"
        )));
    }
    if let Some(asked) = args.chain_id {
        expect_chain_id(asked, &options)?;
    }
    let dir = DataDir::open(&options, !args.read_only)?;
    if args.read_only {
        // Settling the head that a crash has left would write, so a read-only node refuses the directory.
        dir.chain_db().check_settled()?;
    }
    Ok(dir)
}

/// Makes the setup that the layer cannot be opened without, in the user's cache. A chain that is in memory only needs
/// no setup that others trust.
fn equip(options: &mut OpenOptions) -> Result<(), Failure> {
    let kind = LAYERS.iter().find(|kind| options.state.as_deref() == Some(kind.name));
    let Some(kind) = kind.filter(|kind| kind.provision(&options.layer).is_some()) else {
        return Ok(());
    };
    let cache = user_cache().ok_or_else(|| {
        Failure::Usage(format!(
            "there is no home directory to keep in what `{}` needs once; make it with `polytrie setup`",
            kind.name
        ))
    })?;
    let mut settings = Settings { layer: options.layer.clone(), ..Settings::default() };
    bench::equip(&[Subject::new(kind.name, "memory")], &mut settings, &Cache::open(&cache)?)?;
    options.layer = settings.layer;
    tracing::warn!(
        "`{}` has no setup: as the chain is in memory only, an INSECURE one was made up, with which anything can be proven; `polytrie setup` makes a real one",
        kind.name
    );
    Ok(())
}

/// A balance in wei.
fn balance(ether: &str) -> Result<U256, Failure> {
    let wrong = |reason: String| {
        Failure::Usage(format!("--balance {ether}: {reason}; write for example 10000"))
    };
    match parse_units(ether, "ether").map_err(|error| wrong(error.to_string()))? {
        wei if wei.is_negative() => Err(wrong("nobody has less than nothing".to_owned())),
        wei => Ok(wei.get_absolute()),
    }
}

/// Fails if the chain, which exists or comes from a file, has another id than the one asked for.
fn expect_chain_id(asked: u64, options: &OpenOptions) -> Result<(), Failure> {
    let stamp = options.datadir.as_deref().map(Stamp::read).transpose()?.flatten();
    let (chain, found) = match (stamp, &options.chain) {
        (Some(stamp), _) => (stamp.chain, stamp.chain_id),
        (None, Some(chain)) => (chain.clone(), ChainSpec::load(chain)?.chain_id()),
        (None, None) => return Ok(()),
    };
    if found == asked {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "the chain {chain} has the id {found}, --chain-id asks for {asked}: leave the option out, or choose another --datadir for a new `dev` chain"
    )))
}

/// Origins of the pages that may call the node. Any page may spend from the node's accounts and reset its chain, so
/// by default all origins are allowed only where nothing can be lost: for a chain in memory on a loopback address.
fn origins(args: &DevnetArgs) -> Vec<String> {
    let is_kept = args.data.options().datadir.is_some() || args.files.are_named();
    match &args.http.cors {
        Some(named) => named.clone(),
        None if !is_kept && args.http.addr.is_loopback() => vec!["*".to_owned()],
        None => Vec::new(),
    }
}

/// A sentence that names the origins whose pages may call the node.
fn who_may_call(args: &DevnetArgs) -> String {
    let origins = origins(args);
    let named: Vec<_> = origins.iter().filter(|origin| !origin.is_empty()).cloned().collect();
    match named.as_slice() {
        named if named.iter().any(|origin| origin == "*") => {
            let why = if args.http.cors.is_none() { ": the chain is in memory only" } else { "" };
            format!("web pages of any origin may call this node{why} (--http.corsdomain)")
        }
        [] => "web pages of localhost may call this node, and no others; name more with --http.corsdomain".to_owned(),
        named => format!("web pages of localhost and of {} may call this node (--http.corsdomain)", named.join(", ")),
    }
}

/// Prints the accounts, the chain and the settings at the start.
fn greet(args: &DevnetArgs, node: &Node) -> Result<(), Failure> {
    let view = node.view();
    if !args.read_only {
        output::line("Accounts (these keys are public: never use them elsewhere)")?;
        for (index, address) in node.accounts().addresses().iter().take(20).enumerate() {
            let key = node.accounts().private_key(address).unwrap_or_default();
            let ether = format_ether(node.balance(address).map_err(machine)?);
            let ether = ether.trim_end_matches('0').trim_end_matches('.');
            output::line(&format!("  ({index}) {address}  {key}  {ether} ether"))?;
        }
        output::line(&format!("  of the mnemonic: {}", args.mnemonic))?;
    }
    tell_chain(node)?;
    let header = &view.head.header;
    let next = view.next_rules(node.spec(), header.timestamp.saturating_add(1));
    output::line(&format!(
        "fork {}, base fee {} wei, gas limit {}",
        next.fork_name(),
        node.next_fees(&view).base,
        header.gas_limit
    ))?;
    output::line(&who_may_call(args))
}

/// Warns if accounts whose keys are public can be used from another machine.
fn warn_if_open(args: &DevnetArgs, server: &RunningServer) {
    if !server.address().ip().is_loopback() && !args.read_only && args.accounts > 0 {
        tracing::warn!(
            "{} can be reached from other machines, and all of them can use the accounts above",
            server.address()
        );
    }
}
