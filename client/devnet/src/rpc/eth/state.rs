//! Methods about accounts and slots.

use crate::{
    NodeError,
    node::code_of,
    rpc::{
        Methods, Rpc,
        args::{Args, Slot},
        convert::quantity,
        error::{RpcError, RpcResult},
    },
};
use alloy_consensus::TrieAccount;
use alloy_eips::BlockId;
use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_rpc_types_eth::{AccountInfo, EIP1186AccountProofResponse};
use jsonrpsee::core::RegisterMethodError;
use polytrie_state::{Commitment, Proof};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Maximum number of slots of one request.
const MAX_SLOTS: usize = 1024;

/// Maximum number of characters, with 0x, of a key shorter than 32 bytes.
const WORD_KEY: usize = 2 + 2 * 31;

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    methods.add("eth_getBalance", balance)?;
    methods.add("eth_getTransactionCount", transaction_count)?;
    methods.add("eth_getCode", code)?;
    methods.add("eth_getStorageAt", storage_at)?;
    methods.add("eth_getStorageValues", storage_values)?;
    methods.add_heavy("eth_getProof", proof)?;
    methods.add_heavy("eth_getAccount", account)?;
    methods.add("eth_getAccountInfo", account_info)
}

fn balance(rpc: &Rpc, args: &mut Args) -> RpcResult<U256> {
    let address: Address = args.next()?;
    let at = rpc.at(&rpc.node.view(), args.optional_block()?)?;
    Ok(at.state.account(&address)?.unwrap_or_default().balance)
}

fn transaction_count(rpc: &Rpc, args: &mut Args) -> RpcResult<Value> {
    let address: Address = args.next()?;
    let id = args.optional_block()?;
    if id.is_some_and(|id| id.is_pending()) {
        return Ok(quantity(rpc.node.next_nonce(&address)?));
    }
    let at = rpc.at(&rpc.node.view(), id)?;
    Ok(quantity(at.state.account(&address)?.unwrap_or_default().nonce))
}

fn code(rpc: &Rpc, args: &mut Args) -> RpcResult<Bytes> {
    let address: Address = args.next()?;
    let at = rpc.at(&rpc.node.view(), args.optional_block()?)?;
    let account = at.state.account(&address)?.unwrap_or_default();
    Ok(code_of(&*at.state, &account)?)
}

fn account_info(rpc: &Rpc, args: &mut Args) -> RpcResult<AccountInfo> {
    let address: Address = args.next()?;
    let at = rpc.at(&rpc.node.view(), args.optional_block()?)?;
    let account = at.state.account(&address)?.unwrap_or_default();
    let code = code_of(&*at.state, &account)?;
    Ok(AccountInfo { balance: account.balance, nonce: account.nonce, code })
}

fn storage_at(rpc: &Rpc, args: &mut Args) -> RpcResult<B256> {
    let address: Address = args.next()?;
    let slot = Slot::parse(&args.next::<String>()?)?;
    let at = rpc.at(&rpc.node.view(), args.optional_block()?)?;
    Ok(at.state.slot(&address, &slot.0)?.into())
}

fn storage_values(rpc: &Rpc, args: &mut Args) -> RpcResult<BTreeMap<Address, Vec<B256>>> {
    let wanted: BTreeMap<Address, Vec<String>> = args.next()?;
    if wanted.is_empty() {
        return Err(RpcError::params("empty request"));
    }
    expect_few(wanted.values().map(Vec::len).sum())?;
    let at = rpc.at(&rpc.node.view(), args.optional_block()?)?;
    let mut values = BTreeMap::new();
    for (address, slots) in wanted {
        let of_account = slots
            .iter()
            .map(|slot| Ok(at.state.slot(&address, &Slot::parse(slot)?.0)?.into()))
            .collect::<RpcResult<_>>()?;
        values.insert(address, of_account);
    }
    Ok(values)
}

/// Refuses a request for too many slots.
fn expect_few(slots: usize) -> RpcResult<()> {
    match slots > MAX_SLOTS {
        true => Err(RpcError::params(format!("too many slots (max {MAX_SLOTS})"))),
        false => Ok(()),
    }
}

/// Parses the slots of a request for a proof.
pub(in crate::rpc) fn slots(keys: &[String]) -> RpcResult<Vec<U256>> {
    expect_few(keys.len())?;
    keys.iter().map(|slot| Ok(Slot::parse(slot)?.0)).collect()
}

/// `eth_getProof`: a proof as EIP-1186 defines it, of a layer whose commitment is the state root.
fn proof(rpc: &Rpc, args: &mut Args) -> RpcResult<Value> {
    let address: Address = args.next()?;
    let keys: Vec<String> = args.next()?;
    let slots = slots(&keys)?;
    let id = args.optional_block()?;
    rpc.expect_trie(
        ", so there are no proofs as EIP-1186 defines them; call polytrie_getProof for the layer's own",
    )?;
    let mut proof = rpc.proof(&address, &slots, id)?.0.proof;
    // As in geth, keys of 32 bytes are shown in full, and others as numbers.
    let storage = proof.get_mut("storageProof").and_then(Value::as_array_mut);
    for ((entry, key), slot) in storage.into_iter().flatten().zip(&keys).zip(slots) {
        if key.len() > WORD_KEY {
            entry["key"] = json!(B256::from(slot));
        }
    }
    Ok(proof)
}

fn account(rpc: &Rpc, args: &mut Args) -> RpcResult<Option<TrieAccount>> {
    let address: Address = args.next()?;
    let id = args.optional_block()?;
    rpc.expect_trie(", so an account has no storage root; call eth_getAccountInfo for the rest")?;
    // All fields are in the proof, so that they belong to one block.
    let proof = rpc.proof(&address, &[], id)?.0.proof;
    let proof = serde_json::from_value::<EIP1186AccountProofResponse>(proof)
        .map_err(|error| RpcError::internal(&error))?;
    let EIP1186AccountProofResponse { nonce, balance, storage_hash, code_hash, .. } = proof;
    let account = TrieAccount { nonce, balance, storage_root: storage_hash, code_hash };
    Ok((account != TrieAccount::default()).then_some(account))
}

impl Rpc {
    /// Refuses a request that only a layer with a Merkle Patricia trie can answer; `rest` ends the message.
    pub(in crate::rpc) fn expect_trie(&self, rest: &str) -> RpcResult<()> {
        let kind = self.node.kind();
        match kind.canonical {
            true => Ok(()),
            false => Err(RpcError::unsupported(format!(
                "the state layer `{}` has no Merkle Patricia trie{rest}",
                kind.name
            ))),
        }
    }

    /// Returns a proof of the state layer after a block of the chain, and the commitment against which it verifies.
    pub(in crate::rpc) fn proof(
        &self,
        address: &Address,
        slots: &[U256],
        id: Option<BlockId>,
    ) -> RpcResult<(Proof, Commitment)> {
        let id = id.unwrap_or_default();
        self.expect_stored(&self.node.view(), id)?;
        loop {
            let block = self.block_ref(&self.node.view(), id)?;
            match self.node.prove(block, address, slots, self.deadline()) {
                // A number or a tag may name another block after a revert, so it is resolved again.
                Err(NodeError::TakenBack { .. }) if !id.is_hash() => self.in_time()?,
                proven => return Ok(proven?),
            }
        }
    }
}
