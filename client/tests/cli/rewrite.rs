//! Blocks with something changed in them, and sealed again: their hashes are right, what they say is not.

use alloy_consensus::{Block, TxEnvelope};
use alloy_primitives::Bytes;
use polytrie::consensus::decode::decode_block;

/// The block after `change`.
pub(crate) fn rewritten(rlp: &Bytes, change: impl FnOnce(&mut Block<TxEnvelope>)) -> Bytes {
    let mut block = decode_block(rlp).unwrap();
    change(&mut block);
    alloy_rlp::encode(&block).into()
}
