//! `eth_subscribe`.

use super::{
    Methods, Shared,
    args::Args,
    connection::Connection,
    convert,
    error::{RpcError, RpcResult},
    eth::{LogFilter, logs_of_block},
};
use crate::devnet::Event;
use jsonrpsee::{
    Extensions, PendingSubscriptionSink, SubscriptionSink,
    core::{RegisterMethodError, SubscriptionError, server::SubscriptionMessage},
    types::{ErrorObjectOwned, Params},
};
use serde_json::{Value, json, value::to_raw_value};
use std::sync::Arc;
use tokio::sync::broadcast::error::RecvError;

/// Bytes that a subscription takes beside what it is about: a task, and its place in the lists of events.
const TASK: usize = 4 << 10;

/// What a client wants to hear of.
#[derive(Debug)]
enum Topic {
    Heads,
    Logs(Box<LogFilter>),
    Pending { full: bool },
    Syncing,
}

impl Topic {
    /// Bytes that a subscription takes, about.
    fn bytes(&self) -> u32 {
        let filter = match self {
            Self::Logs(filter) => filter.bytes(),
            Self::Heads | Self::Pending { .. } | Self::Syncing => 0,
        };
        u32::try_from(TASK + filter).unwrap_or(u32::MAX)
    }
}

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    methods.0.register_subscription(
        "eth_subscribe",
        "eth_subscription",
        "eth_unsubscribe",
        subscribe,
    )?;
    Ok(())
}

async fn subscribe(
    params: Params<'static>,
    pending: PendingSubscriptionSink,
    rpc: Arc<Shared>,
    extensions: Extensions,
) -> Result<(), SubscriptionError> {
    let topic = match topic(&params) {
        Ok(topic) => topic,
        Err(error) => {
            pending.reject(ErrorObjectOwned::from(error)).await;
            return Ok(());
        }
    };
    // Held as long as the subscription.
    let Ok(_room) = Arc::clone(&rpc.subscriptions).try_acquire_many_owned(topic.bytes()) else {
        let error = RpcError::server(
            "all subscriptions together take too much memory; end some, or name fewer addresses and topics",
        );
        pending.reject(ErrorObjectOwned::from(error)).await;
        return Ok(());
    };
    let connection: Option<Arc<Connection>> = extensions.get().cloned();
    let mut events = match topic {
        Topic::Pending { .. } => rpc.node.pending_events(),
        Topic::Heads | Topic::Logs(_) | Topic::Syncing => rpc.node.block_events(),
    };
    // What comes after it is an event.
    let mut last = rpc.node.view().head.number();
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
            // Who cannot keep up misses transactions, as on any other node, and finds the blocks in the chain.
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return Ok(()),
        };
        let (next, now) = match &event {
            Event::Block(header) => (header.number, header.number),
            Event::Reverted(header) => (header.number.saturating_add(1), header.number),
            Event::Pending(_) => (0, last),
        };
        for missed in last.saturating_add(1)..next {
            let Ok(missed) = rpc.node.view().db().block_head(missed) else { continue };
            tell(&rpc, &topic, Event::Block(missed.header), &sink, connection.as_deref()).await?;
        }
        last = now;
        tell(&rpc, &topic, event, &sink, connection.as_deref()).await?;
    }
}

async fn tell(
    rpc: &Shared,
    topic: &Topic,
    event: Event,
    sink: &SubscriptionSink,
    connection: Option<&Connection>,
) -> Result<(), SubscriptionError> {
    // Who takes slowly what it is told misses transactions, and finds the blocks in the chain.
    if let Some(connection) = connection
        && !connection.room().await
    {
        return Ok(());
    }
    let news: Vec<_> = news(rpc, topic, event)
        .unwrap_or_default()
        .iter()
        .map(to_raw_value)
        .collect::<Result<_, _>>()?;
    // All of it at once: other subscriptions of this client wait until it is taken.
    let mut owed = Owed { connection, bytes: news.iter().map(|news| news.get().len()).sum() };
    if let Some(connection) = connection {
        connection.answered(owed.bytes);
    }
    for news in news {
        let bytes = news.get().len();
        sink.send(SubscriptionMessage::from(news)).await?;
        owed.bytes -= bytes;
    }
    Ok(())
}

/// News that a connection is yet to be sent; what is not sent in the end is no longer counted.
#[derive(Debug)]
struct Owed<'a> {
    connection: Option<&'a Connection>,
    bytes: usize,
}

impl Drop for Owed<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection {
            connection.dropped(self.bytes);
        }
    }
}

fn message(value: &Value) -> Result<SubscriptionMessage, SubscriptionError> {
    Ok(SubscriptionMessage::from(to_raw_value(value)?))
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
fn news(rpc: &Shared, topic: &Topic, event: Event) -> RpcResult<Vec<Value>> {
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
