//! The figures and tables of the papers that one machine can reproduce, with the papers' numbers beside ours.
//!
//! Each paper has a file that holds its experiments as data: points, layers, quantities and published values.
//! [`replicate`] measures the points that fit into the time given, [`result`] shows the results.
//!
//! The papers measured against a trie with a row for every node under its hash. [`BASELINE`] stands for it, and
//! wherever it is measured, so is `mpt`. The ratio to the baseline is what a paper claims; the ratio to `mpt` is what
//! remains of it over a trie that is stored well.

mod claim;
#[cfg(feature = "lvmt")]
mod curve;
mod drawing;
mod kept;
mod lmpt;
mod lvmt;
mod page;
mod profile;
mod quantity;
mod rainblock;
mod replica;
mod replicate;
pub mod result;
mod roles;
mod schedule;
#[cfg(test)]
mod testing;

pub use claim::{Claim, ClaimResult, JudgedBy, RatioAt, Verdict};
pub use drawing::Drawing;
pub use page::page;
pub use quantity::Quantity;
pub use result::Replication;
pub use roles::Role;
pub use schedule::{Budget, replicate};

use super::{Comparison, Mode, Popularity, WorkloadKind, report::BASELINE};
use claim::{claim, headline};

/// A paper and its experiments.
#[derive(Debug)]
pub struct Paper {
    /// Short name, as in the ids of experiments.
    pub name: &'static str,
    /// Title in headings.
    pub title: &'static str,
    /// Authors, title, place and year.
    pub reference: &'static str,
    /// The paper's claim, in a sentence.
    pub claim: &'static str,
    /// Workload and machine of the authors.
    pub setting: &'static str,
    /// Reason of the gain over the paper's baseline, and the part of it that `mpt` has too. It holds whatever
    /// a run measures.
    pub why: &'static str,
    /// The paper's figures and tables that can be measured here.
    pub experiments: &'static [Experiment],
}

impl Paper {
    /// Whether the experiment with this id is one of the paper's.
    fn has(&self, id: &str) -> bool {
        self.experiments.iter().any(|experiment| experiment.id == id)
    }
}

/// A figure or table of a paper.
#[derive(Debug)]
pub struct Experiment {
    /// Identifier, such as `lmpt-10`.
    pub id: &'static str,
    /// Name in the paper, such as `Figure 10`.
    pub place: &'static str,
    /// Content of the figure or table.
    pub about: &'static str,
    /// Workload and machine of the authors.
    pub setting: &'static str,
    /// Differences between the paper's setting and ours.
    pub here: &'static str,
    /// Time, memory and disk that the full experiment takes.
    pub needs: Needs,
    /// Time, memory and disk that the experiment takes with `--quick`.
    pub quick: Needs,
    /// Bytes of memory for each run, pages of files included, unless the user sets a limit: for a paper that measured
    /// a state larger than the memory of its machine. `None` for no limit.
    pub memory: Option<u64>,
    /// Series of measurements that make up the figure or table.
    pub parts: &'static [Part],
}

impl Experiment {
    /// Whether it calls contracts that `scripts/setup-uniswap` fetches.
    pub fn swaps(&self) -> bool {
        use WorkloadKind::{Swap, SwapEth, SwapToken};
        let swaps = |point: &Point| {
            let PointWork::Chain { workload, .. } = point.work else { return false };
            matches!(workload, Swap | SwapEth | SwapToken)
        };
        self.parts.iter().any(|part| (part.points)(true).iter().any(swaps))
    }

    /// The comparison with the experiment's limit of memory, unless `--memory-limit` or `--cold` is set.
    fn bounded(&self, base: &Comparison) -> Comparison {
        let is_said = base.cold || base.memory_limit.is_some();
        match self.memory.filter(|_| !is_said) {
            None => base.clone(),
            Some(bytes) => base.clone().within(bytes),
        }
    }
}

/// Rough needs of an experiment with three layers on two cores.
#[derive(Debug, Clone, Copy)]
pub struct Needs {
    /// Time in minutes.
    pub minutes: u32,
    /// Memory in GiB.
    pub memory: u32,
    /// Disk in GiB.
    pub disk: u32,
}

/// One series of measurements: variants at several points.
#[derive(Debug)]
pub struct Part {
    /// Title of the series.
    pub title: &'static str,
    /// Name of the quantity that varies from point to point.
    pub x: &'static str,
    /// Makes the points; the argument asks for few and small ones.
    pub points: fn(bool) -> Vec<Point>,
    /// Layers and settings that are measured at each point.
    pub variants: &'static [Variant],
    /// Quantities that are taken from each measurement.
    pub quantities: &'static [Quantity],
    /// Values that the paper gives.
    pub published: &'static [Published],
    /// Ratios that the paper states.
    pub claims: &'static [Claim],
}

/// One place in a [`Part`], with its own work and settings.
#[derive(Debug, Clone)]
pub struct Point {
    /// Position on the axis.
    pub x: f64,
    /// Name in tables.
    pub name: String,
    /// Work that is measured at this point.
    pub work: PointWork,
    /// Settings of layers and engine for this point.
    pub set: &'static [Setting],
}

/// Kinds of work at a [`Point`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointWork {
    /// The chain of a workload.
    Chain {
        /// The workload.
        workload: WorkloadKind,
        /// Accounts at genesis.
        accounts: usize,
        /// Accounts that send transactions; 0 for all.
        senders: usize,
        /// Transactions in all blocks.
        txs: u64,
        /// Transactions in a block.
        block_txs: u64,
        /// Distribution of the accounts that take part.
        popularity: Popularity,
    },
    /// Random operations on the state layer alone.
    Store {
        /// Slots at the start.
        keys: u64,
        /// Blocks that are measured.
        blocks: u64,
        /// Operations in a block.
        ops: u64,
        /// Whether operations write new keys.
        fresh: bool,
        /// Parts of an operation: the read, the write, or both.
        mode: Mode,
    },
    /// Elementary operations of the curve, timed.
    Curve,
    /// A role of RainBlock, counted.
    Role(Role),
}

/// A setting: its JSON pointer in the settings of a report, and its value as JSON.
pub type Setting = (&'static str, &'static str);

/// A layer with certain settings.
#[derive(Debug, PartialEq, Eq)]
pub struct Variant {
    /// Name in tables.
    pub name: &'static str,
    /// Name of the layer.
    pub state: &'static str,
    /// Settings that differ from the comparison's.
    pub set: &'static [Setting],
}

/// The published values of one of a paper's systems.
#[derive(Debug)]
pub struct Published {
    /// Name of the quantity.
    pub quantity: &'static str,
    /// Name of the system in the paper.
    pub name: &'static str,
    /// Name of the variant that stands for the system here.
    pub like: &'static str,
    /// Number and name of each point, and its value.
    pub values: &'static [(f64, &'static str, f64)],
}

const fn published(
    quantity: &'static str,
    name: &'static str,
    like: &'static str,
    values: &'static [(f64, &'static str, f64)],
) -> Published {
    Published { quantity, name, like, values }
}

const fn variant(name: &'static str) -> Variant {
    Variant { name, state: name, set: &[] }
}

const MPT: Variant = variant("mpt");
/// Setting that does not wait for the disk. The papers' clients let the system decide when a write reaches the disk,
/// so no variant waits. The clients wrote each block to the engine as well: see [`PointWork`].
const UNSYNCED: Setting = ("/engine/unsynced", "true");
const MPT_HASH: Variant = variant(BASELINE);
/// `mpt-hash` as OpenEthereum's family of clients keeps the trie: nodes that the last commits wrote are in memory
/// (its `OverlayRecentDB`), and no node that was only read. The bytes hold what 100,000 operations write.
const MPT_HASH_OVERLAY: Variant = Variant {
    name: BASELINE,
    state: BASELINE,
    set: &[OVERLAY, ("/layer/mpt_hash/cached", r#""written""#)],
};
const OVERLAY: Setting = ("/layer/mpt_hash/cache", "64000000");
/// `mpt-hash` as the benchmark of LVMT's authors keeps the trie: a commit writes all nodes through its overlay at once
/// and forgets those that it read. The bytes hold more than 50,000 operations read.
const MPT_HASH_BLOCK: Variant = Variant {
    name: BASELINE,
    state: BASELINE,
    set: &[("/layer/mpt_hash/cache", "256000000"), ("/layer/mpt_hash/cached", r#""block""#)],
};
/// `mpt-hash` with as much memory for nodes as `rain` and `mpt`, as RainBlock's authors kept both trees in memory.
const MPT_HASH_LARGE: Variant =
    Variant { name: BASELINE, state: BASELINE, set: &[("/layer/mpt_hash/cache", "1000000000")] };
/// `mpt-hash` as LMPT's authors ran OpenEthereum: with as much memory as LMPT takes for its small tries. The memory
/// is a cache of the database: no node that was only read stays in memory as a node.
const MPT_HASH_DATABASE: Variant = Variant {
    name: BASELINE,
    state: BASELINE,
    set: &[OVERLAY, ("/layer/mpt_hash/cached", r#""written""#), ("/engine/cache", "1342177280")],
};
const RAW: Variant = variant("raw");
const REPLICA: Variant = variant("replica");
const PRINTED: Variant = Variant {
    name: "replica as printed",
    state: "replica",
    // Its trie has a cache of the same size as the one of `MPT_HASH_OVERLAY`, with which it is compared.
    set: &[("/layer/replica/mode", r#""paper""#), OVERLAY],
};
const LMPT: Variant = variant("lmpt");
const SWITCHED: Variant = Variant {
    name: "lmpt as printed",
    state: "lmpt",
    set: &[("/layer/lmpt/boundary", r#""switch""#)],
};
/// `lmpt` as its authors measured it: a small trie holds what 2 million transactions write, more than a run has. An
/// interval of as many blocks holds at least as much.
const MEASURED: Variant = Variant {
    name: "lmpt as measured",
    state: "lmpt",
    set: &[("/layer/lmpt/boundary", r#""switch""#), ("/layer/lmpt/interval", "2000000")],
};
const RAIN: Variant = variant("rain");
/// `rain` as LVMT's authors ran it: six levels in memory, and hardly a cache below them. The levels are those of the
/// account trie; no node of a storage trie is sure to stay in memory.
const RAIN6: Variant = Variant {
    name: "rain",
    state: "rain",
    set: &[("/layer/rain/retain", "6"), ("/layer/trie_cache", "1000000")],
};
const LVMT: Variant = variant("lvmt");
const LVMT64: Variant = Variant {
    name: "lvmt 1/64",
    state: "lvmt",
    set: &[("/layer/lvmt/proofs", r#"{"Shard":{"shard":1,"of":64}}"#)],
};
const LVMT16: Variant = Variant {
    name: "lvmt 1/16",
    state: "lvmt",
    set: &[("/layer/lvmt/proofs", r#"{"Shard":{"shard":1,"of":16}}"#)],
};
const LVMT1: Variant =
    Variant { name: "lvmt full", state: "lvmt", set: &[("/layer/lvmt/proofs", r#""Full""#)] };

/// Points over the number of accounts at genesis.
fn over_accounts(accounts: &[usize], work: impl Fn(usize) -> PointWork) -> Vec<Point> {
    let point = |accounts: &usize| Point {
        x: *accounts as f64,
        name: super::report::plot::short(*accounts as f64),
        work: work(*accounts),
        set: &[],
    };
    accounts.iter().map(point).collect()
}

/// All papers.
pub const PAPERS: &[Paper] = &[lmpt::PAPER, lvmt::PAPER, replica::PAPER, rainblock::PAPER];

/// The experiments of this name: an experiment's own, a paper's, or `all`.
pub fn find(name: &str) -> Vec<&'static Experiment> {
    let all = PAPERS
        .iter()
        .flat_map(|paper| paper.experiments.iter().map(move |experiment| (paper.name, experiment)));
    all.filter(|(paper, experiment)| [*paper, experiment.id, "all"].contains(&name))
        .map(|(_, experiment)| experiment)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn experiments_fit_together() {
        let mut ids = HashSet::new();
        for experiment in PAPERS.iter().flat_map(|paper| paper.experiments) {
            assert!(ids.insert(experiment.id), "{} is there twice", experiment.id);
            for part in experiment.parts {
                let quantity = |name: &str| part.quantities.iter().any(|q| q.name == name);
                let variant = |name: &str| part.variants.iter().any(|v| v.name == name);
                for published in part.published {
                    assert!(
                        quantity(published.quantity),
                        "{}: {}",
                        experiment.id,
                        published.quantity
                    );
                }
                for claim in part.claims {
                    assert!(quantity(claim.quantity), "{}: {}", experiment.id, claim.quantity);
                    assert!(variant(claim.over.0) && variant(claim.over.1), "{}", experiment.id);
                    let at = claim.at.iter().map(|(_, range)| *range);
                    for (least, greatest) in at.chain([claim.range]) {
                        assert!(0.0 < least && least <= greatest, "{}", experiment.id);
                    }
                }
                // A claim over the papers' baseline is measured over `mpt` as well.
                assert!(!variant(BASELINE) || variant("mpt"), "{}", experiment.id);
                for quick in [false, true] {
                    let points = (part.points)(quick);
                    // The time of a point is estimated from smaller ones, so these come first.
                    assert!(points.is_sorted_by(|a, b| a.x <= b.x), "{}", experiment.id);
                }
            }
        }
        assert_eq!(find("lmpt").len(), 4);
        assert_eq!(find("lmpt-10").len(), 1);
        assert_eq!(find("all").len(), ids.len());
        // Each paper has a headline claim.
        for paper in PAPERS {
            let mut parts = paper.experiments.iter().flat_map(|experiment| experiment.parts);
            assert!(
                parts.any(|part| part.claims.iter().any(|claim| claim.is_headline)),
                "{}",
                paper.name
            );
        }
        assert!(find("nothing").is_empty());
    }
}
