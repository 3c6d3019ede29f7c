//! `eth_subscribe`.

use super::{
    Methods, Rpc,
    args::Args,
    convert,
    error::{RpcError, RpcResult},
    eth::{LogFilter, logs_of_block},
};
use crate::devnet::Event;
use jsonrpsee::{
    PendingSubscriptionSink,
    core::{RegisterMethodError, SubscriptionError, server::SubscriptionMessage},
    types::{ErrorObjectOwned, Params},
};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::broadcast::error::RecvError;

/// What a client wants to hear of.
#[derive(Debug)]
enum Topic {
    Heads,
    Logs(Box<LogFilter>),
    Pending { full: bool },
    Syncing,
}

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    methods.0.register_subscription(
        "eth_subscribe",
        "eth_subscription",
        "eth_unsubscribe",
        |params, pending, rpc, _| subscribe(params, pending, rpc),
    )?;
    Ok(())
}

async fn subscribe(
    params: Params<'static>,
    pending: PendingSubscriptionSink,
    rpc: Arc<Rpc>,
) -> Result<(), SubscriptionError> {
    let topic = match topic(&params) {
        Ok(topic) => topic,
        Err(error) => {
            pending.reject(ErrorObjectOwned::from(error)).await;
            return Ok(());
        }
    };
    let mut events = rpc.node.events();
    let sink = pending.accept().await?;
    if matches!(topic, Topic::Syncing) {
        let message = message(&json!(false))?;
        sink.send(message).await?;
    }
    loop {
        let event = tokio::select! {
            () = sink.closed() => return Ok(()),
            event = events.recv() => event,
        };
        let event = match event {
            Ok(event) => event,
            // Who cannot keep up misses something, as on any other node.
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return Ok(()),
        };
        for news in news(&rpc, &topic, event).unwrap_or_default() {
            sink.send(message(&news)?).await?;
        }
    }
}

fn message(value: &Value) -> Result<SubscriptionMessage, SubscriptionError> {
    Ok(SubscriptionMessage::from(serde_json::value::to_raw_value(value)?))
}

fn topic(params: &Params<'_>) -> RpcResult<Topic> {
    let mut args = Args::new(params)?;
    let name: String = args.next()?;
    Ok(match name.as_str() {
        "newHeads" => Topic::Heads,
        "logs" => Topic::Logs(Box::new(args.optional()?.unwrap_or_default())),
        "newPendingTransactions" => Topic::Pending { full: args.optional()?.unwrap_or(false) },
        "syncing" => Topic::Syncing,
        _ => {
            return Err(RpcError::params(format!(
                "no subscription {name:?}: there are newHeads, logs, newPendingTransactions and syncing"
            )));
        }
    })
}

/// What there is to tell about an event.
fn news(rpc: &Rpc, topic: &Topic, event: Event) -> RpcResult<Vec<Value>> {
    match (topic, event) {
        (Topic::Heads, Event::Block(header)) => Ok(vec![convert::header(&header)?]),
        (Topic::Logs(filter), Event::Block(header)) => {
            let logs = logs_of_block(&rpc.node.view(), &header, filter)?;
            logs.iter().map(convert::json_of).collect()
        }
        (Topic::Pending { full: false }, Event::Pending(tx)) => Ok(vec![json!(tx.hash())]),
        (Topic::Pending { full: true }, Event::Pending(tx)) => Ok(vec![convert::pending(&tx)?]),
        _ => Ok(Vec::new()),
    }
}
