//! The scrub of the tables: every row is compared with the tries that the leaves make.

use super::TrieTables;
use crate::{AccountLeaf, SlotValue, TrieError, check_rows};
use alloy_primitives::{B256, U256};
use polytrie_kv::Read;
use polytrie_state::{Account, AccountWalk, CheckReport, Result, count_rows};

/// The comparison that a layer makes for each leaf; `()` makes none.
pub trait LeafCheck {
    /// Compares an account of the trie.
    ///
    /// # Errors
    ///
    /// If a store fails; differences go into the report.
    fn account(&mut self, hash: &B256, account: &Account, report: &mut CheckReport) -> Result<()> {
        let _ = (hash, account, report);
        Ok(())
    }

    /// Compares a slot of an account, both given by hash.
    ///
    /// # Errors
    ///
    /// Those of [`Self::account`].
    fn slot(
        &mut self,
        account: &B256,
        slot: &B256,
        value: &U256,
        report: &mut CheckReport,
    ) -> Result<()> {
        let _ = (account, slot, value, report);
        Ok(())
    }
}

impl LeafCheck for () {}

impl TrieTables {
    /// Compares every row with the tries that the leaves make, the root of these with `root`, and each code with its
    /// hash.
    ///
    /// # Errors
    ///
    /// If the store fails, and any error of `leaves`.
    pub fn check(
        &self,
        store: &dyn Read,
        root: B256,
        leaves: &mut dyn LeafCheck,
        progress: &mut dyn FnMut(u64),
    ) -> Result<CheckReport> {
        let mut report = CheckReport::default();
        report.check_codes(store)?;
        let walk = AccountWalk::new(&mut report, progress);
        let mut walk = TrieWalk { tables: *self, store, walk, leaves };
        let rows = self.account_rows(store);
        let accounts = check_rows::<AccountLeaf>(rows, &mut |hash, leaf| walk.account(hash, leaf))?;
        walk.walk.end();
        let storage_nodes = report.nodes;
        report.nodes += accounts.rows;
        for problem in accounts.problems {
            report.problem(format!("account trie: {problem}"));
        }
        if report.problems.is_empty() && accounts.root != root {
            report.problem(format!("the leaves make root {}, the head has {root}", accounts.root));
        }
        let stored = count_rows(store, self.storage)?;
        if report.problems.is_empty() && stored != storage_nodes {
            report.problem(format!(
                "{stored} rows of storage tries are stored, the accounts own {storage_nodes}"
            ));
        }
        Ok(report)
    }
}

struct TrieWalk<'a> {
    tables: TrieTables,
    store: &'a dyn Read,
    walk: AccountWalk<'a>,
    leaves: &'a mut dyn LeafCheck,
}

impl TrieWalk<'_> {
    fn account(&mut self, hash: B256, leaf: &AccountLeaf) -> Result<(), TrieError> {
        let account = leaf.account();
        self.walk.account(self.store, &account)?;
        self.leaves.account(&hash, &account, self.walk.report)?;
        self.storage(hash, leaf)
    }

    fn storage(&mut self, account: B256, leaf: &AccountLeaf) -> Result<(), TrieError> {
        let Self { tables, store, walk: AccountWalk { report, .. }, leaves } = self;
        let rows = tables.storage_rows(*store, account);
        let storage = check_rows::<SlotValue>(rows, &mut |slot, value| {
            Ok(leaves.slot(&account, &slot, &value.0, report)?)
        })?;
        report.slots += storage.leaves;
        report.nodes += storage.rows;
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
