//! The scrub of `db check`: every stored row is compared with all others that hold the same data.

use crate::{
    JOURNAL, SNAPSHOT_TRIE, SWEEP, flat, journal,
    journal::generations,
    keys::{Key, Places, SlotKey},
    merge::storage_of,
    meta::Meta,
    reader::LmptReader,
    value::{Record, Value},
};
use alloy_primitives::B256;
use polytrie_kv::{KeyRange, LiveSet, Read, Scratch, Snapshot};
use polytrie_state::{AccountWalk, CheckReport, Result, count_rows, each_row};
use polytrie_trie::{Rows, check_rows, leaf_on_path};
use std::{collections::BTreeSet, ops::ControlFlow};

pub(crate) fn check(
    reader: &LmptReader,
    meta: &Meta,
    room: (&Scratch, usize),
    progress: &mut dyn FnMut(u64),
) -> Result<CheckReport> {
    let (mut report, store) = (CheckReport::default(), &reader.view.flat);
    report.part(|report| check_state(reader, report, progress))?;
    report.part(|report| check_meta(store, meta, report))?;
    report.part(|report| check_journal(store, meta, room, report))?;
    report.part(|report| check_snapshot(store, meta, report))?;
    report.part(|report| check_storages(reader, report))?;
    Ok(report)
}

/// Checks the readable state: the code of every account is there, and the hash of every code is its key.
fn check_state(
    reader: &LmptReader,
    report: &mut CheckReport,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    let view = &reader.view;
    report.check_codes(&view.flat)?;
    let mut walk = AccountWalk::new(report, progress);
    view.accounts(&B256::ZERO, &mut |hash, Record { account, incarnation }| {
        walk.account(&view.flat, &account)?;
        view.slots((hash, incarnation), &B256::ZERO, &mut |_, _| {
            walk.report.slots += 1;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(ControlFlow::Continue(()))
    })?;
    walk.end();
    Ok(())
}

fn check_meta(store: &Snapshot, meta: &Meta, report: &mut CheckReport) -> Result<()> {
    // A layer that was never filled has no row. Before the first block the row may have other settings.
    let mut stored = Meta::read(store)?;
    if let Some(stored) = &mut stored
        && stored.number.is_none()
    {
        stored.schedule = meta.schedule;
    }
    if stored != Some(*meta) && (stored.is_some() || meta.number.is_some()) {
        report.problem("the row of where the layer stands is not that of the head".to_owned());
    }
    let rows = count_rows(store, crate::META)?;
    if rows > 1 || (rows == 0 && meta.number.is_some()) {
        report.problem(format!("there are {rows} rows of where the layer stands"));
    }
    Ok(())
}

/// Checks that the journal has exactly the blocks that it should have, and that the tries can be rebuilt from it.
fn check_journal(
    store: &Snapshot,
    meta: &Meta,
    (scratch, memory_bytes): (&Scratch, usize),
    report: &mut CheckReport,
) -> Result<()> {
    let blocks = meta.number.map_or(0..0, |number| meta.oldest..number + 1);
    report.expect_rows(store, JOURNAL, blocks.end - blocks.start)?;
    journal::scan_blocks(store, blocks, |_| Ok(()))?;
    generations((store, scratch), meta, &LiveSet::default(), memory_bytes)?;
    Ok(())
}

/// Compares the snapshot trie with its leaves, and those with the flat map.
fn check_snapshot(store: &Snapshot, meta: &Meta, report: &mut CheckReport) -> Result<()> {
    let rows = Rows::new(store as &dyn Read, SNAPSHOT_TRIE);
    let trie = check_rows::<Value>(rows, &mut |_, _| Ok(()))?;
    report.nodes += trie.rows;
    if trie.problems.is_empty() && trie.root != meta.roots.snapshot {
        report.problem(format!(
            "the leaves make the snapshot root {}, the head has {}",
            trie.root, meta.roots.snapshot
        ));
    }
    for problem in trie.problems {
        report.problem(format!("snapshot trie: {problem}"));
    }
    if !report.problems.is_empty() {
        return Ok(());
    }
    let mut entries = 0;
    let mut compare = |key: Key, value: Value| -> Result<ControlFlow<()>> {
        entries += 1;
        let place = Places::snapshot().of(&key);
        let leaf = leaf_on_path::<Value>(&place, &rows)?;
        if leaf != Some((place, value)) {
            report.problem(format!("the flat map and the snapshot trie differ at {key:?}"));
        }
        Ok(ControlFlow::Continue(()))
    };
    flat::scan_accounts(store, &B256::ZERO, &mut |hash, record| {
        compare(Key::Account(hash), Value::Account(record))
    })?;
    flat::scan_all_slots(store, |key, value| compare(Key::Slot(key), Value::Slot(value)))?;
    if entries != trie.leaves {
        report.problem(format!(
            "the flat map has {entries} entries, the snapshot trie {} leaves",
            trie.leaves
        ));
    }
    Ok(())
}

/// Checks that every storage in the flat map is alive, about to be merged, or queued to be swept, and that the queue
/// holds no other storage.
fn check_storages(reader: &LmptReader, report: &mut CheckReport) -> Result<()> {
    let store = &reader.view.flat;
    let mut queue = BTreeSet::new();
    each_row(store, SWEEP, KeyRange::ALL, |key, value| {
        match <[u8; 40]>::try_from(key) {
            Ok(dead) if value.is_empty() => drop(queue.insert(storage_of(&dead))),
            _ => report.problem("a row of the queue of dead storage is damaged".to_owned()),
        }
        Ok(())
    })?;
    let mut seen = BTreeSet::new();
    let mut last = None;
    flat::scan_all_slots(store, |SlotKey { account, incarnation, .. }, _| {
        if last.replace((account, incarnation)) == Some((account, incarnation)) {
            return Ok(ControlFlow::Continue(()));
        }
        if queue.contains(&(account, incarnation)) {
            seen.insert((account, incarnation));
            return Ok(ControlFlow::Continue(()));
        }
        let is_alive =
            flat::account(store, &account)?.is_some_and(|record| record.incarnation == incarnation);
        let is_merged = reader.view.intermediate.account(&account, reader.ticket.seq())?.is_some();
        if !is_alive && !is_merged {
            report.problem(format!(
                "the storage of account {account} from block {incarnation} is dead, and nothing sweeps it"
            ));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    for (account, incarnation) in queue.difference(&seen) {
        report.problem(format!(
            "the storage of account {account} from block {incarnation} waits to be swept, but there is none"
        ));
    }
    Ok(())
}
