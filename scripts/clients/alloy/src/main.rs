//! alloy's provider against a node: deploy, send, call, logs, subscribe, trace, snapshot and revert.

use alloy_network::{EthereumWallet, TransactionBuilder};
use alloy_primitives::{Bytes, U256, address, bytes};
use alloy_provider::{
    Provider, ProviderBuilder, WsConnect,
    ext::{AnvilApi, DebugApi},
};
use alloy_rpc_types_eth::{Filter, TransactionRequest};
use alloy_rpc_types_trace::geth::{GethDebugTracingOptions, GethTrace};
use alloy_signer_local::{MnemonicBuilder, coins_bip39::English};
use futures_util::StreamExt;
use std::{error::Error, time::Duration};
use tokio::time::timeout;

/// Without data it returns slot 0; with 2^256 - 1 it reverts with "no"; any other word it stores and logs.
const CODE: Bytes = bytes!(
    "608180600b6000396000f33615601d5760003580191560295780600055600052600160206000a1005b60005460005260206000f35b7f08c379a000000000000000000000000000000000000000000000000000000000600052602060045260026024527f6e6f00000000000000000000000000000000000000000000000000000000000060445260646000fd"
);

fn word(number: u64) -> Bytes {
    U256::from(number).to_be_bytes::<32>().into()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("usage: alloy-client URL")?;
    let phrase = "test test test test test test test test test test test junk";
    let signer = MnemonicBuilder::<English>::default().phrase(phrase).index(3)?.build()?;
    let sender = signer.address();
    let provider =
        ProviderBuilder::new().wallet(EthereumWallet::from(signer)).connect_http(url.parse()?);
    provider.client().set_poll_interval(Duration::from_millis(50));
    assert_eq!(provider.get_chain_id().await?, 1337);

    let deployed = provider
        .send_transaction(TransactionRequest::default().with_deploy_code(CODE))
        .await?
        .get_receipt()
        .await?;
    let contract = deployed.contract_address.ok_or("no contract was created")?;

    let live = ProviderBuilder::new()
        .connect_ws(WsConnect::new(url.replace("http", "ws")))
        .await?;
    let mut heads = live.subscribe_blocks().await?.into_stream();
    let mut logs = live.subscribe_logs(&Filter::new().address(contract)).await?.into_stream();

    let call = TransactionRequest::default().with_to(contract);
    let receipt = provider
        .send_transaction(call.clone().with_input(word(7)))
        .await?
        .get_receipt()
        .await?;
    assert!(receipt.status());
    let wait = Duration::from_secs(10);
    let log = timeout(wait, logs.next()).await?.ok_or("no log came")?;
    assert_eq!(log.transaction_hash, Some(receipt.transaction_hash));
    let head = timeout(wait, heads.next()).await?.ok_or("no block came")?;
    assert!(head.number >= 1);

    assert_eq!(provider.call(call.clone()).await?, word(7));
    assert_eq!(provider.get_storage_at(contract, U256::ZERO).await?, U256::from(7));
    let filter = Filter::new().address(contract).from_block(0);
    assert_eq!(provider.get_logs(&filter).await?.len(), 1);
    let failed = provider.call(call.clone().with_input(vec![0xff; 32])).await;
    let failed = failed.err().ok_or("the call does not revert")?;
    let revert = failed.as_error_resp().and_then(|error| error.as_revert_data());
    assert!(revert.is_some_and(|data| data.starts_with(&[0x08, 0xc3, 0x79, 0xa0])), "{failed}");

    let options = GethDebugTracingOptions::call_tracer(Default::default());
    let trace = provider.debug_trace_transaction(receipt.transaction_hash, options).await?;
    let GethTrace::CallTracer(frame) = trace else { return Err("another trace".into()) };
    assert_eq!(frame.to, Some(contract));
    let steps = provider.debug_trace_transaction(receipt.transaction_hash, Default::default());
    assert!(matches!(steps.await?, GethTrace::Default(frame) if !frame.struct_logs.is_empty()));

    let somebody = address!("00000000000000000000000000000000000000e1");
    let snapshot = provider.anvil_snapshot().await?;
    assert!(provider.anvil_metadata().await?.snapshots.contains_key(&snapshot));
    assert_eq!(provider.anvil_node_info().await?.environment.chain_id, 1337);
    provider.anvil_set_auto_mine(true).await?;
    provider.anvil_set_balance(somebody, U256::from(10).pow(U256::from(18))).await?;
    provider.anvil_impersonate_account(somebody).await?;
    let transfer = TransactionRequest::default()
        .with_from(somebody)
        .with_to(sender)
        .with_value(U256::from(1));
    // The wallet would sign for its own account: this provider has none.
    let sent = live.send_transaction(transfer).await?.get_receipt().await?;
    assert_eq!(sent.from, somebody);
    provider.anvil_mine(Some(3), None).await?;
    let state = provider.anvil_dump_state().await?;
    assert!(provider.anvil_revert(snapshot).await?);
    assert_eq!(provider.get_balance(somebody).await?, U256::ZERO);
    assert!(provider.anvil_load_state(state).await?);
    assert!(provider.get_balance(somebody).await? > U256::ZERO);
    let fees = provider.estimate_eip1559_fees().await?;
    assert!(fees.max_fee_per_gas > 0);
    Ok(())
}
