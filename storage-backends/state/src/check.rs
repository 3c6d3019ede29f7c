//! The report of `db check`, and the parts of checks that layers share.

use crate::{Account, CODE_TABLE, Result, StateError, each_row};
use alloy_primitives::{B256, hex, keccak256};
use polytrie_kv::{KeyRange, Read, Table};
use std::{collections::HashSet, fmt::Display};

/// Number of accounts between two calls of `progress`.
const PROGRESS_EVERY: u64 = 1_000;

/// The findings of [`StateLayer::check`](crate::StateLayer::check).
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct CheckReport {
    /// Number of accounts visited.
    pub accounts: u64,
    /// Number of slots visited.
    pub slots: u64,
    /// Number of rows of the authenticated structure visited.
    pub nodes: u64,
    /// The problems found, one sentence each (at most 100 are kept); empty if there are none.
    pub problems: Vec<String>,
}

impl CheckReport {
    /// Notes a problem; after the first 100, problems are left out.
    pub fn problem(&mut self, text: String) {
        if self.problems.len() < 100 {
            self.problems.push(text);
        }
    }

    /// Counts an account, and calls `progress` after every thousand.
    pub fn count_account(&mut self, progress: &mut dyn FnMut(u64)) {
        self.accounts += 1;
        if self.accounts.is_multiple_of(PROGRESS_EVERY) {
            progress(self.accounts);
        }
    }

    /// Runs a part of the check. Damage that ends it becomes a problem; a failure of the store stays an error.
    ///
    /// # Errors
    ///
    /// Any other error of `part`.
    pub fn part(&mut self, part: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        match part(self) {
            Err(damage @ StateError::Corrupt(_)) => {
                self.problem(damage.to_string());
                Ok(())
            }
            part => part,
        }
    }

    /// Checks that a table has the expected number of rows.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn expect_rows(&mut self, store: &dyn Read, table: Table, expected: u64) -> Result<()> {
        let found = count_rows(store, table)?;
        if found != expected {
            self.problem(format!("{} holds {found} rows, expected {expected}", table.name));
        }
        Ok(())
    }

    /// Checks that the hash of every code is its key.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn check_codes(&mut self, store: &dyn Read) -> Result<()> {
        each_row(store, CODE_TABLE, KeyRange::ALL, |key, code| {
            let found = keccak256(code);
            if key != found.as_slice() {
                let expected = hex::encode_prefixed(key);
                self.problem(format!("the code kept under {expected} has the hash {found}"));
            }
            Ok(())
        })
    }

    /// Checks that the code of an account, if it has any, is in the store. [`Self::check_codes`] checks the code
    /// itself.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn check_code_is_there(
        &mut self,
        store: &dyn Read,
        name: impl Display,
        account: &Account,
    ) -> Result<()> {
        let code_hash = &account.code_hash;
        if account.has_code() && store.get(CODE_TABLE, code_hash.as_slice())?.is_none() {
            self.problem(format!("{name} has the code {code_hash}, which is not there"));
        }
        Ok(())
    }
}

/// A walk through all accounts, which counts each account and looks up each code once.
pub struct AccountWalk<'a> {
    /// The findings so far.
    pub report: &'a mut CheckReport,
    progress: &'a mut dyn FnMut(u64),
    codes_seen: HashSet<B256>,
}

impl<'a> AccountWalk<'a> {
    /// Begins a walk; `progress` receives the number of accounts visited so far, after every thousand and at the end.
    pub fn new(report: &'a mut CheckReport, progress: &'a mut dyn FnMut(u64)) -> Self {
        Self { report, progress, codes_seen: HashSet::new() }
    }

    /// Visits the next account. Its code must be in `store`. [`CheckReport::check_codes`] checks the code itself.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn account(&mut self, store: &dyn Read, account: &Account) -> Result<()> {
        self.report.count_account(self.progress);
        if account.has_code() && self.codes_seen.insert(account.code_hash) {
            self.report.check_code_is_there(store, "an account", account)?;
        }
        Ok(())
    }

    /// Ends the walk, and reports the number of accounts to `progress`.
    pub fn end(self) {
        (self.progress)(self.report.accounts);
    }
}

polytrie_kv::debug_fields!(AccountWalk['_] { report });

/// Counts the rows of a table.
///
/// # Errors
///
/// If the store fails.
pub fn count_rows(store: &dyn Read, table: Table) -> Result<u64> {
    let mut rows = 0;
    each_row(store, table, KeyRange::ALL, |_, _| {
        rows += 1;
        Ok(())
    })?;
    Ok(rows)
}
