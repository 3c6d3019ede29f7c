//! `db check`: everything stored against the trie that the leaves make.

use crate::{
    STORAGE_TRIE,
    tries::{account_rows, storage_rows},
};
use alloy_primitives::{B256, KECCAK256_EMPTY};
use polytrie_kv::{Snapshot, Store};
use polytrie_state::{CheckReport, StateError, count_rows};
use polytrie_trie::{AccountLeaf, Detour, SlotValue, TrieError, check_rows};
use std::collections::HashSet;

pub(crate) fn check(
    store: &Store,
    root: B256,
    progress: &mut dyn FnMut(u64),
) -> Result<CheckReport, StateError> {
    let snapshot = store.snapshot();
    let mut report = CheckReport::default();
    let mut codes_seen = HashSet::new();
    let mut detour = Detour::default();
    let found = check_rows::<AccountLeaf>(account_rows(&snapshot), &mut |hash, leaf| {
        report.accounts += 1;
        if report.accounts.is_multiple_of(1_000) {
            progress(report.accounts);
        }
        if leaf.code_hash != KECCAK256_EMPTY && codes_seen.insert(leaf.code_hash) {
            report.check_code(&snapshot, &leaf.code_hash).map_err(|e| detour.take(e))?;
        }
        check_storage(&snapshot, hash, leaf, &mut report)
    });
    let accounts = match found {
        Ok(accounts) => accounts,
        Err(error) => return detour.resolve(Err(error)).map(|()| report),
    };
    progress(report.accounts);
    let storage_nodes = report.nodes;
    report.nodes += accounts.rows;
    for problem in accounts.problems {
        report.problem(format!("account trie: {problem}"));
    }
    if report.problems.is_empty() && accounts.root != root {
        report.problem(format!("the leaves make root {}, the head has {root}", accounts.root));
    }
    let stored = count_rows(&snapshot, STORAGE_TRIE)?;
    if report.problems.is_empty() && stored != storage_nodes {
        report.problem(format!(
            "{stored} rows of storage tries are stored, the accounts own {storage_nodes}"
        ));
    }
    Ok(report)
}

fn check_storage(
    snapshot: &Snapshot,
    account: B256,
    leaf: &AccountLeaf,
    report: &mut CheckReport,
) -> Result<(), TrieError> {
    let storage = check_rows::<SlotValue>(storage_rows(snapshot, account), &mut |_, _| Ok(()))?;
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
