//! A write: logged, committed, applied; then the rows that it replaced are removed.
//!
//! ```text
//! logged      the whole batch, under (store, version, epoch)                 a crash: it is never read again
//! committed   heads.version = version, if owner and epoch are still ours     a crash: the next one to write applies it
//! applied     rows of `records` with this version, then the mark in the log  a crash: it is applied again
//! collected   rows that nobody reads are removed, then the logged batch      a crash: done again
//! ```

use crate::{
    CassandraEngine,
    buckets::bucket,
    deleted::OfVersion,
    engine::Shared,
    error::failed,
    fence::{GRACE, lost},
    head::{self, Head, cql},
    log::{self, Place},
    rows::{Groups, drop_key, put},
};
use polytrie_kv::{Batch, Changes, KeyRange, KvError, Op, Result, Table};
use std::{
    collections::{BTreeSet, VecDeque},
    ops::ControlFlow,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// Largest size of a value in bytes. Cassandra takes no write larger than half a segment of its log, which is 16 MiB by
/// default.
const LONGEST_VALUE: usize = 15 << 20;

/// The head as the writer knows it, and the progress of its removals.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) head: Head,
    /// The last version that is collected.
    pub(crate) collected: u64,
    /// Time from which rows that the owner before has left may be removed; `None` if they are removed.
    pub(crate) clears_up: Option<Instant>,
    /// The floors that were raised and are not collected up to, with the time from which that may be done.
    raised: VecDeque<(Instant, u64)>,
    /// Time between raising the floor and removing the rows below it.
    pub(crate) grace: Duration,
    /// The error after which the engine writes no more.
    pub(crate) failure: Option<KvError>,
}

impl Writer {
    pub(crate) fn new(head: Head) -> Self {
        let (collected, raised) = (head.cleared, VecDeque::new());
        Self { head, collected, clears_up: None, raised, grace: GRACE, failure: None }
    }
}

impl CassandraEngine {
    pub(crate) fn write_changes(&self, changes: &dyn Changes) -> Result<()> {
        let shared = &*self.shared;
        if shared.options.read_only {
            return Err(KvError::read_only(&shared.options.dir));
        }
        shared.check(changes)?;
        let sorted = (!is_sorted(changes)).then(|| Batch::of(changes).to_sorted());
        let changes = sorted.as_ref().map_or(changes, |sorted| sorted as &dyn Changes);
        if changes.ops().next().is_none() {
            return Ok(());
        }
        let mut writer = self.writer.lock();
        if let Some(failure) = &writer.failure {
            return Err(failed("writing", format!("an earlier write failed: {failure}")));
        }
        let written =
            shared.clear_up(&mut writer).and_then(|()| shared.write(&mut writer, changes));
        if let Err(error) = &written {
            // The next opening finds out whether the batch is committed.
            writer.failure = Some(error.clone());
            return written;
        }
        if let Err(error) = shared.collect_unread(&mut writer) {
            tracing::warn!(
                "what a write replaced could not be removed from the cluster, the next one tries again: {error}"
            );
        }
        written
    }
}

impl Shared {
    /// Checks tables and lengths before any request is sent.
    fn check(&self, changes: &dyn Changes) -> Result<()> {
        for (table, op) in changes.ops() {
            self.expect_table(table)?;
            op.check(table)?;
            if let Op::Put { value, .. } = op
                && value.len() > LONGEST_VALUE
            {
                let (name, found) = (table.name, value.len());
                let reason = format!(
                    "a value of {found} bytes in the table {name}, expected at most {LONGEST_VALUE}; keep this chain under another engine"
                );
                return Err(failed("writing", reason));
            }
        }
        Ok(())
    }

    fn write(&self, writer: &mut Writer, changes: &dyn Changes) -> Result<()> {
        let version = writer.head.version + 1;
        let place = Place { store: self.store.clone(), version, writer: writer.head.epoch };
        self.add_buckets(version, changes)?;
        let parts = log::append(&self.cluster, &place, &self.options.tables, changes)?;
        let next = Head {
            version,
            writer: writer.head.epoch,
            parts,
            // The oldest version that a view of this process reads.
            floor: self.live.lock().oldest().unwrap_or(writer.head.version),
            cleared: writer.collected,
            ..writer.head.clone()
        };
        self.commit(writer, next)?;
        self.apply(version, changes)?;
        log::mark(&self.cluster, &place)?;
        let mut current = self.current.write();
        Arc::make_mut(&mut current.deleted).push(OfVersion::new(version, changes));
        current.version = version;
        Ok(())
    }

    /// Moves the head to `next` by compare-and-set.
    ///
    /// # Errors
    ///
    /// If another process has taken the store over.
    fn commit(&self, writer: &mut Writer, next: Head) -> Result<()> {
        let (link, store) = (self.cluster.link(), Arc::clone(&self.store));
        let (before, moved) = (writer.head.clone(), next.clone());
        let swap = async move { head::swap(&link, &store, Some(&before), &moved).await };
        let found = self.cluster.wait(swap)?;
        if found.is_some() {
            return Err(self.end(lost("committing", &self.store)));
        }
        if next.floor > writer.head.floor {
            writer.raised.push_back((Instant::now() + writer.grace, next.floor));
        }
        writer.head = next;
        Ok(())
    }

    /// Stores the new buckets of a batch before it is committed: readers look for rows in known buckets only.
    fn add_buckets(&self, version: u64, changes: &dyn Changes) -> Result<()> {
        let mut new: BTreeSet<(&'static str, &[u8])> = BTreeSet::new();
        let mut groups =
            Groups::new(&self.cluster, "adding partitions", |statements| &statements.bucket_put);
        let mut last: Option<(Table, &[u8])> = None;
        let mut added = Vec::new();
        for (table, op) in changes.ops() {
            let Op::Put { key, .. } = op else { continue };
            let bucket = bucket(table, key);
            if last.replace((table, bucket)) == Some((table, bucket))
                || self.buckets.contains(table, bucket)
                || !new.insert((table.name, bucket))
            {
                continue;
            }
            let row = (Arc::clone(&self.store), table.name, bucket.to_vec(), cql(version));
            groups.add((bucket.len(), row))?;
            added.push((table, bucket));
        }
        groups.finish()?;
        added.into_iter().for_each(|(table, bucket)| self.buckets.insert(table, bucket, version));
        Ok(())
    }

    /// Writes the rows of a committed version. Repeating it changes nothing.
    pub(crate) fn apply(&self, version: u64, changes: &dyn Changes) -> Result<()> {
        let mut groups = Groups::new(&self.cluster, "applying", |statements| &statements.put);
        for (table, op) in changes.ops() {
            let (key, value) = match op {
                Op::Put { key, value } => (key, Some(value)),
                Op::Delete { key } => (key, None),
                Op::DeleteRange { .. } => continue,
            };
            groups.add(put(&self.store, table, key, version, value))?;
        }
        groups.finish()
    }

    /// Raises the floor for the versions that the owner before has left. They may be collected once that owner, and
    /// processes that read older versions, must have noticed.
    pub(crate) fn begin_clearing_up(&self, writer: &mut Writer) -> Result<()> {
        // Views of this process read that version or newer ones.
        let version = writer.head.version;
        if writer.head.floor < version {
            let next = Head { floor: version, ..writer.head.clone() };
            self.commit(writer, next)?;
        }
        writer.clears_up = Some(Instant::now() + writer.grace);
        Ok(())
    }

    /// Collects the versions that the owner before has left, if that is not done. It is done before the first commit,
    /// because the head names one epoch for all versions that are not collected.
    fn clear_up(&self, writer: &mut Writer) -> Result<()> {
        let Some(from) = writer.clears_up else { return Ok(()) };
        thread::sleep(from.saturating_duration_since(Instant::now()));
        let floor = writer.head.floor;
        self.collect_until(writer, floor)?;
        // Up to that floor nothing is left, whatever time it was given when it was raised.
        writer.raised.clear();
        writer.clears_up = None;
        Ok(())
    }

    /// Collects the versions that no view of this process reads, and no other process since its last check.
    fn collect_unread(&self, writer: &mut Writer) -> Result<()> {
        let now = Instant::now();
        while let Some((_, floor)) = writer.raised.pop_front_if(|(from, _)| *from <= now) {
            self.collect_until(writer, floor)?;
        }
        Ok(())
    }

    fn collect_until(&self, writer: &mut Writer, floor: u64) -> Result<()> {
        while writer.collected < floor {
            let version = writer.collected + 1;
            let place = Place { store: self.store.clone(), version, writer: writer.head.writer };
            self.collect(&place)?;
            writer.collected = version;
            Arc::make_mut(&mut self.current.write().deleted).forget(version);
        }
        Ok(())
    }

    /// Removes the rows that a version replaced: older rows of its keys, the ranges it deleted, and its logged batch.
    /// Removals carry write times, so that no newer row is removed, no older one comes back, and repeating them changes
    /// nothing.
    fn collect(&self, place: &Place) -> Result<()> {
        let Place { store, version, .. } = place;
        let version = *version;
        let mut groups =
            Groups::new(&self.cluster, "collecting", |statements| &statements.drop_key);
        let mut ranges =
            Groups::new(&self.cluster, "collecting", |statements| &statements.drop_range);
        log::read(&self.cluster, place, &self.options.tables, &mut |batch| {
            for (table, op) in batch.ops() {
                match op {
                    Op::Put { key, .. } => groups.add(drop_key(store, table, key, version - 1))?,
                    // The row that marks the removal goes, too.
                    Op::Delete { key } => groups.add(drop_key(store, table, key, version))?,
                    Op::DeleteRange { from, to } => {
                        let range = KeyRange { from, to, reverse: false };
                        let to = to.unwrap_or(&Table::END);
                        for bucket in self.buckets.within_before(table, range, version) {
                            let bytes = from.len() + to.len();
                            let (from, to) = (from.to_vec(), to.to_vec());
                            let time = cql(version - 1);
                            let row = (time, Arc::clone(store), table.name, bucket, from, to);
                            ranges.add((bytes, row))?;
                        }
                    }
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        groups.finish()?;
        ranges.finish()?;
        log::remove(&self.cluster, place)
    }
}

/// Whether the batch has ranges first, and then at most one change for each key, sorted by table and key. Two changes
/// of one key in one version would be two rows with the same write time.
fn is_sorted(changes: &dyn Changes) -> bool {
    let mut last: Option<(u8, &[u8])> = None;
    changes.ops().all(|(table, op)| match op {
        Op::DeleteRange { .. } => last.is_none(),
        Op::Put { key, .. } | Op::Delete { key } => {
            let this = (table.id, key);
            last.replace(this).is_none_or(|last| last < this)
        }
    })
}
