//! Overrides of the state that a caller requests before a call.

use super::{Sandbox, database::hashed};
use crate::executor::InternalError;
use alloy_primitives::{Address, U256};
use alloy_rpc_types_eth::state::{AccountOverride, StateOverride};
use polytrie_state::AccountChange;
use revm::{handler::EthPrecompiles, primitives::hardfork::SpecId};
use thiserror::Error;

/// Error of an override that cannot be applied.
#[derive(Debug, Clone, Error)]
pub enum OverrideError {
    /// An account with both forms of storage.
    #[error("account {0} has both `state` and `stateDiff`; give only one of them")]
    StateAndDiff(Address),
    /// An address without a precompile.
    #[error("account {0} is not a precompile")]
    NoPrecompile(Address),
    /// A precompile that would move to an account that is overridden too.
    #[error("account {0} is already overridden, so no precompile can be moved there")]
    Overridden(Address),
    /// A state that cannot be read.
    #[error(transparent)]
    Internal(#[from] InternalError),
}

impl Sandbox {
    /// Applies overrides under the rules of a revision.
    ///
    /// # Errors
    ///
    /// Fails if an override is contradictory, or the state cannot be read.
    pub fn override_state(
        &mut self,
        spec: SpecId,
        overrides: &StateOverride,
    ) -> Result<(), OverrideError> {
        let precompiles = EthPrecompiles::new(spec).precompiles;
        // The order is fixed, so that equal requests have equal effects.
        let mut entries: Vec<_> = overrides.iter().collect();
        entries.sort_unstable_by_key(|(address, _)| **address);
        for (address, account) in &entries {
            if account.state.is_some() && account.state_diff.is_some() {
                return Err(OverrideError::StateAndDiff(**address));
            }
            let to = account.move_precompile_to;
            let is_precompile = precompiles.contains(address);
            if to.is_some() && !is_precompile {
                return Err(OverrideError::NoPrecompile(**address));
            }
            if let Some(to) = to.filter(|to| overrides.contains_key(to)) {
                return Err(OverrideError::Overridden(to));
            }
            // An overridden account is no precompile any more, as in geth.
            if is_precompile {
                self.moved_precompiles.push((**address, to));
            }
        }
        for (address, account) in entries {
            self.override_account(*address, account)?;
        }
        Ok(())
    }

    fn override_account(
        &mut self,
        address: Address,
        wanted: &AccountOverride,
    ) -> Result<(), OverrideError> {
        if *wanted
            == (AccountOverride {
                move_precompile_to: wanted.move_precompile_to,
                ..Default::default()
            })
        {
            return Ok(());
        }
        let mut account = self.account(&address).map_err(InternalError::from)?.unwrap_or_default();
        account.balance = wanted.balance.unwrap_or(account.balance);
        account.nonce = wanted.nonce.unwrap_or(account.nonce);
        let code = wanted.code.clone().map(hashed);
        if let Some((hash, _)) = &code {
            account.code_hash = *hash;
        }
        let slots = wanted.state.as_ref().or(wanted.state_diff.as_ref());
        let slots = slots.into_iter().flatten();
        self.apply(AccountChange {
            address,
            account: Some(account),
            wiped: wanted.state.is_some(),
            code,
            slots: slots
                .map(|(slot, value)| (U256::from_be_bytes(slot.0), U256::from_be_bytes(value.0)))
                .collect(),
        });
        Ok(())
    }
}
