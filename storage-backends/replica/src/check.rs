//! The scrub of `db check`: every row of the trie is compared with the trie that its leaves make, and the flat state
//! with those leaves.

use crate::{ACCOUNTS, FLAT, SLOTS, TRIE, journal};
use alloy_primitives::{B256, U256};
use polytrie_kv::Snapshot;
use polytrie_state::{Account, CheckReport, Result, StateError};
use polytrie_trie::LeafCheck;

/// Checks snapshots of both stores.
pub(crate) fn check(
    store: &Snapshot,
    flat: &Snapshot,
    root: B256,
    progress: &mut dyn FnMut(u64),
) -> Result<CheckReport> {
    let mut report = TRIE.check(store, root, &mut FlatLeaves(flat), progress)?;
    if report.problems.is_empty() {
        report.expect_rows(flat, ACCOUNTS, report.accounts)?;
        report.expect_rows(flat, SLOTS, report.slots)?;
    }
    journal::check(store, &mut report)?;
    Ok(report)
}

/// The comparison of the tries' leaves with the flat state.
pub(crate) struct FlatLeaves<'a>(pub(crate) &'a Snapshot);

impl LeafCheck for FlatLeaves<'_> {
    fn account(&mut self, hash: &B256, account: &Account, report: &mut CheckReport) -> Result<()> {
        match FLAT.account(self.0, hash) {
            Ok(Some(found)) if found == *account => {}
            Ok(Some(found)) => report.problem(format!(
                "account {hash} is {found:?} in the flat state, {account:?} in the trie"
            )),
            Ok(None) => report.problem(format!("account {hash} is not in the flat state")),
            Err(StateError::Corrupt(damage)) => report.problem(damage),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn slot(
        &mut self,
        account: &B256,
        slot: &B256,
        value: &U256,
        report: &mut CheckReport,
    ) -> Result<()> {
        match FLAT.slot(self.0, account, slot) {
            Ok(found) if found == *value => {}
            Ok(found) => report.problem(format!(
                "slot {slot} of account {account} is {found} in the flat state, {value} in the trie"
            )),
            Err(StateError::Corrupt(damage)) => report.problem(damage),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
