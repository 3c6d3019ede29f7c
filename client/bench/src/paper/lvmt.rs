//! Experiments of the paper on LVMT, the multi-Layer Versioned Multipoint Trie.

use super::{
    BASELINE, Claim, Experiment, LMPT, LVMT, LVMT1, LVMT16, LVMT64, MPT, MPT_HASH_BLOCK,
    MPT_HASH_OVERLAY, Needs, Paper, Part, Point, PointWork, Published, RAIN6, RAW, Setting,
    Variant, claim,
    claim::NEAR,
    headline, over_accounts, published,
    quantity::{
        ENGINE, EXECUTION, OPS, Quantity, READ_AMPLIFICATION, READ_SIZE, STRUCTURE, TPS,
        WRITE_AMPLIFICATION, WRITE_SIZE,
    },
};
use crate::{Mode, Popularity, WorkloadKind};

pub(super) const PAPER: Paper = Paper {
    name: "lvmt",
    reference: "C. Li, S. M. Beillahi, G. Yang, M. Wu, W. Xu, F. Long: LVMT: An Efficient Authenticated Storage for Blockchain, OSDI 2023; figures as its extended version numbers them",
    title: "LVMT",
    claim: "A block commits to versions, by adding points of a curve, and hashes what it wrote once, in place of a path of the trie for each key: up to 2.7 times the throughput of the trie end to end and 1.7 times RAIN, at least 4.53 times the trie as a store alone. Keeping proofs costs little if nodes share them: LVMT-r > LVMT64 (0.8) > LVMT16 (0.6) > all proofs.",
    setting: "Conflux with RocksDB on an i9-10900K within 16 GB, and the authors' own benchmark of stores within 8 GB.",
    why: "Without proofs a changed key costs one addition on the curve and one row, whatever the size of the state; a trie under hashes costs a path of reads, hashes and rows. In the authors' client and benchmark the trie is opened and committed for every key, so a path is hashed for each, which `mpt-hash` does not repeat; and LVMT's root tree, with the commitments of the trees below it, is written when they end, where `lvmt` writes what a block changed with the block. Both make LVMT's gain over the trie larger there. `mpt` takes a block as one sorted batch, so paths share their upper parts, and a state in memory costs it hashes alone, against which additions and the conversion of points have to win. The share of LVMT64 and LVMT16 in LVMT-r is a matter of additions: proofs of ours take one a level where the authors' take two, so more of the speed is left.",
    experiments: &[
        THROUGHPUT,
        BREAKDOWN,
        ALONE,
        AMPLIFICATION,
        SIZES,
        ETHER_SWAPS,
        TOKEN_SWAPS,
        CURVE,
    ],
};

const M: usize = 1_000_000;
/// Bytes of RocksDB's caches under each system, as in the paper.
const CACHE: &[Setting] = &[("/engine/cache", "4294967296")];
const CONFLUX: &str = "Conflux with RocksDB on an i9-10900K, 16 GB by cgroup, 4 GB RocksDB cache; blocks of 20,000 transactions, 10,000 senders, as many transactions as three times the receivers.";
const ALONE_SETTING: &str = "The authors' benchmark with RocksDB on an i9-10900K, 8 GB by cgroup; 20 million operations, a commit every 100,000: in the authors' program these are 50,000 reads of random keys, each followed by a write, of 256 bits.";
const CLIENT: &str = "Another client, so other costs of execution: the paper's 16 µs are ours to beat with every layer alike. 400,000 transactions at each point. `mpt-hash` has in memory 64 MB of the nodes that it wrote last, as the authors' client has those of its last commits, and RocksDB 4 GB under each of them, as in the paper. `rain` has 1 MB beyond six levels of the account trie and what it changed since a shard's checkpoint, which comes every 64 blocks; the authors' has six levels of all and writes the others each block. For the paper's memory: --kv rocksdb --memory-limit 16G.";
const NO_PROOFS: &str = "LVMT-r is `lvmt` without proofs. Memory as in Figure 4. The paper's 2.4 and 4.1 are how many nodes lie on the paths of a block's keys, each once, for each key: `mpt-hash` has in memory what the block has read, and nothing else. The authors' LVMT writes one row for each key that exists; `lvmt` also writes each commitment that a block changed, about seven for ten keys.";
const END_TO_END: &[Variant] = &[RAW, LVMT, LVMT64, LVMT16, RAIN6, LMPT, MPT, MPT_HASH_OVERLAY];
const SHARES: &[Claim] = &[
    headline("throughput", ("lvmt", BASELINE), "at least 4.53", (4.53, f64::INFINITY)).at_least(),
    claim("throughput", ("lvmt", "rain"), "at least 1.80", (1.8, f64::INFINITY)).at_least(),
    headline("throughput", ("lvmt 1/64", "lvmt"), "about 0.8", (0.8, 0.8)),
    headline("throughput", ("lvmt 1/16", "lvmt"), "about 0.6", (0.6, 0.6)),
    // The paper gives the order of the two, not the ratio: with the allowed factor, the least ratio is 1.
    claim("throughput", ("lvmt 1/64", "lvmt 1/16"), "more than 1", (NEAR, f64::INFINITY)),
    claim("throughput", ("lvmt 1/16", "lvmt full"), "more than 1", (NEAR, f64::INFINITY)),
];

/// Points with the paper's numbers of receivers, or small ones.
fn receivers(quick: bool, workload: WorkloadKind) -> Vec<Point> {
    let (accounts, txs, block_txs): (&[usize], _, _) = match quick {
        true => (&[20_000, 100_000], 40_000, 5_000),
        false => (&[M, 3 * M, 5 * M], 400_000, 20_000),
    };
    let work = |accounts| PointWork::Chain {
        workload,
        accounts,
        senders: 10_000,
        txs,
        block_txs,
        popularity: Popularity::Uniform,
    };
    let points = over_accounts(accounts, work).into_iter();
    points.map(|point| Point { set: CACHE, ..point }).collect()
}

const fn end_to_end(
    title: &'static str,
    points: fn(bool) -> Vec<Point>,
    quantities: &'static [Quantity],
    published: &'static [Published],
    claims: &'static [Claim],
) -> Part {
    Part { title, x: "accounts", points, variants: END_TO_END, quantities, published, claims }
}

const THROUGHPUT: Experiment = Experiment {
    id: "lvmt-2",
    place: "Figure 2",
    about: "payments and ERC-20 transfers: throughput over the number of receivers",
    setting: CONFLUX,
    here: CLIENT,
    needs: Needs { minutes: 180, memory: 12, disk: 60 },
    quick: Needs { minutes: 6, memory: 2, disk: 2 },
    memory: None,
    parts: &[
        end_to_end(
            "payments",
            |quick| receivers(quick, WorkloadKind::Transfer),
            &[TPS],
            &[published("throughput", "LVMT-r (the most)", "lvmt", &[(1e6, "1M", 29_669.0)])],
            &[
                headline("throughput", ("lvmt", BASELINE), "up to 2.7", (2.7, 2.7)).up_to(),
                claim("throughput", ("lvmt", "rain"), "up to 1.7", (1.7, 1.7)).up_to(),
            ],
        ),
        end_to_end(
            "ERC-20 transfers",
            |quick| receivers(quick, WorkloadKind::Erc20),
            &[TPS],
            &[],
            &[
                claim("throughput", ("lvmt", BASELINE), "up to 2.1", (2.1, 2.1)).up_to(),
                claim("throughput", ("lvmt", "lmpt"), "up to 1.5", (1.5, 1.5)).up_to(),
            ],
        ),
    ],
};

/// The point with the paper's largest number of receivers.
fn largest(quick: bool, workload: WorkloadKind) -> Vec<Point> {
    receivers(quick, workload).pop().into_iter().collect()
}

const BREAKDOWN: Experiment = Experiment {
    id: "lvmt-3",
    place: "Figure 3",
    about: "where the time of a transaction goes, with 5 million receivers",
    setting: CONFLUX,
    here: CLIENT,
    needs: Needs { minutes: 90, memory: 12, disk: 40 },
    quick: Needs { minutes: 4, memory: 2, disk: 2 },
    memory: None,
    parts: &[
        end_to_end(
            "payments",
            |quick| largest(quick, WorkloadKind::Transfer),
            &[EXECUTION, STRUCTURE, ENGINE],
            &[
                published("execution", "all", "mpt", &[(5e6, "5M", 16.0)]),
                published("authenticated structure", "MPT", BASELINE, &[(5e6, "5M", 42.0)]),
                published("engine", "MPT", BASELINE, &[(5e6, "5M", 33.0)]),
                published("engine", "LVMT-r", "lvmt", &[(5e6, "5M", 11.0)]),
                published("engine", "RAW (similar)", "raw", &[(5e6, "5M", 11.0)]),
            ],
            &[],
        ),
        end_to_end(
            "ERC-20 transfers",
            |quick| largest(quick, WorkloadKind::Erc20),
            &[EXECUTION, STRUCTURE, ENGINE],
            &[],
            &[],
        ),
    ],
};

/// Operations here are a read and a write, of which the paper counts each.
const fn store(keys: u64, fresh: bool, quick: bool) -> PointWork {
    let (blocks, ops) = if quick { (5, 10_000) } else { (80, 50_000) };
    PointWork::Store { keys, blocks, ops, fresh, mode: Mode::Both }
}

/// The paper's workloads: fresh keys, and random keys out of several numbers of keys.
fn workloads(quick: bool) -> Vec<Point> {
    let sizes: &[(u64, &str)] = match quick {
        true => &[(50_000, "50k"), (500_000, "500k")],
        false => &[(1_000_000, "1m"), (10_000_000, "10m")],
    };
    let fresh = Point { x: 1.0, name: "fresh".into(), work: store(1, true, quick), set: CACHE };
    let random = sizes.iter().map(|(keys, name)| Point {
        x: *keys as f64,
        name: (*name).to_owned(),
        work: store(*keys, false, quick),
        set: CACHE,
    });
    std::iter::once(fresh).chain(random).collect()
}

/// Sizes of the state that show where throughput falls.
fn ledger_sizes(quick: bool) -> Vec<Point> {
    let sizes: &[u64] = match quick {
        true => &[50_000, 200_000, 500_000],
        false => &[1_000_000, 4_000_000, 10_000_000, 16_000_000, 25_000_000],
    };
    let point = |keys: &u64| Point {
        x: *keys as f64,
        name: crate::report::plot::short(*keys as f64),
        work: store(*keys, false, quick),
        set: CACHE,
    };
    sizes.iter().map(point).collect()
}

const STORES: &[Variant] = &[RAW, LVMT, LVMT64, LVMT16, LVMT1, RAIN6, MPT, MPT_HASH_BLOCK];
const SMALL: &[Variant] = &[RAW, LVMT, LVMT64, LVMT16, RAIN6, MPT, MPT_HASH_BLOCK];

const ALONE: Experiment = Experiment {
    id: "lvmt-4",
    place: "Figure 4",
    about: "the layers alone: throughput by workload and over the size of the ledger",
    setting: ALONE_SETTING,
    here: "4 million reads and as many writes at each point, not 10. `mpt-hash` has in memory the nodes that the block in progress has read, and none of earlier blocks, as the overlay of the authors' benchmark drops all of them with each commit; RocksDB has 4 GB under each of them (the paper: 4 under RAW and the trie, 2 under LVMT and RAIN). `rain` has 1 MB beyond what it changed since a shard's checkpoint, which comes every 64 blocks: its six levels are of the account trie, and all keys here are slots. The authors' has the top six levels and writes the others each block. The replay of mainnet's blocks is `bench store --trace`. In the paper RAIN and MPT fall from 16 million keys on, LVMT16, LVMT64 and LVMT-r from 25, 63 and 100 million. For the paper's memory: --kv rocksdb --memory-limit 8G, which leaves 2 GB to RocksDB.",
    needs: Needs { minutes: 240, memory: 12, disk: 60 },
    quick: Needs { minutes: 6, memory: 2, disk: 2 },
    memory: None,
    parts: &[
        Part {
            title: "by workload",
            x: "keys at the start",
            points: workloads,
            variants: STORES,
            quantities: &[OPS],
            published: &[],
            claims: SHARES,
        },
        Part {
            title: "over the size of the ledger",
            x: "keys at the start",
            points: ledger_sizes,
            variants: SMALL,
            quantities: &[OPS],
            published: &[],
            // The text states the ratio for the other half of the figure.
            claims: &[],
        },
    ],
};

const AMPLIFICATION: Experiment = Experiment {
    id: "lvmt-5",
    place: "Figure 5",
    about: "reads and writes of the engine for each read and write of the state",
    setting: ALONE_SETTING,
    here: NO_PROOFS,
    needs: Needs { minutes: 90, memory: 8, disk: 25 },
    quick: Needs { minutes: 4, memory: 2, disk: 2 },
    memory: None,
    parts: &[Part {
        title: "amplification",
        x: "keys at the start",
        points: workloads,
        variants: STORES,
        quantities: &[READ_AMPLIFICATION, WRITE_AMPLIFICATION],
        published: &[published(
            "read amplification",
            "MPT",
            BASELINE,
            &[(1e6, "1m", 2.4), (1e8, "100m", 4.1)],
        )],
        claims: &[
            headline(
                "read amplification",
                (BASELINE, "lvmt"),
                "up to 4.1 (the trie's own grows from 2.4 to 4.1)",
                (4.1, 4.1),
            )
            .at(&[(1e6, (2.4, 2.4)), (1e8, (4.1, 4.1))]),
            headline("write amplification", (BASELINE, "lvmt"), "up to 8.2", (8.2, 8.2))
                .at(&[(1e8, (8.2, 8.2))]),
        ],
    }],
};

const SIZES: Experiment = Experiment {
    id: "lvmt-6",
    place: "Figure 6",
    about: "how large the reads and writes of the engine are",
    setting: ALONE_SETTING,
    here: "Our reads are values, our writes keys and values.",
    needs: Needs { minutes: 90, memory: 8, disk: 25 },
    quick: Needs { minutes: 4, memory: 2, disk: 2 },
    memory: None,
    parts: &[Part {
        title: "bytes of one read and one write",
        x: "keys at the start",
        points: workloads,
        variants: STORES,
        quantities: &[READ_SIZE, WRITE_SIZE],
        published: &[
            published("size of a read", "MPT (a full node)", BASELINE, &[(1e6, "1m", 500.0)]),
            published("size of a read", "RAIN", "rain", &[(1e8, "100m", 200.0)]),
            published("size of a read", "LVMT-r (a point)", "lvmt", &[(1e6, "1m", 65.0)]),
        ],
        claims: &[],
    }],
};

const fn swaps(
    id: &'static str,
    place: &'static str,
    about: &'static str,
    parts: &'static [Part],
) -> Experiment {
    Experiment {
        id,
        place,
        about,
        setting: CONFLUX,
        here: CLIENT,
        needs: Needs { minutes: 240, memory: 16, disk: 80 },
        quick: Needs { minutes: 8, memory: 2, disk: 2 },
        memory: None,
        parts,
    }
}

const ETHER_SWAPS: Experiment = swaps(
    "lvmt-8",
    "Figure 8",
    "Uniswap swaps between ether and a token: throughput over the number of accounts",
    &[end_to_end(
        "swaps between ether and a token",
        |quick| receivers(quick, WorkloadKind::SwapEth),
        &[TPS],
        &[published(
            "throughput",
            "LVMT-r (mean of all)",
            "lvmt",
            &[(1e6, "1M", 2760.0), (3e6, "3M", 2760.0), (5e6, "5M", 2760.0)],
        )],
        &[claim("throughput", ("lvmt", BASELINE), "up to 1.7", (1.7, 1.7)).up_to()],
    )],
);

const TOKEN_SWAPS: Experiment = swaps(
    "lvmt-10",
    "Figure 10",
    "Uniswap swaps between two tokens: throughput over the number of accounts",
    &[end_to_end(
        "swaps between two tokens",
        |quick| receivers(quick, WorkloadKind::SwapToken),
        &[TPS],
        &[
            published(
                "throughput",
                "RAW (mean of all)",
                "raw",
                &[(1e6, "1M", 3230.0), (3e6, "3M", 3230.0), (5e6, "5M", 3230.0)],
            ),
            published(
                "throughput",
                "LVMT-r (mean of all)",
                "lvmt",
                &[(1e6, "1M", 2530.0), (3e6, "3M", 2530.0), (5e6, "5M", 2530.0)],
            ),
        ],
        &[claim("throughput", ("lvmt", BASELINE), "up to 2.6", (2.6, 2.6)).up_to()],
    )],
);

const NO_SETTINGS: &[Setting] = &[];

const CURVE: Experiment = Experiment {
    id: "lvmt-table-1",
    place: "Table 1",
    about: "what operations of the curve cost: the reason why no key of a block may need a multiplication",
    setting: "BN254 on an i9-10900K.",
    here: "One core; a mixed addition of the sort that the layer makes, by the library that it uses.",
    needs: Needs { minutes: 1, memory: 1, disk: 0 },
    quick: Needs { minutes: 1, memory: 1, disk: 0 },
    memory: None,
    parts: &[Part {
        title: "operations in G1 of BN254",
        x: "operation",
        points: |_| {
            vec![Point { x: 0.0, name: "BN254".into(), work: PointWork::Curve, set: NO_SETTINGS }]
        },
        variants: &[LVMT],
        quantities: &[super::quantity::ADDITION, super::quantity::MULTIPLICATION],
        published: &[
            published("addition", "Table 1", "lvmt", &[(0.0, "BN254", 0.34)]),
            published("multiplication", "Table 1", "lvmt", &[(0.0, "BN254", 92.0)]),
        ],
        claims: &[],
    }],
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of distinct nodes on the paths of this many random keys of a trie, for each of them.
    fn nodes_a_key(keys_of_trie: f64, keys: f64) -> f64 {
        let drawn = keys_of_trie * (1.0 - (-keys / keys_of_trie).exp());
        let (mut nodes, mut places) = (1.0, 1.0);
        for _ in 0..12 {
            // A path goes on below a node that it shares with any other key.
            let reach = drawn * (1.0 - (-keys_of_trie / places).exp());
            places *= 16.0;
            nodes += places * (1.0 - (-reach / places).exp());
        }
        nodes / keys
    }

    /// The paper's trie reads 2.4 nodes for each key among 1 million, 4.1 among 100 million. It does so only if 50,000
    /// keys are read between commits.
    #[test]
    fn a_block_reads_as_many_nodes_as_in_the_paper() {
        let points = workloads(false);
        let PointWork::Store { ops, blocks, .. } = points[1].work else { panic!("a store") };
        assert_eq!((points[1].name.as_str(), ops * blocks), ("1m", 4_000_000));
        for (keys, published) in [(1e6, 2.4), (1e8, 4.1)] {
            let nodes = nodes_a_key(keys, ops as f64);
            assert!((nodes - published).abs() < 0.05, "{nodes} of {keys}");
        }
    }
}
