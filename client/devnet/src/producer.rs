//! Blocks from the pool.

use super::{BlockFees, Node, NodeError, View, log::BlockLog};
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

/// Bytes of a block that are left for everything but its transactions.
const BLOCK_OVERHEAD: usize = 16 * 1024;

/// The least gas a transaction can have.
const LEAST_GAS: u64 = 21_000;

/// How a block is to be made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MineOptions {
    /// Whether it may be empty.
    pub allow_empty: bool,
    /// Its time.
    pub time: BlockTime,
    /// Whether the log says nothing of it: one of many that only make up for others.
    pub quiet: bool,
}

impl MineOptions {
    /// A block of the clock's time, empty or not.
    pub const EVEN_EMPTY: Self = Self { allow_empty: true, time: BlockTime::Clock, quiet: false };
}

/// The time of a block, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BlockTime {
    /// What the clock says.
    #[default]
    Clock,
    /// This one, whatever the clock says.
    Exactly(u64),
    /// This one; the clock goes on from there.
    Set(u64),
    /// So long after the parent's; the clock goes on from there.
    After(u64),
}

impl BlockTime {
    /// The time on top of a block of the time `parent`; `None` for the clock's.
    fn on(self, parent: u64) -> Result<Option<u64>, NodeError> {
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

/// Whether a block of the time `parent` can be followed by one of this time, and that by another.
pub(super) fn check_time(time: u64, parent: u64) -> Result<(), NodeError> {
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

/// A block that the node made for a consensus layer.
#[derive(Debug)]
pub struct Payload {
    /// The block.
    pub built: BuiltBlock,
    /// The blobs of its transactions, in their order. The pool forgets them with the transactions.
    pub sidecars: Vec<Arc<BlobTransactionSidecarVariant>>,
}

impl Deref for Payload {
    type Target = BuiltBlock;

    fn deref(&self) -> &BuiltBlock {
        &self.built
    }
}

/// What was found out about the pool on the way.
#[derive(Debug, Default)]
pub(super) struct Picked {
    /// Whether other clients are to take the block: transactions without a signature stay out.
    for_others: bool,
    /// Senders and nonces of what was included, in order.
    included: Vec<(Address, u64)>,
    /// The blobs of what was included, in order.
    sidecars: Vec<Arc<BlobTransactionSidecarVariant>>,
    /// What can never be included, or cannot be executed here.
    hopeless: Vec<(B256, String)>,
    /// What the log will say, if it is to say anything.
    log: Option<BlockLog>,
}

impl Node {
    /// Makes a block of what waits in the pool, the best tips first. `None` if it would be empty and must not be.
    ///
    /// # Errors
    ///
    /// If nothing may be changed, or we failed.
    pub fn mine(&self, options: MineOptions) -> Result<Option<Sealed<Header>>, NodeError> {
        self.writable()?;
        let mined = self.mine_on(&mut self.chain(), options);
        self.notify();
        mined
    }

    /// Mines on a chain that the caller has locked.
    pub(super) fn mine_on(
        &self,
        chain: &mut Chain,
        options: MineOptions,
    ) -> Result<Option<Sealed<Header>>, NodeError> {
        let time = options.time.on(chain.head().header.timestamp)?;
        let next = self.next_block(chain, time);
        let fees = self.fees_at(&self.view(), next.timestamp, next.base_fee);
        // An empty block that is thrown away costs as much as one that is kept.
        if !options.allow_empty && !self.pool.lock().has_next(fees) {
            return Ok(None);
        }
        let log = if options.quiet { None } else { self.block_log() };
        let mut picked = Picked { log, ..Picked::default() };
        let built = self.build(chain, next, &mut picked)?;
        self.forget(&picked.hopeless);
        let cheats = Arc::clone(&self.view().cheats);
        if built.block.body.transactions.is_empty() && !options.allow_empty {
            return Ok(None);
        }
        if !cheats.is_empty() {
            tracing::debug!("block {} holds changes made by hand", built.header.number);
        }
        let header = built.header.clone();
        let nonces = changed_nonces(built.writes());
        let (_, stats) = chain.adopt(built)?;
        self.miner().count(&stats);
        {
            let mut clock = self.clock.lock();
            clock.made(header.timestamp);
            if matches!(options.time, BlockTime::Set(_) | BlockTime::After(_)) {
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
            // Both at once: who adds a transaction compares the view while holding the pool.
            let mut pool = self.pool.lock();
            // Takes out what was included, also of a sender that the block has left without a nonce.
            for (sender, nonce) in &picked.included {
                promoted.extend(pool.set_nonce(sender, nonce + 1));
            }
            self.publish(chain, Arc::default())?;
            // Authorizations (EIP-7702) and creations raise nonces too, and who is gone has none.
            for (address, nonce) in &nonces {
                promoted.extend(pool.set_nonce(address, *nonce));
            }
        }
        // Before anybody makes the next block.
        self.announce(header.clone());
        self.announce_pending(&promoted);
        if let Some(log) = &picked.log {
            log.write(&header);
        }
        Ok(Some(header))
    }

    /// A block of exactly these transactions, or of the pool's if there are none, which is not added to the chain.
    ///
    /// # Errors
    ///
    /// If one of them cannot be included, or we failed.
    pub fn preview(
        &self,
        next: NextBlock,
        transactions: Option<Vec<(TxEnvelope, Address)>>,
    ) -> Result<BuiltBlock, NodeError> {
        let mut chain = self.chain();
        let built = match transactions {
            None => self.build(&mut chain, next, &mut Picked::default())?,
            Some(transactions) => {
                let writes = self.view().cheats.writes();
                chain.build(next, &writes, &mut |run, _, rules| given(run, rules, &transactions))?
            }
        };
        Ok(built.into_block())
    }

    /// A payload for a consensus layer on top of the head, of what waits in the pool or of nothing. What was changed by hand is
    /// not in it: a block does not tell of that, so no client could execute it, this node included.
    ///
    /// # Errors
    ///
    /// If it cannot be made, or we failed.
    pub(crate) fn draft(&self, next: NextBlock, of_pool: bool) -> Result<Payload, NodeError> {
        let mut chain = self.chain();
        let mut picked = Picked { for_others: true, ..Picked::default() };
        let none = TxWrites::default();
        let built = chain.build(next, &none, &mut |run, header, rules| match of_pool {
            true => self.pick(run, header, rules, &mut picked),
            false => Ok(Vec::new()),
        });
        // With changes by hand, which are in the next block of the node's own, it might be included there.
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
    /// If no block on top of the head can have it.
    pub fn set_next_time(&self, time: u64) -> Result<(), NodeError> {
        let chain = self.chain();
        check_time(time, chain.head().header.timestamp)?;
        self.clock.lock().set_next(time);
        Ok(())
    }

    /// The next block as clock and settings want it.
    pub fn plan(&self) -> NextBlock {
        let chain = self.chain();
        self.next_block(&chain, None)
    }

    pub(super) fn next_block(&self, chain: &Chain, timestamp: Option<u64>) -> NextBlock {
        self.next_after(&chain.head().header, timestamp)
    }

    /// As [`Self::next_block`], on top of a head that is known by its header.
    pub(super) fn next_after(&self, parent: &Sealed<Header>, timestamp: Option<u64>) -> NextBlock {
        let settings = self.settings.lock();
        NextBlock {
            timestamp: timestamp.unwrap_or_else(|| self.clock.lock().next(parent.timestamp)),
            beneficiary: settings.beneficiary,
            gas_limit: settings.gas_limit_after(parent.gas_limit),
            // Nobody plays dice here, but contracts that ask should not always get the same answer.
            prev_randao: settings.next_prev_randao.unwrap_or_else(|| parent.hash()),
            base_fee: settings.next_base_fee,
            ..NextBlock::default()
        }
    }

    /// What a block on top of the head that `view` shows asks for, as clock and settings want it.
    pub fn next_fees(&self, view: &View) -> BlockFees {
        let set = self.settings.lock().next_base_fee;
        let timestamp = self.clock.lock().next(view.head.header.timestamp);
        self.fees_at(view, timestamp, set)
    }

    /// The fees of a next block at this time; `set` is its base fee, if that was set.
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
    ) -> Result<NewHead, NodeError> {
        let writes = self.view().cheats.writes();
        let built = chain
            .build(next, &writes, &mut |run, header, rules| self.pick(run, header, rules, picked));
        if built.is_err() {
            // What kept this block from being made must not be in the way of the next one.
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
                // There may be room for it in the next block.
                Err(ExecuteError::Invalid(BlockInvalid::TransactionGas { .. })) => {}
                Err(ExecuteError::Invalid(reason)) => {
                    picked.hopeless.push((next.tx.hash(), reason.to_string()));
                }
                Err(error) => {
                    // The chain begins after the block that it asks for.
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

/// Blob gas that a block has at most.
fn max_blob_gas(rules: &Rules<'_>) -> u64 {
    rules.blob_params().map_or(0, |params| params.max_blob_count * DATA_GAS_PER_BLOB)
}

/// Executes these transactions, of which nothing was checked yet.
fn given(
    run: &mut BlockRun<'_>,
    rules: &Rules<'_>,
    transactions: &[(TxEnvelope, Address)],
) -> Result<Vec<TxEnvelope>, ExecuteError> {
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
        run.transact(tx, *sender)?;
    }
    Ok(transactions.iter().map(|(tx, _)| tx.clone()).collect())
}

/// The accounts that have another nonce after a block than before, and which.
pub(super) fn changed_nonces(writes: &WriteSet) -> Vec<(Address, u64)> {
    let nonce = |account: Option<Account>| account.unwrap_or_default().nonce;
    let changed = writes.accounts().iter().filter(|w| nonce(w.before) != nonce(w.after));
    changed.filter_map(|write| Some((write.address?, nonce(write.after)))).collect()
}
