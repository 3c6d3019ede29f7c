//! The irregular state change of the DAO fork (EIP-779).

use alloy_evm::eth::dao_fork::{DAO_HARDFORK_ACCOUNTS, DAO_HARDFORK_BENEFICIARY};
use alloy_primitives::{Address, U256};
use polytrie_state::{Account, AccountChange, Session, StateError, TxWrites};

/// Moves the ether of The DAO and its children to the contract that pays it back.
///
/// An account of the list that does not exist comes into being, empty: that is what clients have
/// always done, and before EIP-161 it shows in the state root; with it (`no_empty`) there is none.
pub(super) fn drain(session: &mut Session, no_empty: bool) -> Result<(), StateError> {
    let mut accounts = Vec::with_capacity(DAO_HARDFORK_ACCOUNTS.len() + 1);
    let mut drained = U256::ZERO;
    for address in DAO_HARDFORK_ACCOUNTS {
        let account = session.account(&address)?.unwrap_or_default();
        drained = drained.saturating_add(account.balance);
        accounts.push(change(address, Account { balance: U256::ZERO, ..account }));
    }
    let heir = session.account(&DAO_HARDFORK_BENEFICIARY)?.unwrap_or_default();
    let balance = heir.balance.saturating_add(drained);
    accounts.push(change(DAO_HARDFORK_BENEFICIARY, Account { balance, ..heir }));
    if no_empty {
        for change in &mut accounts {
            change.account = change.account.filter(|account| !account.is_empty());
        }
    }
    session.apply(&TxWrites { accounts })
}

const fn change(address: Address, account: Account) -> AccountChange {
    AccountChange { address, account: Some(account), wiped: false, code: None, slots: Vec::new() }
}
