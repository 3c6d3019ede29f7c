//! Experiments of the paper on RainBlock and its DSM-Tree.

mod roles;

use super::{
    BASELINE, Experiment, MPT, MPT_HASH, MPT_HASH_LARGE, Needs, Paper, Part, Point, PointWork,
    RAIN, Setting, Variant, headline, published,
    quantity::{MEMORY, OPS, READ_BYTES, TPS},
};
use crate::{Mode, Popularity, WorkloadKind, report::plot::short};

pub(super) const PAPER: Paper = Paper {
    name: "rainblock",
    reference: "S. Ponnapalli, A. Shah, A. Tai, S. Banerjee, D. Malkhi, V. Chidambaram, M. Wei: RainBlock: Faster Transaction Processing in Public Blockchains, USENIX ATC 2021",
    title: "RainBlock",
    claim: "Clients run transactions ahead and bring miners what they need, so miners wait for no disk; the state is a trie by pointers, in versions, hashed when a root is asked for: gets 150 times Ethereum's trie in memory, puts 160 times, or 4 to 5 times with a root every 1,000 writes, in a 34th of the memory; witnesses up to 95 % smaller; 20 times Ethereum's transactions end to end.",
    setting: "TypeScript (node.js 11) on machines like an m4.2xlarge (32 GB), against merkle-patricia-tree on memdown for the tree alone; one miner, four clients and 16 storage nodes end to end.",
    why: "A get by pointers is a walk in memory; a trie under hashes looks up a row a level and decodes it, in node.js and memdown at a cost that no engine here has: 1,440 gets a second, which is 216,000 divided by 150. So the factor of 150 is as much the price of that baseline as the merit of pointers, and `mpt`, whose nodes stay in memory as well, has most of the merit. With a root every 1,000 writes both hash the same nodes. What is counted and not timed (witnesses, guesses of clients) depends on the trie and the workload alone, not on the machine.",
    experiments: &[
        SINGLE_NODE,
        RETENTION,
        roles::WITNESSES,
        roles::ABORTS,
        roles::SPECULATION,
        END_TO_END,
    ],
};

const NODE: &str =
    "node.js 11 on nodes like an m4.2xlarge (32 GB); mainnet's accounts, up to 1.19 million.";

/// Points over states of different sizes.
fn sizes(quick: bool, mode: Mode) -> Vec<Point> {
    let (sizes, blocks): (&[u64], _) = match quick {
        true => (&[20_000, 100_000], 20),
        false => (&[100_000, 500_000, 1_190_000], 500),
    };
    let point = |keys: &u64| Point {
        x: *keys as f64,
        name: short(*keys as f64),
        work: PointWork::Store { keys: *keys, blocks, ops: 1_000, fresh: false, mode },
        set: &[],
    };
    sizes.iter().map(point).collect()
}

const SINGLE_NODE: Experiment = Experiment {
    id: "rainblock-7",
    place: "Figure 7",
    about: "the tree on one node: gets, puts and memory over the number of accounts",
    setting: "The in-memory tree against Ethereum's in-memory trie (node.js, memdown) on a node with 32 GB; up to 1.19 million accounts of mainnet. Puts without a root; with a root every 1,000 writes it is 4 to 5 times the trie.",
    here: "Slots of one account instead of accounts; a get gives the value, in the paper the witness too; and a root and a write of the engine every 1,000 operations, without which nothing here counts as written: compare the ratio of puts with 4 to 5, not with 160. Each of the three has 1 GB for nodes, as the paper keeps both trees in memory; gets are timed after three for each key, when nearly all nodes are there. Memory is that of the whole process with the engine's caches, and the trie's nodes are on the disk, so the paper's factor of 34 in memory is not to be seen. Choose --kv memory for nothing on disk.",
    needs: Needs { minutes: 25, memory: 4, disk: 3 },
    quick: Needs { minutes: 2, memory: 1, disk: 1 },
    memory: None,
    parts: &[
        Part {
            title: "gets",
            x: "keys",
            points: |quick| sizes(quick, Mode::Read),
            variants: &[RAIN, MPT, MPT_HASH_LARGE],
            quantities: &[OPS],
            published: &[published(
                "throughput",
                "DSM-Tree",
                "rain",
                &[(1.19e6, "1.19M", 216_000.0)],
            )],
            claims: &[headline(
                "throughput",
                ("rain", BASELINE),
                "150 at 1.19M accounts",
                (150.0, 150.0),
            )
            .at(&[(1.19e6, (150.0, 150.0))])],
        },
        Part {
            title: "puts, a root every 1,000",
            x: "keys",
            points: |quick| sizes(quick, Mode::Write),
            variants: &[RAIN, MPT, MPT_HASH_LARGE],
            quantities: &[OPS, MEMORY],
            published: &[
                published(
                    "throughput",
                    "DSM-Tree, without roots",
                    "rain",
                    &[(1.19e6, "1.19M", 245_000.0)],
                ),
                published("memory", "DSM-Tree (MB)", "rain", &[(1.19e6, "1.19M", 775.0)]),
                published("memory", "Ethereum MPT (MB)", BASELINE, &[(1.19e6, "1.19M", 26_021.0)]),
            ],
            claims: &[headline(
                "throughput",
                ("rain", BASELINE),
                "4 to 5 with a root every 1,000 writes (160 without roots)",
                (4.0, 5.0),
            )
            .at(&[(1.19e6, (4.0, 5.0))])],
        },
    ],
};

const RETAIN: &str = "/layer/rain/retain";

/// Points over the number of levels that stay in memory.
fn retentions(work: PointWork, levels: &[(f64, &'static [Setting])]) -> Vec<Point> {
    let point =
        |(r, set): &(f64, &'static [Setting])| Point { x: *r, name: format!("r={r}"), work, set };
    levels.iter().map(point).collect()
}

const LEVELS: &[(f64, &[Setting])] = &[
    (0.0, &[(RETAIN, "0"), CACHE]),
    (2.0, &[(RETAIN, "2"), CACHE]),
    (4.0, &[(RETAIN, "4"), CACHE]),
    (5.0, &[(RETAIN, "5"), CACHE]),
    (6.0, &[(RETAIN, "6"), CACHE]),
    (7.0, &[(RETAIN, "7"), CACHE]),
];
/// The trie of `mpt` with its own cache of nodes, which the retained levels do not count against.
const MPT_CACHED: Variant =
    Variant { name: "mpt", state: "mpt", set: &[("/layer/trie_cache", "1073741824")] };
/// A cache so small that it does not hide reads below the retained levels.
const CACHE: Setting = ("/layer/trie_cache", "1000000");

const fn mixed(quick: bool) -> PointWork {
    PointWork::Chain {
        workload: WorkloadKind::Mixed,
        accounts: if quick { 50_000 } else { 1_000_000 },
        senders: 0,
        txs: if quick { 20_000 } else { 200_000 },
        block_txs: 500,
        popularity: Popularity::Hot,
    }
}

fn levels(quick: bool) -> Vec<Point> {
    let few = [LEVELS[0], LEVELS[2], LEVELS[4]];
    retentions(mixed(quick), if quick { &few } else { LEVELS })
}

const RETENTION: Experiment = Experiment {
    id: "rainblock-8",
    place: "Figure 8a",
    about: "what keeping fewer levels in memory saves, and what is then read from below them",
    setting: NODE,
    here: "What the layer reads from the engine stands for what a miner without these levels is sent; the witnesses themselves are Figure 8b. The retained levels are those of the account trie, and the cache of all else is 1 MB.",
    needs: Needs { minutes: 20, memory: 4, disk: 3 },
    quick: Needs { minutes: 2, memory: 1, disk: 1 },
    memory: None,
    parts: &[Part {
        title: "memory, and bytes read for a transaction",
        x: "levels in memory (r)",
        points: levels,
        variants: &[RAIN],
        quantities: &[MEMORY, READ_BYTES],
        published: &[],
        claims: &[],
    }],
};

const END_TO_END: Experiment = Experiment {
    id: "rainblock-9a",
    place: "Figure 9a",
    about: "payments and calls as on mainnet: throughput over the levels in memory",
    setting: "One miner, four clients and 16 storage nodes, each a machine of its own; 15 % calls, 90 % of the accounts in 10 % of the cases. A shard of the tree went from 1,300 operations a second at r=0 to 9,400 at r=6.",
    here: "One machine in place of 21, so nothing crosses a network. Blocks of 500 transactions, 1 million accounts. `rain` has 1 MB for what is below its levels, `mpt` 1 GB and `mpt-hash` 128 MB for nodes.",
    needs: Needs { minutes: 20, memory: 4, disk: 3 },
    quick: Needs { minutes: 2, memory: 1, disk: 1 },
    memory: None,
    parts: &[Part {
        title: "workload mixed",
        x: "levels in memory (r)",
        points: levels,
        variants: &[RAIN, MPT_CACHED, MPT_HASH],
        quantities: &[TPS],
        published: &[published("throughput", "RainBlock", "rain", &[(7.0, "r=7", 30_000.0)])],
        claims: &[],
    }],
};
