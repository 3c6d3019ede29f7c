//! The setup: the tables of points that all other parts use.

mod derive;
mod error;
mod file;
mod table;

pub use derive::Derivation;
pub use error::SetupError;

use crate::{SLOTS, VerifyingKey};
use alloy_primitives::B256;
use ark_bn254::G1Affine;
use table::Table;

/// The tables of one setup.
///
/// - For each slot `s` and entry `i` the point `2^(40·s)·B_i`, which counts that version up by one.
/// - If proofs are wanted, for each depth `d` and entry `i` the quotient `Q_{d,i}` of slot 0.
///
/// They are derived once, kept in files, and mapped into memory from there.
#[derive(Debug)]
pub struct Setup {
    key: VerifyingKey,
    slots: Table,
    quotients: Option<Table>,
}

impl Setup {
    /// Returns the verifying key.
    pub const fn key(&self) -> &VerifyingKey {
        &self.key
    }

    /// Returns the name of the setup.
    pub const fn id(&self) -> B256 {
        self.key.id()
    }

    /// Returns the height of the vectors.
    pub const fn height(&self) -> u8 {
        self.key.height()
    }

    /// Whether tau is known, so that proofs can be forged.
    pub const fn is_insecure(&self) -> bool {
        self.key.is_insecure()
    }

    /// Whether the tables for proofs are there.
    pub const fn can_prove(&self) -> bool {
        self.quotients.is_some()
    }

    /// Bytes of the tables.
    pub fn table_bytes(&self) -> u64 {
        (self.slots.len() + self.quotients.as_ref().map_or(0, Table::len)) as u64 * 64
    }

    /// Returns the point that counts the version in a slot of an entry up by one.
    ///
    /// # Panics
    ///
    /// If there is no such slot or entry.
    #[inline]
    pub fn point(&self, slot: usize, index: u32) -> G1Affine {
        assert!(slot < SLOTS && index >> self.height() == 0, "no such slot or entry");
        self.slots.get((slot << self.height()) + index as usize)
    }

    /// Returns the point at an index of the table: `slot · 2^height + index`.
    #[inline]
    pub(crate) fn row(&self, at: usize) -> G1Affine {
        self.slots.get(at)
    }

    /// Returns the quotient of an entry (slot 0) at a depth from 1 to the height.
    #[inline]
    pub(crate) fn quotient(&self, depth: u8, index: u32) -> Option<G1Affine> {
        self.quotient_row((usize::from(depth - 1) << self.height()) + index as usize)
    }

    /// Returns the quotient at an index of its table: `(depth - 1) · 2^height + index`.
    #[inline]
    pub(crate) fn quotient_row(&self, at: usize) -> Option<G1Affine> {
        Some(self.quotients.as_ref()?.get(at))
    }
}
