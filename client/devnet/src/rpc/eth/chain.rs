//! Methods about the node and its chain as a whole.

use crate::rpc::{Methods, Rpc, args::Args, convert::quantity, error::RpcResult};
use alloy_primitives::{Address, U64};
use jsonrpsee::core::RegisterMethodError;
use serde_json::{Value, json};

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    methods.add("eth_chainId", chain_id)?;
    methods.add("eth_blockNumber", block_number)?;
    methods.add("eth_syncing", |_, _| Ok(false))?;
    methods.add("eth_accounts", accounts)?;
    methods.alias("eth_accounts", &["eth_requestAccounts"])?;
    methods.add("eth_coinbase", coinbase)?;
    methods.add("eth_mining", mining)?;
    methods.add("eth_hashrate", |_, _| Ok(U64::ZERO))?;
    methods.add("eth_protocolVersion", |_, _| Ok("0x41"))?;
    methods.add("eth_capabilities", capabilities)
}

fn chain_id(rpc: &Rpc, _: &mut Args) -> RpcResult<U64> {
    Ok(U64::from(rpc.node.spec().chain_id()))
}

fn block_number(rpc: &Rpc, _: &mut Args) -> RpcResult<U64> {
    Ok(U64::from(rpc.node.view().head.number()))
}

fn accounts(rpc: &Rpc, _: &mut Args) -> RpcResult<Vec<Address>> {
    let mut accounts = rpc.node.accounts().addresses().to_vec();
    let mut others: Vec<_> = rpc.node.settings().impersonated.iter().copied().collect();
    others.sort_unstable();
    others.retain(|address| !accounts.contains(address));
    accounts.extend(others);
    Ok(accounts)
}

fn coinbase(rpc: &Rpc, _: &mut Args) -> RpcResult<Address> {
    Ok(rpc.node.settings().beneficiary)
}

fn mining(rpc: &Rpc, _: &mut Args) -> RpcResult<bool> {
    Ok(rpc.node.miner().mode() != crate::MiningMode::Manual)
}

/// `eth_capabilities`: the kinds of data that the node can answer, each with its oldest block.
fn capabilities(rpc: &Rpc, _: &mut Args) -> RpcResult<Value> {
    let view = rpc.node.view();
    let head = view.head.number();
    let since = |block: u64| json!({ "disabled": false, "oldestBlock": quantity(block) });
    let all = since(rpc.first_block(&view, head)?);
    let state = since(view.oldest_state()?);
    let proofs = match rpc.node.kind().canonical {
        true => state.clone(),
        false => json!({ "disabled": true }),
    };
    Ok(json!({
        "head": { "number": quantity(head), "hash": view.hash() },
        "state": state,
        "tx": all,
        "logs": all,
        "receipts": all,
        "blocks": all,
        "stateproofs": proofs,
    }))
}
