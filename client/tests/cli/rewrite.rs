//! Changes blocks for tests. The changed block is valid RLP with a hash that fits its header, so only the
//! changed fields are wrong.

use alloy_consensus::{Block, TxEnvelope};
use alloy_primitives::Bytes;
use polytrie::consensus::decode::decode_block;

/// Returns the block after `change`, encoded again.
pub(crate) fn rewritten(rlp: &Bytes, change: impl FnOnce(&mut Block<TxEnvelope>)) -> Bytes {
    let mut block = decode_block(rlp).unwrap();
    change(&mut block);
    alloy_rlp::encode(&block).into()
}
