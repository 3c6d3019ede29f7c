//! Logs, and filters that remember what was seen.

use crate::rpc::{
    Methods, Rpc, convert,
    error::{RpcError, RpcResult},
    filters::FilterKind,
};
use alloy_consensus::{Header, Sealed};
use alloy_eips::BlockNumberOrTag;
use alloy_primitives::{U64, U256};
use alloy_rpc_types_eth::{Filter, FilterBlockOption, Log};
use jsonrpsee::core::RegisterMethodError;
use serde_json::{Value, json};

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    methods.add("eth_getLogs", |rpc, args| {
        let filter: Filter = args.next()?;
        rpc.find_logs(&filter)
    })?;
    methods.add("eth_newFilter", |rpc, args| {
        let filter: Filter = args.next()?;
        range(rpc, &filter)?;
        rpc.new_filter(FilterKind::Logs(Box::new(filter)))
    })?;
    methods.add("eth_newBlockFilter", |rpc, _| rpc.new_filter(FilterKind::Blocks))?;
    methods.add("eth_newPendingTransactionFilter", |rpc, args| {
        let full = args.optional()?.unwrap_or(false);
        rpc.new_filter(FilterKind::Pending { full })
    })?;
    methods.add("eth_getFilterChanges", |rpc, args| {
        let id: U256 = args.next()?;
        rpc.filter_changes(id)
    })?;
    methods.add("eth_getFilterLogs", |rpc, args| {
        let id: U256 = args.next()?;
        let filter = rpc.filter_of(id)?;
        rpc.find_logs(&filter)
    })?;
    methods.add("eth_uninstallFilter", |rpc, args| {
        let id: U256 = args.next()?;
        Ok(rpc.filters.remove(id))
    })
}

/// The blocks that a filter is about, first and last.
fn range(rpc: &Rpc, filter: &Filter) -> RpcResult<(u64, u64)> {
    let view = rpc.node.view();
    match filter.block_option {
        FilterBlockOption::AtBlockHash(hash) => {
            let number = rpc.known(&view, hash.into())?;
            Ok((number, number))
        }
        FilterBlockOption::Range { from_block, to_block } => {
            let head = view.head.number();
            let number = |tag: Option<BlockNumberOrTag>| match tag {
                // A range may reach beyond the head.
                Some(BlockNumberOrTag::Number(number)) => Ok(number),
                tag => rpc.known(&view, tag.unwrap_or_default().into()),
            };
            let (from, to) = (number(from_block)?, number(to_block)?);
            if from > to {
                return Err(RpcError::params(format!(
                    "invalid block range: it begins at {from} and ends at {to}"
                )));
            }
            let to = to.min(head);
            let limit = rpc.limits.log_blocks;
            if to.saturating_sub(from) >= limit {
                return Err(RpcError::new(
                    -32005,
                    format!(
                        "the range spans {} blocks, at most {limit} are searched at once; ask for a part of it",
                        to - from + 1
                    ),
                ));
            }
            Ok((from, to))
        }
    }
}

/// The logs of one block that pass a filter.
pub(in crate::rpc) fn logs_of_block(
    rpc: &Rpc,
    header: &Sealed<Header>,
    filter: &Filter,
) -> RpcResult<Vec<Log>> {
    if !filter.matches_bloom(header.logs_bloom) {
        return Ok(Vec::new());
    }
    let db = rpc.node.db();
    let (Some(block), Some(receipts)) = (db.block(header.number)?, db.receipts(header.number)?)
    else {
        return Ok(Vec::new());
    };
    let mut logs = convert::logs(header, &block, receipts);
    logs.retain(|log| filter.matches(&log.inner));
    Ok(logs)
}

impl Rpc {
    pub(in crate::rpc) fn find_logs(&self, filter: &Filter) -> RpcResult<Vec<Log>> {
        let (from, to) = range(self, filter)?;
        self.logs_between(from, to, filter)
    }

    /// The logs of these blocks, both included, that pass a filter.
    pub(in crate::rpc) fn logs_between(
        &self,
        from: u64,
        to: u64,
        filter: &Filter,
    ) -> RpcResult<Vec<Log>> {
        let mut all = Vec::new();
        for number in from..=to {
            let header = self.node.db().block_head(number)?.header;
            all.extend(logs_of_block(self, &header, filter)?);
            if all.len() > self.limits.logs {
                return Err(RpcError::new(
                    -32005,
                    format!(
                        "more than {} logs pass the filter; ask for fewer blocks or topics",
                        self.limits.logs
                    ),
                ));
            }
        }
        Ok(all)
    }

    fn new_filter(&self, kind: FilterKind) -> RpcResult<U64> {
        let head = self.node.view().head.number();
        let events = match kind {
            FilterKind::Pending { .. } => Some(self.node.events()),
            _ => None,
        };
        Ok(U64::from(self.filters.add(kind, head, events)))
    }

    fn filter_of(&self, id: U256) -> RpcResult<Filter> {
        match self.filters.kind(id) {
            Some(FilterKind::Logs(filter)) => Ok(*filter),
            Some(_) => Err(RpcError::server("the filter is not one for logs")),
            None => Err(RpcError::server("filter not found")),
        }
    }

    fn filter_changes(&self, id: U256) -> RpcResult<Vec<Value>> {
        let head = self.node.view().head.number();
        let poll =
            self.filters.poll(id, head).ok_or_else(|| RpcError::server("filter not found"))?;
        match poll.kind {
            FilterKind::Blocks => {
                let mut hashes = Vec::new();
                for number in poll.from..=head {
                    hashes.extend(self.node.db().canonical(number)?.map(|(hash, _)| json!(hash)));
                }
                Ok(hashes)
            }
            FilterKind::Logs(filter) => {
                let from = filter.get_from_block().unwrap_or(0).max(poll.from);
                let to = filter.get_to_block().unwrap_or(head).min(head);
                let logs = self.logs_between(from, to, &filter)?;
                logs.iter().map(convert::json_of).collect()
            }
            FilterKind::Pending { full } => poll
                .pending
                .iter()
                .map(|tx| if full { convert::pending(tx) } else { Ok(json!(tx.hash())) })
                .collect(),
        }
    }
}
