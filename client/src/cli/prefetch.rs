//! `polytrie prefetch`.

use super::{
    args::StoredArgs,
    exit::Failure,
    output::{self, ResultArgs},
};
use crate::{
    layers::values::{MOST_THREADS, parse_bytes, some_at_most},
    prefetch::{PrefetchOptions, prefetch},
    words::counted,
};
use clap::Args;

/// Read for `polytrie import --prefetchers` what its next blocks will need, in another process, under `rain`.
///
/// The node announces blocks before their turn. This command runs their transactions on the durable state, which may be some blocks
/// old, and sends the stored nodes on the paths to what they touch. The node uses those that are still part of its state and drops
/// the others. A block waits for them no longer than it takes without them, and only the speed depends on them.
///
/// The data directory is that of the node, or for a store in a cluster a directory on another machine with the small files of
/// the node's (polytrie.json, chain.json or genesis.json, db/cluster.json). It is only read. Up to 16 prefetchers may share
/// the work of one node. The command ends with 0 when the node says that it is done, and with 3 if the connection breaks before.
#[derive(Debug, Args)]
pub(super) struct PrefetchArgs {
    /// Where the node listens.
    #[arg(long, value_name = "HOST:PORT")]
    connect: String,
    /// Threads that run the transactions of a block; mostly they wait for the store.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = some_at_most(MOST_THREADS))]
    threads: usize,
    #[command(flatten)]
    result: ResultArgs,
    /// Bytes of trie nodes kept in memory until a newer state is opened (k, M, G may follow).
    #[arg(id = "trie.cache", long = "trie.cache", value_name = "BYTES", value_parser = parse_bytes, default_value = "1G", help_heading = "State layers")]
    trie_cache: usize,
    #[command(flatten)]
    pub(super) data: StoredArgs,
}

pub(super) fn run(args: PrefetchArgs) -> Result<(), Failure> {
    let result = args.result.open()?;
    let mut open = args.data.options(true);
    open.layer.trie_cache = args.trie_cache;
    let options = PrefetchOptions { connect: args.connect, open, threads: args.threads };
    let done = prefetch(&options)?;
    result.write(&done, || {
        let size = output::bytes(done.bytes);
        let (blocks, nodes) = (counted(done.blocks, "block"), counted(done.nodes, "node"));
        format!("{blocks} ahead of their turn, {nodes} of {size} sent")
    })
}
