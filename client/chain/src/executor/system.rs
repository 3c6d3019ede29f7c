//! The addresses of the system contracts.

use alloy_eips::{
    eip2935::HISTORY_STORAGE_ADDRESS,
    eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
    eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
    eip8282::{BUILDER_DEPOSIT_CONTRACT_ADDRESS, BUILDER_EXIT_CONTRACT_ADDRESS},
};
use alloy_evm::Database;
use alloy_primitives::{Address, KECCAK256_EMPTY};
use polytrie_state::Session;
use revm_state_hooks::HookedEvm;

use super::{BlockInvalid, ExecuteError, InternalError};

/// Addresses of the contracts that blocks call from Prague on; the defaults are those of mainnet.
///
/// The EIPs fix them, but some chains differ: the test networks before Prague did, and a private chain may have
/// deployed its own contracts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SystemContracts {
    /// Contract with the hashes of earlier blocks (EIP-2935).
    pub history: Address,
    /// Contract of withdrawal requests (EIP-7002).
    pub withdrawals: Address,
    /// Contract of consolidation requests (EIP-7251).
    pub consolidations: Address,
}

impl Default for SystemContracts {
    fn default() -> Self {
        Self {
            history: HISTORY_STORAGE_ADDRESS,
            withdrawals: WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
            consolidations: CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
        }
    }
}

impl SystemContracts {
    /// Checks that the contracts of requests exist, without which a block of Prague is invalid; `has_builders` says
    /// whether those of builders must exist too (EIP-8282). They must exist at the end of the block, so the block may
    /// have deployed them itself. The EVM gives no error, because a call of an address without code succeeds.
    pub(super) fn check(
        &self,
        session: &mut Session,
        has_builders: bool,
    ) -> Result<(), ExecuteError> {
        for (is_needed, fork, address, purpose, eip) in [
            (true, "Prague", self.withdrawals, "withdrawal requests", 7002),
            (true, "Prague", self.consolidations, "consolidation requests", 7251),
            (has_builders, "Amsterdam", BUILDER_DEPOSIT_CONTRACT_ADDRESS, "builder deposits", 8282),
            (has_builders, "Amsterdam", BUILDER_EXIT_CONTRACT_ADDRESS, "builder exits", 8282),
        ] {
            if !is_needed {
                continue;
            }
            let account = session.account(&address).map_err(InternalError::from)?;
            if account.is_none_or(|account| account.code_hash == KECCAK256_EMPTY) {
                return Err(BlockInvalid::NoSystemContract { address, purpose, eip, fork }.into());
            }
        }
        Ok(())
    }

    /// Makes the EVM redirect the calls to contracts with other addresses than alloy-evm's.
    pub(super) fn announce<DB: Database, I>(&self, mut evm: HookedEvm<DB, I>) -> HookedEvm<DB, I> {
        let usual = Self::default();
        for (from, to) in [
            (usual.history, self.history),
            (usual.withdrawals, self.withdrawals),
            (usual.consolidations, self.consolidations),
        ] {
            if from != to {
                evm = evm.with_moved_contract(from, to);
            }
        }
        evm
    }
}
