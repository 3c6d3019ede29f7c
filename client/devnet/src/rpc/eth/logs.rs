//! Methods about logs and filters.

use super::LogFilter;
use crate::{
    FormerChain, View,
    rpc::{
        Methods, Rpc, Turn,
        args::Args,
        convert,
        error::{RpcError, RpcResult},
        filters::{FilterKind, Poll, TakenBack},
        on_thread,
        replay::OVERSIZED,
    },
};
use alloy_consensus::{Header, Sealed};
use alloy_eips::BlockNumberOrTag;
use alloy_primitives::{U64, U256};
use alloy_rpc_types_eth::{Filter, FilterBlockOption, Log};
use jsonrpsee::{core::RegisterMethodError, types::ErrorObjectOwned};
use polytrie_chain::ChainDb;
use polytrie_kv::Snapshot;
use serde_json::value::RawValue;
use std::sync::Arc;

/// Error code of a request or an answer that exceeds a limit.
pub(in crate::rpc) const LIMIT: i32 = -32005;

/// Maximum number of bytes of a log in an answer, without its topics and data.
const LOG: usize = 512;
/// Maximum number of bytes of a hash in an answer, which may be a topic.
const HASH: usize = 70;

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    methods.add_search("eth_getLogs", |rpc, args| {
        let filter: LogFilter = args.next()?;
        rpc.find_logs(&filter)
    })?;
    methods.add("eth_newFilter", |rpc, args| {
        let filter: LogFilter = args.next()?;
        check_future(&filter.filter)?;
        Ok(rpc.new_filter(FilterKind::Logs(Arc::new(filter))))
    })?;
    methods.add("eth_newBlockFilter", |rpc, _| Ok(rpc.new_filter(FilterKind::Blocks)))?;
    methods.add("eth_newPendingTransactionFilter", |rpc, args| {
        let full = args.optional()?.unwrap_or(false);
        Ok(rpc.new_filter(FilterKind::Pending { full }))
    })?;
    add_changes(methods)?;
    methods.add_search("eth_getFilterLogs", |rpc, args| {
        let id: U256 = args.next()?;
        rpc.filter_logs(id)
    })?;
    methods.add("eth_uninstallFilter", |rpc, args| {
        let id: U256 = args.next()?;
        Ok(rpc.filters.remove(id))
    })
}

/// Adds the method that returns the news of a filter. Logs are searched for in turn, as by `eth_getLogs`.
fn add_changes(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    methods.0.register_async_method("eth_getFilterChanges", |params, shared, _| async move {
        let id: U256 = Args::new(&params)?.next()?;
        let permit = match shared.filters.kind(id) {
            Some(FilterKind::Logs(_)) => Some(shared.turns.take(Turn::Search).await?),
            Some(FilterKind::Blocks | FilterKind::Pending { .. }) | None => None,
        };
        let answer = on_thread(move || {
            let news = Rpc::new(shared).filter_changes(id)?;
            let answer = convert::text_of(&news);
            drop(permit);
            answer
        });
        answer.await.map_err(ErrorObjectOwned::from)
    })?;
    Ok(())
}

/// Returns the first and the last block of a filter; both may be beyond the head.
fn ends(rpc: &Rpc, view: &View, filter: &Filter) -> RpcResult<(u64, u64)> {
    match filter.block_option {
        FilterBlockOption::AtBlockHash(hash) => {
            let number = rpc.known(view, hash.into())?;
            Ok((number, number))
        }
        FilterBlockOption::Range { from_block, to_block } => {
            let number = |tag: Option<BlockNumberOrTag>| match tag {
                Some(BlockNumberOrTag::Number(number)) => Ok(number),
                tag => rpc.known(view, tag.unwrap_or_default().into()),
            };
            Ok((number(from_block)?, number(to_block)?))
        }
    }
}

/// Returns the error of a range of blocks that ends before it begins.
pub(in crate::rpc) fn reversed(from: u64, to: u64) -> RpcError {
    RpcError::params(format!("invalid block range: it begins at {from} and ends at {to}"))
}

/// Refuses a filter whose range is reversed. The range may begin beyond the head.
pub(in crate::rpc) fn check_future(filter: &Filter) -> RpcResult<()> {
    match (filter.get_from_block(), filter.get_to_block()) {
        (Some(from), Some(to)) if from > to => Err(reversed(from, to)),
        _ => Ok(()),
    }
}

/// Returns the logs of one block that match a filter; none if the block is not in this chain.
pub(in crate::rpc) fn logs_of_block(
    db: &ChainDb<Snapshot>,
    header: &Sealed<Header>,
    filter: &LogFilter,
) -> RpcResult<Vec<Log>> {
    if header.logs_bloom.is_zero() || !filter.filter.matches_bloom(header.logs_bloom) {
        return Ok(Vec::new());
    }
    if db.canonical(header.number)?.is_none_or(|(hash, _)| hash != header.hash()) {
        return Ok(Vec::new());
    }
    let (Some(block), Some(receipts)) = (db.block(header.number)?, db.receipts(header.number)?)
    else {
        // The block was not executed here, although its bloom says that it has logs.
        return Err(db.missing(header.number).into());
    };
    let mut logs = convert::logs(header, &block, receipts);
    logs.retain(|log| filter.matches(&log.inner));
    Ok(logs)
}

/// Returns the logs of a reverted block that match a filter. `number` is that in the former chain.
pub(in crate::rpc) fn removed_logs(
    former: &FormerChain,
    number: u64,
    filter: &LogFilter,
) -> RpcResult<Vec<Log>> {
    let header = former.db.block_head(number)?.header;
    let mut logs = logs_of_block(&former.db, &header, filter)?;
    logs.iter_mut().for_each(|log| log.removed = true);
    Ok(logs)
}

/// The news of a filter as text, because JSON values would take several times the memory.
type News = Vec<Box<RawValue>>;

/// The logs of an answer so far.
#[derive(Debug, Clone, Copy, Default)]
struct Taken {
    logs: usize,
    /// Maximum number of bytes of the logs.
    bytes: usize,
}

impl Taken {
    /// Adds these logs.
    fn and(self, logs: &[Log]) -> Self {
        let size = |log: &Log| {
            let (topics, data) = (log.inner.topics().len(), log.inner.data.data.len());
            LOG + topics * HASH + data * 2
        };
        let bytes = self.bytes + logs.iter().map(size).sum::<usize>();
        Self { logs: self.logs + logs.len(), bytes }
    }
}

/// A limit of an answer.
#[derive(Debug, Clone, Copy)]
enum Limit {
    Logs,
    Bytes,
}

/// The result of a search for logs.
#[derive(Debug, Default)]
struct Search {
    logs: Vec<Log>,
    stopped: Option<Stop>,
}

/// The block at which a search stopped early, and the reason. The logs of this block are not in the result.
#[derive(Debug, Clone, Copy)]
enum Stop {
    TooMuch(u64, Limit),
    TooLong(u64),
}

impl Rpc {
    /// Returns the logs of a range of blocks, which must not exceed the head.
    fn find_logs(&self, filter: &LogFilter) -> RpcResult<Vec<Log>> {
        let view = self.node.view();
        let (from, to) = ends(self, &view, &filter.filter)?;
        if from > to {
            return Err(reversed(from, to));
        }
        let head = view.head.number();
        if to > head {
            return Err(RpcError::params(format!(
                "block range extends beyond current head block: it ends at {to}, the head is block {head}"
            )));
        }
        self.logs_between(&view, from, to, filter)
    }

    /// Returns all logs of a filter's range up to the head.
    fn filter_logs(&self, id: U256) -> RpcResult<Vec<Log>> {
        let filter = self.filter_of(id)?;
        let view = self.node.view();
        let (from, to) = ends(self, &view, &filter.filter)?;
        let to = to.min(view.head.number());
        if from > to {
            return Ok(Vec::new());
        }
        self.logs_between(&view, from, to, &filter)
    }

    /// Returns the logs of the blocks from `from` to `to` that match a filter, or an error if there are too many blocks
    /// or logs, or no time is left.
    fn logs_between(
        &self,
        view: &View,
        from: u64,
        to: u64,
        filter: &LogFilter,
    ) -> RpcResult<Vec<Log>> {
        let limit = self.limits.log_blocks;
        if to - from >= limit {
            return Err(RpcError::new(
                LIMIT,
                format!(
                    "the range spans {} blocks, at most {limit} are searched at once; ask for a part of it",
                    (to - from).saturating_add(1)
                ),
            ));
        }
        let search = self.search(view, from, to, filter, Taken::default())?;
        match search.stopped {
            None => Ok(search.logs),
            Some(Stop::TooMuch(_, limit)) => Err(self.too_much(limit)),
            Some(Stop::TooLong(number)) => Err(RpcError::new(
                LIMIT,
                format!(
                    "the search took longer than a request may, and had come to block {number}; ask for fewer blocks than {from} to {to}, or start the node with a larger --rpc.evmtimeout"
                ),
            )),
        }
    }

    /// Returns the limit that the logs of an answer exceed, if there is one.
    fn exceeded(&self, taken: Taken) -> Option<Limit> {
        if taken.logs > self.limits.logs {
            return Some(Limit::Logs);
        }
        (taken.bytes > self.max_response).then_some(Limit::Bytes)
    }

    fn too_much(&self, limit: Limit) -> RpcError {
        match limit {
            Limit::Logs => {
                let limit = self.limits.logs;
                RpcError::new(
                    LIMIT,
                    format!(
                        "more than {limit} logs pass the filter; ask for fewer blocks or topics"
                    ),
                )
            }
            Limit::Bytes => RpcError::new(
                OVERSIZED,
                "the logs are larger than an answer may be; ask for fewer blocks or topics, or start the node with a larger --rpc.max-response",
            ),
        }
    }

    /// Searches the blocks from `from` to `to`. The logs that the answer has already, `taken`, count towards its limits.
    fn search(
        &self,
        view: &View,
        from: u64,
        to: u64,
        filter: &LogFilter,
        mut taken: Taken,
    ) -> RpcResult<Search> {
        let mut search = Search::default();
        for number in from..=to {
            // At least one block is searched, so that each request makes progress.
            if number > from && self.in_time().is_err() {
                search.stopped = Some(Stop::TooLong(number));
                break;
            }
            let header = view.db().block_head(number)?.header;
            let found = logs_of_block(view.db(), &header, filter)?;
            taken = taken.and(&found);
            if let Some(limit) = self.exceeded(taken) {
                search.stopped = Some(Stop::TooMuch(number, limit));
                break;
            }
            search.logs.extend(found);
        }
        Ok(search)
    }

    fn new_filter(&self, kind: FilterKind) -> U64 {
        U64::from(self.filters.add(kind, || self.node.view()))
    }

    fn filter_of(&self, id: U256) -> RpcResult<Arc<LogFilter>> {
        match self.filters.kind(id) {
            Some(FilterKind::Logs(filter)) => Ok(filter),
            Some(_) => Err(RpcError::server("the filter is not one for logs")),
            None => Err(RpcError::server("filter not found")),
        }
    }

    fn filter_changes(&self, id: U256) -> RpcResult<News> {
        let poll = self.filters.poll(id, || self.node.view());
        let poll = poll.ok_or_else(|| RpcError::server("filter not found"))?;
        let (news, next) = match &poll.kind {
            FilterKind::Blocks => {
                // Blocks beyond the size of an answer come with the next one.
                let most = (self.max_response / HASH).max(1) as u64;
                let end = poll.end().min(poll.from.saturating_add(most));
                let mut hashes = News::new();
                for number in poll.from..end {
                    if let Some((hash, _)) = poll.view.db().canonical(number)? {
                        hashes.push(convert::text_of(&hash)?);
                    }
                }
                (hashes, end)
            }
            FilterKind::Logs(filter) => return self.log_changes(&poll, filter),
            FilterKind::Pending { .. } => (self.pending_changes(&poll)?, poll.end()),
        };
        self.filters.told(&poll, next, None);
        Ok(news)
    }

    /// Returns the new transactions, as hashes or in full.
    fn pending_changes(&self, poll: &Poll) -> RpcResult<News> {
        let lost = || {
            RpcError::new(
                LIMIT,
                "more transactions came than are kept for filters, and those since the last answer are lost; ask more often",
            )
        };
        let pending = poll.pending.as_ref().ok_or_else(lost)?;
        let mut news = pending.hashes.iter().map(convert::text_of).collect::<RpcResult<News>>()?;
        let mut left = self.max_response;
        for tx in &pending.full {
            let tx = convert::text_of(&convert::pending(tx)?)?;
            left = left.checked_sub(tx.get().len()).ok_or_else(lost)?;
            news.push(tx);
        }
        Ok(news)
    }

    /// Returns the removed logs of reverted blocks, then new logs. Logs beyond the limits come with the next answer.
    fn log_changes(&self, poll: &Poll, filter: &LogFilter) -> RpcResult<News> {
        let head = poll.view.head.number();
        let (removed, left) = match &poll.taken_back {
            None => (Vec::new(), None),
            Some(taken_back) => self.removed(poll.from, taken_back, filter)?,
        };
        let mut logs = removed;
        let mut next = poll.from;
        if left.is_none() {
            let from = filter.filter.get_from_block().unwrap_or(0).max(poll.from);
            let to = filter.filter.get_to_block().unwrap_or(head).min(head);
            let taken = Taken::default().and(&logs);
            let search = self.search(&poll.view, from, to, filter, taken)?;
            next = match search.stopped {
                Some(Stop::TooMuch(_, limit)) if search.logs.is_empty() && logs.is_empty() => {
                    return Err(self.too_much(limit));
                }
                Some(Stop::TooMuch(next, _) | Stop::TooLong(next)) => next,
                None => poll.end(),
            };
            logs.extend(search.logs);
        }
        let news = logs.iter().map(convert::text_of).collect::<RpcResult<_>>()?;
        self.filters.told(poll, next, left);
        Ok(news)
    }

    /// Returns the logs of the reverted blocks from `from` on, and the blocks that did not fit. The last blocks are
    /// taken first, so that the rest is always a range up to some number.
    fn removed(
        &self,
        from: u64,
        taken_back: &TakenBack,
        filter: &LogFilter,
    ) -> RpcResult<(Vec<Log>, Option<TakenBack>)> {
        let former = taken_back.former.upgrade().ok_or_else(|| {
            RpcError::new(
                LIMIT,
                "the chain went back more often than is kept for filters, and the logs that were removed since the last answer are lost; ask more often, or for all logs again",
            )
        })?;
        let first = filter.filter.get_from_block().unwrap_or(0).max(from);
        // Blocks of the new chain that were reported before its event came are above the head of the former one.
        let end = taken_back.end.min(former.head.saturating_add(1));
        let end = filter.filter.get_to_block().map_or(end, |to| end.min(to.saturating_add(1)));
        let mut blocks = Vec::new();
        let (mut taken, mut left) = (Taken::default(), None);
        for number in (first..end).rev() {
            let logs = match self.in_time() {
                Err(_) if number + 1 < end => None,
                _ => Some(removed_logs(&former, number, filter)?),
            };
            if let Some(logs) = logs {
                let all = taken.and(&logs);
                match self.exceeded(all) {
                    None => {
                        taken = all;
                        blocks.push(logs);
                        continue;
                    }
                    Some(limit) if taken.logs == 0 => return Err(self.too_much(limit)),
                    Some(_) => {}
                }
            }
            left = Some(TakenBack { end: number + 1, ..taken_back.clone() });
            break;
        }
        Ok((blocks.into_iter().rev().flatten().collect(), left))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::rpc::{
        SEARCHES,
        tests::{call, methods, shared},
    };
    use serde_json::json;
    use std::time::Duration;
    use tokio::time;

    #[tokio::test]
    async fn the_news_of_a_filter_for_logs_take_their_turn() {
        let shared = shared();
        let methods = methods(&shared);
        let call = async |method: &str, params| call(&methods, method, params).await;
        let blocks = call("eth_newBlockFilter", json!([])).await;
        let logs = call("eth_newFilter", json!([{}])).await;
        // Other searches hold all permits.
        let searches = Arc::clone(&shared.turns.searches);
        let turns = searches.acquire_many_owned(SEARCHES as u32).await.unwrap();
        assert_eq!(call("eth_getFilterChanges", json!([blocks])).await, json!([]));
        let changes = call("eth_getFilterChanges", json!([logs]));
        let early = time::timeout(Duration::from_millis(200), changes).await;
        assert!(early.is_err(), "{early:?}");
        drop(turns);
        assert_eq!(call("eth_getFilterChanges", json!([logs])).await, json!([]));
    }
}
