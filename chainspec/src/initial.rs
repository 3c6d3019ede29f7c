//! Accounts at genesis, before they are packed or written.

use alloy_eips::{
    eip2935::{HISTORY_STORAGE_ADDRESS, HISTORY_STORAGE_CODE},
    eip4788::{BEACON_ROOTS_ADDRESS, BEACON_ROOTS_CODE},
    eip7002::{WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS, WITHDRAWAL_REQUEST_PREDEPLOY_CODE},
    eip7251::{CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS, CONSOLIDATION_REQUEST_PREDEPLOY_CODE},
    eip8282::{
        BUILDER_DEPOSIT_CONTRACT_ADDRESS, BUILDER_DEPOSIT_CONTRACT_CODE,
        BUILDER_EXIT_CONTRACT_ADDRESS, BUILDER_EXIT_CONTRACT_CODE,
    },
};
use alloy_primitives::{Address, Bytes, U256};
use std::fmt::{self, Debug};

/// An account at genesis. Its slots come from an iterator, because there may be millions.
pub struct InitialAccount<'a> {
    /// Address of the account.
    pub address: Address,
    /// Nonce of the account.
    pub nonce: u64,
    /// Balance in wei.
    pub balance: U256,
    /// Code of the account; empty for none.
    pub code: Bytes,
    /// Slots with their values, each slot once, in any order, no value zero.
    pub slots: Box<dyn Iterator<Item = (U256, U256)> + 'a>,
}

impl InitialAccount<'_> {
    /// Returns an account that can send transactions.
    pub fn funded(address: Address, balance: U256) -> Self {
        let slots = Box::new(std::iter::empty());
        Self { address, nonce: 0, balance, code: Bytes::new(), slots }
    }

    /// Returns a contract as a deployment leaves it: with the nonce 1 (EIP-161).
    pub fn contract(address: Address, code: Bytes) -> Self {
        Self { nonce: 1, code, ..Self::funded(address, U256::ZERO) }
    }
}

impl Debug for InitialAccount<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InitialAccount").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Returns the contracts that every block calls by itself (EIP-2935, 4788, 7002, 7251). No client runs Prague
/// without them.
pub fn system_contracts<'a>() -> [InitialAccount<'a>; 4] {
    [
        (BEACON_ROOTS_ADDRESS, &BEACON_ROOTS_CODE),
        (HISTORY_STORAGE_ADDRESS, &HISTORY_STORAGE_CODE),
        (WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS, &WITHDRAWAL_REQUEST_PREDEPLOY_CODE),
        (CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS, &CONSOLIDATION_REQUEST_PREDEPLOY_CODE),
    ]
    .map(|(address, code)| InitialAccount::contract(address, code.clone()))
}

/// Returns the contracts that every block calls too from Amsterdam on (EIP-8282).
pub fn builder_contracts<'a>() -> [InitialAccount<'a>; 2] {
    [
        (BUILDER_DEPOSIT_CONTRACT_ADDRESS, &BUILDER_DEPOSIT_CONTRACT_CODE),
        (BUILDER_EXIT_CONTRACT_ADDRESS, &BUILDER_EXIT_CONTRACT_CODE),
    ]
    .map(|(address, code)| InitialAccount::contract(address, code.clone()))
}
