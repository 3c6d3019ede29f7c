//! The interface for reading, common to a store's head, a snapshot and an engine.

use crate::{Result, Table};
use std::{cell::Cell, ops::ControlFlow};

/// Most bytes that the buffer of a thread keeps.
const KEPT: usize = 64 << 10;

thread_local! {
    /// The buffer for a value that [`with_row`] reads.
    static ROW: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A callback for the entries of a scan. It breaks to end the scan early. An error ends the scan, and the scan
/// returns it.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>> + 'a;

/// A key with its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// The values of many keys, in the order of the keys; `None` for a key that is not there.
pub type Values = Vec<Option<Vec<u8>>>;

/// A range of keys, `from` included, `to` excluded.
#[derive(Debug, Clone, Copy, Default)]
pub struct KeyRange<'a> {
    /// First key.
    pub from: &'a [u8],
    /// First key after the range; `None` for the end of the table.
    pub to: Option<&'a [u8]>,
    /// Whether entries are visited from the last to the first.
    pub reverse: bool,
}

impl<'a> KeyRange<'a> {
    /// The whole table.
    pub const ALL: KeyRange<'static> = KeyRange { from: &[], to: None, reverse: false };

    /// The range from `from` on, to the end of the table.
    pub const fn from(from: &'a [u8]) -> Self {
        Self { from, to: None, reverse: false }
    }

    /// The range `from..to`.
    pub const fn between(from: &'a [u8], to: &'a [u8]) -> Self {
        Self { from, to: Some(to), reverse: false }
    }

    /// Returns this range with `reverse` set: visited from the last entry to the first.
    pub const fn rev(self) -> Self {
        Self { reverse: true, ..self }
    }

    /// Whether no key can lie in the range.
    pub fn is_empty(&self) -> bool {
        self.to.is_some_and(|to| to <= self.from)
    }

    /// Whether `key` lies in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= self.from && self.to.is_none_or(|to| key < to)
    }
}

/// Returns the first key after all keys that begin with `prefix`; `None` if there is none (a prefix of 0xff bytes).
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|b| *b != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// Read access to ordered tables.
pub trait Read: Send + Sync {
    /// Appends the value of `key` to `out` and returns whether the key was there. The buffer belongs to the caller,
    /// so that reading in a loop allocates nothing.
    ///
    /// # Errors
    ///
    /// If the engine fails, or the store was opened without the table.
    fn get_into(&self, table: Table, key: &[u8], out: &mut Vec<u8>) -> Result<bool>;

    /// Visits the entries of a range in order until `visit` breaks.
    ///
    /// # Errors
    ///
    /// Those of [`Self::get_into`], and those that `visit` returns.
    fn scan(&self, table: Table, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<()>;

    /// Reads the values of many keys. The keys need not be sorted and may repeat. Engines mostly read them faster than
    /// one by one, above all if they are sorted.
    ///
    /// With `is_doubted` the caller notices wrong answers and asks for them again: a value may be an older one, or missing.
    /// An engine that asks several machines for a sure answer may ask one of them.
    ///
    /// # Errors
    ///
    /// Those of [`Self::get_into`].
    fn read_many(&self, table: Table, keys: &[&[u8]], is_doubted: bool) -> Result<Values> {
        let _ = is_doubted;
        keys.iter().map(|key| self.get(table, key)).collect()
    }

    /// Reads the values of many keys, all of them sure; see [`Self::read_many`].
    ///
    /// # Errors
    ///
    /// Those of [`Self::get_into`].
    fn get_many(&self, table: Table, keys: &[&[u8]]) -> Result<Values> {
        self.read_many(table, keys, false)
    }

    /// Reads the value of `key`.
    ///
    /// # Errors
    ///
    /// Those of [`Self::get_into`].
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut out = Vec::new();
        Ok(self.get_into(table, key, &mut out)?.then_some(out))
    }

    /// Reads the first entry of a range, in the order of the range.
    ///
    /// # Errors
    ///
    /// Those of [`Self::get_into`].
    fn first(&self, table: Table, range: KeyRange<'_>) -> Result<Option<Entry>> {
        let mut found = None;
        self.scan(table, range, &mut |key, value| {
            found = Some((key.to_vec(), value.to_vec()));
            Ok(ControlFlow::Break(()))
        })?;
        Ok(found)
    }
}

/// Reads the value of `key`, and returns what `see` makes of it; `None` if the key is not there. The value is in a buffer
/// of this thread, so that reading a short one allocates nothing.
///
/// # Errors
///
/// Those of [`Read::get_into`].
pub fn with_row<T>(
    rows: &dyn Read,
    table: Table,
    key: &[u8],
    see: impl FnOnce(&[u8]) -> T,
) -> Result<Option<T>> {
    let mut row = ROW.take();
    row.clear();
    let found = rows.get_into(table, key, &mut row);
    let seen = found.map(|found| found.then(|| see(&row)));
    // The thread may live long, and never read so long a row again.
    if row.capacity() <= KEPT {
        ROW.set(row);
    }
    seen
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{Batch, Store};

    const TABLE: Table = Table::new(1, "table", 9);

    /// What sees a row may read another one, which must not change the first.
    #[test]
    fn a_row_is_seen_where_it_is_read() {
        let store = Store::memory(&[TABLE]).unwrap();
        let mut batch = Batch::new();
        batch.put(TABLE, b"a", b"value");
        batch.put(TABLE, b"b", b"longer value");
        store.write(batch).unwrap();
        let length = |key: &[u8]| with_row(&store, TABLE, key, <[u8]>::len).unwrap();
        let seen = with_row(&store, TABLE, b"a", |row| (length(b"b"), row.to_vec())).unwrap();
        assert_eq!(seen, Some((Some(12), b"value".to_vec())));
        assert_eq!((length(b"a"), length(b"none")), (Some(5), None));
    }

    #[test]
    fn a_long_row_does_not_stay_in_memory() {
        let store = Store::memory(&[TABLE]).unwrap();
        let mut batch = Batch::new();
        batch.put(TABLE, b"short", b"value");
        batch.put(TABLE, b"long", &vec![7; 2 * KEPT]);
        store.write(batch).unwrap();
        let after = |key: &[u8]| {
            with_row(&store, TABLE, key, |_| ()).unwrap().unwrap();
            ROW.take().capacity()
        };
        assert!(after(b"short") > 0);
        assert_eq!(after(b"long"), 0);
    }

    #[test]
    fn ends_of_prefixes() {
        assert_eq!(prefix_end(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(prefix_end(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(prefix_end(b"\xff\xff"), None);
        assert_eq!(prefix_end(b""), None);
    }

    #[test]
    fn ranges() {
        let range = KeyRange::between(b"b", b"d");
        assert!(range.contains(b"b") && range.contains(b"c\xff") && !range.contains(b"d"));
        assert!(!range.contains(b"a\xff") && !range.is_empty() && range.rev().reverse);
        assert!(KeyRange::between(b"d", b"d").is_empty() && KeyRange::between(b"", b"").is_empty());
        assert!(!KeyRange::ALL.is_empty() && KeyRange::from(b"x").contains(b"y"));
    }
}
