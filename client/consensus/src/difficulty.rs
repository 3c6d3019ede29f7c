//! The difficulty of a block under proof of work, and the bomb in it.

use alloy_consensus::Header;
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::U256;
use polytrie_chainspec::Rules;

/// Least difficulty of a block.
pub const MIN_DIFFICULTY: U256 = U256::from_limbs([131_072, 0, 0, 0]);

/// Divisor of the parent's difficulty; the quotient is one step of adjustment.
const BOUND_DIVISOR: U256 = U256::from_limbs([2048, 0, 0, 0]);

/// Number of blocks after which the bomb doubles.
const BOMB_PERIOD: u64 = 100_000;

/// Greatest number of steps downwards in one block, from Homestead on (EIP-2).
const MAX_STEPS_DOWN: u64 = 99;

/// Number of blocks by which each fork delayed the bomb, latest fork first: EIP-5133, 4345, 3554,
/// 2384, 1234, 649.
const BOMB_DELAYS: [(EthereumHardfork, u64); 6] = [
    (EthereumHardfork::GrayGlacier, 11_400_000),
    (EthereumHardfork::ArrowGlacier, 10_700_000),
    (EthereumHardfork::London, 9_700_000),
    (EthereumHardfork::MuirGlacier, 9_000_000),
    (EthereumHardfork::Constantinople, 5_000_000),
    (EthereumHardfork::Byzantium, 3_000_000),
];

/// Returns the difficulty of a proof-of-work block with this `timestamp` (in seconds) on top of
/// `parent`.
///
/// `rules` are those of the block, not of its parent. The function reads the parent's number,
/// difficulty, timestamp and (from Byzantium on, EIP-100) whether it has ommers. A chain with a fixed
/// difficulty always gets that one. Values beyond 256 bits saturate.
#[must_use]
pub fn next_difficulty(rules: &Rules<'_>, parent: &Header, timestamp: u64) -> U256 {
    if let Some(fixed) = rules.spec.fixed_difficulty() {
        return fixed;
    }
    let elapsed = timestamp.saturating_sub(parent.timestamp);
    let adjustment = if rules.is(EthereumHardfork::Byzantium) {
        let reward = if parent.ommers_hash_is_empty() { 1 } else { 2 };
        Adjustment::of(reward, elapsed / 9)
    } else if rules.is(EthereumHardfork::Homestead) {
        Adjustment::of(1, elapsed / 10)
    } else if elapsed < 13 {
        Adjustment::Up(1)
    } else {
        Adjustment::Down(1)
    };
    let step = parent.difficulty / BOUND_DIVISOR;
    let adjusted = match adjustment {
        Adjustment::Up(steps) => {
            parent.difficulty.saturating_add(step.saturating_mul(U256::from(steps)))
        }
        Adjustment::Down(steps) => {
            parent.difficulty.saturating_sub(step.saturating_mul(U256::from(steps)))
        }
    };
    adjusted.max(MIN_DIFFICULTY).saturating_add(bomb(rules, parent.number))
}

/// Number of steps by which the difficulty moves, and their direction.
enum Adjustment {
    Up(u64),
    Down(u64),
}

impl Adjustment {
    /// Returns `max(steps_up - periods, -99)`, without signed arithmetic.
    fn of(steps_up: u64, periods: u64) -> Self {
        match steps_up.checked_sub(periods) {
            Some(steps) => Self::Up(steps),
            None => Self::Down((periods - steps_up).min(MAX_STEPS_DOWN)),
        }
    }
}

/// Returns the part of the difficulty that grows with the block number alone.
fn bomb(rules: &Rules<'_>, parent_number: u64) -> U256 {
    let number = parent_number.saturating_add(1);
    let delay = BOMB_DELAYS.iter().find(|(fork, _)| rules.is(*fork)).map_or(0, |(_, delay)| *delay);
    let period = number.saturating_sub(delay) / BOMB_PERIOD;
    match period.checked_sub(2) {
        None => U256::ZERO,
        // A shift by 256 or more would give zero instead of the number.
        Some(exponent @ 0..256) => U256::ONE << exponent,
        Some(_) => U256::MAX,
    }
}
