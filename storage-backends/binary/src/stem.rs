//! The leaves of one stem: up to 256 of them, and the tree of 8 levels above them.
//!
//! ```text
//! row      (sub-index ‖ length ‖ value without leading zeros)…      sub-indices ascend, there is at least one
//! ```

use crate::{
    Stem,
    account::{LeafChange, with_code_size_of},
    hash::{hash_pair, hash_stem, hash_value},
};
use alloy_primitives::B256;
use polytrie_state::{Result, corrupt, flat::trim};

/// Number of levels of the tree above the leaves.
pub(crate) const LEVELS: u32 = 8;

/// The existing leaves of a stem, by sub-index.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Leaves(Vec<(u8, B256)>);

impl Leaves {
    /// Returns the value of a leaf; `None` if it is missing.
    pub(crate) fn get(&self, sub: u8) -> Option<&B256> {
        let at = self.0.binary_search_by_key(&sub, |(sub, _)| *sub).ok()?;
        Some(&self.0[at].1)
    }

    /// Returns all leaves, in order.
    pub(crate) fn all(&self) -> &[(u8, B256)] {
        &self.0
    }

    /// Changes a leaf.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](polytrie_state::StateError::Corrupt) if a part of the leaf should stay and the leaf is missing.
    pub(crate) fn change(&mut self, stem: &Stem, sub: u8, change: LeafChange) -> Result<()> {
        let found = self.0.binary_search_by_key(&sub, |(sub, _)| *sub);
        match (change, found) {
            (LeafChange::Set(value), Ok(at)) => self.0[at].1 = value,
            (LeafChange::Set(value), Err(at)) => self.0.insert(at, (sub, value)),
            (LeafChange::Remove, Ok(at)) => drop(self.0.remove(at)),
            (LeafChange::Remove, Err(_)) => {}
            (LeafChange::KeepCodeSize(data), Ok(at)) => {
                self.0[at].1 = with_code_size_of(data, &self.0[at].1);
            }
            (LeafChange::KeepCodeSize(_), Err(_)) => {
                return Err(corrupt!(
                    "the basic data of the account with the stem {stem} is not in the tree"
                ));
            }
        }
        Ok(())
    }

    /// Whether there are no leaves, and so no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the hash of the stem's node; `None` if there are no leaves, and so no node.
    pub(crate) fn hash(&self, stem: &Stem) -> Option<B256> {
        (!self.is_empty()).then(|| hash_stem(stem, &root_of(&self.0, LEVELS)))
    }

    /// Appends the encoded row.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for (sub, value) in &self.0 {
            let value = trim(&value[..]);
            // The value has at most 32 bytes.
            out.extend_from_slice(&[*sub, value.len() as u8]);
            out.extend_from_slice(value);
        }
    }

    /// Decodes a row.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](polytrie_state::StateError::Corrupt) if it is not exactly what [`Self::encode`] writes.
    pub(crate) fn decode(stem: &Stem, row: &[u8]) -> Result<Self> {
        parse(row).map(Self).ok_or_else(|| corrupt!("the row of the stem {stem} does not decode"))
    }

    /// Decodes an optional row; without a row there are no leaves.
    ///
    /// # Errors
    ///
    /// Those of [`Self::decode`].
    pub(crate) fn of_row(stem: &Stem, row: Option<Vec<u8>>) -> Result<Self> {
        row.map_or_else(|| Ok(Self::default()), |row| Self::decode(stem, &row))
    }
}

fn parse(mut row: &[u8]) -> Option<Vec<(u8, B256)>> {
    let mut leaves: Vec<(u8, B256)> = Vec::new();
    while let Some(([sub, length], rest)) = row.split_first_chunk::<2>() {
        let (value, rest) = rest.split_at_checked(usize::from(*length))?;
        let ascends = leaves.last().is_none_or(|(last, _)| last < sub);
        if !ascends || value.len() > 32 || value.first() == Some(&0) {
            return None;
        }
        leaves.push((*sub, B256::left_padding_from(value)));
        row = rest;
    }
    (row.is_empty() && !leaves.is_empty()).then_some(leaves)
}

/// Returns the root of the tree of `levels` levels above these leaves.
pub(crate) fn root_of(leaves: &[(u8, B256)], levels: u32) -> B256 {
    match (leaves, levels) {
        ([], _) => B256::ZERO,
        ([(_, value), ..], 0) => hash_value(value),
        _ => {
            let [left, right] = split(leaves, levels);
            hash_pair(&root_of(left, levels - 1), &root_of(right, levels - 1))
        }
    }
}

/// Splits the leaves of a tree of `levels` levels into those in its left half and those in its right one.
pub(crate) fn split<T>(leaves: &[(u8, T)], levels: u32) -> [&[(u8, T)]; 2] {
    let (left, right) =
        leaves.split_at(leaves.partition_point(|(sub, _)| sub & (1 << (levels - 1)) == 0));
    [left, right]
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const STEM: Stem = Stem([7; 31]);

    #[test]
    fn rows_come_back_and_have_one_form() {
        let mut leaves = Leaves::default();
        let values = [(3, B256::ZERO), (0, B256::with_last_byte(9)), (255, B256::repeat_byte(1))];
        for (sub, value) in values {
            leaves.change(&STEM, sub, LeafChange::Set(value)).unwrap();
        }
        let mut row = Vec::new();
        leaves.encode(&mut row);
        assert_eq!(row[..7], [0, 1, 9, 3, 0, 255, 32]);
        assert_eq!(Leaves::decode(&STEM, &row).unwrap(), leaves);
        assert_eq!(leaves.get(3), Some(&B256::ZERO));
        for wrong in [&[][..], &[0], &[0, 2, 0, 9], &[0, 1], &[1, 0, 0, 0], &[0, 0, 0, 0]] {
            assert!(Leaves::decode(&STEM, wrong).is_err(), "{wrong:?}");
        }
        leaves.change(&STEM, 3, LeafChange::Remove).unwrap();
        assert_eq!((leaves.get(3), leaves.all().len()), (None, 2));
        assert!(leaves.change(&STEM, 3, LeafChange::KeepCodeSize(B256::ZERO)).is_err());
    }

    /// The test computes each level by itself, as the EIP describes it.
    #[test]
    fn the_root_is_that_of_256_leaves() {
        let leaves: Vec<_> = [0u8, 1, 2, 64, 127, 128, 200, 255]
            .map(|sub| (sub, B256::repeat_byte(sub.wrapping_mul(3))))
            .to_vec();
        let mut level = vec![B256::ZERO; 256];
        for (sub, value) in &leaves {
            level[usize::from(*sub)] = hash_value(value);
        }
        while level.len() > 1 {
            level = level.chunks(2).map(|pair| hash_pair(&pair[0], &pair[1])).collect();
        }
        assert_eq!(root_of(&leaves, LEVELS), level[0]);
        assert_eq!(root_of(&[], LEVELS), B256::ZERO);
    }
}
