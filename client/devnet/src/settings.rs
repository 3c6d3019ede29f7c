//! What a user can set about blocks while the node runs.

use alloy_primitives::{Address, B256, map::HashSet};

/// The gas limit that blocks move towards by default.
pub(super) const GAS_LIMIT: u64 = polytrie_chainspec::DEV_GAS_LIMIT;

/// How blocks are made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Who receives the tips.
    pub beneficiary: Address,
    /// The gas limit that blocks move towards, by the step that the rules allow.
    pub gas_target: u64,
    /// The gas limit of every block, whatever the rules allow.
    pub gas_limit: Option<u64>,
    /// Base fee of the next block in wei, whatever EIP-1559 says.
    pub next_base_fee: Option<u64>,
    /// PREVRANDAO of the next block.
    pub next_prev_randao: Option<B256>,
    /// The least fee a transaction must pay, in wei.
    pub min_fee: u128,
    /// Accounts that anybody may act as.
    pub impersonated: HashSet<Address>,
    /// Whether anybody may act as any account.
    pub impersonate_all: bool,
}

impl Settings {
    /// The gas limit of a block whose parent has `parent`.
    pub fn gas_limit_after(&self, parent: u64) -> u64 {
        if let Some(limit) = self.gas_limit {
            return limit;
        }
        gas_limit_towards(self.gas_target, parent)
    }
}

/// The gas limit of a block whose parent has `parent`, as near to `target` as it may be.
pub(crate) fn gas_limit_towards(target: u64, parent: u64) -> u64 {
    // The rules allow a difference of less than this part of the parent's (EIP-1559 left the bound as it was).
    let step = (parent / 1024).saturating_sub(1);
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
        let fixed = Settings { gas_limit: Some(7), ..settings };
        assert_eq!(fixed.gas_limit_after(1_024_000), 7);
    }
}
