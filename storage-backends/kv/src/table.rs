//! The declarations of ordered tables.

use crate::{KeyRange, KvError, Result};
use std::fmt;

/// One ordered table of byte keys and byte values.
///
/// Tables are declared as constants by the owner of their content (the chain, a state layer) and handed to
/// the engine when it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Table {
    /// Small number, unique within one store; it never reaches the disk.
    pub id: u8,
    /// Name on disk, unique within one store.
    pub name: &'static str,
    /// Longest key in bytes; a longer one is refused before it reaches the engine.
    pub max_key: u16,
}

impl Table {
    /// The longest key every engine of this crate can hold (MDBX with pages of 4 KiB: 2,022 bytes), rounded
    /// down.
    pub const KEY_LIMIT: u16 = 2_000;

    /// A bound behind every key that a table may hold.
    pub const END: [u8; Self::KEY_LIMIT as usize + 1] = [0xff; Self::KEY_LIMIT as usize + 1];

    /// Declares a table.
    pub const fn new(id: u8, name: &'static str, max_key: u16) -> Self {
        assert!(max_key <= Self::KEY_LIMIT, "a key of this length does not fit every engine");
        Self { id, name, max_key }
    }

    /// Checks that no two tables share a name or a number.
    ///
    /// # Errors
    ///
    /// [`KvError::DuplicateTable`].
    pub fn expect_distinct(tables: &[Self]) -> Result<()> {
        for (i, table) in tables.iter().enumerate() {
            let same = |other: &&Self| other.id == table.id || other.name == table.name;
            if let Some(other) = tables[..i].iter().find(same) {
                return Err(KvError::DuplicateTable(other.name, table.name));
            }
        }
        Ok(())
    }

    /// Checks the length of a key.
    ///
    /// # Errors
    ///
    /// [`KvError::KeyTooLong`].
    pub const fn check_key(&self, key: &[u8]) -> Result<()> {
        if key.len() <= self.max_key as usize {
            Ok(())
        } else {
            Err(self.too_long(key, self.max_key))
        }
    }

    /// Checks the bounds of a range. They may be longer than the keys (the bound just after a key is one
    /// byte longer), but not longer than any engine can compare.
    ///
    /// # Errors
    ///
    /// [`KvError::KeyTooLong`].
    pub fn check_range(&self, from: &[u8], to: Option<&[u8]>) -> Result<()> {
        const BOUND_LIMIT: u16 = Table::KEY_LIMIT + 1;
        for bound in [Some(from), to].into_iter().flatten() {
            if bound.len() > BOUND_LIMIT as usize {
                return Err(self.too_long(bound, BOUND_LIMIT));
            }
        }
        Ok(())
    }

    const fn too_long(&self, key: &[u8], expected: u16) -> KvError {
        KvError::KeyTooLong { table: self.name, found: key.len(), expected }
    }
}

/// The tables of one store, found by their number.
#[derive(Clone)]
pub(crate) struct TableSet {
    tables: Vec<Table>,
    /// The position in `tables` of each table number.
    positions: Box<[Option<u8>; 256]>,
}

impl fmt::Debug for TableSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.tables.iter().map(|table| table.name)).finish()
    }
}

impl TableSet {
    /// Builds a set, and checks that names and numbers are unique.
    pub(crate) fn new(tables: &[Table]) -> Result<Self> {
        Table::expect_distinct(tables)?;
        let mut positions = Box::new([None; 256]);
        for (i, table) in tables.iter().enumerate() {
            // Numbers are unique bytes, so a position fits a byte.
            positions[usize::from(table.id)] = Some(i as u8);
        }
        Ok(Self { tables: tables.to_vec(), positions })
    }

    pub(crate) fn as_slice(&self) -> &[Table] {
        &self.tables
    }

    /// Returns the position of a declared table.
    #[inline]
    pub(crate) fn position(&self, table: Table) -> Result<usize> {
        match self.positions[usize::from(table.id)] {
            // Numbers are unique, so another name under the same number is another store's table.
            Some(i) if self.tables[usize::from(i)].name == table.name => Ok(usize::from(i)),
            _ => Err(KvError::UnknownTable(table.name)),
        }
    }

    /// Returns the position of a table, and checks the length of a key.
    #[inline]
    pub(crate) fn key_position(&self, table: Table, key: &[u8]) -> Result<usize> {
        let position = self.position(table)?;
        self.tables[position].check_key(key)?;
        Ok(position)
    }

    /// Returns the position of a table, and checks the bounds of a range.
    pub(crate) fn range_position(&self, table: Table, range: KeyRange<'_>) -> Result<usize> {
        let position = self.position(table)?;
        table.check_range(range.from, range.to)?;
        Ok(position)
    }
}
