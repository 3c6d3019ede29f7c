//! Hints about the parts of the state that the EVM will touch.

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
