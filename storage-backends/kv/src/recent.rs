//! A cache of the recent answers of an engine's view.
//!
//! It reads nothing ahead. It is for engines in which even a row in memory takes long to read, since the engine has
//! to find the file, the block in it, and the row in that. Where reads wait for a disk, a block's rows are read by
//! one thread when the block is run ahead, and again when it is executed. A view never changes its answers, so the
//! cache belongs to the view, and is dropped with it.

use crate::{Engine, Result, Table, View};
use hashbrown::{HashTable, hash_table::Entry};
use parking_lot::Mutex;
use std::sync::{
    Weak,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Number of parts of the cache, each with a lock.
const SHARDS: usize = 16;
/// Bytes above which a row is not cached. The code of a contract has up to 24 KiB, a stem of the binary tree 8 KiB; blocks are
/// mostly longer, and rarely read again.
const LONGEST: usize = 32 << 10;
/// The greatest part of a shard's young answers that one of them may take.
const PART: usize = 4;
/// Bytes of memory of a cached row beside its key and value, estimated.
const OVERHEAD: usize = 64;

/// A view of the engine, with a cache of its answers if the engine wants one.
#[derive(Debug)]
pub(crate) struct EngineView {
    pub(crate) view: Box<dyn View>,
    pub(crate) recent: Option<Recent>,
}

impl EngineView {
    /// Opens the engine's newest view.
    pub(crate) fn of(engine: &dyn Engine) -> Result<Self> {
        let bytes = engine.row_cache_bytes();
        Ok(Self { view: engine.view()?, recent: (bytes > 0).then(|| Recent::new(bytes)) })
    }
}

/// The views before the newest one that snapshots may still hold.
#[derive(Debug, Default)]
pub(crate) struct Older(Vec<Weak<EngineView>>);

impl Older {
    /// Adds a view that a newer one has replaced. The caches of all these views together keep to the bytes of one, each to
    /// its part of them.
    pub(crate) fn add(&mut self, view: Weak<EngineView>) {
        self.0.push(view);
        self.0.retain(|view| view.strong_count() > 0);
        for view in self.0.iter().filter_map(Weak::upgrade) {
            if let Some(recent) = &view.recent {
                recent.keep_to_part(self.0.len());
            }
        }
    }
}

/// The cached answers of one view: rows, and keys that have no row.
pub(crate) struct Recent {
    shards: [Mutex<Shard>; SHARDS],
    /// Bytes of a shard's young answers after which they replace the old ones.
    limit: AtomicUsize,
    /// The limit of a cache that has all of its bytes.
    whole: usize,
}

/// One part of the cache. Answers enter the young table; when that is full, it becomes the old one, and the answers
/// of the old one are dropped.
#[derive(Default)]
struct Shard {
    young: HashTable<Answer>,
    bytes: usize,
    old: HashTable<Answer>,
    old_bytes: usize,
}

struct Answer {
    /// The hash of the key.
    hash: u64,
    table: u8,
    key_len: u16,
    found: bool,
    /// The key, followed by the row.
    bytes: Box<[u8]>,
}

impl Answer {
    fn new(table: Table, key: (&[u8], u64), row: Option<&[u8]>) -> Self {
        // No table has keys of 64 KiB.
        let key_len = key.0.len() as u16;
        let bytes = [key.0, row.unwrap_or_default()].concat().into();
        Self { hash: key.1, table: table.id, key_len, found: row.is_some(), bytes }
    }

    fn is_of(&self, table: Table, key: &[u8]) -> bool {
        self.table == table.id && self.bytes[..usize::from(self.key_len)] == *key
    }
}

impl Recent {
    fn new(bytes: usize) -> Self {
        let shards = std::array::from_fn(|_| Mutex::default());
        let whole = bytes / SHARDS / 2;
        Self { shards, limit: AtomicUsize::new(whole), whole }
    }

    /// Keeps to one of so many equal parts of the bytes from now on.
    fn keep_to_part(&self, parts: usize) {
        let limit = self.whole / parts;
        self.limit.store(limit, Relaxed);
        for shard in &self.shards {
            let mut shard = shard.lock();
            if shard.bytes.max(shard.old_bytes) > limit {
                *shard = Shard::default();
            }
        }
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        // The tables take the other bits.
        &self.shards[(hash >> 32) as usize % SHARDS]
    }

    /// Appends the row to `out` and returns whether there is one; `None` if the answer is not cached.
    pub(crate) fn get(&self, table: Table, key: (&[u8], u64), out: &mut Vec<u8>) -> Option<bool> {
        let shard = self.shard(key.1).lock();
        let is_it = |answer: &Answer| answer.is_of(table, key.0);
        let answer = shard.young.find(key.1, is_it).or_else(|| shard.old.find(key.1, is_it))?;
        out.extend_from_slice(&answer.bytes[usize::from(answer.key_len)..]);
        Some(answer.found)
    }

    /// Caches an answer of the view; `None` stands for a key without a row.
    pub(crate) fn put(&self, table: Table, key: (&[u8], u64), row: Option<&[u8]>) {
        if row.is_some_and(|row| row.len() > LONGEST.min(self.limit.load(Relaxed) / PART)) {
            return;
        }
        let answer = Answer::new(table, key, row);
        let bytes = answer.bytes.len() + OVERHEAD;
        let mut shard = self.shard(key.1).lock();
        // Read under the lock: a shard that was cut to a lower limit does not grow above it again.
        if shard.bytes + bytes > self.limit.load(Relaxed) {
            let shard = &mut *shard;
            std::mem::swap(&mut shard.young, &mut shard.old);
            shard.young.clear();
            shard.old_bytes = std::mem::take(&mut shard.bytes);
        }
        let is_it = |answer: &Answer| answer.is_of(table, key.0);
        // Another thread may have cached the same key meanwhile.
        if let Entry::Vacant(place) = shard.young.entry(key.1, is_it, |answer| answer.hash) {
            place.insert(answer);
            shard.bytes += bytes;
        }
    }
}

crate::debug_fields!(Recent { limit });

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::MemoryEngine;
    use std::sync::Arc;

    const TABLE: Table = Table::new(1, "t", 32);

    /// A hash as good as any, for keys of eight bytes.
    fn hashed(key: &[u8; 8]) -> (&[u8], u64) {
        (key, u64::from_le_bytes(*key).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn fill(recent: &Recent) {
        for number in 0..50_000_u64 {
            recent.put(TABLE, hashed(&number.to_le_bytes()), Some(&[1; 100]));
        }
    }

    /// Bytes of memory of all answers.
    fn held(recent: &Recent) -> usize {
        let held = |shard: &Mutex<Shard>| {
            let shard = shard.lock();
            let answers = shard.young.iter().chain(&shard.old);
            answers.map(|answer| answer.bytes.len() + OVERHEAD).sum::<usize>()
        };
        recent.shards.iter().map(held).sum()
    }

    #[test]
    fn it_keeps_to_its_bytes_and_to_what_came_last() {
        const BYTES: usize = 1 << 20;
        let recent = Recent::new(BYTES);
        fill(&recent);
        let held = held(&recent);
        assert!(held <= BYTES && held > BYTES / 2, "{held}");
        let known = |number: u64| {
            recent.get(TABLE, hashed(&number.to_le_bytes()), &mut Vec::new()) == Some(true)
        };
        assert!((48_000..50_000).all(known));
        assert!(!(0..40_000).any(known));
    }

    /// Snapshots that are held over flushes have not a whole cache each, however much is read from them.
    #[test]
    fn the_views_before_the_newest_keep_the_bytes_of_one() {
        const BYTES: usize = 1 << 20;
        let (mut older, mut views) = (Older::default(), Vec::<Arc<EngineView>>::new());
        for _ in 0..4 {
            let view = MemoryEngine::new().view().unwrap();
            let view = Arc::new(EngineView { view, recent: Some(Recent::new(BYTES)) });
            fill(view.recent.as_ref().unwrap());
            older.add(Arc::downgrade(&view));
            views.push(view);
            let all = || views.iter().filter_map(|view| view.recent.as_ref());
            let cut: usize = all().map(held).sum();
            all().for_each(fill);
            let filled: usize = all().map(held).sum();
            assert!(cut <= BYTES && filled <= BYTES && filled > BYTES / 2, "{cut} {filled}");
        }
        // A view that is the only one has all bytes again.
        views.truncate(1);
        older.add(Weak::new());
        let recent = views[0].recent.as_ref().unwrap();
        fill(recent);
        assert!(held(recent) > BYTES / 2);
        views.clear();
        older.add(Weak::new());
        assert_eq!(older.0.len(), 0);
    }

    /// Code is read when a block runs ahead, and again when it is executed.
    #[test]
    fn code_is_kept_where_there_is_room_for_it() {
        let key = hashed(b"12345678");
        for (cache, row, is_kept) in [
            (64 << 20, 24 << 10, true),
            (64 << 20, 100 << 10, false),
            (1 << 20, 24 << 10, false),
            (1 << 20, 4 << 10, true),
        ] {
            let recent = Recent::new(cache);
            recent.put(TABLE, key, Some(&vec![7; row]));
            assert_eq!(recent.get(TABLE, key, &mut Vec::new()).is_some(), is_kept, "{cache} {row}");
        }
    }

    #[test]
    fn tables_and_absent_rows_are_told_apart() {
        let recent = Recent::new(1 << 20);
        let other = Table::new(2, "u", 32);
        let key = hashed(b"12345678");
        recent.put(TABLE, key, None);
        recent.put(other, key, Some(b""));
        let mut out = b"before".to_vec();
        assert_eq!(recent.get(TABLE, key, &mut out), Some(false));
        assert_eq!(recent.get(other, key, &mut out), Some(true));
        assert_eq!(recent.get(TABLE, hashed(b"12345679"), &mut out), None);
        recent.put(other, hashed(b"12345679"), Some(b" row"));
        assert_eq!(recent.get(other, hashed(b"12345679"), &mut out), Some(true));
        assert_eq!(out, b"before row");
    }
}
