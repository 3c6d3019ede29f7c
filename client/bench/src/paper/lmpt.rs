//! Experiments of the paper on LMPT, the Layered Merkle Patricia Trie.

use super::{
    BASELINE, Experiment, LMPT, MEASURED, MPT, MPT_HASH, MPT_HASH_DATABASE, Needs, Paper, Part,
    Point, PointWork, SWITCHED, claim, headline, over_accounts, published,
    quantity::{HIT_RATE, TPS},
};
use crate::{Popularity, WorkloadKind};

pub(super) const PAPER: Paper = Paper {
    name: "lmpt",
    reference: "J. A. Choi, S. M. Beillahi, S. F. Singh, P. Michalopoulos, P. Li, A. Veneris, F. Long: LMPT: A Novel Authenticated Data Structure to Eliminate Storage Bottlenecks for High Performance Blockchains, ICBC 2022",
    title: "LMPT",
    claim: "A small trie in memory for what is new, merged into the large one beside the blocks, takes the disk off the way of a transaction: up to 6 times the throughput of OpenEthereum at 10 million accounts, 1.5 times at 1 million, 4 times for ERC-20 and 1.9 times for swaps, while a larger node cache hardly helps OpenEthereum.",
    setting: "OpenEthereum 3.1.0 with RocksDB, 500,000 transactions of random senders among 1 to 10 million accounts; an i3.xlarge (4 vCPU, 30 GB, SSD), for swaps a c6a.8xlarge.",
    why: "A trie under hashes asks the engine for a row a level at each read, and puts a row a level at each write; LMPT reads one row of a flat map and writes into a trie that fits into memory. Most of what it saves so is what `mpt` does not spend either: its leaves are in their branch, so a key takes about one row, and a block's changes are one sorted batch. What is left to gain over `mpt` grows with the part of the state that is not in memory; while all of it is, the second trie and the merge are work that `mpt` does not have.",
    experiments: &[PAYMENTS, TOKEN, SWAPS, CACHES],
};

const M: usize = 1_000_000;
const I3: &str = "OpenEthereum 3.1.0 on an i3.xlarge (4 vCPU, 30 GB, SSD); 500,000 transactions from random senders.";

/// Points with the paper's numbers of accounts, or small ones.
fn sizes(quick: bool, workload: WorkloadKind, block_txs: u64) -> Vec<Point> {
    let (accounts, txs): (&[usize], _) = match quick {
        true => (&[10_000, 100_000], 20_000),
        false => (&[M, 3 * M, 10 * M], 500_000),
    };
    over_accounts(accounts, |accounts| PointWork::Chain {
        workload,
        accounts,
        senders: 0,
        txs,
        block_txs,
        popularity: Popularity::Uniform,
    })
}

/// Ratios at single points: number of the point, least and greatest ratio.
type At = &'static [(f64, (f64, f64))];

const PAYMENTS_SAID: &str = "1.5 at 1M accounts, up to 6 at 10M";
const PAYMENTS_AT: At = &[(1e6, (1.5, 1.5)), (1e7, (6.0, 6.0))];

const PAYMENTS: Experiment = Experiment {
    id: "lmpt-10",
    place: "Figure 10",
    about: "simple payments: throughput over the number of accounts at genesis",
    setting: I3,
    here: "Random senders only. As in the paper, the trie has as much memory as LMPT: `mpt-hash` 1.25 GiB in RocksDB's cache, which OpenEthereum's cache was, and 64 MB of the nodes that it wrote last; `mpt` 1 GB for nodes. `lmpt as measured` has small tries for 2 million transactions each, as its authors had, so that none of these 500,000 comes to a merge. The other two merge every 1,000 blocks, the paper's example: `lmpt as printed` brings the merge into the snapshot all at once (`--lmpt.boundary switch`), `lmpt` in slices. The paper's plots have more points than its text has numbers; those of the text stand here.",
    needs: Needs { minutes: 60, memory: 8, disk: 30 },
    quick: Needs { minutes: 2, memory: 1, disk: 1 },
    memory: None,
    parts: &[Part {
        title: "simple payments, 150 a block",
        x: "accounts at genesis",
        points: |quick| sizes(quick, WorkloadKind::Transfer, 150),
        variants: &[MPT_HASH_DATABASE, MPT, LMPT, SWITCHED, MEASURED],
        quantities: &[TPS],
        published: &[
            published(
                "throughput",
                "OpenEthereum",
                BASELINE,
                &[(1e6, "1M", 2000.0), (3e6, "3M", 1000.0)],
            ),
            published("throughput", "LMPT", "lmpt", &[(1e6, "1M", 3000.0), (1e7, "10M", 2000.0)]),
        ],
        claims: &[
            headline("throughput", (MEASURED.name, BASELINE), PAYMENTS_SAID, (6.0, 6.0))
                .at(PAYMENTS_AT),
            claim("throughput", (SWITCHED.name, BASELINE), PAYMENTS_SAID, (6.0, 6.0))
                .at(PAYMENTS_AT),
            claim("throughput", ("lmpt", BASELINE), PAYMENTS_SAID, (6.0, 6.0)).at(PAYMENTS_AT),
        ],
    }],
};

/// The paper states two ratios at 10 million accounts: what its figure shows, and what its summary says.
const TOKEN_SAID: &str = "1.25 at 1M accounts; at 10M 4 in the figure, 8 in the summary";
const TOKEN_AT: At = &[(1e6, (1.25, 1.25)), (1e7, (4.0, 8.0))];

const TOKEN: Experiment = Experiment {
    id: "lmpt-11",
    place: "Figure 11",
    about: "ERC-20 transfers: throughput over the number of accounts at genesis",
    setting: I3,
    here: "A token of our own instead of Tether; random senders only. Memory and merges as in Figure 10.",
    needs: Needs { minutes: 90, memory: 8, disk: 60 },
    quick: Needs { minutes: 2, memory: 1, disk: 1 },
    memory: None,
    parts: &[Part {
        title: "ERC-20 transfers, 20 a block",
        x: "accounts at genesis",
        points: |quick| sizes(quick, WorkloadKind::Erc20, 20),
        variants: &[MPT_HASH_DATABASE, MPT, LMPT, SWITCHED, MEASURED],
        quantities: &[TPS],
        published: &[
            published("throughput", "OpenEthereum", BASELINE, &[(1e6, "1M", 1600.0)]),
            published(
                "throughput",
                "LMPT",
                "lmpt",
                &[(1e6, "1M", 2000.0), (3e6, "3M", 2000.0), (5e6, "5M", 2000.0)],
            ),
        ],
        claims: &[
            headline("throughput", (MEASURED.name, BASELINE), TOKEN_SAID, (4.0, 8.0)).at(TOKEN_AT),
            claim("throughput", (SWITCHED.name, BASELINE), TOKEN_SAID, (4.0, 8.0)).at(TOKEN_AT),
            claim("throughput", ("lmpt", BASELINE), TOKEN_SAID, (4.0, 8.0)).at(TOKEN_AT),
        ],
    }],
};

const SWAPS_SAID: &str = "1.9 at 10M accounts";
const SWAPS_AT: At = &[(1e7, (1.9, 1.9))];

const SWAPS: Experiment = Experiment {
    id: "lmpt-12",
    place: "Figure 12",
    about: "Uniswap swaps of tokens for tokens: throughput over the number of accounts at genesis",
    setting: "OpenEthereum 3.1.0 on a c6a.8xlarge (32 vCPU, 64 GB, SSD); 500,000 transactions from random senders.",
    here: "The text gives the ratio only. It says nothing of transactions a block; 20 are taken, as for ERC-20. Memory and merges as in Figure 10.",
    needs: Needs { minutes: 120, memory: 12, disk: 80 },
    quick: Needs { minutes: 3, memory: 1, disk: 1 },
    memory: None,
    parts: &[Part {
        title: "swaps of tokens for tokens, 20 a block",
        x: "accounts at genesis",
        points: |quick| sizes(quick, WorkloadKind::SwapToken, 20),
        variants: &[MPT_HASH_DATABASE, MPT, LMPT, SWITCHED, MEASURED],
        quantities: &[TPS],
        published: &[],
        claims: &[
            headline("throughput", (MEASURED.name, BASELINE), SWAPS_SAID, (1.9, 1.9)).at(SWAPS_AT),
            claim("throughput", (SWITCHED.name, BASELINE), SWAPS_SAID, (1.9, 1.9)).at(SWAPS_AT),
            claim("throughput", ("lmpt", BASELINE), SWAPS_SAID, (1.9, 1.9)).at(SWAPS_AT),
        ],
    }],
};

const CACHES: Experiment = Experiment {
    id: "lmpt-table-1",
    place: "Table I",
    about: "a larger cache helps the trie little: hit rate and throughput over the size of the cache",
    setting: "OpenEthereum's own cache; random payments.",
    here: "The cache of nodes of `mpt-hash` (--mpt-hash.cache) and of `mpt` (--trie.cache). Of the two only `mpt-hash` counts hits of nodes as OpenEthereum does; they are those of the whole run.",
    needs: Needs { minutes: 25, memory: 4, disk: 6 },
    quick: Needs { minutes: 2, memory: 1, disk: 1 },
    memory: None,
    parts: &[Part {
        title: "simple payments with the Merkle Patricia trie",
        x: "cache in MB",
        points: caches,
        variants: &[MPT_HASH, MPT],
        quantities: &[HIT_RATE, TPS],
        published: &[
            published(
                "hit rate",
                "OpenEthereum",
                BASELINE,
                &[
                    (50.0, "50", 0.635),
                    (100.0, "100", 0.758),
                    (500.0, "500", 0.862),
                    (1000.0, "1000", 0.879),
                ],
            ),
            published(
                "throughput",
                "OpenEthereum",
                BASELINE,
                &[
                    (50.0, "50", 1238.0),
                    (100.0, "100", 1256.0),
                    (500.0, "500", 1278.0),
                    (1000.0, "1000", 1292.0),
                ],
            ),
        ],
        claims: &[],
    }],
};

fn caches(quick: bool) -> Vec<Point> {
    const CACHE: &str = "/layer/trie_cache";
    const HASH: &str = "/layer/mpt_hash/cache";
    let work = PointWork::Chain {
        workload: WorkloadKind::Transfer,
        accounts: if quick { 50_000 } else { 3 * M },
        senders: 0,
        txs: if quick { 20_000 } else { 200_000 },
        block_txs: 150,
        popularity: Popularity::Uniform,
    };
    let point = |x: f64, set| Point { x, name: format!("{x}"), work, set };
    // The small state gets caches that are smaller in proportion.
    match quick {
        true => vec![
            point(1.0, &[(CACHE, "1000000"), (HASH, "1000000")]),
            point(20.0, &[(CACHE, "20000000"), (HASH, "20000000")]),
        ],
        false => vec![
            point(50.0, &[(CACHE, "50000000"), (HASH, "50000000")]),
            point(100.0, &[(CACHE, "100000000"), (HASH, "100000000")]),
            point(500.0, &[(CACHE, "500000000"), (HASH, "500000000")]),
            point(1000.0, &[(CACHE, "1000000000"), (HASH, "1000000000")]),
        ],
    }
}
