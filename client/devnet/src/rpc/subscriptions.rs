//! `eth_subscribe` and the tasks of subscriptions.
//!
//! The tasks share their threads with all connections. So they read blocks on blocking threads, and only a few of them
//! at a time.

use super::{
    Methods, Rpc, RpcState,
    args::Args,
    connection::Connection,
    convert,
    error::{RpcError, RpcResult},
    eth::{LogFilter, check_future, logs_of_block, removed_logs},
    on_thread,
};
use crate::{Event, PoolTransaction, Reverted};
use alloy_consensus::{Header, Sealed};
use alloy_primitives::B256;
use alloy_rpc_types_eth::pubsub::TransactionReceiptsParams;
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

/// Estimated bytes of a subscription without its filter: a task, and its place in the lists of receivers.
const TASK: usize = 4 << 10;

/// Maximum number of transactions that a subscription to receipts may name (the same as geth's).
const MAX_HASHES: usize = 200;

/// The kind of news that a subscription sends.
#[derive(Debug)]
enum Topic {
    Heads,
    Logs(Arc<LogFilter>),
    /// The receipts of these transactions; of all if there are none.
    Receipts(Arc<HashSet<B256>>),
    Pending {
        full: bool,
    },
    Syncing,
}

impl Topic {
    /// Returns the estimated bytes that a subscription takes in memory.
    fn bytes(&self) -> u32 {
        let filter = match self {
            Self::Logs(filter) => filter.bytes(),
            Self::Receipts(wanted) => wanted.len() * size_of::<B256>(),
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
    // The permits are held as long as the subscription exists.
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
        Topic::Heads | Topic::Logs(_) | Topic::Receipts(_) | Topic::Syncing => {
            rpc.node.block_events()
        }
    };
    // Later blocks come as events.
    let (start, view) = {
        let view = rpc.node.view();
        (view.head.number(), view.order)
    };
    let sink = pending.accept().await?;
    let to = Receiver { topic, sink, connection };
    if matches!(to.topic, Topic::Syncing) {
        let message = message(&json!(false))?;
        to.sink.send(message).await?;
    }
    let mut subscription = Subscription { rpc, to, start, view, last: start, gone: HashSet::new() };
    loop {
        let event = tokio::select! {
            () = subscription.to.sink.closed() => return Ok(()),
            event = events.recv() => event,
        };
        match event {
            Ok(Event::Block(header)) => subscription.block(header).await?,
            Ok(Event::Reverted(reverted)) => subscription.reverted(&reverted).await?,
            Ok(Event::Pending(tx)) => {
                subscription.to.tell(|topic| pending_news(topic, &tx)).await?;
            }
            // A slow client misses transactions, as on any other node; missed blocks are read from the chain later.
            Err(RecvError::Lagged(_)) => subscription.missed(),
            Err(RecvError::Closed) => return Ok(()),
        }
    }
}

/// A subscription and its progress.
#[derive(Debug)]
struct Subscription {
    rpc: Arc<RpcState>,
    to: Receiver,
    /// Number of the head when the subscription began, or of a later one to which the chain went back. The events of
    /// blocks up to it may come late, since a block is shown before it is announced, and are no news.
    start: u64,
    /// Order of the view with which the subscription began. It shows reverts that are announced later.
    view: u64,
    /// Number of the last reported block.
    last: u64,
    /// Hashes of blocks that were reverted before they could be reported. Their logs were not sent, so a revert need
    /// not remove them.
    gone: HashSet<B256>,
}

impl Subscription {
    /// Notes that events were missed. Blocks may have been reverted, so that any number is one of a new block.
    fn missed(&mut self) {
        self.start = 0;
        self.gone.clear();
    }

    /// Reports a new head, after any blocks that were missed before it.
    async fn block(&mut self, header: Sealed<Header>) -> Result<(), SubscriptionError> {
        if header.number <= self.start {
            return Ok(());
        }
        self.catch_up(header.number).await?;
        self.last = header.number;
        self.tell(header).await
    }

    /// Reports the removed logs of reverted blocks.
    async fn reverted(&mut self, reverted: &Reverted) -> Result<(), SubscriptionError> {
        if reverted.view <= self.view {
            return Ok(());
        }
        let head = reverted.head.number;
        self.start = self.start.min(head);
        self.catch_up(head.saturating_add(1)).await?;
        let last = mem::replace(&mut self.last, head);
        let Topic::Logs(filter) = &self.to.topic else { return Ok(()) };
        let Some(former) = reverted.former.upgrade() else {
            // The receiver was so late that the former chain is not kept any more. It cannot know the hashes to remove
            // from `gone` then.
            self.gone.clear();
            return Ok(());
        };
        for number in head.saturating_add(1)..=last.min(former.head) {
            let chain = Arc::clone(&former);
            let row = read(&self.rpc, move || Ok(chain.db.canonical(number)?)).await?;
            let Some((hash, _)) = row else { continue };
            let was_told = !self.gone.remove(&hash) && filter.is_for(number);
            if !was_told || !self.to.has_room().await {
                continue;
            }
            let (chain, filter) = (Arc::clone(&former), Arc::clone(filter));
            let news =
                read(&self.rpc, move || raw(&removed_logs(&chain, number, &filter)?)).await?;
            self.to.send(news).await?;
        }
        Ok(())
    }

    /// Reports the missed blocks before `next`, as the current chain has them.
    async fn catch_up(&mut self, next: u64) -> Result<(), SubscriptionError> {
        for missed in self.last.saturating_add(1)..next {
            let state = Arc::clone(&self.rpc);
            let header = read(&self.rpc, move || {
                let view = state.node.view();
                // The block may have been reverted again.
                match missed <= view.head.number() {
                    true => Ok(Some(view.db().block_head(missed)?.header)),
                    false => Ok(None),
                }
            });
            if let Some(header) = header.await? {
                self.tell(header).await?;
            }
        }
        Ok(())
    }

    async fn tell(&mut self, header: Sealed<Header>) -> Result<(), SubscriptionError> {
        let filter = match &self.to.topic {
            Topic::Logs(filter) => filter,
            Topic::Receipts(wanted) => return self.tell_receipts(header, wanted).await,
            Topic::Heads => return self.to.tell(|_| Ok(vec![convert::header(&header)?])).await,
            Topic::Pending { .. } | Topic::Syncing => return Ok(()),
        };
        let has_news = filter.is_for(header.number) && !header.logs_bloom.is_zero();
        if !has_news || !self.to.has_room().await {
            return Ok(());
        }
        let (state, filter, hash) = (Arc::clone(&self.rpc), Arc::clone(filter), header.hash());
        let (is_there, news) = read(&self.rpc, move || {
            let view = state.node.view();
            let logs = logs_of_block(view.db(), &header, &filter)?;
            Ok((view.has(&header), raw(&logs)?))
        })
        .await?;
        if !is_there {
            self.gone.insert(hash);
        }
        self.to.send(news).await
    }

    /// Reports the wanted receipts of a block in one message, as geth does; none if the block has no wanted transaction.
    async fn tell_receipts(
        &self,
        header: Sealed<Header>,
        wanted: &Arc<HashSet<B256>>,
    ) -> Result<(), SubscriptionError> {
        // A block that used no gas has no transactions.
        if header.gas_used == 0 || !self.to.has_room().await {
            return Ok(());
        }
        let (state, wanted) = (Arc::clone(&self.rpc), Arc::clone(wanted));
        let news = read(&self.rpc, move || {
            let receipts = receipts_of_block(&Rpc::new(state), &header, &wanted)?;
            match receipts.is_empty() {
                true => Ok(Vec::new()),
                false => raw(&[receipts]),
            }
        });
        self.to.send(news.await?).await
    }
}

/// Returns the wanted receipts of a block; none if the block is not in the chain any more.
fn receipts_of_block(
    rpc: &Rpc,
    header: &Sealed<Header>,
    wanted: &HashSet<B256>,
) -> RpcResult<Vec<Value>> {
    let view = rpc.node.view();
    if !view.has(header) {
        return Ok(Vec::new());
    }
    let Some(found) = rpc.block(&view, header.number)? else { return Ok(Vec::new()) };
    let mut receipts = convert::stored_receipts(rpc, &view, &found)?;
    let mut txs = found.block.body.transactions.iter();
    receipts.retain(|_| {
        let tx = txs.next();
        wanted.is_empty() || tx.is_some_and(|tx| wanted.contains(tx.tx_hash()))
    });
    Ok(receipts)
}

/// The receiver of a subscription's news.
#[derive(Debug)]
struct Receiver {
    topic: Topic,
    sink: SubscriptionSink,
    connection: Option<Arc<Connection>>,
}

impl Receiver {
    /// Sends the news that `news` returns. If it fails, the subscription ends with the reason.
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

    /// Waits until the connection has room for more news; returns `false` if it was closed. A slow client misses
    /// transactions meanwhile, and missed blocks are read from the chain later.
    async fn has_room(&self) -> bool {
        match &self.connection {
            Some(connection) => connection.room().await,
            None => true,
        }
    }

    /// Sends news.
    async fn send(&self, news: Vec<Box<RawValue>>) -> Result<(), SubscriptionError> {
        let connection = self.connection.as_deref();
        // All bytes are counted at once, so that other subscriptions of this client wait until they are read.
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

/// The bytes of news that are counted but not sent yet. Dropping this subtracts them from the connection.
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

/// Reads blocks on a blocking thread, once the subscription has a permit.
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

/// Logs the reason for which a subscription ends, and returns it for the client.
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
        "logs" => {
            let filter: LogFilter = args.optional()?.unwrap_or_default();
            check_future(&filter.filter)?;
            Topic::Logs(Arc::new(filter))
        }
        "transactionReceipts" => Topic::Receipts(Arc::new(wanted_receipts(&mut args)?)),
        "newPendingTransactions" => Topic::Pending { full: args.optional()?.unwrap_or(false) },
        "syncing" => Topic::Syncing,
        _ => {
            return Err(RpcError::params(format!(
                "no subscription {name:?}: there are newHeads, logs, transactionReceipts, newPendingTransactions and syncing"
            )));
        }
    })
}

/// Takes the transactions whose receipts a subscription sends; an empty set is for all of them.
fn wanted_receipts(args: &mut Args) -> RpcResult<HashSet<B256>> {
    let params: TransactionReceiptsParams = args.optional()?.unwrap_or_default();
    let hashes = params.transaction_hashes.unwrap_or_default();
    let found = hashes.len();
    if found > MAX_HASHES {
        return Err(RpcError::params(format!(
            "exceed max number of transaction hashes: {found}, at most {MAX_HASHES} for one subscription"
        )));
    }
    Ok(hashes.into_iter().collect())
}

/// Returns the news about a transaction that became executable.
fn pending_news(topic: &Topic, tx: &PoolTransaction) -> RpcResult<Vec<Value>> {
    match topic {
        Topic::Pending { full: false } => Ok(vec![json!(tx.hash())]),
        Topic::Pending { full: true } => Ok(vec![convert::pending(tx)?]),
        Topic::Heads | Topic::Logs(_) | Topic::Receipts(_) | Topic::Syncing => Ok(Vec::new()),
    }
}

/// Serializes news.
fn raw(news: &[impl Serialize]) -> RpcResult<Vec<Box<RawValue>>> {
    news.iter().map(convert::text_of).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{
        MineOptions,
        rpc::{
            NEWS,
            tests::{methods, shared},
        },
    };
    use jsonrpsee::RpcModule;
    use std::{thread, time::Duration};
    use tokio::time;

    #[tokio::test]
    async fn blocks_are_read_on_threads_that_may_wait() {
        let there = read(&shared(), || Ok(thread::current().id())).await.unwrap();
        assert_ne!(there, thread::current().id());
    }

    #[tokio::test]
    async fn logs_are_read_in_turns_and_hold_up_nobody() {
        let shared = shared();
        let methods = methods(&shared);
        let call = async |method: &str, params: Value| {
            let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
            let answered = methods.raw_json_request(&request.to_string(), 8).await;
            let (answer, news) = answered.unwrap();
            assert!(answer.get().contains("\"result\""), "{method}: {answer}");
            news
        };
        let mut logs = call("eth_subscribe", json!(["logs"])).await;
        let mut heads = call("eth_subscribe", json!(["newHeads"])).await;
        // Other subscriptions hold all permits.
        let turns = Arc::clone(&shared.turns.news).acquire_many_owned(NEWS as u32).await.unwrap();
        // The contract emits a log without a topic: PUSH0 PUSH0 LOG0.
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

    /// A block is shown before it is announced, and a client may subscribe in between.
    #[tokio::test]
    async fn a_block_from_before_a_subscription_is_no_news() {
        let shared = shared();
        let methods = methods(&shared);
        let mine = || shared.node.mine(MineOptions::EVEN_EMPTY).unwrap().unwrap();
        let first = mine();
        let request =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": ["newHeads"] });
        let (_, mut heads) = methods.raw_json_request(&request.to_string(), 8).await.unwrap();
        shared.node.announce(first);
        mine();
        let news = heads.recv().await.unwrap();
        assert!(news.get().contains(r#""number":"0x2""#), "{news}");
        // A block in the place of one from before is news.
        shared.node.rollback(2).unwrap();
        mine();
        let news = heads.recv().await.unwrap();
        assert!(news.get().contains(r#""number":"0x1""#), "{news}");
    }

    /// So is a change of branch.
    #[tokio::test]
    async fn a_branch_from_before_a_subscription_is_no_news() {
        let shared = shared();
        let methods = methods(&shared);
        let mine = || shared.node.mine(MineOptions::EVEN_EMPTY).unwrap().unwrap();
        let (first, second) = (mine(), mine());
        let former = shared.node.view();
        shared.node.rollback(1).unwrap();
        mine();
        let request =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": ["newHeads"] });
        let (_, mut heads) = methods.raw_json_request(&request.to_string(), 8).await.unwrap();
        shared.node.announce_reverted(first, &former);
        shared.node.announce(second);
        mine();
        let news = heads.recv().await.unwrap();
        assert!(news.get().contains(r#""number":"0x3""#), "{news}");
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
