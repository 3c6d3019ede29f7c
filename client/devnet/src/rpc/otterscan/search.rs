//! Search for the transactions that concern an account.
//!
//! There is no index for this: the search goes through the blocks. It executes those whose parent's state is kept
//! again, to find calls between contracts as well.

use super::{frames_of_block, gas_used, genesis, page_size, shorten};
use crate::{
    View,
    rpc::{
        Rpc,
        args::{Args, Number},
        convert::{self, quantity},
        error::{RpcError, RpcResult},
        eth::LIMIT,
        lookup::Found,
    },
};
use alloy_consensus::Transaction;
use alloy_primitives::{Address, B256};
use polytrie_chain::executor::sandbox::FrameKind;
use serde_json::{Value, json};

/// Gas of a transaction that only transfers ether.
const TRANSFER_GAS: u64 = 21_000;

/// A transaction, and its receipt.
type Hit = (Value, Value);

/// `ots_searchTransactionsBefore`: an account's transactions before a block, the latest first. Block 0 means from
/// the head on.
pub(super) fn before(rpc: &Rpc, args: &mut Args) -> RpcResult<Value> {
    let (address, block, size) = (args.next()?, args.next::<Number>()?.as_u64()?, page_size(args)?);
    let view = rpc.node.view();
    let head = view.head.number();
    let is_first = block == 0 || block > head;
    let mut next = if is_first { head } else { block - 1 };
    let mut hits = Vec::new();
    let first = rpc.beginning(&view)? + 1;
    let mut seen = Seen::default();
    while next >= first && hits.len() < size {
        seen.another(rpc)?;
        let mut of_block = hits_of_block(rpc, &view, next, &address)?;
        of_block.reverse();
        hits.extend(of_block);
        next -= 1;
    }
    Ok(page(hits, is_first, next < first))
}

/// `ots_searchTransactionsAfter`: an account's transactions after a block, the latest first. Block 0 means from the
/// first block on.
pub(super) fn after(rpc: &Rpc, args: &mut Args) -> RpcResult<Value> {
    let (address, block, size) = (args.next()?, args.next::<Number>()?.as_u64()?, page_size(args)?);
    let view = rpc.node.view();
    let head = view.head.number();
    let mut next = block.max(rpc.beginning(&view)?).saturating_add(1);
    let mut hits = Vec::new();
    let mut seen = Seen::default();
    while next <= head && hits.len() < size {
        seen.another(rpc)?;
        hits.extend(hits_of_block(rpc, &view, next, &address)?);
        next += 1;
    }
    hits.reverse();
    Ok(page(hits, next > head, block == 0))
}

fn page(hits: Vec<Hit>, is_first: bool, is_last: bool) -> Value {
    let (txs, receipts): (Vec<_>, Vec<_>) = hits.into_iter().unzip();
    json!({ "txs": txs, "receipts": receipts, "firstPage": is_first, "lastPage": is_last })
}

/// Number of blocks that one request has searched.
#[derive(Debug, Default)]
struct Seen(u64);

impl Seen {
    fn another(&mut self, rpc: &Rpc) -> RpcResult<()> {
        self.0 += 1;
        if rpc.in_time().is_err() {
            let seen = self.0 - 1;
            return Err(RpcError::new(
                LIMIT,
                format!(
                    "the search took longer than a request may, and had looked through {seen} blocks; start the node with a larger --rpc.evmtimeout"
                ),
            ));
        }
        let limit = rpc.limits.log_blocks;
        if self.0 > limit {
            return Err(RpcError::new(
                LIMIT,
                format!("{limit} blocks were looked through, and no more are at once"),
            ));
        }
        Ok(())
    }
}

fn hits_of_block(rpc: &Rpc, view: &View, number: u64, address: &Address) -> RpcResult<Vec<Hit>> {
    let Some(found) = rpc.block(view, number)? else { return Ok(Vec::new()) };
    if found.block.body.transactions.is_empty() {
        return Ok(Vec::new());
    }
    let indexes = touching(rpc, view, &found, address)?;
    if indexes.is_empty() {
        return Ok(Vec::new());
    }
    let timestamp = quantity(found.header.timestamp);
    let receipts = convert::stored_receipts(rpc, view, &found)?;
    let mut hits = Vec::new();
    for index in indexes {
        let tx = found.block.body.transactions[index].clone();
        let sender = convert::sender(&tx)?;
        let mut tx = convert::transaction(tx, sender, &found.header, index)?;
        shorten(&mut tx);
        let mut receipt = receipts[index].clone();
        super::without_logs(&mut receipt);
        receipt["timestamp"] = timestamp.clone();
        hits.push((tx, receipt));
    }
    Ok(hits)
}

/// Returns the indexes of a block's transactions that concern an account.
fn touching(rpc: &Rpc, view: &View, found: &Found, address: &Address) -> RpcResult<Vec<usize>> {
    let transactions = &found.block.body.transactions;
    let stored = rpc.receipts(view, found)?;
    let mut hit = vec![false; transactions.len()];
    for (index, tx) in transactions.iter().enumerate() {
        let sender = convert::sender(tx)?;
        hit[index] = sender == *address
            || tx.to() == Some(*address)
            || (tx.is_create() && sender.create(tx.nonce()) == *address)
            || stored
                .get(index)
                .is_some_and(|receipt| receipt.logs().iter().any(|log| log.address == *address));
    }
    let is_plain = gas_used(&stored).iter().all(|gas| *gas == TRANSFER_GAS);
    if !is_plain && let Some(frames) = frames_of_block(rpc, view, found)? {
        for (hit, frames) in hit.iter_mut().zip(frames) {
            *hit |= frames.iter().any(|frame| frame.from == *address || frame.to == *address);
        }
    }
    Ok((0..hit.len()).filter(|index| hit[*index]).collect())
}

/// Returns the hash of the transaction with which an account used a nonce.
pub(super) fn by_sender_and_nonce(
    rpc: &Rpc,
    sender: &Address,
    nonce: u64,
) -> RpcResult<Option<B256>> {
    let view = rpc.node.view();
    let of_block = |found: &Found| -> RpcResult<Option<B256>> {
        for tx in &found.block.body.transactions {
            if tx.nonce() == nonce && convert::sender(tx)? == *sender {
                return Ok(Some(*tx.tx_hash()));
            }
        }
        Ok(None)
    };
    let used = |state: &dyn polytrie_state::StateReader| -> RpcResult<bool> {
        Ok(state.account(sender)?.unwrap_or_default().nonce > nonce)
    };
    match first_block(rpc, &view, &used)? {
        First::Never => Ok(None),
        First::At(number) => match rpc.block(&view, number)? {
            Some(found) => of_block(&found),
            None => Ok(None),
        },
        First::NotAfter(oldest) => look_back(rpc, &view, oldest, of_block),
    }
}

/// Looks through the blocks up to `newest`, the latest first, until `of_block` finds something. If the blocks before one
/// are not here, that is an error, because it may be in them.
fn look_back<T>(
    rpc: &Rpc,
    view: &View,
    newest: u64,
    of_block: impl Fn(&Found) -> RpcResult<Option<T>>,
) -> RpcResult<Option<T>> {
    let mut seen = Seen::default();
    for number in (genesis(rpc) + 1..=newest).rev() {
        seen.another(rpc)?;
        let found = rpc.block(view, number)?.ok_or_else(|| view.db().missing(number))?;
        if let Some(sought) = of_block(&found)? {
            return Ok(Some(sought));
        }
    }
    Ok(None)
}

/// `ots_getContractCreator`: the creator of a contract, and the transaction that created it.
pub(super) fn contract_creator(rpc: &Rpc, args: &mut Args) -> RpcResult<Option<Value>> {
    let address: Address = args.next()?;
    let view = rpc.node.view();
    let has_code = |state: &dyn polytrie_state::StateReader| -> RpcResult<bool> {
        Ok(state.account(&address)?.is_some_and(|account| account.has_code()))
    };
    let answer = |hash: &B256, creator: Address| Some(json!({ "hash": hash, "creator": creator }));
    match first_block(rpc, &view, &has_code)? {
        First::Never => Ok(None),
        First::At(number) => {
            let Some(found) = rpc.block(&view, number)? else { return Ok(None) };
            let all = frames_of_block(rpc, &view, &found)?.unwrap_or_default();
            for (tx, frames) in found.block.body.transactions.iter().zip(all) {
                let creation = frames.iter().find(|frame| {
                    let creates = matches!(frame.kind, FrameKind::Create | FrameKind::Create2);
                    creates && frame.kept && frame.to == address
                });
                if let Some(frame) = creation {
                    return Ok(answer(tx.tx_hash(), frame.from));
                }
            }
            Ok(None)
        }
        // Without the state of these blocks, creations by other contracts cannot be found.
        First::NotAfter(oldest) => look_back(rpc, &view, oldest, |found| {
            for tx in &found.block.body.transactions {
                let sender = convert::sender(tx)?;
                if tx.is_create() && sender.create(tx.nonce()) == address {
                    return Ok(answer(tx.tx_hash(), sender));
                }
            }
            Ok(None)
        }),
    }
}

/// The first block after which a condition holds.
enum First {
    /// The condition does not hold at the head.
    Never,
    /// The condition holds after this block, but not after its parent.
    At(u64),
    /// The condition holds after this block already, the oldest whose state is kept.
    NotAfter(u64),
}

/// Finds the first block after which `holds` is true, by binary search. Once true, `holds` must stay true.
fn first_block(
    rpc: &Rpc,
    view: &View,
    holds: &dyn Fn(&dyn polytrie_state::StateReader) -> RpcResult<bool>,
) -> RpcResult<First> {
    let at = |number: u64| holds(&*rpc.at_number(view, number)?.state);
    let (mut low, mut high) = (view.oldest_state()?, view.head.number());
    if !at(high)? {
        return Ok(First::Never);
    }
    if at(low)? {
        return Ok(First::NotAfter(low));
    }
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if at(middle)? {
            high = middle;
        } else {
            low = middle;
        }
    }
    Ok(First::At(high))
}
