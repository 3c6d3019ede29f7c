//! Hints about the parts of the state that the EVM will touch.

use crate::{Touched, hash_address, hash_slot};
use alloy_primitives::{Address, U256};

/// A hint that a part of the state will be read or written soon.
///
/// Hints come from the SLOAD and SSTORE hooks, from access lists and from the block's senders and
/// recipients. They may be late, wrong, repeated or dropped; no result ever depends on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// The account itself: balance, nonce, code.
    Account(Address),
    /// A slot is being read.
    SlotRead(Address, U256),
    /// A slot is being written.
    SlotWrite(Address, U256),
}

impl Access {
    /// Returns the address of the account, and the slot if it is about one.
    pub const fn place(self) -> (Address, Option<U256>) {
        match self {
            Self::Account(address) => (address, None),
            Self::SlotRead(address, slot) | Self::SlotWrite(address, slot) => (address, Some(slot)),
        }
    }

    /// Returns the accounts of accesses, also those of slots alone, and the slots of each, by hash.
    pub fn by_hash(accesses: &[Self]) -> Touched {
        let mut touched = Touched::new();
        for access in accesses {
            let (address, slot) = access.place();
            let slots = touched.entry(hash_address(&address)).or_default();
            slots.extend(slot.map(|slot| hash_slot(&slot)));
        }
        touched
    }
}
