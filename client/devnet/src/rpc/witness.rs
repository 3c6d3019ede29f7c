//! `debug_executionWitness`: the trie nodes, codes and headers for a stateless execution of a block.

use super::{
    Methods, Rpc,
    args::Args,
    debug::block,
    error::{RpcError, RpcResult},
    replay::replay_whole,
};
use alloy_primitives::{B256, Bytes};
use jsonrpsee::core::RegisterMethodError;
use polytrie_chain::executor::{
    BlockHashes,
    sandbox::{RecordingReader, Sandbox, Seen},
};
use polytrie_state::{BlockRef, StateError};
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Hashes of blocks, and the number of the oldest one that was asked for.
struct Noted {
    hashes: Arc<dyn BlockHashes + Send + Sync>,
    oldest: Arc<AtomicU64>,
}

impl BlockHashes for Noted {
    fn block_hash(&self, number: u64) -> Result<Option<B256>, StateError> {
        self.oldest.fetch_min(number, Ordering::Relaxed);
        self.hashes.block_hash(number)
    }
}

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    methods.add_heavy("debug_executionWitness", execution_witness)
}

fn execution_witness(rpc: &Rpc, args: &mut Args) -> RpcResult<Value> {
    let view = rpc.node.view();
    let found = block(rpc, &view, args)?;
    rpc.expect_trie(
        " to take a witness from; start the node with --state mpt, mpt-hash, replica or rain",
    )?;
    let number = found.header.number;
    let parent = number
        .checked_sub(1)
        .ok_or_else(|| RpcError::server("the genesis block is not executed: it has no witness"))?;
    let at = rpc.at_number(&view, parent)?;
    let hashes = at.hashes();
    let reader = RecordingReader::new(at.state);
    // The witness has headers from the oldest block whose hash was read.
    let oldest = Arc::new(AtomicU64::new(parent));
    let hashes = Arc::new(Noted { hashes, oldest: Arc::clone(&oldest) });
    let mut sandbox = Sandbox::new(reader.clone(), hashes).until(rpc.deadline());
    for change in view.db().by_hand(&found.header.hash())?.accounts {
        sandbox.apply(change);
    }
    replay_whole(rpc, &view, &found, &mut sandbox)?;
    let seen = reader.seen();
    let block = BlockRef { number, hash: found.header.hash() };
    let (root, nodes) = rpc.node.witness(block, &seen, rpc.deadline())?;
    let expected = view.db().block_head(parent)?.header.state_root;
    if root != expected {
        return Err(RpcError::internal(&format!(
            "taken back to before block {number} the state root is {root}, not {expected}"
        )));
    }
    let mut headers = Vec::new();
    for number in oldest.load(Ordering::Relaxed)..=parent {
        let header = view.db().block_head(number)?.header;
        headers.push(Bytes::from(alloy_rlp::encode(header.inner())));
    }
    let Seen { accounts, codes } = seen;
    let mut keys = Vec::new();
    for (address, slots) in accounts {
        keys.push(Bytes::copy_from_slice(address.as_slice()));
        keys.extend(slots.iter().map(|slot| Bytes::from(B256::from(*slot).0)));
    }
    let codes: Vec<Bytes> = codes.into_values().collect();
    Ok(json!({ "state": nodes, "codes": codes, "keys": keys, "headers": headers }))
}
