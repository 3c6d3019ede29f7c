//! From revm's changes to those of the state layer.

use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY};
use polytrie_state::{Account, AccountChange};
use revm::state::Account as EvmAccount;

/// What a finished transaction (or system call, reward, withdrawal) did to an account; `None` if
/// nothing.
///
/// revm's journal has already brought accounts from before EIP-161 into the form that holds after
/// it: an empty account that came into being is marked as created, one that was there before is not
/// marked as touched. So "touched and empty" always means "gone".
pub(super) fn account_change(address: Address, account: &EvmAccount) -> Option<AccountChange> {
    if !account.is_touched() {
        return None;
    }
    if is_gone(account) {
        // It was not there before: nothing happened.
        if account.is_loaded_as_not_existing() {
            return None;
        }
        return Some(AccountChange {
            address,
            account: None,
            wiped: true,
            code: None,
            slots: Vec::new(),
        });
    }
    let created = account.is_created();
    let slots: Vec<_> = account
        .storage
        .iter()
        .filter(|(_, slot)| slot.is_changed())
        .map(|(slot, values)| (*slot, values.present_value))
        .collect();
    if !created && slots.is_empty() && !account.is_changed() {
        return None;
    }
    let info = &account.info;
    Some(AccountChange {
        address,
        account: Some(Account {
            nonce: info.nonce,
            balance: info.balance,
            code_hash: info.code_hash,
        }),
        wiped: created,
        code: new_code(account, created),
        slots,
    })
}

/// Whether an account that is touched is not there any more.
pub(super) fn is_gone(account: &EvmAccount) -> bool {
    account.is_selfdestructed() || (account.is_empty() && !account.is_created())
}

/// Code that may be new to the store: that of a created contract, or a delegation (EIP-7702).
fn new_code(account: &EvmAccount, created: bool) -> Option<(B256, Bytes)> {
    let info = &account.info;
    if info.code_hash == KECCAK256_EMPTY {
        return None;
    }
    let code = info.code.as_ref()?;
    (created || code.is_eip7702()).then(|| (info.code_hash, code.original_bytes()))
}
