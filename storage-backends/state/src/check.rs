//! What `db check` finds, and what the checks of layers have in common.

use crate::{StateError, read_code, scan};
use alloy_primitives::{B256, keccak256};
use polytrie_kv::{KeyRange, Read, Table};
use std::ops::ControlFlow;

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

    /// The code of an account is there, and is what its hash says.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn check_code(&mut self, store: &dyn Read, code_hash: &B256) -> Result<(), StateError> {
        match read_code(store, code_hash)? {
            None => self.problem(format!("the code {code_hash} is missing")),
            Some(code) if keccak256(&code) != *code_hash => {
                let found = keccak256(&code);
                self.problem(format!("the code stored as {code_hash} has hash {found}"));
            }
            Some(_) => {}
        }
        Ok(())
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
