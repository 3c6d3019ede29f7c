//! Keys: accounts and slots, the rows of their records, and their positions in the trees.

use crate::{ACCOUNTS, SLOTS};
use alloy_primitives::{B256, keccak256};
use arrayvec::ArrayVec;
use polytrie_kv::Table;
use polytrie_state::{Result, corrupt};

/// A key of the layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// An account, by the hash of its address.
    Account(B256),
    /// A slot, by its account, the account's incarnation and its own hash.
    Slot {
        /// Hash of the address.
        account: B256,
        /// Number of times that the account's storage was wiped before.
        incarnation: u32,
        /// Hash of the slot.
        slot: B256,
    },
}

/// The key of a record in its table.
pub(crate) type Row = ArrayVec<u8, 68>;

/// Bytes of a hash that a reference keeps: enough to find the key with one seek.
pub(crate) const SHORT: usize = 8;

impl Key {
    pub(crate) const fn table(&self) -> Table {
        match self {
            Self::Account(_) => ACCOUNTS,
            Self::Slot { .. } => SLOTS,
        }
    }

    pub(crate) fn row(&self) -> Row {
        match self {
            Self::Account(hash) => {
                let mut bytes = [0; 68];
                bytes[..32].copy_from_slice(hash.as_slice());
                let mut row = Row::from(bytes);
                row.truncate(32);
                row
            }
            Self::Slot { account, incarnation, slot } => {
                slot_row(account, *incarnation, slot.as_slice())
            }
        }
    }

    /// Decodes the bytes of [`Self::row`].
    pub(crate) fn from_row(table: Table, row: &[u8]) -> Result<Self> {
        let damaged = || corrupt!("a key of {} bytes in {}", row.len(), table.name);
        if table == ACCOUNTS {
            return B256::try_from(row).map(Self::Account).map_err(|_| damaged());
        }
        let (account, rest) = row.split_first_chunk::<32>().ok_or_else(damaged)?;
        let (incarnation, slot) = rest.split_first_chunk::<4>().ok_or_else(damaged)?;
        Ok(Self::Slot {
            account: B256::from(*account),
            incarnation: u32::from_be_bytes(*incarnation),
            slot: B256::try_from(slot).map_err(|_| damaged())?,
        })
    }

    /// Returns the position of the key: a hash whose leading bits choose a tree and an entry on each level. For an
    /// account it is the hash of the address (20 bytes), for a slot that of the 68 bytes of its row. So no slot can
    /// pass for an account.
    pub(crate) fn position(&self) -> B256 {
        match self {
            Self::Account(hash) => *hash,
            Self::Slot { .. } => keccak256(self.row()),
        }
    }

    /// Appends a reference to the key that is short enough for an entry's row: kind, and the beginnings of the
    /// hashes.
    pub(crate) fn write_reference(&self, out: &mut Vec<u8>) {
        match self {
            Self::Account(hash) => {
                out.push(0);
                out.extend_from_slice(&hash[..SHORT]);
            }
            Self::Slot { account, incarnation, slot } => {
                out.push(1);
                out.extend_from_slice(&account[..SHORT]);
                out.extend_from_slice(&incarnation.to_be_bytes());
                out.extend_from_slice(&slot[..SHORT]);
            }
        }
    }
}

/// Returns the row key of a slot, or the prefix of the slots that begin with `slot`, which has at most 32 bytes.
pub(crate) fn slot_row(account: &B256, incarnation: u32, slot: &[u8]) -> Row {
    let mut bytes = [0; 68];
    bytes[..32].copy_from_slice(account.as_slice());
    bytes[32..36].copy_from_slice(&incarnation.to_be_bytes());
    bytes[36..36 + slot.len()].copy_from_slice(slot);
    let mut row = Row::from(bytes);
    row.truncate(36 + slot.len());
    row
}
