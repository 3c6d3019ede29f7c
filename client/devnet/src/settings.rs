//! Settings of new blocks that users can change while the node runs.

use alloy_primitives::{Address, B256, map::HashSet};

/// Default of the gas limit towards which blocks move.
pub(super) const GAS_LIMIT: u64 = polytrie_chainspec::DEV_GAS_LIMIT;

/// The settings of new blocks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Receiver of the tips.
    pub beneficiary: Address,
    /// Gas limit towards which blocks move, by the step that the protocol allows.
    pub gas_target: u64,
    /// Fixed gas limit of every block, even where the protocol does not allow it.
    pub gas_limit: Option<u64>,
    /// Base fee of the next block in wei, in place of that of EIP-1559.
    pub next_base_fee: Option<u64>,
    /// PREVRANDAO of the next block, in place of the default.
    pub next_prev_randao: Option<B256>,
    /// Minimum of the maximum fee per gas of a transaction, in wei.
    pub min_fee: u128,
    /// Accounts that requests may use as senders without their keys.
    pub impersonated: HashSet<Address>,
    /// Whether requests may use any account as the sender without its key.
    pub impersonate_all: bool,
}

impl Settings {
    /// Returns the gas limit of a block whose parent has the gas limit `parent`.
    pub fn gas_limit_after(&self, parent: u64) -> u64 {
        if let Some(limit) = self.gas_limit {
            return limit;
        }
        gas_limit_towards(self.gas_target, parent)
    }
}

/// Returns the gas limit closest to `target` that the protocol allows after a parent with `parent`.
pub(crate) fn gas_limit_towards(target: u64, parent: u64) -> u64 {
    // The protocol allows a difference of less than a 1024th of the parent's limit (EIP-1559 did not change this).
    let step = (parent / 1024).saturating_sub(1);
    // A consensus layer may name any target, and no block has a gas limit below the least one.
    let target = target.max(polytrie_consensus::MIN_GAS_LIMIT);
    target.clamp(parent.saturating_sub(step), parent.saturating_add(step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gas_limit_moves_by_what_is_allowed() {
        let settings = Settings { gas_target: GAS_LIMIT, ..Settings::default() };
        assert_eq!(settings.gas_limit_after(GAS_LIMIT), GAS_LIMIT);
        assert_eq!(settings.gas_limit_after(200_000_000), 0x0be8_c711);
        assert_eq!(settings.gas_limit_after(1_024_000), 1_024_999);
        assert_eq!(gas_limit_towards(0, 5_002), 5_000);
        let fixed = Settings { gas_limit: Some(7), ..settings };
        assert_eq!(fixed.gas_limit_after(1_024_000), 7);
    }
}
