//! Where the system contracts stand.

use alloy_eips::{
    eip2935::HISTORY_STORAGE_ADDRESS, eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
    eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
};
use alloy_evm::Database;
use alloy_primitives::{Address, KECCAK256_EMPTY};
use polytrie_state::Session;
use revm_state_hooks::HookedEvm;

use super::{BlockInvalid, ExecuteError, InternalError};

/// The addresses of the contracts that blocks call from Prague on; by default those of mainnet.
///
/// The EIPs fix them, but not every chain obeys: they were others on the test networks that came
/// before Prague, and a private chain may have deployed its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SystemContracts {
    /// Hashes of earlier blocks (EIP-2935).
    pub history: Address,
    /// Withdrawal requests (EIP-7002).
    pub withdrawals: Address,
    /// Consolidation requests (EIP-7251).
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
    /// Checks that the contracts are there without which a block of Prague is invalid. The EIPs want them at the end of
    /// the block, so it may have deployed them itself. The EVM does not object: a call of no code succeeds.
    pub(super) fn check(&self, session: &mut Session) -> Result<(), ExecuteError> {
        for (address, purpose, eip) in [
            (self.withdrawals, "withdrawal requests", 7002),
            (self.consolidations, "consolidation requests", 7251),
        ] {
            let account = session.account(&address).map_err(InternalError::from)?;
            if account.is_none_or(|account| account.code_hash == KECCAK256_EMPTY) {
                return Err(BlockInvalid::NoSystemContract { address, purpose, eip }.into());
            }
        }
        Ok(())
    }

    /// Tells the EVM which of them are not where alloy-evm will call them.
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
