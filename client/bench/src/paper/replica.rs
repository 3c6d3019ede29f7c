//! Experiments of the paper on Storage Replica.

use super::{
    BASELINE, Experiment, MPT, MPT_HASH_OVERLAY, Needs, PRINTED, Paper, Part, Point, PointWork,
    REPLICA, claim, headline, over_accounts, published,
    quantity::{ACCESS, COMMIT, DISK, FETCHED, FLUSH, GET, Quantity, SLOAD, SSTORE, STATE},
};
use crate::{Popularity, WorkloadKind};

pub(super) const PAPER: Paper = Paper {
    name: "replica",
    reference: "K. Jezek, S. Jeong, Y. Kim, B. Scholz, B. Burgstaller: Storage Replica: Accelerating the Storage Access of the Ethereum Virtual Machine, Applied Sciences 16(1), 486, 2026",
    title: "Storage Replica",
    claim: "A flat copy of the slots answers SLOAD with one lookup while workers fetch the paths of the trie: from block 5 million on SLOAD takes a 4th to a 6.5th of the time, SSTORE half, the commit a 4th, for a third of the trie's size on disk.",
    setting: "Parity 2.4.0 with RocksDB on an i7-7700K with NVMe; mainnet up to block 9 million, 100,000 blocks from each million.",
    why: "In a trie under hashes an SLOAD is a row of the engine a level, one after the other; the flat row is one. The commit finds its path in memory, fetched while the EVM ran, so it waits for no disk; that is worth as much as the disk is slow, so a state in memory shows little of it. Where blocks do little but read slots, the EVM ends before the workers have read the paths; the commit then reads the rest itself, while the trie's commit finds in the caches of the engine what its own SLOADs have just read. `mpt` finds a slot by about one row too, as its leaves are in their branch, and keeps nodes in memory across blocks: over it the flat copy saves what lies between the root and the last branch, and costs the writing of each value twice.",
    experiments: &[TABLES, SIZE],
};

/// The paper's segments of mainnet, with these values.
macro_rules! segments {
    ($($value:expr),*) => {
        segments!(@ [$($value),*])
    };
    (@ [$a:expr, $b:expr, $c:expr, $d:expr, $e:expr, $f:expr, $g:expr, $h:expr, $i:expr]) => {
        &[
            (0.0, "0-0.1M", $a), (1.0, "1-1.1M", $b), (2.0, "2-2.1M", $c),
            (3.0, "3-3.1M", $d), (4.0, "4-4.1M", $e), (5.0, "5-5.1M", $f),
            (6.0, "6-6.1M", $g), (7.0, "7-7.1M", $h), (8.0, "8-8.1M", $i),
        ]
    };
}

const QUANTITIES: &[Quantity] = &[SLOAD, GET, SSTORE, ACCESS, COMMIT, FLUSH, STATE, FETCHED];
const SLOAD_SAID: &str = "4.04 to 6.50 from block 5M on, 0.92 to 3.83 before";
const ACCESS_SAID: &str =
    "3.66 to 5.96 from block 5M on (both sums; SSTORE by itself 1.68 to 2.78)";
const COMMIT_SAID: &str = "3.72 to 4.45 from block 5M on, 1.44 to 1.70 before";
const FLUSH_SAID: &str = "0.91 to 1.04 from block 5M on, 0.33 to 1.02 before";
const STATE_SAID: &str = "3.63 at block 8M (sum of the four)";
const PARITY: &str = "Parity (Table 3)";
const IMPROVED: &str = "Storage Replica (Table 4)";

/// Number of accounts at the point that stands for the paper's blocks from 5M on.
const LARGE: f64 = 3e6;

/// Bytes of memory of each run: the smallest state fits into it, the largest does not.
const MEMORY: u64 = 1 << 30;

/// Points over states of growing size, instead of the paper's growing chain.
fn growing(quick: bool) -> Vec<Point> {
    let (accounts, txs): (&[usize], _) = match quick {
        true => (&[10_000, 100_000], 20_000),
        false => (&[100_000, 1_000_000, 3_000_000], 200_000),
    };
    over_accounts(accounts, |accounts| PointWork::Chain {
        workload: WorkloadKind::Erc20,
        accounts,
        senders: 0,
        txs,
        block_txs: 200,
        popularity: Popularity::Uniform,
    })
}

const TABLES: Experiment = Experiment {
    id: "replica-tables-3-5",
    place: "Tables 3, 4 and 5, Figure 9",
    about: "seconds in SLOAD, the engine's get, SSTORE, commit and flush, with the trie and with Storage Replica",
    setting: "Parity 2.4.0 with RocksDB on an i7-7700K with NVMe, importing mainnet; each segment is 100,000 blocks.",
    here: "ERC-20 transfers on states of growing size in place of mainnet's segments; what the paper says of blocks from 5M on is held against the largest. `mpt-hash` has in memory 64 MB of the nodes that it wrote last, as Parity has those of its last blocks; a node that was only read is asked of the engine again, by the commit too. `replica as printed` has 64 MB for the nodes that its workers fetch and those that it wrote, `mpt` and `replica` have 256 MiB. `replica as printed` is `--replica.mode paper`; what the EVM waits for its queue counts as SLOAD. An SSTORE first reads the slot, which counts as SLOAD here and as SSTORE in the paper; what is left of it hands over the new value, so the two are compared as a sum. The tries read nothing beside their nodes, so the engine's get is part of their SLOAD and commit. Parity also kept values across blocks (25 MB): a value found there leaves the path to the commit, which then reads it from the engine, unless a worker of Storage Replica has. Here nothing is kept so: an SLOAD of `mpt-hash` has always read the path before its commit does. Paths fetched are those that the workers read before the next block began. The paper says nothing of its machine's memory, but nearly all of its SLOADs' time is in the engine's get: each run here has 1 GiB, pages of files included, into which the smallest state fits and the largest does not (1.5 GB of `mpt-hash`); --memory-limit and --cold replace that.",
    needs: Needs { minutes: 30, memory: 6, disk: 12 },
    quick: Needs { minutes: 2, memory: 1, disk: 1 },
    memory: Some(MEMORY),
    parts: &[Part {
        title: "seconds in all",
        x: "accounts at genesis",
        points: growing,
        variants: &[MPT_HASH_OVERLAY, MPT, REPLICA, PRINTED],
        quantities: QUANTITIES,
        published: &[
            published(
                "SLOAD",
                PARITY,
                BASELINE,
                segments!(0.18, 11.05, 14.12, 17.86, 391.71, 2619.06, 4763.72, 6494.15, 9403.07),
            ),
            published(
                "SLOAD",
                IMPROVED,
                "replica",
                segments!(0.19, 3.60, 4.80, 6.53, 102.21, 403.08, 957.79, 1608.59, 2301.54),
            ),
            published(
                "engine get",
                "Parity (self)",
                BASELINE,
                segments!(0.00, 8.27, 10.30, 13.50, 334.08, 2429.86, 4508.59, 6223.61, 9048.80),
            ),
            published(
                "engine get",
                IMPROVED,
                "replica",
                segments!(0.04, 2.35, 2.59, 4.30, 79.56, 329.29, 857.96, 1508.62, 2177.54),
            ),
            published(
                "SSTORE",
                PARITY,
                BASELINE,
                segments!(0.06, 1.66, 2.82, 2.82, 53.12, 188.13, 315.02, 509.11, 690.01),
            ),
            published(
                "SSTORE",
                IMPROVED,
                "replica",
                segments!(0.06, 1.27, 1.46, 2.00, 25.58, 67.68, 132.34, 302.71, 330.47),
            ),
            published(
                "commit",
                PARITY,
                BASELINE,
                segments!(6.83, 44.10, 102.27, 111.72, 847.74, 3326.66, 4785.19, 4573.85, 5707.45),
            ),
            published(
                "commit",
                IMPROVED,
                "replica",
                segments!(4.03, 27.02, 59.99, 66.63, 589.31, 895.20, 1085.77, 1027.98, 1296.14),
            ),
            published(
                "flush",
                PARITY,
                BASELINE,
                segments!(7.24, 43.58, 37.88, 55.80, 223.95, 549.81, 524.45, 464.68, 574.54),
            ),
            published(
                "flush",
                IMPROVED,
                "replica",
                segments!(7.10, 92.88, 107.43, 143.05, 673.08, 529.39, 556.94, 512.08, 579.02),
            ),
        ],
        claims: &[
            headline("SLOAD", (BASELINE, PRINTED.name), SLOAD_SAID, (4.04, 6.5))
                .at(&[(LARGE, (4.04, 6.5))]),
            headline("SLOAD and SSTORE", (BASELINE, PRINTED.name), ACCESS_SAID, (3.66, 5.96))
                .at(&[(LARGE, (3.66, 5.96))]),
            headline("commit", (BASELINE, PRINTED.name), COMMIT_SAID, (3.72, 4.45))
                .at(&[(LARGE, (3.72, 4.45))]),
            claim("flush", (BASELINE, PRINTED.name), FLUSH_SAID, (0.91, 1.04))
                .at(&[(LARGE, (0.91, 1.04))]),
            claim("state in all", (BASELINE, PRINTED.name), STATE_SAID, (3.63, 3.63))
                .at(&[(LARGE, (3.63, 3.63))]),
            claim("SLOAD", (BASELINE, "replica"), SLOAD_SAID, (4.04, 6.5))
                .at(&[(LARGE, (4.04, 6.5))]),
            claim("SLOAD and SSTORE", (BASELINE, "replica"), ACCESS_SAID, (3.66, 5.96))
                .at(&[(LARGE, (3.66, 5.96))]),
            claim("commit", (BASELINE, "replica"), COMMIT_SAID, (3.72, 4.45))
                .at(&[(LARGE, (3.72, 4.45))]),
            claim("flush", (BASELINE, "replica"), FLUSH_SAID, (0.91, 1.04))
                .at(&[(LARGE, (0.91, 1.04))]),
            claim("state in all", (BASELINE, "replica"), STATE_SAID, (3.63, 3.63))
                .at(&[(LARGE, (3.63, 3.63))]),
        ],
    }],
};

const SIZE: Experiment = Experiment {
    id: "replica-table-6",
    place: "Table 6",
    about: "the size of the flat state beside the trie",
    setting: "Mainnet up to block 9M; storage only, slots of 32 bytes.",
    here: "Whole stores, accounts included: what `replica as printed` takes beyond `mpt-hash` is its flat state, and what `replica` takes beyond `mpt`. The paper's ratio of the flat state to the trie is 0.314 at 9M and at most 0.415.",
    needs: Needs { minutes: 20, memory: 6, disk: 12 },
    quick: Needs { minutes: 2, memory: 1, disk: 1 },
    memory: Some(MEMORY),
    parts: &[Part {
        title: "size of the stores",
        x: "accounts at genesis",
        points: growing,
        variants: &[MPT_HASH_OVERLAY, MPT, REPLICA, PRINTED],
        quantities: &[DISK],
        published: &[
            published("disk", "trie (GB in the paper, here MiB)", BASELINE, TRIE_SIZES),
            published("disk", "trie and replica of 32 B", PRINTED.name, BOTH_SIZES),
        ],
        claims: &[claim("disk", (PRINTED.name, BASELINE), "1.31 to 1.41 from 4M on", (1.31, 1.41))],
    }],
};

/// Sizes of the trie in MiB at each of the paper's block numbers. The paper gives GB.
const TRIE_SIZES: &[(f64, &str, f64)] = &[
    (1.0, "1M", 57.0),
    (2.0, "2M", 181.0),
    (3.0, "3M", 277.0),
    (4.0, "4M", 992.0),
    (5.0, "5M", 4883.0),
    (6.0, "6M", 12646.0),
    (7.0, "7M", 19255.0),
    (8.0, "8M", 24815.0),
    (9.0, "9M", 29974.0),
];

/// The same of the trie with the flat state.
const BOTH_SIZES: &[(f64, &str, f64)] = &[
    (1.0, "1M", 76.0),
    (2.0, "2M", 238.0),
    (3.0, "3M", 381.0),
    (4.0, "4M", 1402.0),
    (5.0, "5M", 6609.0),
    (6.0, "6M", 16794.0),
    (7.0, "7M", 25463.0),
    (8.0, "8M", 32816.0),
    (9.0, "9M", 39387.0),
];
