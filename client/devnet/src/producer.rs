//! Building of blocks from the pool.
//!
//! A block is built on a locked chain: the changes by hand come first, then the transactions, highest tip first, those
//! of one sender by nonce. The chain adopts the block, and the pool drops the included transactions under one lock with
//! the change of the view. The block is announced before the chain is unlocked. Transactions that can never be included
//! are dropped from the pool.

use super::{BlockFees, Node, NodeError, Result, View, log::BlockLog};
use alloy_consensus::{BlobTransactionSidecarVariant, Header, Sealed, Transaction, TxEnvelope};
use alloy_eips::{Encodable2718, eip4844::DATA_GAS_PER_BLOB};
use alloy_primitives::{Address, B256};
use polytrie_chain::executor::{BlockInvalid, BlockRun, ExecuteError, InternalError};
use polytrie_chain::{BuiltBlock, Chain, NewHead, NextBlock};
use polytrie_chainspec::Rules;
use polytrie_consensus::{
    MAX_RLP_BLOCK_SIZE, TransactionError, check_transaction, impersonated, next_base_fee,
    next_blob_fee,
};
use polytrie_state::{Account, TxWrites, WriteSet};
use std::{ops::Deref, sync::Arc};

/// Bytes of a block that are reserved for everything but its transactions.
const BLOCK_OVERHEAD: usize = 16 * 1024;

/// The least gas that a transaction can use.
const LEAST_GAS: u64 = 21_000;

/// Options of a block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MineOptions {
    /// Whether the block may be empty.
    pub allow_empty: bool,
    /// Time of the block.
    pub time: BlockTime,
    /// Whether the block is not logged, as it is one of many that only fill up the chain.
    pub quiet: bool,
}

impl MineOptions {
    /// Options of a block at the clock's time, empty or not.
    pub const EVEN_EMPTY: Self = Self { allow_empty: true, time: BlockTime::Clock, quiet: false };
}

/// The time of a block, in seconds since 1970.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BlockTime {
    /// The time of the clock.
    #[default]
    Clock,
    /// This time; the clock does not change.
    Exactly(u64),
    /// This time; the clock continues from it.
    Set(u64),
    /// This many seconds after the parent, at least 1; the clock continues from there.
    After(u64),
}

impl BlockTime {
    /// Returns the time of a block whose parent has the time `parent`; `None` for the clock's.
    fn on(self, parent: u64) -> Result<Option<u64>> {
        let time = match self {
            Self::Clock => return Ok(None),
            Self::Exactly(time) => return Ok(Some(time)),
            Self::Set(time) => time,
            Self::After(seconds) => parent.saturating_add(seconds.max(1)),
        };
        check_time(time, parent)?;
        Ok(Some(time))
    }
}

/// Checks that a block at `time` can follow one at `parent`, and that another can follow it.
pub(super) fn check_time(time: u64, parent: u64) -> Result<()> {
    if time <= parent {
        return Err(NodeError::Time(format!(
            "timestamp {time} is not later than that of the last block, {parent}"
        )));
    }
    if time == u64::MAX {
        return Err(NodeError::Time(format!("no block could follow one of timestamp {time}")));
    }
    Ok(())
}

/// A block that the node built for a consensus layer.
#[derive(Debug)]
pub struct Payload {
    /// The block.
    pub built: BuiltBlock,
    /// The sidecars of its blob transactions, in order. The pool drops them with the transactions.
    pub sidecars: Vec<Arc<BlobTransactionSidecarVariant>>,
}

impl Deref for Payload {
    type Target = BuiltBlock;

    fn deref(&self) -> &BuiltBlock {
        &self.built
    }
}

/// The results of a selection of transactions from the pool.
#[derive(Debug, Default)]
pub(super) struct Picked {
    /// Whether the block is for other clients, so that transactions without a true signature are left out.
    for_others: bool,
    /// Senders and nonces of the included transactions, in order.
    included: Vec<(Address, u64)>,
    /// Sidecars of the included transactions, in order.
    sidecars: Vec<Arc<BlobTransactionSidecarVariant>>,
    /// Hashes of transactions that can never be included, with the reasons.
    hopeless: Vec<(B256, String)>,
    /// The log lines of the block; `None` if it is not logged.
    log: Option<BlockLog>,
}

impl Node {
    /// Makes a block from the pool, the highest tips first. `None` if it would be empty and that is not allowed.
    ///
    /// # Errors
    ///
    /// If the node is read only or has failed, or fails now.
    pub fn mine(&self, options: MineOptions) -> Result<Option<Sealed<Header>>> {
        self.mine_if(options, || true)
    }

    /// Does the same as [`Self::mine`], but makes no block if `is_wanted` returns `false`. That is called once the chain
    /// is locked.
    ///
    /// # Errors
    ///
    /// As [`Self::mine`].
    pub(super) fn mine_if(
        &self,
        options: MineOptions,
        is_wanted: impl FnOnce() -> bool,
    ) -> Result<Option<Sealed<Header>>> {
        self.writable()?;
        let mut chain = self.chain();
        if !is_wanted() {
            return Ok(None);
        }
        let mined = self.mine_on(&mut chain, options);
        drop(chain);
        self.notify();
        mined
    }

    /// Makes a block on a chain that the caller has locked.
    pub(super) fn mine_on(
        &self,
        chain: &mut Chain,
        options: MineOptions,
    ) -> Result<Option<Sealed<Header>>> {
        let time = options.time.on(chain.head().header.timestamp)?;
        let next = self.next_block(chain, time);
        let fees = self.fees_at(&self.view(), next.timestamp, next.base_fee);
        // Building an empty block and dropping it would cost as much as keeping it.
        if !options.allow_empty && !self.pool.lock().has_next(fees) {
            return Ok(None);
        }
        let log = if options.quiet { None } else { self.block_log() };
        let mut picked = Picked { log, ..Picked::default() };
        let built = self.build(chain, next, &mut picked)?;
        self.forget(&picked.hopeless);
        if built.block.body.transactions.is_empty() && !options.allow_empty {
            return Ok(None);
        }
        let sets_clock = matches!(options.time, BlockTime::Set(_) | BlockTime::After(_));
        self.add(chain, built, &picked, sets_clock).map(Some)
    }

    /// Makes a block the head of a chain that the caller has locked, and announces it. `sets_clock` says whether the
    /// clock continues from the time of the block.
    fn add(
        &self,
        chain: &mut Chain,
        built: NewHead,
        picked: &Picked,
        sets_clock: bool,
    ) -> Result<Sealed<Header>> {
        if !self.view().cheats.is_empty() {
            tracing::debug!("block {} holds changes made by hand", built.header.number);
        }
        let header = built.header.clone();
        let nonces = changed_nonces(built.writes());
        let (_, stats) = chain.adopt(built)?;
        self.miner().count(&stats);
        {
            let mut clock = self.clock.lock();
            clock.made(header.timestamp);
            if sets_clock {
                clock.set(header.timestamp);
            }
        }
        {
            let mut settings = self.settings.lock();
            settings.next_base_fee = None;
            settings.next_prev_randao = None;
        }
        let mut promoted = Vec::new();
        {
            // The pool stays locked while the view changes: a caller that adds a transaction compares the view under
            // the same lock.
            let mut pool = self.pool.lock();
            // This also removes the transactions of a sender that the block deleted, which has no nonce any more.
            for (sender, nonce) in &picked.included {
                promoted.extend(pool.set_nonce(sender, nonce + 1));
            }
            self.publish(chain, Arc::default())?;
            // Authorizations (EIP-7702) and creations raise nonces too, and the nonce of a deleted account is 0.
            for (address, nonce) in &nonces {
                promoted.extend(pool.set_nonce(address, *nonce));
            }
        }
        // The announcement comes before the chain is unlocked, so that no later block overtakes it.
        self.announce(header.clone());
        self.announce_pending(&promoted);
        if let Some(log) = &picked.log {
            log.write(&header);
        }
        Ok(header)
    }

    /// Makes a block of exactly these transactions, or from the pool if `transactions` is `None`, and adds it to the
    /// chain.
    ///
    /// # Errors
    ///
    /// If the node is read only or has failed, one of the transactions cannot be included, or the node fails now.
    pub fn commit(
        &self,
        next: NextBlock,
        transactions: Option<Vec<(TxEnvelope, Address)>>,
    ) -> Result<Sealed<Header>> {
        self.writable()?;
        let mut chain = self.chain();
        let mut picked = Picked { log: self.block_log(), ..Picked::default() };
        let built = self.build_from(&mut chain, next, transactions, &mut picked)?;
        self.forget(&picked.hopeless);
        let added = self.add(&mut chain, built, &picked, false);
        drop(chain);
        self.notify();
        added
    }

    /// Builds a block of exactly these transactions, or from the pool if `transactions` is `None`. It is not added
    /// to the chain.
    ///
    /// # Errors
    ///
    /// If one of the transactions cannot be included, or the node fails.
    pub fn preview(
        &self,
        next: NextBlock,
        transactions: Option<Vec<(TxEnvelope, Address)>>,
    ) -> Result<BuiltBlock> {
        let mut chain = self.chain();
        let built = self.build_from(&mut chain, next, transactions, &mut Picked::default())?;
        Ok(built.into_block())
    }

    /// Builds a block of exactly these transactions, or from the pool if `transactions` is `None`.
    fn build_from(
        &self,
        chain: &mut Chain,
        next: NextBlock,
        transactions: Option<Vec<(TxEnvelope, Address)>>,
        picked: &mut Picked,
    ) -> Result<NewHead> {
        let Some(transactions) = transactions else { return self.build(chain, next, picked) };
        let writes = self.view().cheats.writes();
        let built = chain.build(next, &writes, &mut |run, _, rules| {
            given(run, rules, &transactions, &mut picked.log)
        });
        Ok(built?)
    }

    /// Builds a payload for a consensus layer on the head, from the pool or without transactions. It leaves out the
    /// changes by hand: a block does not contain them, so no client could execute it, this node included.
    ///
    /// # Errors
    ///
    /// If it cannot be built, or the node fails.
    pub(crate) fn draft(&self, next: NextBlock, of_pool: bool) -> Result<Payload> {
        let mut chain = self.chain();
        let mut picked = Picked { for_others: true, ..Picked::default() };
        let none = TxWrites::default();
        let built = chain.build(next, &none, &mut |run, header, rules| match of_pool {
            true => self.pick(run, header, rules, &mut picked),
            false => Ok(Vec::new()),
        });
        // With changes by hand, the node's own next block might still include these transactions.
        if !picked.hopeless.is_empty() && self.view().cheats.is_empty() {
            self.forget(&picked.hopeless);
            self.notify();
        }
        Ok(Payload { built: built?.into_block(), sidecars: picked.sidecars })
    }

    /// Sets the time of the next block.
    ///
    /// # Errors
    ///
    /// If no block on the head can have this time.
    pub fn set_next_time(&self, time: u64) -> Result<()> {
        let chain = self.chain();
        check_time(time, chain.head().header.timestamp)?;
        self.clock.lock().set_next(time);
        Ok(())
    }

    /// Returns the parameters of the next block, according to clock and settings.
    pub fn plan(&self) -> NextBlock {
        let chain = self.chain();
        self.next_block(&chain, None)
    }

    pub(super) fn next_block(&self, chain: &Chain, timestamp: Option<u64>) -> NextBlock {
        self.next_after(&chain.head().header, timestamp)
    }

    /// Does the same as [`Self::next_block`], on top of a head whose header is given.
    pub(super) fn next_after(&self, parent: &Sealed<Header>, timestamp: Option<u64>) -> NextBlock {
        let settings = self.settings.lock();
        NextBlock {
            timestamp: timestamp.unwrap_or_else(|| self.clock.lock().next(parent.timestamp)),
            beneficiary: settings.beneficiary,
            gas_limit: settings.gas_limit_after(parent.gas_limit),
            // The parent's hash is no random number, but it gives contracts a different value in each block.
            prev_randao: settings.next_prev_randao.unwrap_or_else(|| parent.hash()),
            base_fee: settings.next_base_fee,
            ..NextBlock::default()
        }
    }

    /// Returns the fees of a block on the head of `view`, according to clock and settings.
    pub fn next_fees(&self, view: &View) -> BlockFees {
        let set = self.settings.lock().next_base_fee;
        let timestamp = self.clock.lock().next(view.head.header.timestamp);
        self.fees_at(view, timestamp, set)
    }

    /// Returns the fees of the next block at this time. `set` is the base fee if it was set by hand.
    pub(super) fn fees_at(&self, view: &View, timestamp: u64, set: Option<u64>) -> BlockFees {
        let (rules, head) = (view.next_rules(&self.spec, timestamp), &view.head.header);
        let base = next_base_fee(&rules, head).unwrap_or(0);
        let base = set.unwrap_or_else(|| u64::try_from(base).unwrap_or(u64::MAX));
        BlockFees { base, blob: next_blob_fee(&rules, head).unwrap_or(0) }
    }

    pub(super) fn build(
        &self,
        chain: &mut Chain,
        next: NextBlock,
        picked: &mut Picked,
    ) -> Result<NewHead> {
        let writes = self.view().cheats.writes();
        let built = chain
            .build(next, &writes, &mut |run, header, rules| self.pick(run, header, rules, picked));
        if built.is_err() {
            // A transaction that made the block fail must not make the next one fail too.
            self.forget(&picked.hopeless);
        }
        Ok(built?)
    }

    fn pick(
        &self,
        run: &mut BlockRun<'_>,
        header: &Header,
        rules: &Rules<'_>,
        picked: &mut Picked,
    ) -> Result<Vec<TxEnvelope>, ExecuteError> {
        let fees = BlockFees {
            base: header.base_fee_per_gas.unwrap_or(0),
            blob: self.spec.blob_fee(header).unwrap_or(0),
        };
        let max_blob_gas = max_blob_gas(rules);
        if picked.log.is_some() {
            run.watch_console();
        }
        let (mut bytes, mut blob_gas) = (BLOCK_OVERHEAD, 0);
        let mut transactions = Vec::new();
        let mut heap = self.pool.lock().best(fees);
        while let Some(next) = heap.pop() {
            if run.gas_left() < LEAST_GAS {
                break;
            }
            let (tx, sender) = (&next.tx.tx, next.tx.sender);
            if picked.for_others && impersonated(tx).is_some() {
                continue;
            }
            let blobs = tx.blob_gas_used().unwrap_or(0);
            let length = tx.encode_2718_len() + 8;
            if bytes + length > MAX_RLP_BLOCK_SIZE || blob_gas + blobs > max_blob_gas {
                continue;
            }
            let ran = match impersonated(tx) {
                Some(_) => run.transact_as(tx, sender),
                None => run.transact(tx, sender),
            };
            match ran {
                Ok(included) => {
                    if let Some(log) = &mut picked.log {
                        log.transaction(tx, sender, &included);
                    }
                    bytes += length;
                    blob_gas += blobs;
                    picked.included.push((sender, next.tx.nonce()));
                    picked.sidecars.extend(next.tx.sidecar.clone());
                    transactions.push(tx.clone());
                    heap.extend(self.pool.lock().after(&next.tx, fees));
                }
                // The next block may have enough gas left for it.
                Err(ExecuteError::Invalid(BlockInvalid::TransactionGas { .. })) => {}
                Err(ExecuteError::Invalid(reason)) => {
                    picked.hopeless.push((next.tx.hash(), reason.to_string()));
                }
                Err(error) => {
                    // The transaction asks for the hash of a block before the first one of this chain.
                    if matches!(
                        error,
                        ExecuteError::Internal(InternalError::MissingBlockHash { .. })
                    ) {
                        picked.hopeless.push((next.tx.hash(), error.to_string()));
                    }
                    return Err(error);
                }
            }
        }
        Ok(transactions)
    }

    fn forget(&self, hopeless: &[(B256, String)]) {
        let mut pool = self.pool.lock();
        for (hash, reason) in hopeless {
            tracing::warn!("a transaction was dropped: {reason}");
            pool.discard(hash);
        }
    }
}

/// Returns the maximum blob gas of a block; 0 before Cancun.
fn max_blob_gas(rules: &Rules<'_>) -> u64 {
    rules.blob_params().map_or(0, |params| params.max_blob_count * DATA_GAS_PER_BLOB)
}

/// Checks and executes these transactions in order.
fn given(
    run: &mut BlockRun<'_>,
    rules: &Rules<'_>,
    transactions: &[(TxEnvelope, Address)],
    log: &mut Option<BlockLog>,
) -> Result<Vec<TxEnvelope>, ExecuteError> {
    if log.is_some() {
        run.watch_console();
    }
    let blobs = transactions.iter().filter_map(|(tx, _)| tx.blob_gas_used());
    let (found, most) = (blobs.fold(0, u64::saturating_add), max_blob_gas(rules));
    if found > most {
        let reason = format!("its blobs take {found} gas, expected at most {most}");
        return Err(BlockInvalid::Other { reason }.into());
    }
    for (index, (tx, sender)) in transactions.iter().enumerate() {
        let invalid = |error: TransactionError| {
            let (hash, reason) = (*tx.tx_hash(), error.to_string());
            BlockInvalid::Transaction { index, hash, reason }
        };
        check_transaction(rules, tx).map_err(invalid)?;
        let included = run.transact(tx, *sender)?;
        if let Some(log) = log.as_mut() {
            log.transaction(tx, *sender, &included);
        }
    }
    Ok(transactions.iter().map(|(tx, _)| tx.clone()).collect())
}

/// Returns the accounts whose nonce a block changed, with the new nonce.
pub(super) fn changed_nonces(writes: &WriteSet) -> Vec<(Address, u64)> {
    let nonce = |account: Option<Account>| account.unwrap_or_default().nonce;
    let changed = writes.accounts().iter().filter(|w| nonce(w.before) != nonce(w.after));
    changed.filter_map(|write| Some((write.address?, nonce(write.after)))).collect()
}
