//! Conversion of revm's changes into those of the state layer.

use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY};
use polytrie_state::{Account, AccountChange};
use revm::state::Account as EvmAccount;

/// Returns the change of an account by a finished transaction (or system call, reward, withdrawal);
/// `None` if there is none.
///
/// revm's journal has already turned accounts from before EIP-161 into the form that is valid after
/// it: a new empty account is marked as created, one that existed before is not marked as touched.
/// So "touched and empty" always means "deleted".
pub(super) fn account_change(address: Address, account: &EvmAccount) -> Option<AccountChange> {
    if !account.is_touched() {
        return None;
    }
    if is_gone(account) {
        // The account did not exist before, so nothing changed.
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

/// Whether a touched account no longer exists.
pub(super) fn is_gone(account: &EvmAccount) -> bool {
    account.is_selfdestructed() || (account.is_empty() && !account.is_created())
}

/// Returns code that may be new to the store: that of a created contract, or a delegation
/// (EIP-7702).
fn new_code(account: &EvmAccount, created: bool) -> Option<(B256, Bytes)> {
    let info = &account.info;
    if info.code_hash == KECCAK256_EMPTY {
        return None;
    }
    let code = info.code.as_ref()?;
    (created || code.is_eip7702()).then(|| (info.code_hash, code.original_bytes()))
}
