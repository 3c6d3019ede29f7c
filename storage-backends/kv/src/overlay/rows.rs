//! The written rows of one table within one generation.

use super::arena::{Arena, Slice};
use crate::{KeyRange, Live, Older};
use hashbrown::{HashMap, HashTable};
use parking_lot::Mutex;

/// A row: a key with its newest version.
#[derive(Debug)]
struct Row {
    key: Slice,
    /// The slice that the value lies in; it may be longer than the value.
    room: Slice,
    /// Length of the value; [`REMOVED`] if there is none.
    len: u32,
    /// Number of the write that made this version.
    seq: u64,
}

const REMOVED: u32 = u32::MAX;

/// Bytes of memory of a row beside key and value: the row itself and its entry in the index.
pub(super) const ROW_BYTES: usize = size_of::<Row>() + 12;

/// A version of a row: its write, and its value if it has one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Version<'a> {
    pub(super) seq: u64,
    pub(super) value: Option<&'a [u8]>,
}

#[derive(Debug, Default)]
pub(super) struct Rows {
    rows: Vec<Row>,
    /// The index: tag of the key's hash, and position in `rows`.
    index: HashTable<(u32, u32)>,
    /// Versions before the newest that a reader still sees, by the row's position. Mostly there are none, so they are
    /// not part of the row.
    older: HashMap<u32, Older<Option<Slice>>>,
    /// Positions of as many rows, from the first on, in the order of their keys; computed at the first scan.
    order: Mutex<Vec<u32>>,
}

/// Number of newest rows that a scan looks through one by one rather than sorting them in.
const UNSORTED: usize = 512;

impl Rows {
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Removes all rows, and keeps the memory for reuse.
    pub(super) fn clear(&mut self) {
        let Self { rows, index, older, order } = self;
        rows.clear();
        index.clear();
        older.clear();
        order.get_mut().clear();
    }

    /// Finds the version of a key that is seen after write `seq`.
    pub(super) fn find<'a>(
        &'a self,
        arena: &'a Arena,
        key: &[u8],
        hash: u64,
        seq: u64,
    ) -> Option<Version<'a>> {
        self.at(arena, self.position(arena, key, hash)?, seq)
    }

    /// Returns the position of a key's row, if there is one.
    pub(super) fn position(&self, arena: &Arena, key: &[u8], hash: u64) -> Option<u32> {
        let tag = tag(hash);
        let same =
            |&(other, i): &(u32, u32)| other == tag && arena.get(self.rows[i as usize].key) == key;
        self.index.find(spread(tag), same).map(|&(_, i)| i)
    }

    /// Sets or removes a key as write `seq`, which must be the newest.
    pub(super) fn set(
        &mut self,
        arena: &mut Arena,
        (key, hash): (&[u8], u64),
        value: Option<&[u8]>,
        seq: u64,
        live: &Live<'_>,
    ) {
        if let Some(i) = self.position(arena, key, hash) {
            self.replace(arena, i, value, seq, live);
            return;
        }
        let (tag, i) = (tag(hash), self.rows.len() as u32);
        let key = arena.add(key, 0);
        let room = arena.add(value.unwrap_or_default(), 0);
        self.rows.push(Row { key, room, len: length(value), seq });
        self.index.insert_unique(spread(tag), (tag, i), |&(tag, _)| spread(tag));
    }

    /// Sets or removes the key of the row at position `i` as write `seq`, which must be the newest.
    pub(super) fn replace(
        &mut self,
        arena: &mut Arena,
        i: u32,
        value: Option<&[u8]>,
        seq: u64,
        live: &Live<'_>,
    ) {
        let len = length(value);
        let value = value.unwrap_or_default();
        let row = &mut self.rows[i as usize];
        let keep = live.sees(row.seq..seq);
        if keep {
            let value = (row.len != REMOVED).then(|| row.room.prefix(row.len as usize));
            self.older.entry(i).or_default().push(row.seq, value);
        }
        if keep || value.len() > row.room.len() {
            // A little room to grow: a trie node gains children.
            row.room = arena.add(value, value.len().next_multiple_of(16));
        } else {
            arena.set(row.room, value);
        }
        row.len = len;
        row.seq = seq;
        if !self.older.is_empty()
            && let hashbrown::hash_map::Entry::Occupied(mut older) = self.older.entry(i)
        {
            older.get_mut().forget(seq, live);
            if older.get().as_slice().is_empty() {
                older.remove();
            }
        }
    }

    /// Returns the version of the row at position `i` that is seen after write `seq`.
    fn at<'a>(&'a self, arena: &'a Arena, i: u32, seq: u64) -> Option<Version<'a>> {
        let row = &self.rows[i as usize];
        if row.seq <= seq {
            return Some(row.newest(arena));
        }
        let (seq, value) = self.older.get(&i)?.at(seq)?;
        Some(Version { seq, value: value.map(|value| arena.get(value)) })
    }

    /// Returns the positions of all rows in the order of their keys.
    pub(super) fn in_order(&self, arena: &Arena) -> Vec<u32> {
        let mut order = self.order.lock();
        self.sort(arena, &mut order, 0);
        order.clone()
    }

    /// Returns the key and the newest version of the row at a position.
    pub(super) fn newest<'a>(&'a self, arena: &'a Arena, i: u32) -> (&'a [u8], Version<'a>) {
        let row = &self.rows[i as usize];
        (arena.get(row.key), row.newest(arena))
    }

    /// Appends to `out` the first `limit` keys of a range, in the order of the range, of rows that have a version not
    /// after `seq`. Returns whether there may be more.
    pub(super) fn keys(
        &self,
        arena: &Arena,
        range: KeyRange<'_>,
        seq: u64,
        limit: usize,
        out: &mut Vec<Vec<u8>>,
    ) -> bool {
        let mut order = self.order.lock();
        self.sort(arena, &mut order, UNSORTED);
        let key = |i: u32| arena.get(self.rows[i as usize].key);
        let seen = |i: &u32| self.at(arena, *i, seq).is_some();

        let first = order.partition_point(|&i| key(i) < range.from);
        let last = range.to.map_or(order.len(), |to| order.partition_point(|&i| key(i) < to));
        let sorted = order[first..last.max(first)].iter().copied().filter(seen);
        // One key beyond the limit shows whether there are more.
        let mut found: Vec<u32> = if range.reverse {
            sorted.rev().take(limit + 1).collect()
        } else {
            sorted.take(limit + 1).collect()
        };
        let newest = order.len() as u32..self.rows.len() as u32;
        found.extend(newest.filter(|&i| range.contains(key(i))).filter(seen));
        found.sort_unstable_by(
            |&a, &b| {
                if range.reverse { key(b).cmp(key(a)) } else { key(a).cmp(key(b)) }
            },
        );
        out.extend(found.iter().take(limit).map(|&i| key(i).to_vec()));
        found.len() > limit
    }

    /// Sorts the newest rows in, if more than `tolerated` are unsorted.
    fn sort(&self, arena: &Arena, order: &mut Vec<u32>, tolerated: usize) {
        let done = order.len();
        if self.rows.len() - done <= tolerated {
            return;
        }
        let full = |i: u32| arena.get(self.rows[i as usize].key);
        // Keys of one contract begin alike.
        let alike = self.alike(arena);
        // Most comparisons are decided by the next eight bytes; kept beside the position, they save two jumps through
        // memory.
        let head = |i: u32| {
            let rest = &full(i)[alike..];
            let mut head = [0; 8];
            let len = rest.len().min(8);
            head[..len].copy_from_slice(&rest[..len]);
            (u64::from_be_bytes(head), i)
        };
        let new = done as u32..self.rows.len() as u32;
        let mut rows: Vec<(u64, u32)> = order.iter().copied().chain(new).map(head).collect();
        // The stable sort finds the sorted run at the beginning and merges into it.
        rows.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| full(a.1).cmp(full(b.1))));
        order.clear();
        order.extend(rows.into_iter().map(|(_, i)| i));
    }

    /// Returns the number of bytes with which all keys begin alike.
    fn alike(&self, arena: &Arena) -> usize {
        let mut keys = self.rows.iter().map(|row| arena.get(row.key));
        let Some(first) = keys.next() else { return 0 };
        keys.fold(first.len(), |alike, key| match key.starts_with(&first[..alike]) {
            true => alike,
            false => first.iter().zip(key).take_while(|(a, b)| a == b).count(),
        })
    }
}

impl Row {
    fn value<'a>(&self, arena: &'a Arena) -> Option<&'a [u8]> {
        (self.len != REMOVED).then(|| arena.get(self.room.prefix(self.len as usize)))
    }

    fn newest<'a>(&self, arena: &'a Arena) -> Version<'a> {
        Version { seq: self.seq, value: self.value(arena) }
    }
}

/// Returns the length of a value as a row holds it.
fn length(value: Option<&[u8]>) -> u32 {
    value.map_or(REMOVED, |value| value.len() as u32)
}

/// Returns the part of a hash that the index stores. Half of the hash makes the index half as large; keys that share
/// that half are distinguished by comparing them.
fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// Computes a hash for the index from the tag alone, so that growing the index reads no keys.
fn spread(tag: u32) -> u64 {
    // 2^64 divided by the golden ratio.
    u64::from(tag).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
