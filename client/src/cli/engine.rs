//! `polytrie engine`: a node that a consensus layer drives.

use super::{
    args::{ChainArg, DataArgs, SlowBlockArg},
    authrpc::AuthArgs,
    exit::Failure,
    logging::LogArgs,
    output,
    serving::{HttpArgs, PoolArgs, expect_room, machine, serve, tell_chain},
    signals::on_interrupt,
};
use crate::{
    chain::Chain,
    consensus::{MAX_GAS_LIMIT, MIN_GAS_LIMIT},
    datadir::{DataDir, OpenOptions},
    devnet::{DEFAULT_MNEMONIC, DevAccounts, Miner, MiningMode, Node, NodeOptions},
    rpc::{self, Audience},
};
use alloy_primitives::Address;
use clap::Args;
use polytrie_kv::Durability;
use std::sync::Arc;

/// Run a node that a consensus layer drives over the Engine API, on any state layer.
///
/// A payload is executed when it comes, and stored when it is chosen: then it is durable, and until then a crash loses it.
/// There is no network: the node knows only payloads that it is sent. The chain must be past the merge; `polytrie import`
/// brings one there. Layers without Ethereum's state root do not check the root in a payload. The eth_ methods answer on both
/// ports, the Engine API on the one with the secret. Ctrl-C (or SIGTERM) ends the node with exit code 0.
#[derive(Debug, Args)]
pub(super) struct EngineApiArgs {
    #[command(flatten)]
    chain: ChainArg,
    /// Blocks before the head whose state can be read and proven, and which can be taken back.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..))]
    history: u64,
    /// Gas limit that payloads of this node move towards.
    #[arg(long, value_name = "GAS", value_parser = clap::value_parser!(u64).range(MIN_GAS_LIMIT..=MAX_GAS_LIMIT))]
    gas_limit: Option<u64>,
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

pub(super) fn run(args: EngineApiArgs, logging: &LogArgs) -> Result<(), Failure> {
    let interrupt = on_interrupt();
    let accounts =
        DevAccounts::new(DEFAULT_MNEMONIC, 0).map_err(|error| Failure::Usage(error.to_string()))?;
    let needs = args.data.options().layer.needs();
    let cors = args.http.cors.clone().unwrap_or_default();
    let public = args.http.options(Audience::Everybody, cors, needs)?;
    let (chain, dir) = open(&args)?.into_chain()?;
    expect_merged(&chain)?;
    let secret = args.auth.secret(&args.data)?;
    let options = NodeOptions {
        accounts,
        mining: MiningMode::Manual,
        read_only: false,
        pool: args.pool.limits(),
        gas_limit: args.gas_limit,
        beneficiary: Address::ZERO,
        is_driven: true,
    };
    let node = Node::new(chain, dir, options).map_err(machine)?;
    let threads = Miner::start(&node)?;
    expect_room(2)?;
    let authenticated = args.auth.serve(&node, &secret, &public)?;
    let public = rpc::serve(Arc::clone(&node), public)?;
    if !logging.is_quiet() {
        greet(&node)?;
    }
    secret.tell(&authenticated)?;
    // Scripts wait for this line, so it is the last one.
    output::line(&format!("listening on http://{0} and ws://{0}", public.address()))?;
    serve(&node, &interrupt, threads, [authenticated, public])
}

/// Opens the data directory, or makes a new one.
fn open(args: &EngineApiArgs) -> Result<DataDir, Failure> {
    let mut options: OpenOptions = args.data.options();
    options.chain.clone_from(&args.chain.chain);
    options.chain_options.undo_blocks = args.history;
    options.chain_options.log_slow_blocks = args.slow_block.least();
    // A block that the consensus layer chooses is durable before the answer is sent.
    options.store.durability = Durability::EveryWrite;
    Ok(DataDir::open(&options, true)?)
}

/// Fails if the head is before the merge: a chain gets its head from a consensus layer only after it.
fn expect_merged(chain: &Chain) -> Result<(), Failure> {
    let (spec, head) = (chain.spec(), chain.head());
    if spec.is_merged_after(head.total_difficulty) {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "the chain {} is before the merge at its head, block {}, and the Engine API is for what comes after; import blocks up to the merge first, with `polytrie import`",
        spec.name(),
        head.number()
    )))
}

/// Prints the chain, and warns if the layer has no state root of Ethereum.
fn greet(node: &Node) -> Result<(), Failure> {
    tell_chain(node)?;
    let kind = node.kind();
    if !kind.canonical {
        tracing::warn!(
            "`{}` has no state root of Ethereum: the root in a payload is taken as it is, everything else is checked; payloads that this node makes have the digest of `{0}` in its place",
            kind.name
        );
    }
    Ok(())
}
