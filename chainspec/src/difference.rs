//! The rules in which two descriptions of one chain differ.

use crate::ChainSpec;
use alloy_eips::eip7840::BlobParams;
use alloy_hardforks::{EthereumHardfork, ForkCondition};
use alloy_primitives::U256;
use std::fmt::Display;

/// A rule in which two descriptions of a chain differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Name of the rule.
    pub rule: String,
    /// The rule's value under the first and under the second description.
    pub values: [String; 2],
}

impl ChainSpec {
    /// Returns the first rule in which `other`, which has the same genesis block, differs for blocks up to the one with
    /// this number, timestamp and total difficulty of its parent. Rules of later blocks may differ.
    pub fn difference(
        &self,
        other: &Self,
        number: u64,
        timestamp: u64,
        parent_total_difficulty: U256,
    ) -> Option<Difference> {
        if number <= self.genesis_header().number {
            return None;
        }
        let rules = [self, other].map(|spec| {
            spec.rules(number, timestamp, spec.is_merged_after(parent_total_difficulty))
        });
        let is_active = |fork| rules.iter().any(|rules| rules.is(fork));
        let different = |rule: &str, values: [String; 2]| {
            (values[0] != values[1]).then(|| Difference { rule: rule.to_owned(), values })
        };
        let each = |value: fn(&Self) -> String| [value(self), value(other)];
        let fork = |fork: &EthereumHardfork| {
            let at = [self, other].map(|spec| when(spec.forks().activation(*fork)));
            different(&format!("the fork {fork}"), at).filter(|_| is_active(*fork))
        };
        let blobs = |fork: &EthereumHardfork| {
            let time = self.forks().activation(*fork).as_timestamp()?;
            let params = [self, other].map(|spec| blobs(spec.blob_params(time)));
            different(&format!("the blob parameters of {fork}"), params)
                .filter(|_| is_active(*fork))
        };
        let dao = || {
            let forks = [self, other].map(Self::dao_fork);
            let is_near = forks.iter().flatten().any(|dao| dao.block <= number);
            let values = forks.map(|dao| match dao {
                None => "none".to_owned(),
                Some(dao) => {
                    let how = if dao.support { "supported" } else { "opposed" };
                    format!("{how} at block {}", dao.block)
                }
            });
            different("the DAO fork", values).filter(|_| is_near)
        };
        let forks =
            EthereumHardfork::VARIANTS.iter().filter(|fork| **fork != EthereumHardfork::Dao);
        different("the chain id", each(|spec| spec.chain_id().to_string()))
            .or_else(dao)
            .or_else(|| forks.clone().find_map(fork))
            .or_else(|| forks.clone().find_map(blobs))
            .or_else(|| {
                different("the deposit contract", each(|spec| shown(spec.deposit_contract())))
                    .filter(|_| is_active(EthereumHardfork::Prague))
            })
            .or_else(|| {
                let clique = |spec: &Self| {
                    spec.clique()
                        .map(|clique| format!("period {}, epoch {}", clique.period, clique.epoch()))
                };
                different("Clique", [shown(clique(self)), shown(clique(other))])
            })
            .or_else(|| {
                different("the fixed difficulty", each(|spec| shown(spec.fixed_difficulty())))
            })
            .or_else(|| {
                different("the largest contract", each(|spec| shown(spec.contract_size_limit())))
            })
    }
}

fn when(at: ForkCondition) -> String {
    match at {
        ForkCondition::Block(number) => format!("at block {number}"),
        ForkCondition::Timestamp(time) => format!("at time {time}"),
        ForkCondition::TTD { total_difficulty, .. } => {
            format!("at total difficulty {total_difficulty}")
        }
        ForkCondition::Never => "never".to_owned(),
    }
}

fn blobs(params: Option<BlobParams>) -> String {
    params.map_or_else(
        || "none".to_owned(),
        |params| {
            format!(
                "target {}, max {}, update fraction {}",
                params.target_blob_count, params.max_blob_count, params.update_fraction
            )
        },
    )
}

fn shown(value: Option<impl Display>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| value.to_string())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{DaoFork, Forks};
    use EthereumHardfork::{Berlin, Cancun, Istanbul, London, Osaka, Paris, Prague, Shanghai};
    use alloy_consensus::Header;
    use alloy_primitives::Address;

    fn spec(forks: Forks) -> ChainSpec {
        ChainSpec::with_forks("mine", 4, forks, Header::default(), [])
    }

    fn rule(
        own: &Forks,
        other: &Forks,
        number: u64,
        timestamp: u64,
        parent: u64,
    ) -> Option<String> {
        let (own, other) = (spec(own.clone()), spec(other.clone()));
        let found = own.difference(&other, number, timestamp, U256::from(parent));
        let back = other.difference(&own, number, timestamp, U256::from(parent));
        let rule = found.map(|found| found.rule);
        assert_eq!(back.map(|back| back.rule), rule);
        rule
    }

    #[test]
    fn only_what_lies_behind_must_agree() {
        let own = Forks::up_to(Istanbul)
            .with(Berlin, ForkCondition::Block(5))
            .with(London, ForkCondition::Block(10));
        let later = own.clone().with(London, ForkCondition::Block(20));
        let never = own.clone().with(London, ForkCondition::Never);
        for other in [later, never] {
            assert_eq!(rule(&own, &other, 9, 9, 0), None);
            assert_eq!(rule(&own, &other, 10, 9, 0).unwrap(), "the fork London");
            assert_eq!(rule(&own, &other, 99, 9, 0).unwrap(), "the fork London");
        }
        // The genesis block was made, not executed, so no fork counts in it.
        let other = own.clone().with(Istanbul, ForkCondition::Block(1));
        assert_eq!(rule(&own, &other, 0, 0, 0), None);
        assert_eq!(rule(&own, &other, 1, 1, 0).unwrap(), "the fork Istanbul");

        let merging = own.with_terminal_total_difficulty(Some(U256::from(100)));
        let other = merging.clone().with_terminal_total_difficulty(Some(U256::from(120)));
        assert_eq!(rule(&merging, &other, 50, 9, 99), None);
        assert_eq!(rule(&merging, &other, 51, 9, 100).unwrap(), "the fork Paris");
        assert_eq!(merging.activation(Paris).ttd(), Some(U256::from(100)));
    }

    #[test]
    fn forks_by_time_and_their_numbers() {
        let own = Forks::up_to(Shanghai)
            .with(Cancun, ForkCondition::Timestamp(100))
            .with(Prague, ForkCondition::Timestamp(200));
        let early = own.clone().with(Prague, ForkCondition::Timestamp(150));
        assert_eq!(rule(&own, &early, 9, 149, 0), None);
        assert_eq!(rule(&own, &early, 9, 150, 0).unwrap(), "the fork Prague");
        let more = own.clone().with(Osaka, ForkCondition::Timestamp(300));
        assert_eq!(rule(&own, &more, 9, 299, 0), None);
        assert_eq!(rule(&own, &more, 9, 300, 0).unwrap(), "the fork Osaka");
        let params = BlobParams { max_blob_count: 7, ..BlobParams::cancun() };
        let blobs = own.clone().with_blob_params(Cancun, params);
        assert_eq!(rule(&own, &blobs, 9, 99, 0), None);
        assert_eq!(rule(&own, &blobs, 9, 100, 0).unwrap(), "the blob parameters of Cancun");
        let contract = spec(own.clone()).with_deposit_contract(Some(Address::ZERO));
        assert_eq!(contract.difference(&spec(own.clone()), 9, 199, U256::ZERO), None);
        let found = contract.difference(&spec(own), 9, 200, U256::ZERO).unwrap();
        assert_eq!(found.rule, "the deposit contract");
        assert_eq!(found.values, [Address::ZERO.to_string(), "none".to_owned()]);
    }

    #[test]
    fn the_dao_fork() {
        let own = Forks::up_to(London);
        let dao = |support| own.clone().with_dao(Some(DaoFork { block: 7, support }));
        assert_eq!(rule(&own, &dao(false), 6, 6, 0), None);
        assert_eq!(rule(&own, &dao(false), 7, 7, 0).unwrap(), "the DAO fork");
        assert_eq!(rule(&dao(true), &dao(false), 7, 7, 0).unwrap(), "the DAO fork");
        let other = ChainSpec::with_forks("mine", 5, own.clone(), Header::default(), []);
        let found = spec(own).difference(&other, 1, 1, U256::ZERO).unwrap();
        assert_eq!((found.rule.as_str(), &found.values[1]), ("the chain id", &"5".to_owned()));
    }
}
