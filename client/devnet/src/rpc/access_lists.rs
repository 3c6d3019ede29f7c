//! `eth_getBlockAccessList` and `debug_getRawBlockAccessList`: the accounts and slots that a block touched (EIP-7928).
//!
//! No list is stored: the block is executed again on the state before it, and the resulting list must have the hash
//! in the header.

use super::{
    Methods, Rpc,
    args::Args,
    convert::quantity,
    debug::block,
    error::{RpcError, RpcResult},
    lookup::Found,
    replay::{parent_sandbox, replay_whole},
};
use crate::View;
use alloy_eips::eip7928::AccountChanges;
use alloy_primitives::{B256, Bytes, U256};
use jsonrpsee::core::RegisterMethodError;
use polytrie_consensus::access_list::access_list_hash;
use serde_json::{Value, json};

/// Error code for a block of a fork without access lists.
const RESOURCE_NOT_FOUND: i32 = -32001;

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    methods.add_heavy("eth_getBlockAccessList", block_access_list)?;
    methods.add_heavy("debug_getRawBlockAccessList", raw_block_access_list)
}

fn block_access_list(rpc: &Rpc, args: &mut Args) -> RpcResult<Value> {
    let id = args.block()?;
    let view = rpc.node.view();
    if id.is_pending() {
        return Ok(Value::Null);
    }
    let Some(found) = rpc.made(&view, id)? else { return Ok(Value::Null) };
    match list_of(rpc, &view, &found)? {
        Some(list) => Ok(list.iter().map(account).collect()),
        None => Err(too_early(&found)),
    }
}

/// Returns the list in the form whose hash is in the header: RLP.
fn raw_block_access_list(rpc: &Rpc, args: &mut Args) -> RpcResult<Bytes> {
    let view = rpc.node.view();
    let found = block(rpc, &view, args)?;
    let list = list_of(rpc, &view, &found)?.ok_or_else(|| too_early(&found))?;
    Ok(alloy_rlp::encode(&list).into())
}

fn too_early(found: &Found) -> RpcError {
    RpcError::new(
        RESOURCE_NOT_FOUND,
        format!("block {} has no access list: it is from before Amsterdam", found.header.number),
    )
}

/// Computes the access list of a block; `None` if its fork has none.
pub(super) fn list_of(
    rpc: &Rpc,
    view: &View,
    found: &Found,
) -> RpcResult<Option<Vec<AccountChanges>>> {
    let Some(expected) = found.header.block_access_list_hash else { return Ok(None) };
    if found.header.number == rpc.node.spec().genesis_header().number {
        // The genesis block is not executed, so its list is empty.
        return Ok(Some(Vec::new()));
    }
    let mut sandbox = parent_sandbox(rpc, view, &found.header)?;
    sandbox.begin_access_list();
    replay_whole(rpc, view, found, &mut sandbox)?;
    let list = sandbox.end_access_list().unwrap_or_default();
    let made = access_list_hash(&list);
    if made != expected {
        return Err(RpcError::internal(&format!(
            "run once more, block {} has an access list with the hash {made}, not {expected} as in its header",
            found.header.number
        )));
    }
    Ok(Some(list))
}

/// Returns an entry in the form of execution-apis. Keys and values of storage have all 32 bytes, with leading zeros.
fn account(account: &AccountChanges) -> Value {
    let word = |value: U256| json!(B256::from(value));
    let change = |index: u64, value: Value| json!({ "index": quantity(index), "value": value });
    let slots = account.storage_changes.iter().map(|slot| {
        let changes = slot.changes.iter();
        let changes = changes.map(|c| change(c.block_access_index.get(), word(c.new_value)));
        json!({ "key": word(slot.slot), "changes": changes.collect::<Value>() })
    });
    let reads = account.storage_reads.iter().map(|slot| word(*slot));
    let balances = account.balance_changes.iter();
    let balances = balances.map(|c| change(c.block_access_index.get(), json!(c.post_balance)));
    let nonces = account.nonce_changes.iter();
    let nonces = nonces.map(|c| change(c.block_access_index.get(), quantity(c.new_nonce)));
    let codes = account.code_changes.iter();
    let codes =
        codes.map(|c| json!({ "index": quantity(c.block_access_index.get()), "code": c.new_code }));
    json!({
        "address": account.address,
        "storageChanges": slots.collect::<Value>(),
        "storageReads": reads.collect::<Value>(),
        "balanceChanges": balances.collect::<Value>(),
        "nonceChanges": nonces.collect::<Value>(),
        "codeChanges": codes.collect::<Value>(),
    })
}
