//! The search for damage in flat rows.

use super::{FlatTables, decode_account, decode_value, tables::wrong_key};
use crate::{CheckReport, Result, each_row};
use alloy_primitives::{B256, hex};
use polytrie_kv::{KeyRange, Read, Table, prefix_end};

/// A callback for the table, key and bytes of an undamaged row.
type RowVisit<'a> = dyn FnMut(Table, &[u8], &[u8]) -> Result<()> + 'a;

impl FlatTables {
    /// Decodes and counts every row, and looks for the code of each account and for the account of each slot.
    /// Undamaged rows go to `visit`, accounts first: a wrong value that decodes looks like a right one here.
    ///
    /// # Errors
    ///
    /// If the store fails, and any error of `visit`.
    pub fn check(
        &self,
        store: &dyn Read,
        report: &mut CheckReport,
        progress: &mut dyn FnMut(u64),
        visit: &mut RowVisit<'_>,
    ) -> Result<()> {
        each_row(store, self.accounts, KeyRange::ALL, |key, row| {
            report.count_account(progress);
            let hash = B256::try_from(key).map_err(|_| wrong_key(self.accounts, key, 32));
            match hash.and_then(|hash| Ok((hash, decode_account(&hash, row)?))) {
                Ok((hash, account)) => {
                    report.check_code_is_there(store, format_args!("account {hash}"), &account)?;
                    visit(self.accounts, key, row)?;
                }
                Err(damage) => report.problem(damage.to_string()),
            }
            Ok(())
        })?;
        progress(report.accounts);
        let mut owner = Vec::new();
        each_row(store, self.slots, KeyRange::ALL, |key, row| {
            report.slots += 1;
            match self.checked_slot(key, row) {
                Ok(account) => {
                    if owner != account {
                        owner = account.to_vec();
                        self.check_owner(store, account, report)?;
                    }
                    visit(self.slots, key, row)?;
                }
                Err(damage) => report.problem(damage.to_string()),
            }
            Ok(())
        })
    }

    /// Decodes the row of a slot; returns the part of the account's hash that the key holds.
    fn checked_slot<'a>(&self, key: &'a [u8], row: &[u8]) -> Result<&'a [u8]> {
        let (account, slot) = self.split_slot_key(key)?;
        decode_value(&B256::right_padding_from(account), &slot, row)?;
        Ok(account)
    }

    fn check_owner(
        &self,
        store: &dyn Read,
        account: &[u8],
        report: &mut CheckReport,
    ) -> Result<()> {
        let to = prefix_end(account);
        let range = KeyRange { from: account, to: to.as_deref(), reverse: false };
        if store.first(self.accounts, range)?.is_none() {
            let account = hex::encode_prefixed(account);
            report.problem(format!("there are slots of account {account}, which is not there"));
        }
        Ok(())
    }
}
