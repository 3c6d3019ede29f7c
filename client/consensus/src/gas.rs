//! The gas limit, the base fee and the blob gas of a block.

use super::error::ConsensusError;
use alloy_consensus::Header;
use alloy_eips::{
    eip1559::{
        DEFAULT_BASE_FEE_MAX_CHANGE_DENOMINATOR, DEFAULT_ELASTICITY_MULTIPLIER, INITIAL_BASE_FEE,
    },
    eip4844::DATA_GAS_PER_BLOB,
    eip7840::{BLOB_BASE_COST, BlobParams},
};
use alloy_hardforks::{EthereumHardfork, EthereumHardforks};
use alloy_primitives::U256;
use polytrie_chainspec::Rules;

/// Least gas limit of a block.
pub const MIN_GAS_LIMIT: u64 = 5000;

/// Highest gas limit of a block (EIP-1985, applied to all of the chain's past).
pub const MAX_GAS_LIMIT: u64 = i64::MAX as u64;

/// Divisor of the parent's gas limit; the limit must differ from it by less than the quotient.
const GAS_LIMIT_BOUND_DIVISOR: u64 = 1024;

/// Whether London is active for this block but was not for its parent.
fn is_london_transition(rules: &Rules<'_>, parent: &Header) -> bool {
    let london = rules.spec.ethereum_fork_activation(EthereumHardfork::London);
    rules.is(EthereumHardfork::London) && !london.active_at_block(parent.number)
}

/// Checks the bounds of the gas limit, its distance from the parent's, and that the gas used is not
/// above it.
pub(super) fn check_gas_limit(
    rules: &Rules<'_>,
    parent: &Header,
    header: &Header,
) -> Result<(), ConsensusError> {
    let found = header.gas_limit;
    if found > MAX_GAS_LIMIT {
        return Err(ConsensusError::GasLimitTooHigh { found, max: MAX_GAS_LIMIT });
    }
    if found < MIN_GAS_LIMIT {
        return Err(ConsensusError::GasLimitTooLow { found, min: MIN_GAS_LIMIT });
    }
    // EIP-1559 halves the target at the fork, so the limit doubles there to keep the target.
    let parent_limit = if is_london_transition(rules, parent) {
        parent.gas_limit.saturating_mul(DEFAULT_ELASTICITY_MULTIPLIER)
    } else {
        parent.gas_limit
    };
    let bound = parent_limit / GAS_LIMIT_BOUND_DIVISOR;
    if found.abs_diff(parent_limit) >= bound {
        return Err(ConsensusError::GasLimitChange { found, parent: parent_limit, bound });
    }
    if header.gas_used > found {
        return Err(ConsensusError::GasUsedAboveLimit { found: header.gas_used, gas_limit: found });
    }
    Ok(())
}

/// Returns the base fee of a block on top of `parent`, in wei (EIP-1559); `None` before London.
///
/// `rules` are those of the block, not of its parent. The result is wider than a header's field,
/// because it can overflow the field on a chain that starts near 2^64.
#[must_use]
pub fn next_base_fee(rules: &Rules<'_>, parent: &Header) -> Option<u128> {
    if !rules.is(EthereumHardfork::London) {
        return None;
    }
    if is_london_transition(rules, parent) {
        return Some(INITIAL_BASE_FEE.into());
    }
    let base_fee = u128::from(parent.base_fee_per_gas.unwrap_or(INITIAL_BASE_FEE));
    let target = u128::from(parent.gas_limit / DEFAULT_ELASTICITY_MULTIPLIER);
    let used = u128::from(parent.gas_used);
    // Only a genesis block can have a target of zero.
    if target == 0 || used == target {
        return Some(base_fee);
    }
    // Both factors are below 2^64.
    let change = base_fee * used.abs_diff(target)
        / target
        / u128::from(DEFAULT_BASE_FEE_MAX_CHANGE_DENOMINATOR);
    Some(if used > target { base_fee + change.max(1) } else { base_fee - change })
}

/// Returns the excess blob gas of a block on top of `parent` (EIP-4844, with the reserve price of
/// EIP-7918 from Osaka on); `None` before Cancun.
///
/// `rules` are those of the block: its blob schedule counts, not that of its parent. A parent from
/// before Cancun counts as one that used no blob gas and left no excess. The result is wider than a
/// header's field, because it can overflow the field on a chain that starts near 2^64.
#[must_use]
pub fn next_excess_blob_gas(rules: &Rules<'_>, parent: &Header) -> Option<u128> {
    let params = rules.blob_params()?;
    let excess = u128::from(parent.excess_blob_gas.unwrap_or(0));
    let used = u128::from(parent.blob_gas_used.unwrap_or(0));
    let target = u128::from(params.target_blob_count) * u128::from(DATA_GAS_PER_BLOB);
    if excess + used < target {
        return Some(0);
    }
    if rules.is(EthereumHardfork::Osaka) && is_below_reserve_price(&params, parent) {
        let max = u128::from(params.max_blob_count);
        let room = max.saturating_sub(params.target_blob_count.into());
        // Both factors are below 2^64. If the schedule has no blobs the quotient is zero.
        return Some(excess + (used * room).checked_div(max).unwrap_or(0));
    }
    Some(excess + used - target)
}

/// Returns the price of a unit of blob gas in a block on top of `parent`, in wei; `None` before Cancun.
///
/// `rules` are those of the block, as for [`next_excess_blob_gas`].
#[must_use]
pub fn next_blob_fee(rules: &Rules<'_>, parent: &Header) -> Option<u128> {
    let excess = next_excess_blob_gas(rules, parent)?;
    Some(rules.blob_params()?.calc_blob_fee(u64::try_from(excess).unwrap_or(u64::MAX)))
}

/// Whether a blob costs less than the execution gas that EIP-7918 compares it with, at the parent's
/// prices.
fn is_below_reserve_price(params: &BlobParams, parent: &Header) -> bool {
    let base_fee = parent.base_fee_per_gas.unwrap_or(0);
    let reserve = U256::from(BLOB_BASE_COST) * U256::from(base_fee);
    let excess = parent.excess_blob_gas.unwrap_or(0);
    let blob_price = fake_exponential(params.min_blob_fee, excess, params.update_fraction)
        .and_then(|fee| fee.checked_mul(U256::from(DATA_GAS_PER_BLOB)));
    // A price beyond 256 bits is above any reserve.
    blob_price.is_some_and(|price| reserve > price)
}

/// Returns `factor * e^(numerator / denominator)` as EIP-4844 approximates it; `None` beyond 256 bits.
///
/// The function of this name in `alloy-eips` returns the largest number instead, and the caller cannot
/// notice.
fn fake_exponential(factor: u128, numerator: u64, denominator: u128) -> Option<U256> {
    let numerator = U256::from(numerator);
    let denominator = U256::from(denominator);
    let mut term = U256::from(factor).checked_mul(denominator)?;
    let mut sum = U256::ZERO;
    let mut i = U256::ONE;
    while !term.is_zero() {
        sum = sum.checked_add(term)?;
        term = term.checked_mul(numerator)?.checked_div(denominator.checked_mul(i)?)?;
        i += U256::ONE;
    }
    sum.checked_div(denominator)
}

/// Checks the blob fields of a header: absent before Cancun; from Cancun on both present, the gas used
/// a multiple of one blob's and within the schedule, the excess as it follows from the parent.
pub(super) fn check_blob_gas(
    rules: &Rules<'_>,
    parent: &Header,
    header: &Header,
) -> Result<(), ConsensusError> {
    let fork = EthereumHardfork::Cancun;
    let Some(params) = rules.blob_params() else {
        return match (header.blob_gas_used, header.excess_blob_gas) {
            (None, None) => Ok(()),
            (Some(_), _) => Err(ConsensusError::UnexpectedField { field: "blob gas used", fork }),
            (None, Some(_)) => {
                Err(ConsensusError::UnexpectedField { field: "excess blob gas", fork })
            }
        };
    };
    let used = header
        .blob_gas_used
        .ok_or(ConsensusError::MissingField { field: "blob gas used", fork })?;
    let found = header
        .excess_blob_gas
        .ok_or(ConsensusError::MissingField { field: "excess blob gas", fork })?;
    if used % DATA_GAS_PER_BLOB != 0 {
        return Err(ConsensusError::BlobGasNotMultiple {
            found: used,
            per_blob: DATA_GAS_PER_BLOB,
        });
    }
    let max = params.max_blob_count.saturating_mul(DATA_GAS_PER_BLOB);
    if used > max {
        return Err(ConsensusError::BlobGasAboveLimit { found: used, max });
    }
    if let Some(expected) = next_excess_blob_gas(rules, parent)
        && u128::from(found) != expected
    {
        return Err(ConsensusError::ExcessBlobGas { found, expected });
    }
    Ok(())
}
