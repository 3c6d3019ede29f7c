//! `db check`: compares every row with the reference that leads to it, and the state with its logs with the head's
//! root.

use crate::{
    ACCOUNT_NODES, LOG, META, SHARD_COUNT, SHARDS, STORAGE_NODES, TRIE,
    checkpoint::Replayed,
    log::place,
    meta::{Meta, read_shard},
    reader::RainReader,
    state::read_state,
    touches::Noted,
};
use alloy_primitives::B256;
use polytrie_kv::{KeyRange, Snapshot};
use polytrie_state::{AccountWalk, CheckReport, Result, each_row};
use polytrie_trie::cow::Entry;
use std::ops::ControlFlow;

pub(crate) fn check(reader: &RainReader, progress: &mut dyn FnMut(u64)) -> Result<CheckReport> {
    let mut report = CheckReport::default();
    report.part(|report| check_rows(&reader.rows, report))?;
    report.part(|report| check_head(reader, report))?;
    report.part(|report| check_state(reader, report, progress))?;
    Ok(report)
}

/// Checks that every node of every checkpoint is the one its parent refers to, and that there are no other rows.
fn check_rows(store: &Snapshot, report: &mut CheckReport) -> Result<()> {
    let (mut account_rows_seen, mut storage_rows_seen) = (0, 0);
    for Replayed { saved, .. } in read_state(&Noted::plain(store))?.shards {
        let rows = TRIE.account_rows(store);
        let walked = saved.part.walk_stored(&rows, &mut |hash, entry: &Entry| {
            let rows = TRIE.storage_rows(store, *hash);
            let walked =
                entry.storage.walk_stored(&rows, &mut |_, _| Ok(ControlFlow::Continue(())))?;
            storage_rows_seen += walked.rows;
            report.nodes += walked.nodes;
            Ok(ControlFlow::Continue(()))
        })?;
        account_rows_seen += walked.rows;
        report.nodes += walked.nodes;
    }
    report.expect_rows(store, ACCOUNT_NODES, account_rows_seen)?;
    report.expect_rows(store, STORAGE_NODES, storage_rows_seen)
}

/// Checks that the rows of the head and the shards exist and agree with memory, and that the logs hold nothing else.
fn check_head(reader: &RainReader, report: &mut CheckReport) -> Result<()> {
    let store = &reader.rows;
    let stored = Meta::read(store)?;
    let expected = Meta { seq: reader.version.seq, root: reader.version.root };
    // A layer that was never loaded has no row of the head.
    if stored.is_some_and(|stored| stored != expected)
        || (stored.is_none() && reader.version.seq > 0)
    {
        report.problem("the row of the head is not that of the head".to_owned());
    }
    let (mut shards, mut saved) = (0, [0; SHARD_COUNT]);
    for (shard, saved) in saved.iter_mut().enumerate() {
        if let Some((seq, _)) = read_shard(store, shard)? {
            shards += 1;
            *saved = seq;
        }
    }
    report.expect_rows(store, META, u64::from(stored.is_some()))?;
    report.expect_rows(store, SHARDS, shards)?;
    each_row(store, LOG, KeyRange::ALL, |key, _| {
        let place = place(key).and_then(|(shard, seq)| Some((shard, seq, *saved.get(shard)?)));
        match place {
            None => report.problem("the log has a row of no shard".to_owned()),
            Some((shard, seq, saved)) if seq <= saved => report.problem(format!(
                "the log of shard {shard} has change {seq}, which its checkpoint at {saved} removes"
            )),
            Some(_) => {}
        }
        Ok(())
    })
}

/// Checks that the code of every account exists, and that every code has the hash of its row. Counts accounts and
/// slots.
fn check_state(
    reader: &RainReader,
    report: &mut CheckReport,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    let RainReader { version, rows: store, .. } = reader;
    report.check_codes(store)?;
    let mut walk = AccountWalk::new(report, progress);
    for part in &version.parts {
        part.leaves(&B256::ZERO, &TRIE.account_rows(store), &mut |hash, entry| {
            walk.account(store, &entry.account)?;
            entry.storage.leaves(&B256::ZERO, &TRIE.storage_rows(store, *hash), &mut |_, _| {
                walk.report.slots += 1;
                Ok(ControlFlow::Continue(()))
            })?;
            Ok(ControlFlow::Continue(()))
        })?;
    }
    walk.end();
    Ok(())
}
