//! `eth_subscribe`.
//!
//! The tasks of subscriptions share their threads with all connections, so blocks are read elsewhere: on threads that may
//! wait, by few subscriptions at a time.

use super::{
    Methods, RpcState,
    args::Args,
    connection::Connection,
    convert,
    error::{RpcError, RpcResult},
    eth::{LogFilter, logs_of_block, removed_logs},
    on_thread,
};
use crate::{Event, PoolTransaction, Reverted};
use alloy_consensus::{Header, Sealed};
use alloy_primitives::B256;
use jsonrpsee::{
    Extensions, PendingSubscriptionSink, SubscriptionSink,
    core::{RegisterMethodError, SubscriptionError, server::SubscriptionMessage},
    types::{ErrorObjectOwned, Params},
};
use serde::Serialize;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};
use std::{collections::HashSet, mem, sync::Arc};
use tokio::sync::broadcast::error::RecvError;

/// Bytes that a subscription takes beside what it is about: a task, and its place in the lists of events.
const TASK: usize = 4 << 10;

/// What a client wants to hear of.
#[derive(Debug)]
enum Topic {
    Heads,
    Logs(Arc<LogFilter>),
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
        rpc: &Arc<RpcState>,
        to: &Receiver,
        header: Sealed<Header>,
    ) -> Result<(), SubscriptionError> {
        self.catch_up(rpc, to, header.number).await?;
        self.last = header.number;
        self.tell(rpc, to, header).await
    }

    /// Blocks were taken back.
    async fn reverted(
        &mut self,
        rpc: &Arc<RpcState>,
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
            let chain = Arc::clone(&former);
            let row = read(rpc, move || Ok(chain.db.canonical(number)?)).await?;
            let Some((hash, _)) = row else { continue };
            if self.gone.remove(&hash) || !to.has_room().await {
                continue;
            }
            let (chain, filter) = (Arc::clone(&former), Arc::clone(filter));
            let news = read(rpc, move || raw(&removed_logs(&chain, number, &filter)?)).await?;
            to.send(news).await?;
        }
        Ok(())
    }

    /// Tells of blocks before `next` that were missed, as the chain has them now.
    async fn catch_up(
        &mut self,
        rpc: &Arc<RpcState>,
        to: &Receiver,
        next: u64,
    ) -> Result<(), SubscriptionError> {
        for missed in self.last.saturating_add(1)..next {
            let state = Arc::clone(rpc);
            let header = read(rpc, move || {
                let view = state.node.view();
                // It may be gone again.
                match missed <= view.head.number() {
                    true => Ok(Some(view.db().block_head(missed)?.header)),
                    false => Ok(None),
                }
            });
            if let Some(header) = header.await? {
                self.tell(rpc, to, header).await?;
            }
        }
        Ok(())
    }

    async fn tell(
        &mut self,
        rpc: &Arc<RpcState>,
        to: &Receiver,
        header: Sealed<Header>,
    ) -> Result<(), SubscriptionError> {
        let Topic::Logs(filter) = &to.topic else {
            return to.tell(|topic| block_news(topic, &header)).await;
        };
        if header.logs_bloom.is_zero() || !to.has_room().await {
            return Ok(());
        }
        let (state, filter, hash) = (Arc::clone(rpc), Arc::clone(filter), header.hash());
        let (is_there, news) = read(rpc, move || {
            let view = state.node.view();
            let logs = logs_of_block(view.db(), &header, &filter)?;
            Ok((view.has(&header), raw(&logs)?))
        })
        .await?;
        if !is_there {
            self.gone.insert(hash);
        }
        to.send(news).await
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
        if !self.has_room().await {
            return Ok(());
        }
        let news = news(&self.topic).and_then(|news| raw(&news)).map_err(ended)?;
        self.send(news).await
    }

    /// Waits until its client has taken so much that it may be told more: one that takes slowly what it is told misses
    /// transactions, and finds the blocks in the chain. `false` if it is gone.
    async fn has_room(&self) -> bool {
        match &self.connection {
            Some(connection) => connection.room().await,
            None => true,
        }
    }

    /// Sends what there is to tell.
    async fn send(&self, news: Vec<Box<RawValue>>) -> Result<(), SubscriptionError> {
        let connection = self.connection.as_deref();
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

/// Reads blocks on a thread that may wait, when it is the turn of the subscription.
async fn read<R: Send + 'static>(
    rpc: &RpcState,
    work: impl FnOnce() -> RpcResult<R> + Send + 'static,
) -> Result<R, SubscriptionError> {
    let turn = Arc::clone(&rpc.turns.news).acquire_owned().await;
    let turn = turn.map_err(|error| ended(RpcError::internal(&error)))?;
    let read = on_thread(move || {
        let read = work();
        drop(turn);
        read
    });
    read.await.map_err(ended)
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
        "logs" => Topic::Logs(Arc::new(args.optional()?.unwrap_or_default())),
        "newPendingTransactions" => Topic::Pending { full: args.optional()?.unwrap_or(false) },
        "syncing" => Topic::Syncing,
        _ => {
            return Err(RpcError::params(format!(
                "no subscription {name:?}: there are newHeads, logs, newPendingTransactions and syncing"
            )));
        }
    })
}

/// What there is to tell about a block beside its logs.
fn block_news(topic: &Topic, header: &Sealed<Header>) -> RpcResult<Vec<Value>> {
    match topic {
        Topic::Heads => Ok(vec![convert::header(header)?]),
        Topic::Logs(_) | Topic::Pending { .. } | Topic::Syncing => Ok(Vec::new()),
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

/// News as they are sent.
fn raw(news: &[impl Serialize]) -> RpcResult<Vec<Box<RawValue>>> {
    news.iter().map(|news| to_raw_value(news).map_err(|error| RpcError::internal(&error))).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{
        rpc::{Audience, NEWS, RpcLimits, module},
        tests::node,
    };
    use jsonrpsee::RpcModule;
    use polytrie_layers::LayerNeeds;
    use std::{thread, time::Duration};
    use tokio::time;

    /// What requests share, of a node that has made no block yet.
    fn shared() -> Arc<RpcState> {
        let (limits, needs) = (RpcLimits::default(), LayerNeeds::default());
        Arc::new(RpcState::new(node("raw"), None, limits, 1 << 20, needs))
    }

    #[tokio::test]
    async fn blocks_are_read_on_threads_that_may_wait() {
        let there = read(&shared(), || Ok(thread::current().id())).await.unwrap();
        assert_ne!(there, thread::current().id());
    }

    #[tokio::test]
    async fn logs_are_read_in_turns_and_hold_up_nobody() {
        let shared = shared();
        let methods = module(Arc::clone(&shared), &Audience::Owner).unwrap();
        let call = async |method: &str, params: Value| {
            let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
            let answered = methods.raw_json_request(&request.to_string(), 8).await;
            let (answer, news) = answered.unwrap();
            assert!(answer.get().contains("\"result\""), "{method}: {answer}");
            news
        };
        let mut logs = call("eth_subscribe", json!(["logs"])).await;
        let mut heads = call("eth_subscribe", json!(["newHeads"])).await;
        // Other subscriptions have all the turns.
        let turns = Arc::clone(&shared.turns.news).acquire_many_owned(NEWS as u32).await.unwrap();
        // Logs without a topic: PUSH0 PUSH0 LOG0
        let from = shared.node.accounts().addresses()[0];
        let creation = json!([{ "from": from, "data": "0x5f5fa0", "gas": "0x186a0" }]);
        call("eth_sendTransaction", creation).await;
        call("evm_mine", json!([])).await;
        assert!(heads.recv().await.unwrap().get().contains(r#""number":"0x1""#));
        let early = time::timeout(Duration::from_millis(200), logs.recv()).await;
        assert!(early.is_err(), "{early:?}");
        drop(turns);
        let news = logs.recv().await.unwrap();
        assert!(news.get().contains(r#""blockNumber":"0x1""#), "{news}");
    }

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
