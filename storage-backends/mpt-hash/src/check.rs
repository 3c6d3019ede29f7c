//! The search for damage: every node that the root leads to is compared with its hash, and all other rows are
//! checked.

use crate::{
    HEAD, NODES, ROOT_KEY,
    nodes::{OWN_BYTES, Verified, stored_root},
    trie::Trie,
};
use alloy_primitives::{B256, hex, keccak256};
use polytrie_kv::{KeyRange, Snapshot};
use polytrie_state::{CheckReport, Result, count_rows, each_row};
use polytrie_trie::{AccountLeaf, SlotValue};
use std::ops::ControlFlow;

/// Checks the rows of a snapshot, whose head should have this root. If old nodes are kept, each of them is compared
/// with its own hash; a missing old node is found only when it is needed.
///
/// # Errors
///
/// If the store fails.
pub(crate) fn check(
    rows: &Snapshot,
    root: B256,
    keeps_old: bool,
    progress: &mut dyn FnMut(u64),
) -> Result<CheckReport> {
    let mut report = CheckReport::default();
    report.check_codes(rows)?;
    check_head(rows, root, &mut report)?;
    let nodes = Verified::new(rows.clone());
    report.part(|report| walk(&nodes, rows, root, report, progress))?;
    progress(report.accounts);
    report.nodes = nodes.count();
    let stored = count_rows(rows, NODES)?;
    if keeps_old {
        check_old(rows, &mut report)?;
    } else if report.problems.is_empty() && stored != report.nodes {
        let needed = report.nodes;
        report.problem(format!("{stored} nodes are stored, the state has {needed}"));
    }
    Ok(report)
}

/// Checks that the head has this root, and no other row.
fn check_head(rows: &Snapshot, root: B256, report: &mut CheckReport) -> Result<()> {
    match stored_root(rows) {
        Ok(stored) if stored != root => {
            report.problem(format!("the row of the state root has {stored}, the head has {root}"));
        }
        stored => report.part(|_| stored.map(drop))?,
    }
    each_row(rows, HEAD, KeyRange::ALL, |key, _| {
        if key != ROOT_KEY {
            let key = hex::encode_prefixed(key);
            report.problem(format!("a row {key} is stored in {}, where none belongs", HEAD.name));
        }
        Ok(())
    })
}

/// Checks all nodes that the root leads to.
fn walk(
    nodes: &Verified<Snapshot>,
    rows: &Snapshot,
    root: B256,
    report: &mut CheckReport,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    Trie::of_accounts(nodes, root).leaves(&B256::ZERO, &mut |hash, leaf: AccountLeaf| {
        report.count_account(progress);
        report.check_code_is_there(rows, format_args!("account {hash}"), &leaf.account())?;
        let mut slots = 0;
        let storage = Trie::of_storage(nodes, hash, leaf.storage_root);
        let walked = storage.leaves(&B256::ZERO, &mut |_, _: SlotValue| {
            slots += 1;
            Ok(ControlFlow::Continue(()))
        });
        report.slots += slots;
        report.part(|_| walked)?;
        Ok(ControlFlow::Continue(()))
    })
}

/// Checks each row by itself: the part of its key that does not depend on an account must be that of the node's hash.
fn check_old(rows: &Snapshot, report: &mut CheckReport) -> Result<()> {
    each_row(rows, NODES, KeyRange::ALL, |key, node| {
        let hash = keccak256(node);
        if key.len() != 32 || key[..OWN_BYTES] != hash[..OWN_BYTES] {
            let key = hex::encode_prefixed(key);
            report.problem(format!("the node kept under {key} has the hash {hash}"));
        }
        Ok(())
    })
}
