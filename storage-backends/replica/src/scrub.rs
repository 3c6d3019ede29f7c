//! `db check`: every row of the trie against the trie that its leaves make, and the flat state against those
//! leaves.

use crate::{
    flat::{ACCOUNTS, FLAT, SLOTS},
    journal,
    side::{STORAGE_TRIE, rows_of},
};
use alloy_primitives::{B256, KECCAK256_EMPTY};
use polytrie_kv::{KvError, Snapshot};
use polytrie_state::{Account, CheckReport, StateError, count_rows};
use polytrie_trie::{AccountLeaf, SlotValue, TrieError, check_rows, state_error};
use std::collections::HashSet;

/// Both stores at one moment.
pub(crate) struct Scrub<'a> {
    pub(crate) store: &'a Snapshot,
    pub(crate) flat: &'a Snapshot,
}

impl Scrub<'_> {
    pub(crate) fn run(
        &self,
        root: B256,
        progress: &mut dyn FnMut(u64),
    ) -> Result<CheckReport, StateError> {
        let mut report = CheckReport::default();
        let mut codes_seen = HashSet::new();
        let accounts = check_rows::<AccountLeaf>(rows_of(self.store, None), &mut |hash, leaf| {
            report.accounts += 1;
            if report.accounts.is_multiple_of(1_000) {
                progress(report.accounts);
            }
            if leaf.code_hash != KECCAK256_EMPTY && codes_seen.insert(leaf.code_hash) {
                report.check_code(self.store, &leaf.code_hash).map_err(trie_error)?;
            }
            self.check_flat_account(hash, leaf, &mut report).map_err(trie_error)?;
            self.check_storage(hash, leaf, &mut report)
        })
        .map_err(state_error)?;
        progress(report.accounts);
        let storage_nodes = report.nodes;
        report.nodes += accounts.rows;
        for problem in accounts.problems {
            report.problem(format!("account trie: {problem}"));
        }
        if report.problems.is_empty() && accounts.root != root {
            report.problem(format!("the leaves make root {}, the head has {root}", accounts.root));
        }
        for (snapshot, table, expected, what) in [
            (self.store, STORAGE_TRIE, storage_nodes, "rows of storage tries"),
            (self.flat, ACCOUNTS, report.accounts, "flat accounts"),
            (self.flat, SLOTS, report.slots, "flat slots"),
        ] {
            let found = count_rows(snapshot, table)?;
            if report.problems.is_empty() && found != expected {
                report.problem(format!("there are {found} {what}, the tries make {expected}"));
            }
        }
        for problem in journal::check(self.store)? {
            report.problem(problem);
        }
        Ok(report)
    }

    fn check_flat_account(
        &self,
        hash: B256,
        leaf: &AccountLeaf,
        report: &mut CheckReport,
    ) -> Result<(), StateError> {
        let expected =
            Account { nonce: leaf.nonce, balance: leaf.balance, code_hash: leaf.code_hash };
        match FLAT.account(self.flat, &hash, &mut Vec::new()) {
            Ok(Some(found)) if found == expected => {}
            Ok(Some(found)) => report.problem(format!(
                "account {hash} is {found:?} in the flat state, {expected:?} in the trie"
            )),
            Ok(None) => report.problem(format!("account {hash} is not in the flat state")),
            Err(StateError::Corrupt(damage)) => report.problem(damage),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn check_storage(
        &self,
        account: B256,
        leaf: &AccountLeaf,
        report: &mut CheckReport,
    ) -> Result<(), TrieError> {
        let mut value = Vec::new();
        let mut wrong = Vec::new();
        let rows = rows_of(self.store, Some(account));
        let storage = check_rows::<SlotValue>(rows, &mut |slot, expected| {
            match FLAT.slot(self.flat, &account, &slot, &mut value) {
                Ok(found) if found == expected.0 => {}
                Ok(found) => wrong.push(format!(
                    "slot {slot} of account {account} is {found} in the flat state, {} in the trie",
                    expected.0
                )),
                Err(StateError::Corrupt(damage)) => wrong.push(damage),
                Err(error) => return Err(trie_error(error)),
            }
            Ok(())
        })?;
        report.slots += storage.leaves;
        report.nodes += storage.rows;
        wrong.into_iter().for_each(|problem| report.problem(problem));
        if storage.problems.is_empty() && storage.root != leaf.storage_root {
            report.problem(format!(
                "account {account}: its slots make storage root {}, the account has {}",
                storage.root, leaf.storage_root
            ));
        }
        for problem in storage.problems {
            report.problem(format!("storage trie of account {account}: {problem}"));
        }
        Ok(())
    }
}

/// A failure on its way out through the check of a trie, which knows only errors of stores.
fn trie_error(error: StateError) -> TrieError {
    match error {
        StateError::Store(error) => error.into(),
        other => KvError::Corrupt(other.to_string()).into(),
    }
}
