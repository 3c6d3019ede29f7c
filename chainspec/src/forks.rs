//! When each fork of a chain activates, and the numbers that come with it.

use alloy_eips::eip7840::BlobParams;
use alloy_hardforks::{EthereumHardfork, ForkCondition};
use alloy_primitives::U256;

use crate::blobs;

const COUNT: usize = EthereumHardfork::VARIANTS.len();

/// The fork after the attack on The DAO (EIP-779).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DaoFork {
    /// The block where the chain split.
    pub block: u64,
    /// Whether this chain moved the ether. If so, the balances are drained in `block`, and `block` and the nine blocks
    /// after it carry the extra data `dao-hard-fork`; if not, these ten blocks must not carry it. Past the merge their extra
    /// data are free.
    pub support: bool,
}

/// The fork schedule of a chain: when each fork activates, the total difficulty of the merge, the DAO fork and the blob
/// parameters.
///
/// Fork conditions are [`ForkCondition::Block`] up to Gray Glacier, [`ForkCondition::TTD`] for Paris and
/// [`ForkCondition::Timestamp`] from Shanghai on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forks {
    /// Condition of each fork, by `EthereumHardfork as usize`. The entry of the DAO fork is set only if the chain
    /// supports it.
    conditions: [ForkCondition; COUNT],
    dao: Option<DaoFork>,
    /// Blob parameters in the order of their forks; the newest active entry counts.
    blobs: Vec<(EthereumHardfork, BlobParams)>,
}

impl Default for Forks {
    fn default() -> Self {
        Self::frontier()
    }
}

impl Forks {
    /// Returns a schedule of Frontier only.
    pub fn frontier() -> Self {
        let forks =
            Self { conditions: [ForkCondition::Never; COUNT], dao: None, blobs: Vec::new() };
        forks.with(EthereumHardfork::Frontier, ForkCondition::Block(0))
    }

    /// Returns a schedule of every fork up to and including `newest`, all active from genesis on. The DAO fork is left
    /// out.
    pub fn up_to(newest: EthereumHardfork) -> Self {
        EthereumHardfork::VARIANTS
            .iter()
            .take_while(|fork| **fork <= newest)
            .filter(|fork| **fork != EthereumHardfork::Dao)
            .fold(Self::frontier(), |forks, fork| forks.with(*fork, at_genesis(*fork)))
    }

    /// Returns the forks of a built-in network as alloy-hardforks lists them.
    pub(crate) fn from_table(table: &[(EthereumHardfork, ForkCondition)]) -> Self {
        // The tables put the DAO fork of the test networks at block 0, where it never happened.
        table
            .iter()
            .filter(|(fork, at)| {
                !(*fork == EthereumHardfork::Dao && *at == ForkCondition::Block(0))
            })
            .fold(Self::frontier(), |forks, (fork, at)| forks.with(*fork, *at))
    }

    /// Returns the forks of a network as the official tests name it: a fork (`Byzantium`, `EIP158`,
    /// `ConstantinopleFix`, `Merge`, `Cancun`, …) or a transition (`HomesteadToDaoAt5`,
    /// `ArrowGlacierToParisAtDiffC0000`, `CancunToPragueAtTime15k`). `None` if the name is not of this form.
    pub fn test_network(name: &str) -> Option<Self> {
        let Some((from, rest)) = name.split_once("To") else {
            return test_fork(name).map(Self::up_to);
        };
        let (to, at) = rest.split_once("At")?;
        let (from, to) = (test_fork(from)?, test_fork(to)?);
        let at = if let Some(difficulty) = at.strip_prefix("Diff") {
            let total_difficulty = U256::from_str_radix(difficulty, 16).ok()?;
            ForkCondition::TTD {
                activation_block_number: u64::MAX,
                fork_block: None,
                total_difficulty,
            }
        } else if let Some(time) = at.strip_prefix("Time") {
            ForkCondition::Timestamp(match time.strip_suffix('k') {
                Some(thousands) => thousands.parse::<u64>().ok()?.checked_mul(1000)?,
                None => time.parse().ok()?,
            })
        } else {
            ForkCondition::Block(at.parse().ok()?)
        };
        let fits = match at {
            ForkCondition::Block(_) => to < EthereumHardfork::Paris,
            ForkCondition::TTD { .. } => to == EthereumHardfork::Paris,
            _ => to > EthereumHardfork::Paris,
        };
        if from >= to || !fits {
            return None;
        }
        let between =
            EthereumHardfork::VARIANTS.iter().filter(|fork| **fork > from && **fork <= to);
        Some(between.fold(Self::up_to(from), |forks, fork| match fork {
            EthereumHardfork::Dao if to != EthereumHardfork::Dao => forks,
            // A transition by time may leave Paris out of its name only if it starts after Paris. So every fork here
            // has the same kind of condition, except for the glaciers before a transition by difficulty.
            fork if *fork < EthereumHardfork::Paris && !at.is_block() => {
                forks.with(*fork, ForkCondition::Block(0))
            }
            fork => forks.with(*fork, at),
        }))
    }

    /// Returns this schedule with `fork` at `condition`. For the DAO fork a block means that it is supported.
    pub fn with(mut self, fork: EthereumHardfork, condition: ForkCondition) -> Self {
        if fork == EthereumHardfork::Dao {
            return self.with_dao(match condition {
                ForkCondition::Block(block) => Some(DaoFork { block, support: true }),
                _ => None,
            });
        }
        self.conditions[fork as usize] = condition;
        match blobs::default_params(fork) {
            Some(params) if condition != ForkCondition::Never && !self.has_blob_params(fork) => {
                self.with_blob_params(fork, params)
            }
            _ => self,
        }
    }

    /// Returns this schedule with another DAO fork, or without one.
    pub fn with_dao(mut self, dao: Option<DaoFork>) -> Self {
        self.conditions[EthereumHardfork::Dao as usize] = match dao {
            Some(DaoFork { block, support: true }) => ForkCondition::Block(block),
            _ => ForkCondition::Never,
        };
        self.dao = dao;
        self
    }

    /// Returns this schedule with the merge at this total difficulty; `None` for a chain that never merges.
    pub fn with_terminal_total_difficulty(self, difficulty: Option<U256>) -> Self {
        let condition =
            difficulty.map_or(ForkCondition::Never, |total_difficulty| ForkCondition::TTD {
                // Unknown ahead of time, except where genesis is merged.
                activation_block_number: if total_difficulty.is_zero() { 0 } else { u64::MAX },
                fork_block: None,
                total_difficulty,
            });
        self.with(EthereumHardfork::Paris, condition)
    }

    /// Returns this schedule with the block at which nodes without the merge are split off. The block changes no rule,
    /// only the identifier of the chain's forks (EIP-2124). It is ignored if it is block 0 or the chain never merges.
    pub fn with_netsplit_block(mut self, block: Option<u64>) -> Self {
        let at = &mut self.conditions[EthereumHardfork::Paris as usize];
        if let ForkCondition::TTD { fork_block, .. } = at {
            *fork_block = block.filter(|block| *block != 0);
        }
        self
    }

    /// Returns this schedule with other blob parameters from `fork` on. Target, maximum, update fraction and minimum
    /// fee are taken from `params`; the blob limit of a transaction and the blob base cost follow from the fork.
    pub fn with_blob_params(mut self, fork: EthereumHardfork, params: BlobParams) -> Self {
        self.blobs.retain(|(known, _)| *known != fork);
        self.blobs.push((fork, blobs::complete(fork, params)));
        self.blobs.sort_by_key(|(fork, _)| *fork);
        self
    }

    pub(crate) fn has_blob_params(&self, fork: EthereumHardfork) -> bool {
        self.blobs.iter().any(|(known, _)| *known == fork)
    }

    /// Returns when `fork` activates. The DAO fork is [`ForkCondition::Never`] where the chain does not support it.
    ///
    /// The block number inside [`ForkCondition::TTD`] is history: known for the built-in networks, 0 if genesis is merged,
    /// else `u64::MAX`. Whether a block is merged follows from total difficulty alone.
    pub fn activation(&self, fork: EthereumHardfork) -> ForkCondition {
        self.conditions.get(fork as usize).copied().unwrap_or(ForkCondition::Never)
    }

    /// Returns the total difficulty that ends proof of work; `None` if the chain never merges.
    pub fn terminal_total_difficulty(&self) -> Option<U256> {
        self.activation(EthereumHardfork::Paris).ttd()
    }

    /// Returns the DAO fork, supported or opposed; `None` if the chain has none.
    pub const fn dao(&self) -> Option<DaoFork> {
        self.dao
    }

    /// Returns the blob parameters at `timestamp` (seconds); `None` before Cancun.
    pub fn blob_params(&self, timestamp: u64) -> Option<BlobParams> {
        let newest = self
            .blobs
            .iter()
            .rev()
            .find(|(fork, _)| self.activation(*fork).active_at_timestamp(timestamp));
        newest.map(|(_, params)| *params)
    }
}

fn at_genesis(fork: EthereumHardfork) -> ForkCondition {
    match fork {
        fork if fork < EthereumHardfork::Paris => ForkCondition::Block(0),
        EthereumHardfork::Paris => ForkCondition::TTD {
            activation_block_number: 0,
            fork_block: None,
            total_difficulty: U256::ZERO,
        },
        _ => ForkCondition::Timestamp(0),
    }
}

/// Returns the fork that an official test names; some forks have a second name there.
fn test_fork(name: &str) -> Option<EthereumHardfork> {
    Some(match name {
        "DAO" => EthereumHardfork::Dao,
        "EIP150" | "TangerineWhistle" => EthereumHardfork::Tangerine,
        "EIP158" => EthereumHardfork::SpuriousDragon,
        "ConstantinopleFix" => EthereumHardfork::Petersburg,
        "Merge" => EthereumHardfork::Paris,
        other => return other.parse().ok(),
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn test_networks() {
        let forks = Forks::test_network("HomesteadToDaoAt5").unwrap();
        assert_eq!(forks.activation(EthereumHardfork::Homestead), ForkCondition::Block(0));
        assert_eq!(forks.dao(), Some(DaoFork { block: 5, support: true }));
        assert_eq!(forks.activation(EthereumHardfork::Tangerine), ForkCondition::Never);

        let forks = Forks::test_network("EIP158ToByzantiumAt5").unwrap();
        assert_eq!(forks.dao(), None);
        assert_eq!(forks.activation(EthereumHardfork::SpuriousDragon), ForkCondition::Block(0));
        assert_eq!(forks.activation(EthereumHardfork::Byzantium), ForkCondition::Block(5));
        assert_eq!(forks.activation(EthereumHardfork::Constantinople), ForkCondition::Never);

        let forks = Forks::test_network("ByzantiumToConstantinopleFixAt5").unwrap();
        assert_eq!(forks.activation(EthereumHardfork::Constantinople), ForkCondition::Block(5));
        assert_eq!(forks.activation(EthereumHardfork::Petersburg), ForkCondition::Block(5));

        let forks = Forks::test_network("ArrowGlacierToParisAtDiffC0000").unwrap();
        assert_eq!(forks.terminal_total_difficulty(), Some(U256::from(0xC0000)));
        assert_eq!(forks.activation(EthereumHardfork::GrayGlacier), ForkCondition::Block(0));
        assert_eq!(forks.activation(EthereumHardfork::Shanghai), ForkCondition::Never);

        let forks = Forks::test_network("CancunToPragueAtTime15k").unwrap();
        assert_eq!(forks.terminal_total_difficulty(), Some(U256::ZERO));
        assert_eq!(forks.activation(EthereumHardfork::Prague), ForkCondition::Timestamp(15_000));
        assert_eq!(forks.blob_params(14_999), Some(BlobParams::cancun()));
        assert_eq!(forks.blob_params(15_000), Some(BlobParams::prague()));

        let forks = Forks::test_network("OsakaToBPO1AtTime15k").unwrap();
        assert_eq!(forks.blob_params(0), Some(BlobParams::osaka()));
        assert_eq!(forks.blob_params(15_000), Some(BlobParams::bpo1()));

        assert_eq!(
            Forks::test_network("Constantinople").unwrap().activation(EthereumHardfork::Petersburg),
            ForkCondition::Never
        );
        for bad in [
            "",
            "Nowhere",
            "ToAt",
            "LondonToBerlinAt5",
            "BerlinToLondonAtTime5",
            "LondonToShanghaiAt5",
            "CancunToPragueAtTimexk",
        ] {
            assert_eq!(Forks::test_network(bad), None, "{bad}");
        }
    }

    #[test]
    fn blob_params_follow_the_newest_fork() {
        let own = BlobParams { target_blob_count: 1, max_blob_count: 2, ..BlobParams::cancun() };
        let forks = Forks::up_to(EthereumHardfork::Osaka)
            .with(EthereumHardfork::Amsterdam, ForkCondition::Timestamp(10))
            .with_blob_params(EthereumHardfork::Osaka, own);
        let params = forks.blob_params(10).unwrap();
        assert_eq!(
            (params.target_blob_count, params.max_blob_count, params.max_blobs_per_tx),
            (1, 2, 6)
        );
        assert_eq!(params.blob_base_cost, BlobParams::osaka().blob_base_cost);
        assert_eq!(Forks::up_to(EthereumHardfork::Shanghai).blob_params(u64::MAX), None);
    }
}
