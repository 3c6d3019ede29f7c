//! Pages of the state in the order of the hashes: `debug_storageRangeAt`, `debug_accountRange`,
//! `debug_dumpBlock` and `debug_preimage`.

use super::{
    Methods, Rpc,
    args::Args,
    debug::to_execute,
    error::{RpcError, RpcResult},
};
use crate::{AccountParts, AccountRange, FoundAccount, RangeLimits};
use alloy_eips::BlockId;
use alloy_primitives::{Address, B256, Bytes, U256, hex};
use jsonrpsee::core::RegisterMethodError;
use serde::Serialize;
use std::collections::BTreeMap;

/// Maximum number of accounts in one answer.
const ACCOUNTS: usize = 256;

/// Maximum number of slots in one answer.
const SLOTS: usize = 65_536;

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    methods.add_heavy("debug_storageRangeAt", storage_range)?;
    methods.add_heavy("debug_accountRange", account_range)?;
    methods.add_heavy("debug_dumpBlock", |rpc, args| {
        let tag = args.tag()?;
        let parts = AccountParts { code: true, slots: true, nameless: false };
        accounts(rpc, tag.into(), B256::ZERO, parts, ACCOUNTS)
    })?;
    methods.add("debug_preimage", |rpc, args| {
        let hash = args.hash()?;
        let found = rpc.node.view().db().preimage(&hash)?;
        found.ok_or_else(|| RpcError::server("unknown preimage"))
    })
}

/// A page of the slots of a contract.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Slots {
    storage: Option<BTreeMap<B256, Slot>>,
    next_key: Option<B256>,
}

#[derive(Debug, Serialize)]
struct Slot {
    key: Option<B256>,
    value: B256,
}

/// `debug_storageRangeAt`: as in geth, it reads the state before the block, whichever of its transactions is named.
fn storage_range(rpc: &Rpc, args: &mut Args) -> RpcResult<Slots> {
    let id = args.block()?;
    let index: i64 = args.next()?;
    let address: Address = args.next()?;
    let from: Bytes = args.next()?;
    let most: i64 = args.next()?;
    let view = rpc.node.view();
    let found = to_execute(rpc, &view, id)?;
    let number = found.header.number;
    let Some(before) = number.checked_sub(1) else {
        return Err(RpcError::server("no transaction in genesis"));
    };
    let count = found.block.body.transactions.len();
    if usize::try_from(index).map_or(true, |index| index >= count.max(1)) {
        return Err(RpcError::server(format!(
            "transaction index {index} out of range: block {number} has {count}, counted from 0"
        )));
    }
    let limits = limits(rpc, usize::try_from(most).unwrap_or(0).min(SLOTS));
    let before = rpc.block_ref(&view, BlockId::number(before))?;
    let found = rpc.node.slot_range(before, &address, first(&from), limits)?;
    let slots = found
        .slots
        .into_iter()
        .map(|(hash, slot, value)| (hash, Slot { key: slot.map(Into::into), value: value.into() }));
    Ok(Slots { storage: (!found.is_empty).then(|| slots.collect()), next_key: found.next })
}

fn account_range(rpc: &Rpc, args: &mut Args) -> RpcResult<Accounts> {
    let id = args.block()?;
    let from: Bytes = args.next()?;
    let most: i64 = args.next()?;
    let [no_code, no_slots, nameless]: [bool; 3] = [args.next()?, args.next()?, args.next()?];
    let parts = AccountParts { code: !no_code, slots: !no_slots, nameless };
    let most = usize::try_from(most).unwrap_or(0);
    let most = if (1..=ACCOUNTS).contains(&most) { most } else { ACCOUNTS };
    // A start shorter than 32 bytes is a number here, not the first bytes of a hash.
    let from = B256::left_padding_from(from.get(..32).unwrap_or(&from));
    accounts(rpc, id, from, parts, most)
}

/// A page of the accounts of a state.
#[derive(Debug, Serialize)]
struct Accounts {
    root: String,
    accounts: BTreeMap<String, Dumped>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<B256>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Dumped {
    balance: String,
    nonce: u64,
    root: B256,
    code_hash: B256,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<Bytes>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    storage: BTreeMap<B256, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<Address>,
    key: B256,
}

fn accounts(
    rpc: &Rpc,
    id: BlockId,
    from: B256,
    parts: AccountParts,
    most: usize,
) -> RpcResult<Accounts> {
    let view = rpc.node.view();
    let pending = rpc.pending_on(&view, id)?;
    let (block, root) = match &pending {
        Some(pending) => (pending.parent(), pending.header.state_root),
        None => {
            let block = rpc.block_ref(&view, id)?;
            (block, view.db().block_head(block.number)?.header.state_root)
        }
    };
    let pending = pending.as_deref();
    let found = rpc.node.account_range(block, pending, from, parts, limits(rpc, most))?;
    let AccountRange { accounts, next } = found;
    let accounts = accounts.into_iter().map(|found| (name(&found), dumped(found))).collect();
    Ok(Accounts { root: hex::encode(root), accounts, next })
}

fn name(found: &FoundAccount) -> String {
    match found.address {
        Some(address) => address.to_checksum(None),
        None => format!("pre({})", found.hash),
    }
}

fn dumped(found: FoundAccount) -> Dumped {
    let FoundAccount { hash, address, account, storage_root, code, slots } = found;
    let value = |value: U256| hex::encode(value.to_be_bytes_trimmed_vec());
    Dumped {
        balance: account.balance.to_string(),
        nonce: account.nonce,
        root: storage_root,
        code_hash: account.code_hash,
        code: Some(code).filter(|code| !code.is_empty()),
        storage: slots.into_iter().map(|(slot, found)| (slot.into(), value(found))).collect(),
        address,
        key: hash,
    }
}

fn limits(rpc: &Rpc, most: usize) -> RangeLimits {
    RangeLimits { most, bytes: rpc.max_response, deadline: rpc.deadline() }
}

/// Returns the first hash that begins with these bytes.
fn first(bytes: &[u8]) -> B256 {
    B256::right_padding_from(bytes.get(..32).unwrap_or(bytes))
}
