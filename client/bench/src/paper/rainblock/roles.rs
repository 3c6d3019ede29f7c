//! Figures of RainBlock that are counted: the share that clients foresee, the bytes that storage nodes send, the
//! witnesses that miners can use.

use super::super::{
    Claim, Experiment, Needs, Part, Point, PointWork, Quantity, Role, Variant, claim, headline,
    quantity::{ABORTED, DIFFERENT, FORESEEN, INCOMPLETE, STALE, WITNESS},
    roles::{ACCOUNTS, BAGGED, COMPACTED, GIVEN, LAYER, SEPARATE},
};

/// A series of counted values.
const fn series(name: &'static str) -> Variant {
    Variant { name, state: LAYER, set: &[] }
}

fn points(
    numbers: &[usize],
    name: fn(usize) -> String,
    role: impl Fn(usize) -> Role,
) -> Vec<Point> {
    let point = |number: &usize| Point {
        x: *number as f64,
        name: name(*number),
        work: PointWork::Role(role(*number)),
        set: &[],
    };
    numbers.iter().map(point).collect()
}

fn by_level(levels: usize) -> String {
    format!("r={levels}")
}

/// Points over the levels that the receiver of witnesses holds: up to 8, the most that the paper's miners retain.
fn received(quick: bool, calls: bool) -> Vec<Point> {
    let levels: &[usize] = if quick { &[0, 2, 4] } else { &[0, 1, 2, 3, 4, 5, 6, 7, 8] };
    points(levels, by_level, |levels| Role::StorageNode { levels, calls })
}

const SENT: &[Variant] = &[series(SEPARATE), series(BAGGED), series(COMPACTED)];
const BYTES: &[Quantity] = &[WITNESS];
const SAVED: &str = "up to 95 % less, which is 20 times";

const fn witnesses(
    title: &'static str,
    points: fn(bool) -> Vec<Point>,
    claims: &'static [Claim],
) -> Part {
    Part {
        title,
        x: "levels that the receiver holds (r)",
        points,
        variants: SENT,
        quantities: BYTES,
        published: &[],
        claims,
    }
}

pub(super) const WITNESSES: Experiment = Experiment {
    id: "rainblock-8b",
    place: "Figure 8b",
    about: "what bagging and compaction save of witnesses, over the levels that their receiver holds",
    setting: "Witnesses of the DSM-Tree on a node with 32 GB; the text gives the most that is saved, and says that a simple transaction comes with 4 to 6 KB.",
    here: "Counted from the proofs that `rain` makes of all that a block of 500 transactions loads: each account with its path from the root and each slot with its path in the account's storage; then each node of the block once; then without the first r levels of the account trie, the root among them. The last node of an account's path holds what the client read. It is sent whatever r is, and paths of slots stay whole: both as in the authors' storage node. The figure's text names no workload. Its section takes two random accounts for a transaction, and the paper compares the 95 % with the witness of a simple transaction (section 9.1), so payments are held against it. Calls come with the paper's whole system (section 8.4, 15 % of the transactions): of their witnesses most is paths in a contract's storage. Codes are not counted.",
    needs: Needs { minutes: 9, memory: 2, disk: 2 },
    quick: Needs { minutes: 2, memory: 1, disk: 1 },
    memory: None,
    parts: &[
        witnesses(
            "witnesses of payments",
            |quick| received(quick, false),
            &[headline("witness", (SEPARATE, COMPACTED), SAVED, (20.0, 20.0)).up_to()],
        ),
        witnesses(
            "witnesses of payments and calls",
            |quick| received(quick, true),
            &[claim("witness", (SEPARATE, COMPACTED), SAVED, (20.0, 20.0)).up_to()],
        ),
    ],
};

pub(super) const ABORTS: Experiment = Experiment {
    id: "rainblock-8c",
    place: "Figure 8c",
    about: "how many transactions come with a witness that the miner cannot carry over to its state, over the levels that it holds and the number of accounts",
    setting: "16 storage nodes, one miner, clients that keep it busy; payments between two random accounts. A plot without numbers: fewer aborts with more levels, and with more accounts.",
    here: "Witnesses are one block of 200 payments old. One can be carried over if nothing has changed since under the same nodes of the first level that the miner does not hold. What the block's own transactions change the miner has seen.",
    needs: Needs { minutes: 4, memory: 2, disk: 2 },
    quick: Needs { minutes: 1, memory: 1, disk: 1 },
    memory: None,
    parts: &[Part {
        title: "payments, 200 a block",
        x: "levels that the miner holds (r)",
        points: |quick| {
            let levels: &[usize] = if quick { &[1, 3, 5] } else { &[0, 1, 2, 3, 4, 5, 6, 7] };
            points(levels, by_level, |levels| Role::Miner { levels })
        },
        variants: &[series(ACCOUNTS[0].0), series(ACCOUNTS[1].0), series(ACCOUNTS[2].0)],
        quantities: &[ABORTED],
        published: &[],
        claims: &[],
    }],
};

pub(super) const SPECULATION: Experiment = Experiment {
    id: "rainblock-4.3",
    place: "Section 4.3",
    about: "what clients foresee that run transactions on a state some blocks behind, in a block of which they guess number and time",
    setting: "No numbers: the authors looked at Ethereum's contracts and found that clients prefetch the right witnesses despite guessed values and stale data, as most contracts touch addresses that follow from the message alone.",
    here: "Each transaction runs by itself on the state that the block K before its parent left (K = 0: its parent's), and is held against what it loads when its turn comes. Who is paid the fees is not counted. The states of the last K blocks are versions of `rain` that stay alive. `--blocks FILE --chain CHAIN` adds the first 5,000 blocks of a chain of yours.",
    needs: Needs { minutes: 4, memory: 2, disk: 2 },
    quick: Needs { minutes: 1, memory: 1, disk: 1 },
    memory: None,
    parts: &[Part {
        title: "transactions ahead of their turn",
        x: "blocks behind (K)",
        points: |quick| {
            let behind: &[usize] = if quick { &[0, 5, 20] } else { &[0, 1, 2, 5, 10, 20] };
            points(behind, |behind| format!("K={behind}"), |behind| Role::Client { behind })
        },
        variants: &[
            series("payments"),
            series("ERC-20"),
            series("mixed"),
            series("swaps"),
            series(GIVEN),
        ],
        quantities: &[FORESEEN, DIFFERENT, INCOMPLETE, STALE],
        published: &[],
        claims: &[],
    }],
};
