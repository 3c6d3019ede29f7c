//! Looking for damage.

use crate::{ACCOUNTS, FLAT, SLOTS};
use alloy_primitives::B256;
use polytrie_kv::{KeyRange, Read};
use polytrie_state::{
    CheckReport, StateError,
    flat::{decode_account, decode_value},
    scan,
};
use std::ops::ControlFlow;

/// Decodes every row. Without a commitment a wrong value that decodes looks like a right one.
pub(crate) fn check(
    store: &dyn Read,
    progress: &mut dyn FnMut(u64),
) -> Result<CheckReport, StateError> {
    let mut report = CheckReport::default();
    report.check_codes(store)?;
    check_accounts(store, &mut report, progress)?;
    check_slots(store, &mut report)?;
    Ok(report)
}

fn check_accounts(
    store: &dyn Read,
    report: &mut CheckReport,
    progress: &mut dyn FnMut(u64),
) -> Result<(), StateError> {
    scan(store, ACCOUNTS, KeyRange::ALL, |key, value| {
        report.count_account(progress);
        match account_key(key).and_then(|hash| Ok((hash, decode_account(&hash, value)?))) {
            Ok((hash, account)) => {
                report.check_code_is_there(store, format_args!("account {hash}"), &account)?;
            }
            Err(damage) => report.problem(damage.to_string()),
        }
        Ok(ControlFlow::Continue(()))
    })?;
    progress(report.accounts);
    Ok(())
}

fn check_slots(store: &dyn Read, report: &mut CheckReport) -> Result<(), StateError> {
    let mut owner: Option<B256> = None;
    let mut row = Vec::new();
    scan(store, SLOTS, KeyRange::ALL, |key, value| {
        report.slots += 1;
        match slot_owner(key, value) {
            Ok(account) if owner != Some(account) => {
                owner = Some(account);
                row.clear();
                if !store.get_into(ACCOUNTS, account.as_slice(), &mut row)? {
                    report.problem(format!(
                        "there are slots of account {account}, which is not there"
                    ));
                }
            }
            Ok(_) => {}
            Err(damage) => report.problem(damage.to_string()),
        }
        Ok(ControlFlow::Continue(()))
    })
}

/// The hash an account's row is kept under.
fn account_key(key: &[u8]) -> Result<B256, StateError> {
    let (found, table) = (key.len(), ACCOUNTS.name);
    B256::try_from(key)
        .map_err(|_| StateError::Corrupt(format!("a key of {found} bytes in {table}, expected 32")))
}

/// The hash of the account that a slot's row belongs to.
fn slot_owner(key: &[u8], value: &[u8]) -> Result<B256, StateError> {
    let (account, slot) = FLAT.split_slot_key(key)?;
    let account = B256::from_slice(account);
    decode_value(&account, &slot, value)?;
    Ok(account)
}
