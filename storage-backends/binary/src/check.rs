//! The search for damage: the tree is compared with its leaves, and the leaves with the flat rows.

use crate::{
    FLAT, GROUPS, GroupDepth, SLOTS, STEMS,
    account::LeafChange,
    key::AccountKeys,
    leaves::{LeafChanges, address_of, slot_of, stored_code},
    stem::Leaves,
    tree::Tree,
};
use alloy_primitives::{B256, U256, hex, keccak256};
use polytrie_kv::{KeyRange, Read, Snapshot};
use polytrie_state::{Account, CheckReport, PREIMAGE_TABLE, Result, corrupt, count_rows, each_row};
use std::ops::ControlFlow;

/// Number of slots of one account that are looked up together.
const SLOTS_AT_ONCE: usize = 50_000;

/// Checks the rows of a snapshot: each stem that the root leads to must have the right hash, and each account, slot
/// and chunk of code must have its leaf. Then it compares the counts, since there must be no other rows and leaves.
///
/// # Errors
///
/// If the store fails.
pub(crate) fn check(
    rows: &Snapshot,
    group_depth: GroupDepth,
    progress: &mut dyn FnMut(u64),
) -> Result<CheckReport> {
    let mut report = CheckReport::default();
    report.check_codes(rows)?;
    check_preimages(rows, &mut report)?;
    let tree = Tree { rows, cache: None, group_depth };
    let mut found = Found::default();
    report.part(|_| found.walk(tree))?;
    report.nodes = found.groups + found.stems;
    let mut expected = 0;
    report.part(|report| walk_flat(rows, report, &mut expected, progress))?;
    progress(report.accounts);
    if report.problems.is_empty() {
        let counts = [
            ("groups", found.groups, count_rows(rows, GROUPS)?),
            ("stems", found.stems, count_rows(rows, STEMS)?),
            ("slots of accounts", report.slots, count_rows(rows, SLOTS)?),
        ];
        for (what, expected, stored) in counts.into_iter().filter(|(_, a, b)| a != b) {
            report.problem(format!("{stored} {what} are stored, the state has {expected}"));
        }
        if found.leaves != expected {
            let leaves = found.leaves;
            report.problem(format!("the tree has {leaves} leaves, the state has {expected}"));
        }
    }
    Ok(report)
}

/// Checks that every preimage is stored under its hash.
fn check_preimages(rows: &Snapshot, report: &mut CheckReport) -> Result<()> {
    each_row(rows, PREIMAGE_TABLE, KeyRange::ALL, |key, preimage| {
        let found = keccak256(preimage);
        if key != found.as_slice() {
            let expected = hex::encode_prefixed(key);
            report.problem(format!("the preimage kept under {expected} has the hash {found}"));
        }
        Ok(())
    })
}

/// The counts of the tree's content.
#[derive(Debug, Default)]
struct Found {
    groups: u64,
    stems: u64,
    leaves: u64,
}

impl Found {
    fn walk(&mut self, tree: Tree<'_>) -> Result<()> {
        let root = tree.root()?;
        let (stems, leaves) = (&mut self.stems, &mut self.leaves);
        self.groups = tree.stems(&root, &mut |stem, hash| {
            let row = tree.row(stem)?;
            if row.hash(stem) != Some(*hash) {
                let found = row.hash(stem).unwrap_or_default();
                return Err(corrupt!("the stem {stem} has the hash {found}, the tree has {hash}"));
            }
            *stems += 1;
            *leaves += row.all().len() as u64;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(())
    }
}

/// Looks up the leaves of all flat rows, and counts them.
fn walk_flat(
    rows: &Snapshot,
    report: &mut CheckReport,
    expected: &mut u64,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    FLAT.visit_accounts(rows, &B256::ZERO, |hash, account| {
        report.count_account(progress);
        let checked = check_account(rows, report, &hash, &account);
        let checked = checked.map(|leaves| *expected += leaves);
        report.part(|_| checked)?;
        Ok(ControlFlow::Continue(()))
    })
}

/// Checks the leaves of an account; returns their number.
fn check_account(
    rows: &Snapshot,
    report: &mut CheckReport,
    hash: &B256,
    account: &Account,
) -> Result<u64> {
    let keys = AccountKeys::new(address_of(rows, hash)?);
    let code = match account.has_code() {
        true => stored_code(rows, &account.code_hash)?,
        false => Default::default(),
    };
    let mut leaves = LeafChanges::default();
    leaves.set_account(&keys, account, &code)?;
    let mut found = 0;
    let mut slots: Vec<(B256, U256)> = Vec::new();
    let mut from = B256::ZERO;
    loop {
        FLAT.visit_slots(rows, hash, &from, |slot, value| {
            slots.push((slot, value));
            let is_full = slots.len() == SLOTS_AT_ONCE;
            Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        let last = slots.last().map(|(slot, _)| U256::from_be_bytes(slot.0));
        report.slots += slots.len() as u64;
        for (slot, value) in slots.drain(..) {
            leaves.set_slot(&keys, &slot_of(rows, &slot)?, &value);
        }
        found += look_for(rows, hash, std::mem::take(&mut leaves))?;
        match last.and_then(|last| last.checked_add(U256::ONE)) {
            Some(next) => from = next.into(),
            None => return Ok(found),
        }
    }
}

/// Looks up leaves; returns their number, if they are as they should be.
fn look_for(rows: &Snapshot, account: &B256, leaves: LeafChanges) -> Result<u64> {
    let mut count = 0;
    for (stem, expected) in leaves.into_sorted() {
        let found = Leaves::of_row(&stem, rows.get(STEMS, &stem.0)?)?;
        for (sub, change) in expected {
            let value = match change {
                LeafChange::Set(value) => Some(value),
                LeafChange::Remove | LeafChange::KeepCodeSize(_) => None,
            };
            if found.get(sub) != value.as_ref() {
                let leaf = found.get(sub);
                return Err(corrupt!(
                    "the leaf {sub} of the stem {stem} of account {account} is {leaf:?}, expected {value:?}"
                ));
            }
            count += u64::from(value.is_some());
        }
    }
    Ok(count)
}
