//! Empty blocks for tests, also those of other crates, and chains for the tests of this one.

#![expect(clippy::unwrap_used, reason = "tests")]

#[cfg(test)]
mod chains;

use crate::{Chain, NewHead, NextBlock};
use alloy_primitives::B256;
use polytrie_state::TxWrites;

#[cfg(test)]
pub(crate) use chains::{branch, candidate, next, open, open_layer, open_spec};

/// Builds a block without transactions on the head, with these writes before it. Another salt gives another block.
pub fn build(chain: &mut Chain, salt: u8, before: &TxWrites) -> NewHead {
    let parent = &chain.head().header;
    let next = NextBlock {
        timestamp: parent.timestamp + 1,
        gas_limit: parent.gas_limit,
        prev_randao: B256::repeat_byte(salt),
        ..NextBlock::default()
    };
    chain.build(next, before, &mut |_, _, _| Ok(Vec::new())).unwrap()
}

/// Adds an empty block to the chain.
pub fn extend(chain: &mut Chain, salt: u8) {
    let built = build(chain, salt, &TxWrites::default());
    chain.adopt(built).unwrap();
}
