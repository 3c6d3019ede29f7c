//! The changes of one atomic write.

use crate::{KeyRange, Result, Table};

/// One change of one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op<'a> {
    /// Sets `key` to `value`.
    Put {
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
    /// Removes `key`; it need not be there.
    Delete {
        /// The key.
        key: &'a [u8],
    },
    /// Removes every key in `from..to`, `to` excluded, `None` meaning the end of the table.
    DeleteRange {
        /// First key removed.
        from: &'a [u8],
        /// First key kept.
        to: Option<&'a [u8]>,
    },
}

impl<'a> Op<'a> {
    /// The changed key; the first key of a deleted range.
    pub const fn key(&self) -> &'a [u8] {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
            Self::DeleteRange { from, .. } => from,
        }
    }

    /// Checks the lengths of the keys.
    ///
    /// # Errors
    ///
    /// Those of [`Table::check_key`] and [`Table::check_range`].
    pub fn check(&self, table: Table) -> Result<()> {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => table.check_key(key),
            Self::DeleteRange { from, to } => table.check_range(from, *to),
        }
    }

    /// Bytes of the keys and of the value.
    pub fn byte_len(&self) -> usize {
        match self {
            Self::Put { key, value } => key.len() + value.len(),
            Self::Delete { key } => key.len(),
            Self::DeleteRange { from, to } => from.len() + to.map_or(0, <[u8]>::len),
        }
    }
}

/// A set of changes that an engine applies at once. They may be kept in any form. The rules of order are those of
/// [`Batch`].
pub trait Changes {
    /// Returns the changes one after the other.
    fn ops(&self) -> Box<dyn Iterator<Item = (Table, Op<'_>)> + '_>;

    /// Returns the range deletions alone, which take effect first.
    fn deleted_ranges(&self) -> Box<dyn Iterator<Item = (Table, KeyRange<'_>)> + '_> {
        Box::new(self.ops().filter_map(|(table, op)| match op {
            Op::DeleteRange { from, to } => Some((table, KeyRange { from, to, reverse: false })),
            Op::Put { .. } | Op::Delete { .. } => None,
        }))
    }

    /// The number of changes and the bytes of all keys and values: an estimate, for reserving memory.
    fn size_hint(&self) -> (usize, usize);
}

/// A list of changes that become visible and durable together or not at all.
///
/// **Order**: the range deletions of a batch take effect before its puts and deletes, whatever the order in
/// which they were added; among puts and deletes of one key the last one added wins. A wiped account that is
/// recreated in the same block is therefore one range deletion and a few puts.
#[derive(Debug, Default, Clone)]
pub struct Batch {
    bytes: Vec<u8>,
    records: Vec<Record>,
}

#[derive(Debug, Clone, Copy)]
struct Record {
    table: Table,
    kind: Kind,
    start: usize,
    key_len: u32,
    value_len: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Put,
    Delete,
    DeleteRange,
    DeleteFrom,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty batch with room for a number of changes and for the bytes of their keys and values.
    pub fn with_capacity(changes: usize, bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), records: Vec::with_capacity(changes) }
    }

    /// Copies changes into a batch.
    pub fn of(changes: &dyn Changes) -> Self {
        let (count, bytes) = changes.size_hint();
        let mut batch = Self::with_capacity(count, bytes);
        changes.ops().for_each(|(table, op)| batch.push_op(table, op));
        batch
    }

    /// Removes all changes and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.records.clear();
    }

    /// Bytes of memory that the batch has allocated, unused capacity included.
    pub const fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.records.capacity() * size_of::<Record>()
    }

    /// Reserves memory for `changes` more changes and `bytes` more bytes of keys and values.
    pub fn reserve(&mut self, changes: usize, bytes: usize) {
        self.records.reserve(changes);
        self.bytes.reserve(bytes);
    }

    /// Sets `key` to `value`.
    pub fn put(&mut self, table: Table, key: &[u8], value: &[u8]) {
        self.put_with(table, key, |bytes| bytes.extend_from_slice(value));
    }

    /// Sets `key` to the bytes that `encode` appends.
    pub fn put_with(&mut self, table: Table, key: &[u8], encode: impl FnOnce(&mut Vec<u8>)) {
        self.push(table, Kind::Put, key, encode);
    }

    /// Removes `key`; it need not be there.
    pub fn delete(&mut self, table: Table, key: &[u8]) {
        self.push(table, Kind::Delete, key, |_| ());
    }

    /// Removes every key in `from..to`; `None` means the end of the table.
    pub fn delete_range(&mut self, table: Table, from: &[u8], to: Option<&[u8]>) {
        match to {
            Some(to) => {
                self.push(table, Kind::DeleteRange, from, |bytes| bytes.extend_from_slice(to));
            }
            None => self.push(table, Kind::DeleteFrom, from, |_| ()),
        }
    }

    /// Appends all changes of `other`.
    pub fn append(&mut self, other: &Self) {
        let base = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.records.extend(other.records.iter().map(|r| Record { start: r.start + base, ..*r }));
    }

    /// Appends all changes of `other`. Nothing is copied if this batch is empty and has allocated no more memory than
    /// `other`.
    pub fn absorb(&mut self, other: Self) {
        if self.is_empty() && self.memory_bytes() <= other.memory_bytes() {
            *self = other;
        } else {
            self.append(&other);
        }
    }

    /// Whether the batch holds no change.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Bytes of keys and values.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// The changes in the order in which they were added.
    pub fn ops(&self) -> impl Iterator<Item = (Table, Op<'_>)> {
        self.records.iter().map(|record| {
            let (key, rest) = self.bytes[record.start..].split_at(record.key_len as usize);
            let value = &rest[..record.value_len as usize];
            let op = match record.kind {
                Kind::Put => Op::Put { key, value },
                Kind::Delete => Op::Delete { key },
                Kind::DeleteRange => Op::DeleteRange { from: key, to: Some(value) },
                Kind::DeleteFrom => Op::DeleteRange { from: key, to: None },
            };
            (record.table, op)
        })
    }

    /// Returns the changes as an engine takes them: range deletions first, then at most one put or delete a key,
    /// sorted by table number and key.
    pub fn to_sorted(&self) -> Self {
        let is_range = |op: &Op<'_>| matches!(op, Op::DeleteRange { .. });
        let mut sorted = Self::with_capacity(self.len(), self.byte_len());
        for (table, op) in self.ops().filter(|(_, op)| is_range(op)) {
            sorted.push_op(table, op);
        }
        let mut rows: Vec<(Table, Op<'_>)> = self.ops().filter(|(_, op)| !is_range(op)).collect();
        // Stable, so that of several changes of one key the last one added stays the last.
        rows.sort_by(|(table, op), (other_table, other)| {
            (table.id, op.key()).cmp(&(other_table.id, other.key()))
        });
        for (i, (table, op)) in rows.iter().enumerate() {
            let next = rows.get(i + 1);
            if next.is_none_or(|(other, next)| (table.id, op.key()) != (other.id, next.key())) {
                sorted.push_op(*table, *op);
            }
        }
        sorted
    }

    /// Adds one change, such as one of another batch.
    pub fn push_op(&mut self, table: Table, op: Op<'_>) {
        match op {
            Op::Put { key, value } => self.put(table, key, value),
            Op::Delete { key } => self.delete(table, key),
            Op::DeleteRange { from, to } => self.delete_range(table, from, to),
        }
    }

    fn push(&mut self, table: Table, kind: Kind, key: &[u8], encode: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        encode(&mut self.bytes);
        let value_len = self.bytes.len() - start - key.len();
        self.records.push(Record {
            table,
            kind,
            start,
            // A key or value of 4 GiB cannot be built here: `Store::write` refuses long keys, and no value
            // comes near.
            key_len: key.len() as u32,
            value_len: value_len as u32,
        });
    }
}

impl Changes for Batch {
    fn ops(&self) -> Box<dyn Iterator<Item = (Table, Op<'_>)> + '_> {
        Box::new(Self::ops(self))
    }

    fn size_hint(&self) -> (usize, usize) {
        (self.len(), self.byte_len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Table = Table::new(1, "a", 9);
    const B: Table = Table::new(0, "b", 9);

    #[test]
    fn sorts_for_the_engine() {
        let mut batch = Batch::new();
        batch.put(A, b"k", b"1");
        batch.delete_range(A, b"x", None);
        batch.put(A, b"j", b"2");
        batch.delete(A, b"k");
        batch.put(B, b"z", b"3");
        batch.delete_range(B, b"", Some(b"z"));
        batch.delete(B, b"a");
        batch.put(B, b"a", b"");
        let sorted = batch.to_sorted();
        let expected = [
            (A, Op::DeleteRange { from: b"x", to: None }),
            (B, Op::DeleteRange { from: b"", to: Some(b"z") }),
            (B, Op::Put { key: b"a", value: b"" }),
            (B, Op::Put { key: b"z", value: b"3" }),
            (A, Op::Put { key: b"j", value: b"2" }),
            (A, Op::Delete { key: b"k" }),
        ];
        assert!(sorted.ops().eq(expected), "{sorted:?}");
        assert!(sorted.to_sorted().ops().eq(expected), "sorting again changes nothing");
    }

    #[test]
    fn appends_after_what_is_there() {
        let mut batch = Batch::new();
        assert!(batch.is_empty());
        batch.put(A, b"key", b"value");
        let mut other = Batch::new();
        other.delete(B, b"gone");
        other.delete_range(A, b"a", Some(b"b"));
        batch.append(&other);
        let expected = [
            (A, Op::Put { key: b"key", value: b"value" }),
            (B, Op::Delete { key: b"gone" }),
            (A, Op::DeleteRange { from: b"a", to: Some(b"b") }),
        ];
        assert!(batch.ops().eq(expected));
        assert_eq!((batch.len(), batch.byte_len()), (3, 14));
    }
}
