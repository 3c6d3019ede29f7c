//! The figures and tables of the papers that one machine can show, with the papers' numbers beside ours.
//!
//! One file a paper holds its experiments as data: what is measured at which points, for which layers, and what was
//! published. [`replicate`] measures what fits into the time that there is, [`result`] shows it.
//!
//! What the papers measured against is the trie with a row for every node under its hash: [`BASELINE`] stands for it, and
//! wherever it is measured, so is `mpt`. A ratio to the one is what a paper claims, the ratio to the other what is left of
//! it over a trie that is stored well.

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

/// A paper.
#[derive(Debug)]
pub struct Paper {
    /// Its short name.
    pub name: &'static str,
    /// Its name in headings.
    pub title: &'static str,
    /// Authors, title, place and year.
    pub reference: &'static str,
    /// Its claim, in a sentence.
    pub claim: &'static str,
    /// What its authors measured, and on what.
    pub setting: &'static str,
    /// Where its gain comes from over the trie that it was measured against, and what of that `mpt` has too. True whatever
    /// a run comes to.
    pub why: &'static str,
    /// The figures and tables of it that can be measured here.
    pub experiments: &'static [Experiment],
}

/// A figure or table of a paper.
#[derive(Debug)]
pub struct Experiment {
    /// Its name: `lmpt-10`.
    pub id: &'static str,
    /// As the paper calls it: `Figure 10`.
    pub place: &'static str,
    /// What the figure or table shows.
    pub about: &'static str,
    /// What the authors measured on.
    pub setting: &'static str,
    /// What is different here.
    pub here: &'static str,
    /// Time, memory and disk that the full experiment takes.
    pub needs: Needs,
    /// Time, memory and disk that it takes with `--quick`.
    pub quick: Needs,
    /// Bytes that each run gets, pages of files included, where the user says nothing of memory: for what a paper measured on
    /// a state larger than the memory of its machine. `None` for no bound.
    pub memory: Option<u64>,
    /// What is measured for it.
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

    /// The comparison with the memory that the experiment gives each run. `--memory-limit` and `--cold` come before that.
    fn bounded(&self, base: &Comparison) -> Comparison {
        let is_said = base.cold || base.memory_limit.is_some();
        match self.memory.filter(|_| !is_said) {
            None => base.clone(),
            Some(bytes) => base.clone().within(bytes),
        }
    }
}

/// Roughly what an experiment takes with three layers on two cores.
#[derive(Debug, Clone, Copy)]
pub struct Needs {
    /// Minutes.
    pub minutes: u32,
    /// GiB of memory.
    pub memory: u32,
    /// GiB of disk.
    pub disk: u32,
}

/// One series of measurements.
#[derive(Debug)]
pub struct Part {
    /// Its title.
    pub title: &'static str,
    /// What varies: the numbers of the points.
    pub x: &'static str,
    /// Where it is measured; the argument asks for few and small points.
    pub points: fn(bool) -> Vec<Point>,
    /// What is measured there.
    pub variants: &'static [Variant],
    /// Its description.
    pub quantities: &'static [Quantity],
    /// What was published.
    pub published: &'static [Published],
    /// Ratios that were published.
    pub claims: &'static [Claim],
}

/// One place in a [`Part`].
#[derive(Debug, Clone)]
pub struct Point {
    /// Its number.
    pub x: f64,
    /// Its name in tables.
    pub name: String,
    /// The work that is measured there.
    pub work: PointWork,
    /// Settings of layers and engine that it varies.
    pub set: &'static [Setting],
}

/// The work that is measured at a [`Point`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointWork {
    /// A workload's chain.
    Chain {
        /// Which.
        workload: WorkloadKind,
        /// Accounts at genesis.
        accounts: usize,
        /// Accounts that send; all if 0.
        senders: usize,
        /// Transactions.
        txs: u64,
        /// Transactions a block.
        block_txs: u64,
        /// Which accounts take part.
        popularity: Popularity,
    },
    /// The state layer alone.
    Store {
        /// Slots at the start.
        keys: u64,
        /// Blocks.
        blocks: u64,
        /// Operations a block.
        ops: u64,
        /// Whether keys are new ones.
        fresh: bool,
        /// What an operation does.
        mode: Mode,
    },
    /// Elementary operations of the curve.
    Curve,
    /// One of RainBlock's roles, counted.
    Role(Role),
}

/// A setting, by its path in the settings of a report, and its value as JSON.
pub type Setting = (&'static str, &'static str);

/// A layer with settings of its own.
#[derive(Debug, PartialEq, Eq)]
pub struct Variant {
    /// Its name in tables.
    pub name: &'static str,
    /// The layer.
    pub state: &'static str,
    /// Settings.
    pub set: &'static [Setting],
}

/// What a paper gives for one of its systems.
#[derive(Debug)]
pub struct Published {
    /// Which of the part's quantities, by its name.
    pub quantity: &'static str,
    /// As the paper calls the system.
    pub name: &'static str,
    /// The variant that stands for it here.
    pub like: &'static str,
    /// Number and name of the point, and the value.
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
/// The papers' clients left it to the system when a write reaches the disk, so no variant waits for that. They wrote each
/// block to the engine, too: see [`PointWork`].
const UNSYNCED: Setting = ("/engine/unsynced", "true");
const MPT_HASH: Variant = variant(BASELINE);
/// As OpenEthereum's family of clients keeps the trie: of its nodes, those that the last commits wrote are in memory (its
/// `OverlayRecentDB`), and none that was only read. So many bytes hold what 100,000 operations write.
const MPT_HASH_OVERLAY: Variant = Variant {
    name: BASELINE,
    state: BASELINE,
    set: &[OVERLAY, ("/layer/mpt_hash/cached", r#""written""#)],
};
const OVERLAY: Setting = ("/layer/mpt_hash/cache", "64000000");
/// With as much memory as `rain` and `mpt` have for nodes, where RainBlock's authors kept both trees in memory.
const MPT_HASH_LARGE: Variant =
    Variant { name: BASELINE, state: BASELINE, set: &[("/layer/mpt_hash/cache", "1000000000")] };
/// OpenEthereum with as much memory as LMPT takes for its small tries, as LMPT's authors gave it. That memory is a cache of
/// its database: no node that was only read stays in memory as a node.
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
    // Its trie has the cache of `mpt-hash`: of the size that `MPT_HASH_OVERLAY`, which it is held against, gives that.
    set: &[("/layer/replica/mode", r#""paper""#), OVERLAY],
};
const LMPT: Variant = variant("lmpt");
const SWITCHED: Variant = Variant {
    name: "lmpt as printed",
    state: "lmpt",
    set: &[("/layer/lmpt/boundary", r#""switch""#)],
};
/// As LMPT's authors measured it: a small trie holds what 2 million transactions write, more than a run has. So many blocks
/// have at least as many.
const MEASURED: Variant = Variant {
    name: "lmpt as measured",
    state: "lmpt",
    set: &[("/layer/lmpt/boundary", r#""switch""#), ("/layer/lmpt/interval", "2000000")],
};
const RAIN: Variant = variant("rain");
/// After LVMT's authors: six levels in memory, and hardly a cache of those below. The levels are those of the account trie; of
/// storage tries none is sure to stay.
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

/// Points over accounts at genesis.
fn over_accounts(accounts: &[usize], work: impl Fn(usize) -> PointWork) -> Vec<Point> {
    let point = |accounts: &usize| Point {
        x: *accounts as f64,
        name: super::report::plot::short(*accounts as f64),
        work: work(*accounts),
        set: &[],
    };
    accounts.iter().map(point).collect()
}

/// The papers.
pub const PAPERS: &[Paper] = &[lmpt::PAPER, lvmt::PAPER, replica::PAPER, rainblock::PAPER];

/// The experiments of this name: one, all of a paper, or `all`.
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
                // Whatever is held against what the papers measured against is held against `mpt`, too.
                assert!(!variant(BASELINE) || variant("mpt"), "{}", experiment.id);
                for quick in [false, true] {
                    let points = (part.points)(quick);
                    // A point that does not fit into the time is told by those before it.
                    assert!(points.is_sorted_by(|a, b| a.x <= b.x), "{}", experiment.id);
                }
            }
        }
        assert_eq!(find("lmpt").len(), 4);
        assert_eq!(find("lmpt-10").len(), 1);
        assert_eq!(find("all").len(), ids.len());
        // Each paper has something that it is known for.
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
