//! Reading, the same for a store's head, a snapshot and an engine.

use crate::{KvError, Table};
use std::ops::ControlFlow;

/// Receives the entries of a scan; breaks to end it early. An error ends the scan and is returned by it.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, KvError> + 'a;

/// A key with its value.
pub type Entry = (Vec<u8>, Vec<u8>);

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

    /// From `from` on, to the end of the table.
    pub const fn from(from: &'a [u8]) -> Self {
        Self { from, to: None, reverse: false }
    }

    /// `from..to`.
    pub const fn between(from: &'a [u8], to: &'a [u8]) -> Self {
        Self { from, to: Some(to), reverse: false }
    }

    /// This range, visited from its end.
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

/// The first key after all keys that begin with `prefix`; `None` if there is none (a prefix of 0xff bytes).
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|b| *b != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// Read access to ordered tables.
pub trait Read: Send + Sync {
    /// Appends the value of `key` to `out` and returns whether it was there. The buffer is the caller's so
    /// that reading in a loop allocates nothing.
    ///
    /// # Errors
    ///
    /// If the engine fails, or the store was opened without the table.
    fn get_into(&self, table: Table, key: &[u8], out: &mut Vec<u8>) -> Result<bool, KvError>;

    /// Visits the entries of a range in order until `visit` breaks.
    ///
    /// # Errors
    ///
    /// As [`Self::get_into`], or as `visit`.
    fn scan(&self, table: Table, range: KeyRange<'_>, visit: &mut Visit<'_>)
    -> Result<(), KvError>;

    /// The values of many keys, in the order of the keys; `None` where there is none. The keys need not be sorted, and one
    /// may be there twice; an engine mostly reads them sooner than one by one, above all where they are sorted.
    ///
    /// # Errors
    ///
    /// As [`Self::get_into`].
    fn get_many(&self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, KvError> {
        keys.iter().map(|key| self.get(table, key)).collect()
    }

    /// The value of `key`.
    ///
    /// # Errors
    ///
    /// As [`Self::get_into`].
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        let mut out = Vec::new();
        Ok(self.get_into(table, key, &mut out)?.then_some(out))
    }

    /// The first entry of a range.
    ///
    /// # Errors
    ///
    /// As [`Self::get_into`].
    fn first(&self, table: Table, range: KeyRange<'_>) -> Result<Option<Entry>, KvError> {
        let mut found = None;
        self.scan(table, range, &mut |key, value| {
            found = Some((key.to_vec(), value.to_vec()));
            Ok(ControlFlow::Break(()))
        })?;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
