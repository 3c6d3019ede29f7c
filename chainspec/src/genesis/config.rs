//! The fork schedule of a genesis, read from its `config`.

use alloy_genesis::ChainConfig;
use alloy_hardforks::{EthereumHardfork, ForkCondition};
use alloy_primitives::U256;

use super::Flaw;
use crate::{DaoFork, Forks, blobs};

/// A field `…Block` or `…Time` of a configuration.
pub(super) struct ForkField {
    /// Name of the field.
    pub(super) name: &'static str,
    /// Fork that the field activates. Both halves of Spurious Dragon are one fork here; `None` for `eip155Block` and
    /// for the netsplit block, which activate no fork.
    fork: Option<EthereumHardfork>,
    /// Whether the field may be left out although a later fork is there. If an optional fork is left out it never
    /// activates; any other fork that is left out activates together with the next one.
    optional: bool,
    /// Accessor of the field in a configuration.
    pub(super) slot: fn(&mut ChainConfig) -> &mut Option<u64>,
}

macro_rules! fork_fields {
    ($($name:literal $slot:ident $fork:expr, $optional:literal;)*) => {
        [$(ForkField { name: $name, fork: $fork, optional: $optional, slot: |config| &mut config.$slot }),*]
    };
}

use EthereumHardfork as Fork;

/// Forks by block number, in the order in which they have to activate.
pub(super) const BLOCK_FORKS: [ForkField; 15] = fork_fields! {
    "homesteadBlock" homestead_block Some(Fork::Homestead), false;
    "daoForkBlock" dao_fork_block Some(Fork::Dao), true;
    "eip150Block" eip150_block Some(Fork::Tangerine), false;
    "eip155Block" eip155_block None, false;
    "eip158Block" eip158_block Some(Fork::SpuriousDragon), false;
    "byzantiumBlock" byzantium_block Some(Fork::Byzantium), false;
    "constantinopleBlock" constantinople_block Some(Fork::Constantinople), false;
    "petersburgBlock" petersburg_block Some(Fork::Petersburg), false;
    "istanbulBlock" istanbul_block Some(Fork::Istanbul), false;
    "muirGlacierBlock" muir_glacier_block Some(Fork::MuirGlacier), true;
    "berlinBlock" berlin_block Some(Fork::Berlin), false;
    "londonBlock" london_block Some(Fork::London), false;
    "arrowGlacierBlock" arrow_glacier_block Some(Fork::ArrowGlacier), true;
    "grayGlacierBlock" gray_glacier_block Some(Fork::GrayGlacier), true;
    "mergeNetsplitBlock" merge_netsplit_block None, true;
};

/// Forks by timestamp, in the order in which they have to activate.
pub(super) const TIME_FORKS: [ForkField; 10] = fork_fields! {
    "shanghaiTime" shanghai_time Some(Fork::Shanghai), false;
    "cancunTime" cancun_time Some(Fork::Cancun), false;
    "pragueTime" prague_time Some(Fork::Prague), false;
    "osakaTime" osaka_time Some(Fork::Osaka), false;
    "bpo1Time" bpo1_time Some(Fork::Bpo1), true;
    "bpo2Time" bpo2_time Some(Fork::Bpo2), true;
    "bpo3Time" bpo3_time Some(Fork::Bpo3), true;
    "bpo4Time" bpo4_time Some(Fork::Bpo4), true;
    "bpo5Time" bpo5_time Some(Fork::Bpo5), true;
    "amsterdamTime" amsterdam_time Some(Fork::Amsterdam), true;
};

/// Returns the fork schedule that a configuration describes.
///
/// A fork that is left out but contained in a later one activates together with it, as besu reads its files: a lone
/// `londonBlock` brings everything up to London. Fields that are there have to be in order.
pub(super) fn forks(config: &ChainConfig) -> Result<Forks, Flaw> {
    if let Some(time) = config.bogota_time {
        return Err(Flaw::field(
            "config.bogotaTime",
            time,
            "no fork after Amsterdam: none is known yet",
        ));
    }
    let mut config = config.clone();
    let terminal_total_difficulty = terminal_total_difficulty(&config);
    join_spurious_dragon(&mut config)?;
    in_order(&mut config, &BLOCK_FORKS)?;
    in_order(&mut config, &TIME_FORKS)?;
    let first_time =
        TIME_FORKS.iter().find_map(|field| Some((field.name, (*(field.slot)(&mut config))?)));
    if let Some((name, time)) = first_time {
        require_merge(&mut config, terminal_total_difficulty, name, time)?;
    }
    fill(&mut config, &BLOCK_FORKS);
    fill(&mut config, &TIME_FORKS);

    let mut forks = Forks::frontier()
        .with_terminal_total_difficulty(terminal_total_difficulty)
        .with_netsplit_block(config.merge_netsplit_block);
    for field in &BLOCK_FORKS {
        if let (Some(fork), Some(block)) = (field.fork, *(field.slot)(&mut config)) {
            forks = forks.with(fork, ForkCondition::Block(block));
        }
    }
    for field in &TIME_FORKS {
        if let (Some(fork), Some(time)) = (field.fork, *(field.slot)(&mut config)) {
            forks = forks.with(fork, ForkCondition::Timestamp(time));
        }
    }
    let dao =
        config.dao_fork_block.map(|block| DaoFork { block, support: config.dao_fork_support });
    blob_schedule(&config, forks.with_dao(dao))
}

fn terminal_total_difficulty(config: &ChainConfig) -> Option<U256> {
    // Some files do not give the total difficulty, only that genesis is past the merge.
    config
        .terminal_total_difficulty
        .or(config.terminal_total_difficulty_passed.then_some(U256::ZERO))
}

/// Sets EIP-155 and EIP-158 to the same block, because they are one fork on every chain. Only geth lets a file split
/// them, so a file that does is refused.
fn join_spurious_dragon(config: &mut ChainConfig) -> Result<(), Flaw> {
    match (config.eip155_block, config.eip158_block) {
        (Some(eip155), Some(eip158)) if eip155 != eip158 => Err(Flaw::field(
            "config.eip155Block",
            eip155,
            format!("{eip158}, the same as config.eip158Block"),
        )),
        (eip155, eip158) => {
            config.eip158_block = eip158.or(eip155);
            Ok(())
        }
    }
}

/// Refuses a fork that activates before one that precedes it in `fields`.
fn in_order(config: &mut ChainConfig, fields: &[ForkField]) -> Result<(), Flaw> {
    let mut last: Option<(&'static str, u64)> = None;
    for field in fields {
        let Some(at) = *(field.slot)(config) else { continue };
        if let Some((earlier, earlier_at)) = last.filter(|(_, earlier_at)| *earlier_at > at) {
            return Err(Flaw::ForkOrder { earlier, earlier_at, later: field.name, later_at: at });
        }
        last = Some((field.name, at));
    }
    Ok(())
}

/// Requires London and the merge of a chain with forks by timestamp, because such forks come after both. A file that
/// starts past both need not list the forks by block number.
fn require_merge(
    config: &mut ChainConfig,
    terminal: Option<U256>,
    name: &str,
    time: u64,
) -> Result<(), Flaw> {
    let Some(terminal) = terminal else {
        return Err(Flaw::Missing {
            field: "config.terminalTotalDifficulty".to_owned(),
            expected: "a total difficulty, because a fork by time comes after the merge: 0 if the chain starts merged",
        });
    };
    if config.london_block.is_none() {
        if !terminal.is_zero() {
            return Err(Flaw::Missing {
                field: "config.londonBlock".to_owned(),
                expected: "a block number, because a fork by time comes after London",
            });
        }
        if let Some(block) =
            BLOCK_FORKS.iter().find_map(|field| (*(field.slot)(config)).filter(|at| *at != 0))
        {
            return Err(Flaw::field(
                "config.londonBlock",
                "missing",
                format!(
                    "a block number, because {name} is {time} and an earlier fork is at block {block}"
                ),
            ));
        }
        config.london_block = Some(0);
    }
    Ok(())
}

/// Fills each fork that is left out with the block or time of the next one that contains it.
fn fill(config: &mut ChainConfig, fields: &[ForkField]) {
    let mut next = None;
    for field in fields.iter().rev() {
        // A field without a fork says nothing about the other forks, nor does the DAO fork.
        if matches!(field.fork, None | Some(Fork::Dao)) {
            continue;
        }
        // A glacier, BPO fork or Amsterdam contains what precedes it, so it fills that too.
        let slot = (field.slot)(config);
        next = slot.or(next);
        if !field.optional {
            *slot = next;
        }
    }
}

/// Adds the entries of `blobSchedule` for the forks that the chain has.
fn blob_schedule(config: &ChainConfig, mut forks: Forks) -> Result<Forks, Flaw> {
    for (key, params) in &config.blob_schedule {
        let Some(fork) =
            blobs::BLOB_FORKS.into_iter().find(|fork| fork.name().eq_ignore_ascii_case(key))
        else {
            continue;
        };
        let field = |name| format!("config.blobSchedule.{key}.{name}");
        if params.max_blob_count == 0 || params.max_blob_count > u64::from(u32::MAX) {
            return Err(Flaw::field(
                field("max"),
                params.max_blob_count,
                format!("1 to {} blobs", u32::MAX),
            ));
        }
        if params.target_blob_count > params.max_blob_count {
            return Err(Flaw::field(
                field("target"),
                params.target_blob_count,
                format!("at most the maximum, {}", params.max_blob_count),
            ));
        }
        if params.update_fraction == 0 || params.update_fraction > u128::from(u64::MAX) {
            return Err(Flaw::field(
                field("baseFeeUpdateFraction"),
                params.update_fraction,
                format!("1 to {}", u64::MAX),
            ));
        }
        forks = forks.with_blob_params(fork, *params);
    }
    for fork in [Fork::Bpo3, Fork::Bpo4, Fork::Bpo5] {
        if forks.activation(fork) != ForkCondition::Never && !forks.has_blob_params(fork) {
            return Err(Flaw::Missing {
                field: format!("config.blobSchedule.{}", fork.name().to_ascii_lowercase()),
                expected: "target, max and baseFeeUpdateFraction, because the fork is scheduled and has no standard values",
            });
        }
    }
    Ok(forks)
}
