//! The irregular state change of the DAO fork (EIP-779).

use alloy_evm::eth::dao_fork::{DAO_HARDFORK_ACCOUNTS, DAO_HARDFORK_BENEFICIARY};
use alloy_hardforks::{EthereumHardfork, EthereumHardforks};
use alloy_primitives::{Address, U256};
use polytrie_chainspec::Rules;
use polytrie_state::{Account, AccountChange, StateError, TxWrites};

/// Returns the changes that move the ether of The DAO and its children to the contract that pays it back, with the
/// accounts that `read` returns; there are none in any block but the one of the fork.
///
/// An account of the list that does not exist is created empty, as clients have always done. Before EIP-161 this is
/// visible in the state root; under EIP-161 there is no such account.
pub(super) fn drain(
    rules: &Rules<'_>,
    mut read: impl FnMut(&Address) -> Result<Option<Account>, StateError>,
) -> Result<TxWrites, StateError> {
    let fork = rules.ethereum_fork_activation(EthereumHardfork::Dao);
    if !fork.transitions_at_block(rules.number) {
        return Ok(TxWrites::default());
    }
    let mut accounts = Vec::with_capacity(DAO_HARDFORK_ACCOUNTS.len() + 1);
    let mut drained = U256::ZERO;
    for address in DAO_HARDFORK_ACCOUNTS {
        let account = read(&address)?.unwrap_or_default();
        drained = drained.saturating_add(account.balance);
        accounts.push(change(address, Account { balance: U256::ZERO, ..account }));
    }
    let heir = read(&DAO_HARDFORK_BENEFICIARY)?.unwrap_or_default();
    let balance = heir.balance.saturating_add(drained);
    accounts.push(change(DAO_HARDFORK_BENEFICIARY, Account { balance, ..heir }));
    if rules.is(EthereumHardfork::SpuriousDragon) {
        for change in &mut accounts {
            change.account = change.account.filter(|account| !account.is_empty());
        }
    }
    Ok(TxWrites { accounts })
}

const fn change(address: Address, account: Account) -> AccountChange {
    AccountChange { address, account: Some(account), wiped: false, code: None, slots: Vec::new() }
}
