//! What `db check` finds, and what the checks of layers have in common.

use crate::{Account, CODE_TABLE, StateError, scan};
use alloy_primitives::{B256, hex, keccak256};
use polytrie_kv::{KeyRange, Read, Table};
use std::{
    collections::HashSet,
    fmt::{self, Debug, Display},
    ops::ControlFlow,
};

/// Accounts between two calls of `progress`.
const PROGRESS_EVERY: u64 = 1_000;

/// What [`StateLayer::check`](crate::StateLayer::check) found.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct CheckReport {
    /// Accounts seen.
    pub accounts: u64,
    /// Slots seen.
    pub slots: u64,
    /// Rows of the authenticated structure seen.
    pub nodes: u64,
    /// What is wrong, a sentence each (at most 100 are kept); empty means clean.
    pub problems: Vec<String>,
}

impl CheckReport {
    /// Notes a problem; what comes after the first 100 is left out.
    pub fn problem(&mut self, text: String) {
        if self.problems.len() < 100 {
            self.problems.push(text);
        }
    }

    /// Counts an account, and says so to `progress` every thousand.
    pub fn count_account(&mut self, progress: &mut dyn FnMut(u64)) {
        self.accounts += 1;
        if self.accounts.is_multiple_of(PROGRESS_EVERY) {
            progress(self.accounts);
        }
    }

    /// Turns damage that ended a part of the check into a problem; a store that fails stays an error.
    ///
    /// # Errors
    ///
    /// Whatever else `part` ended with.
    pub fn part(&mut self, part: Result<(), StateError>) -> Result<(), StateError> {
        match part {
            Err(damage @ StateError::Corrupt(_)) => {
                self.problem(damage.to_string());
                Ok(())
            }
            part => part,
        }
    }

    /// A table has so many rows, none missing and none too many.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn expect_rows(
        &mut self,
        store: &dyn Read,
        table: Table,
        expected: u64,
    ) -> Result<(), StateError> {
        let found = count_rows(store, table)?;
        if found != expected {
            self.problem(format!("{} holds {found} rows, expected {expected}", table.name));
        }
        Ok(())
    }

    /// Every code is what its key says.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn check_codes(&mut self, store: &dyn Read) -> Result<(), StateError> {
        scan(store, CODE_TABLE, KeyRange::ALL, |key, code| {
            let found = keccak256(code);
            if key != found.as_slice() {
                let expected = hex::encode_prefixed(key);
                self.problem(format!("the code kept under {expected} has the hash {found}"));
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// The code of an account, if it has any, is there; what it is [`Self::check_codes`] says.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn check_code_is_there(
        &mut self,
        store: &dyn Read,
        name: impl Display,
        account: &Account,
    ) -> Result<(), StateError> {
        let code_hash = &account.code_hash;
        if account.has_code() && store.get(CODE_TABLE, code_hash.as_slice())?.is_none() {
            self.problem(format!("{name} has the code {code_hash}, which is not there"));
        }
        Ok(())
    }
}

/// A walk through all accounts: each is counted, each code is looked for once.
pub struct AccountWalk<'a> {
    /// What was found so far.
    pub report: &'a mut CheckReport,
    progress: &'a mut dyn FnMut(u64),
    codes_seen: HashSet<B256>,
}

impl<'a> AccountWalk<'a> {
    /// Begins; `progress` receives the number of accounts done so far, every thousand and at the end.
    pub fn new(report: &'a mut CheckReport, progress: &'a mut dyn FnMut(u64)) -> Self {
        Self { report, progress, codes_seen: HashSet::new() }
    }

    /// The next account, whose code must be in `store`; what it is [`CheckReport::check_codes`] says.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn account(&mut self, store: &dyn Read, account: &Account) -> Result<(), StateError> {
        self.report.count_account(self.progress);
        if account.has_code() && self.codes_seen.insert(account.code_hash) {
            self.report.check_code_is_there(store, "an account", account)?;
        }
        Ok(())
    }

    /// All accounts were there.
    pub fn end(self) {
        (self.progress)(self.report.accounts);
    }
}

impl Debug for AccountWalk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccountWalk").field("report", &self.report).finish_non_exhaustive()
    }
}

/// How many rows a table has.
///
/// # Errors
///
/// If the store fails.
pub fn count_rows(store: &dyn Read, table: Table) -> Result<u64, StateError> {
    let mut rows = 0;
    scan(store, table, KeyRange::ALL, |_, _| {
        rows += 1;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(rows)
}
