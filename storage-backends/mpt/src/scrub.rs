//! `db check`: everything stored against the trie that the leaves make.

use crate::{
    STORAGE_TRIE,
    tries::{account_rows, storage_rows},
};
use alloy_primitives::{B256, KECCAK256_EMPTY, keccak256};
use polytrie_kv::{KeyRange, Read, Snapshot, Store};
use polytrie_state::{CheckReport, StateError, read_code};
use polytrie_trie::{AccountLeaf, Detour, SlotValue, TrieError, check_rows, state_error};
use std::{collections::HashSet, ops::ControlFlow};

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
            check_code(&snapshot, &leaf.code_hash, &mut report).map_err(|e| detour.take(e))?;
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
    let stored = count_rows(&snapshot).map_err(state_error)?;
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

fn check_code(
    snapshot: &Snapshot,
    code_hash: &B256,
    report: &mut CheckReport,
) -> Result<(), StateError> {
    match read_code(snapshot, code_hash)? {
        None => report.problem(format!("the code {code_hash} is missing")),
        Some(code) if keccak256(&code) != *code_hash => {
            report.problem(format!("the code stored as {code_hash} has hash {}", keccak256(&code)));
        }
        Some(_) => {}
    }
    Ok(())
}

fn count_rows(snapshot: &Snapshot) -> Result<u64, TrieError> {
    let mut rows = 0;
    snapshot.scan(STORAGE_TRIE, KeyRange::ALL, &mut |_, _| {
        rows += 1;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(rows)
}
