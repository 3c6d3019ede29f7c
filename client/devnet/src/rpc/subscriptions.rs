//! `eth_subscribe`.

use super::{
    Methods, RpcState,
    args::Args,
    connection::Connection,
    convert,
    error::{RpcError, RpcResult},
    eth::{LogFilter, logs_of_block, removed_logs},
};
use crate::{Event, PoolTransaction, Reverted, View};
use alloy_consensus::{Header, Sealed};
use alloy_primitives::B256;
use alloy_rpc_types_eth::Log;
use jsonrpsee::{
    Extensions, PendingSubscriptionSink, SubscriptionSink,
    core::{RegisterMethodError, SubscriptionError, server::SubscriptionMessage},
    types::{ErrorObjectOwned, Params},
};
use serde_json::{Value, json, value::to_raw_value};
use std::{collections::HashSet, mem, sync::Arc};
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
    rpc: Arc<RpcState>,
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
    let mut told = Told { last: rpc.node.view().head.number(), gone: HashSet::new() };
    let sink = pending.accept().await?;
    let to = Receiver { topic, sink, connection };
    if matches!(to.topic, Topic::Syncing) {
        let message = message(&json!(false))?;
        to.sink.send(message).await?;
    }
    loop {
        let event = tokio::select! {
            () = to.sink.closed() => return Ok(()),
            event = events.recv() => event,
        };
        match event {
            Ok(Event::Block(header)) => told.block(&rpc, &to, header).await?,
            Ok(Event::Reverted(reverted)) => told.reverted(&rpc, &to, &reverted).await?,
            Ok(Event::Pending(tx)) => to.tell(|topic| pending_news(topic, &tx)).await?,
            // Who cannot keep up misses transactions, as on any other node, and finds the blocks in the chain.
            Err(RecvError::Lagged(_)) => told.gone.clear(),
            Err(RecvError::Closed) => return Ok(()),
        }
    }
}

/// What a subscription was sent.
#[derive(Debug)]
struct Told {
    /// The last block.
    last: u64,
    /// Blocks that were not in the chain any more when they were to be told of: their logs were not told, and need not be
    /// taken back.
    gone: HashSet<B256>,
}

impl Told {
    /// There is a new head.
    async fn block(
        &mut self,
        rpc: &RpcState,
        to: &Receiver,
        header: Sealed<Header>,
    ) -> Result<(), SubscriptionError> {
        self.catch_up(rpc, to, header.number).await?;
        self.last = header.number;
        self.tell(rpc, to, &header).await
    }

    /// Blocks were taken back.
    async fn reverted(
        &mut self,
        rpc: &RpcState,
        to: &Receiver,
        reverted: &Reverted,
    ) -> Result<(), SubscriptionError> {
        let head = reverted.head.number;
        self.catch_up(rpc, to, head.saturating_add(1)).await?;
        let last = mem::replace(&mut self.last, head);
        let Topic::Logs(filter) = &to.topic else { return Ok(()) };
        let Some(former) = reverted.former.upgrade() else {
            // A receiver so late that others have taken its place misses it, and with it which blocks to forget.
            self.gone.clear();
            return Ok(());
        };
        for number in head.saturating_add(1)..=last.min(former.head) {
            let row = former.db.canonical(number).map_err(|error| ended(error.into()))?;
            let Some((hash, _)) = row else { continue };
            if !self.gone.remove(&hash) {
                to.tell(|_| json_of_all(&removed_logs(&former, number, filter)?)).await?;
            }
        }
        Ok(())
    }

    /// Tells of blocks before `next` that were missed, as the chain has them now.
    async fn catch_up(
        &mut self,
        rpc: &RpcState,
        to: &Receiver,
        next: u64,
    ) -> Result<(), SubscriptionError> {
        for missed in self.last.saturating_add(1)..next {
            let view = rpc.node.view();
            // It may be gone again.
            if missed <= view.head.number() {
                let missed = view.db().block_head(missed).map_err(|error| ended(error.into()))?;
                self.tell(rpc, to, &missed.header).await?;
            }
        }
        Ok(())
    }

    async fn tell(
        &mut self,
        rpc: &RpcState,
        to: &Receiver,
        header: &Sealed<Header>,
    ) -> Result<(), SubscriptionError> {
        to.tell(|topic| {
            let view = rpc.node.view();
            if matches!(topic, Topic::Logs(_)) && !view.has(header) {
                self.gone.insert(header.hash());
            }
            block_news(&view, topic, header)
        })
        .await
    }
}

/// Where the news of a subscription go.
#[derive(Debug)]
struct Receiver {
    topic: Topic,
    sink: SubscriptionSink,
    connection: Option<Arc<Connection>>,
}

impl Receiver {
    /// Sends what there is to tell. Where that cannot be read the subscription ends, and says why.
    async fn tell(
        &self,
        news: impl FnOnce(&Topic) -> RpcResult<Vec<Value>>,
    ) -> Result<(), SubscriptionError> {
        let connection = self.connection.as_deref();
        // Who takes slowly what it is told misses transactions, and finds the blocks in the chain.
        if let Some(connection) = connection
            && !connection.room().await
        {
            return Ok(());
        }
        let news = news(&self.topic).map_err(ended)?;
        let news: Vec<_> = news.iter().map(to_raw_value).collect::<Result<_, _>>()?;
        // All of it at once: other subscriptions of this client wait until it is taken.
        let mut owed = Owed { connection, bytes: news.iter().map(|news| news.get().len()).sum() };
        if let Some(connection) = connection {
            connection.answered(owed.bytes);
        }
        for news in news {
            let bytes = news.get().len();
            self.sink.send(SubscriptionMessage::from(news)).await?;
            owed.bytes -= bytes;
        }
        Ok(())
    }
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

/// Why a subscription ends: a sentence for its client and the log.
fn ended(error: RpcError) -> SubscriptionError {
    tracing::error!("a subscription ends: {}", error.message());
    SubscriptionError::from(format!("the subscription ends: {}", error.message()))
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

/// What there is to tell about a block.
fn block_news(view: &View, topic: &Topic, header: &Sealed<Header>) -> RpcResult<Vec<Value>> {
    match topic {
        Topic::Heads => Ok(vec![convert::header(header)?]),
        Topic::Logs(filter) => json_of_all(&logs_of_block(view.db(), header, filter)?),
        Topic::Pending { .. } | Topic::Syncing => Ok(Vec::new()),
    }
}

/// What there is to tell about a transaction that can go into the next block.
fn pending_news(topic: &Topic, tx: &PoolTransaction) -> RpcResult<Vec<Value>> {
    match topic {
        Topic::Pending { full: false } => Ok(vec![json!(tx.hash())]),
        Topic::Pending { full: true } => Ok(vec![convert::pending(tx)?]),
        Topic::Heads | Topic::Logs(_) | Topic::Syncing => Ok(Vec::new()),
    }
}

fn json_of_all(logs: &[Log]) -> RpcResult<Vec<Value>> {
    logs.iter().map(convert::json_of).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use jsonrpsee::RpcModule;

    #[tokio::test]
    async fn what_cannot_be_read_ends_a_subscription_with_the_reason() {
        let mut module = RpcModule::new(());
        let subscribe = |_: Params<'static>,
                         pending: PendingSubscriptionSink,
                         _: Arc<()>,
                         _: Extensions| async move {
            let sink = pending.accept().await?;
            let to = Receiver { topic: Topic::Heads, sink, connection: None };
            to.tell(|_| Ok(vec![json!(1)])).await?;
            to.tell(|_| Err(RpcError::server("the store is gone"))).await?;
            to.tell(|_| Ok(vec![json!(2)])).await
        };
        module.register_subscription("begin", "news", "end", subscribe).unwrap();
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "begin" }).to_string();
        let (_, mut news) = module.raw_json_request(&request, 8).await.unwrap();
        let mut next = async || news.recv().await.map(|text| text.get().to_owned());
        assert!(next().await.unwrap().contains(r#""result":1"#));
        let last = next().await.unwrap();
        assert!(last.contains(r#""error":"the subscription ends: the store is gone""#), "{last}");
        assert_eq!(next().await, None);
    }
}
