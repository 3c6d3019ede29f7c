//! RainBlock's roles, as far as one machine can have them: a client that runs transactions ahead on an older state, a
//! storage node that sends witnesses, and a miner that applies them to its own state. Nothing is timed here; the
//! counts are the same on every machine.
//!
//! A chain is executed block by block under `rain`. Its last states stay readable beside the newest, as the versions
//! of RainBlock's storage nodes do.

mod client;
mod loads;
mod miner;
mod storage_node;
mod walk;

use crate::{
    Base, BenchError, CacheError, Comparison, FixtureError, GenerateError, GivenChain, Popularity,
    PreparedChain, Result, Shape, WorkloadKind, WorkloadSpec,
};
use serde::{Deserialize, Deserializer, Serialize};
use std::sync::Arc;

/// The layer that keeps several states readable.
pub(super) const LAYER: &str = "rain";
/// The series of the user's chain.
pub(super) const GIVEN: &str = "the given chain";
/// Seed of everything random.
const SEED: u64 = 1;

/// A role whose work is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A client, which runs each transaction on an older state.
    Client {
        /// Number of blocks by which that state is older than the state of the parent.
        behind: usize,
    },
    /// A storage node, which sends witnesses.
    StorageNode {
        /// Levels of the account trie that it leaves out, since the receiver holds them.
        levels: usize,
        /// Whether some of the transactions call a contract.
        calls: bool,
    },
    /// A miner, which gets witnesses of the state one block before its own.
    Miner {
        /// Levels of the account trie that it holds.
        levels: usize,
    },
}

/// Counts of a variant: its name, and a value for each quantity of the part.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Counted {
    pub(super) variant: String,
    /// One value for each quantity; NaN if there was nothing to count.
    #[serde(deserialize_with = "values")]
    pub(super) values: Vec<f64>,
}

/// Reads values that may be NaN, which JSON writes as `null`.
fn values<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
    let values = Vec::<Option<f64>>::deserialize(deserializer)?;
    Ok(values.into_iter().map(|value| value.unwrap_or(f64::NAN)).collect())
}

impl Role {
    /// Counts on the chains of workloads, and for a client also on the given chain, on few of its blocks if `quick`.
    /// Chains that are left out are added to `notes`.
    ///
    /// # Errors
    ///
    /// If a chain or a store fails.
    pub(super) fn count(
        self,
        base: &Comparison,
        chains: &[Planned],
        quick: bool,
        given: Option<&GivenChain>,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Counted>> {
        let mut counted = Vec::new();
        for planned in chains {
            let course = match planned.course(base) {
                Ok(course) => course,
                // The contracts of the workload are not on this machine.
                Err(
                    BenchError::Generate(GenerateError::Disk(error @ CacheError::Needs(_)))
                    | BenchError::Disk(error @ CacheError::Needs(_))
                    | BenchError::Fixture(FixtureError::Cache(error @ CacheError::Needs(_))),
                ) => {
                    notes.push(format!("without {}: {error}", planned.name));
                    continue;
                }
                Err(error) => return Err(error),
            };
            counted.extend(self.count_on(base, &course)?);
        }
        if let (Some(given), Self::Client { .. }) = (given, self) {
            let course = Course {
                name: GIVEN,
                base: Base::new(given.base(), Arc::clone(&base.cache)),
                chain: given.prepare(&base.cache)?,
                most_blocks: if quick { 500 } else { 5_000 },
            };
            counted.extend(self.count_on(base, &course)?);
        }
        Ok(counted)
    }

    fn count_on(self, base: &Comparison, course: &Course) -> Result<Vec<Counted>> {
        match self {
            Self::Client { behind } => client::count(base, course, behind).map(|one| vec![one]),
            Self::StorageNode { levels, .. } => storage_node::count(base, course, levels),
            Self::Miner { levels } => miner::count(base, course, levels).map(|one| vec![one]),
        }
    }

    /// The chains of workloads on which the role is counted, small ones if `quick`.
    pub(super) fn chains(self, quick: bool) -> Vec<Planned> {
        use {Popularity::*, WorkloadKind::*};
        let planned = |name, workload, popularity, accounts, txs, block_txs| {
            // The paper takes both accounts of a payment from those that there are.
            let new_recipients = 0;
            let shape =
                Shape { accounts, txs, block_txs, popularity, new_recipients, ..Shape::default() };
            Planned { name, spec: WorkloadSpec { workload, seed: SEED, shape } }
        };
        match self {
            Self::Client { .. } => {
                let (accounts, txs, block_txs) =
                    if quick { (10_000, 4_000, 100) } else { (100_000, 20_000, 200) };
                let of = |name, workload, popularity| {
                    planned(name, workload, popularity, accounts, txs, block_txs)
                };
                vec![
                    of("payments", Transfer, Uniform),
                    of("ERC-20", Erc20, Uniform),
                    of("mixed", Mixed, Hot),
                    of("swaps", Swap, Uniform),
                ]
            }
            Self::StorageNode { calls, .. } => {
                let (accounts, txs) = if quick { (50_000, 5_000) } else { (1_000_000, 10_000) };
                let (name, workload, popularity) = match calls {
                    true => ("mixed", Mixed, Hot),
                    false => ("payments", Transfer, Uniform),
                };
                vec![planned(name, workload, popularity, accounts, txs, 500)]
            }
            Self::Miner { .. } => {
                let txs = if quick { 4_000 } else { 10_000 };
                let of = |(name, accounts): &(_, usize)| {
                    planned(*name, Transfer, Uniform, *accounts, txs, 200)
                };
                miner::ACCOUNTS[..if quick { 2 } else { 3 }].iter().map(of).collect()
            }
        }
    }
}

pub(super) use miner::ACCOUNTS;
pub(super) use storage_node::{BAGGED, COMPACTED, SEPARATE};

/// A chain of a workload, still to be made.
#[derive(Debug)]
pub(super) struct Planned {
    name: &'static str,
    spec: WorkloadSpec,
}

impl Planned {
    fn course(&self, base: &Comparison) -> Result<Course> {
        let of = Base::of_workload(&self.spec, Arc::clone(&base.cache));
        let chain = PreparedChain::of(&self.spec, &base.cache, &of, &base.interrupt)?;
        Ok(Course { name: self.name, base: of, chain, most_blocks: usize::MAX })
    }
}

/// A chain that is ready to be counted on.
struct Course {
    name: &'static str,
    base: Base,
    chain: PreparedChain,
    most_blocks: usize,
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::paper::testing::comparison;

    #[test]
    fn roles_are_counted_on_a_chain() {
        let (_dir, base) = comparison(1);
        let shape = Shape { accounts: 40, txs: 250, block_txs: 10, ..Shape::default() };
        let spec = WorkloadSpec { workload: WorkloadKind::Erc20, seed: SEED, shape };
        let course = Planned { name: "ERC-20", spec }.course(&base).unwrap();
        let count = |role: Role| role.count_on(&base, &course).unwrap();

        // A call contains the address that it pays, so a client foresees it however many blocks it is behind. The
        // value that it sees is old.
        let client = |behind| count(Role::Client { behind })[0].values.clone();
        let (now, later) = (client(0), client(3));
        for shares in [&now, &later] {
            assert_eq!(shares[..3], [1.0, 0.0, 0.0]);
        }
        assert!(0.0 < now[3] && now[3] < later[3]);

        let aborted = |levels| count(Role::Miner { levels })[0].values[0];
        assert_eq!(aborted(0), 1.0);
        assert!(aborted(16) <= aborted(1));

        let sizes = |levels| -> Vec<f64> {
            let role = Role::StorageNode { levels, calls: true };
            count(role).iter().map(|counted| counted.values[0]).collect()
        };
        let (all, without_root) = (sizes(0), sizes(1));
        assert!(all[0] > all[1] && all[1] == all[2]);
        assert_eq!(all[..2], without_root[..2]);
        assert!(without_root[2] < all[2]);
    }
}
