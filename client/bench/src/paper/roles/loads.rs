//! The accounts and slots that a transaction loads.

use alloy_primitives::{Address, B256, U256, map::HashMap};
use revm::state::EvmState;

/// Name of an account or slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Account(Address),
    Slot(Address, U256),
}

/// Value of an account or slot before the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Was {
    Account { nonce: u64, balance: U256, code_hash: B256 },
    Slot(U256),
}

/// The accounts and slots that a transaction loaded, with their values.
pub(super) type Loads = HashMap<Key, Was>;

/// The accounts and slots in `state`, without the account that receives the fees: all transactions of a block load
/// it, and a miner needs no client for it.
pub(super) fn loads(state: &EvmState, beneficiary: Address) -> Loads {
    let mut loads = Loads::default();
    for (address, account) in state {
        if *address != beneficiary {
            let info = account.original_info();
            let (nonce, balance, code_hash) = (info.nonce, info.balance, info.code_hash);
            loads.insert(Key::Account(*address), Was::Account { nonce, balance, code_hash });
        }
        for (slot, value) in &account.storage {
            loads.insert(Key::Slot(*address, *slot), Was::Slot(value.original_value));
        }
    }
    loads
}
