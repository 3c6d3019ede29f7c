//! A block on its way in, and what became of it.

use super::error::{InsertError, InvalidBlock, InvalidReason};
use crate::executor::{SenderError, recover_authorities, recover_in_parallel, recover_senders};
use alloy_consensus::{Block, Header, Sealed, TxEnvelope};
use alloy_eips::eip7928::AccountChanges;
use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_chainspec::{ChainSpec, Rules};
use polytrie_consensus::{
    ConsensusError, check_body, check_body_rules,
    clique::{self, CliqueError},
    decode::{DecodeError, EncodedReceipts, decode_block},
};
use polytrie_state::{Access, BlockRef, SessionCounters};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// A block on its way in, with everything that could be found out without the chain.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Its header and hash.
    pub header: Sealed<Header>,
    /// The block.
    pub block: Block<TxEnvelope>,
    /// Its RLP, byte for byte as it will be stored and exported.
    pub rlp: Bytes,
    /// Who is paid its fees: under Clique, who sealed it.
    pub coinbase: Result<Address, CliqueError>,
    /// The signers of Clique after it, if the chain is to keep them with it (see `signers.rs`).
    pub(super) signers: Option<Vec<u8>>,
    /// The senders of its transactions.
    pub senders: Result<Vec<Address>, SenderError>,
    /// Accounts that its transactions let set their code (EIP-7702), as a hint.
    pub authorities: Vec<Address>,
    /// What running it ahead of its turn has touched, as a hint.
    pub accesses: Vec<Access>,
    /// The RLP of its access list, if that came beside it (EIP-7928).
    pub access_list: Option<Bytes>,
    /// An access list from elsewhere that is said to be its own: a hint, whatever the header says.
    pub listed: Option<Arc<Vec<AccountChanges>>>,
    /// What [`check_body`] said.
    pub body: Result<(), ConsensusError>,
    /// Receipts that came with it (era1, ere).
    pub receipts: Option<EncodedReceipts>,
    /// Total difficulty that came with it (era1, ere up to the merge).
    pub total_difficulty: Option<U256>,
}

impl Candidate {
    /// Decodes a block and does what needs nothing but the block: recovers the senders, checks the body.
    ///
    /// # Errors
    ///
    /// If it does not decode.
    pub fn prepare(spec: &ChainSpec, rlp: Bytes) -> Result<Self, DecodeError> {
        let block = decode_block(&rlp)?;
        Ok(Self::of(spec, block, rlp).0)
    }

    /// As [`Self::prepare`], on all cores: for a block that somebody waits for.
    ///
    /// # Errors
    ///
    /// If it does not decode.
    pub fn prepare_in_parallel(spec: &ChainSpec, rlp: Bytes) -> Result<Self, DecodeError> {
        let block = decode_block(&rlp)?;
        // `None` if a signature is bad: then `with_senders` recovers them in order, so that the error names the first bad one.
        let senders = recover_in_parallel(&block.body.transactions);
        Ok(Self::with_senders(spec, block, rlp, senders).0)
    }

    /// A block that was put together of a payload: its hash is known, and the roots in its header were made of its body.
    /// Its senders are recovered on all cores.
    pub fn of_payload(spec: &ChainSpec, hash: B256, block: Block<TxEnvelope>, rlp: Bytes) -> Self {
        let body = check_body_rules(&rules_of(spec, &block.header), &block);
        let header = Sealed::new_unchecked(block.header.clone(), hash);
        let senders = recover_in_parallel(&block.body.transactions);
        Self::checked(spec, Self { body, ..Self::built(header, block, rlp) }, senders).0
    }

    /// Checks the body of a decoded block, and recovers its senders; the time that the second took is beside it.
    pub fn of(spec: &ChainSpec, block: Block<TxEnvelope>, rlp: Bytes) -> (Self, Duration) {
        Self::with_senders(spec, block, rlp, None)
    }

    /// As [`Self::of`], where the senders may be known already.
    pub fn with_senders(
        spec: &ChainSpec,
        block: Block<TxEnvelope>,
        rlp: Bytes,
        known: Option<Vec<Address>>,
    ) -> (Self, Duration) {
        let body = check_body(&rules_of(spec, &block.header), &block);
        let header = Sealed::new(block.header.clone());
        Self::checked(spec, Self { body, ..Self::built(header, block, rlp) }, known)
    }

    /// Adds who has signed what to a block whose body was checked; the time that it took is beside it.
    fn checked(spec: &ChainSpec, block: Self, known: Option<Vec<Address>>) -> (Self, Duration) {
        let start = Instant::now();
        let transactions = &block.block.body.transactions;
        let coinbase = clique::coinbase(&rules_of(spec, &block.header), &block.header);
        let senders = known.map_or_else(|| recover_senders(transactions), Ok);
        let authorities = recover_authorities(transactions);
        let recover = start.elapsed();
        (Self { coinbase, senders, authorities, ..block }, recover)
    }

    /// A block that was executed as it was built: there is nothing to check.
    pub(super) fn built(header: Sealed<Header>, block: Block<TxEnvelope>, rlp: Bytes) -> Self {
        Self {
            header,
            block,
            rlp,
            coinbase: Ok(Address::ZERO),
            signers: None,
            senders: Ok(Vec::new()),
            authorities: Vec::new(),
            accesses: Vec::new(),
            access_list: None,
            listed: None,
            body: Ok(()),
            receipts: None,
            total_difficulty: None,
        }
    }

    pub(super) fn number(&self) -> u64 {
        self.header.number
    }

    pub(super) fn block_ref(&self) -> BlockRef {
        BlockRef { number: self.number(), hash: self.header.hash() }
    }

    pub(super) fn invalid(&self, reason: impl Into<InvalidReason>) -> InsertError {
        let reason = reason.into();
        Box::new(InvalidBlock { number: self.number(), hash: self.header.hash(), reason }).into()
    }
}

/// The rules of a block without the chain. They depend on number and time alone, but for the merge, for which the difficulty
/// stands here; with the true total difficulty the rules for headers find a block on the wrong side of it.
fn rules_of<'s>(spec: &'s ChainSpec, header: &Header) -> Rules<'s> {
    spec.rules(header.number, header.timestamp, header.difficulty.is_zero())
}

/// What became of a block.
#[derive(Debug)]
pub enum Inserted {
    /// It extends the head, and is the head as soon as its state root is known.
    Extended(Box<BlockStats>),
    /// It was there already, on this branch or another.
    Known,
    /// It lies on a branch that is not the better one.
    Side,
    /// Its branch is the better one now, and it is the head.
    Reorganised {
        /// Blocks of the old branch that were taken back.
        undone: u64,
        /// The blocks of the new branch, which were executed, up to the head.
        executed: Vec<BlockStats>,
    },
}

/// What one block contained and where the time went.
#[derive(Debug, Default, Clone, Copy)]
pub struct BlockStats {
    /// Transactions.
    pub txs: u64,
    /// Gas used.
    pub gas: u64,
    /// Rules about header, body and result, and what else is neither of the following.
    pub check: Duration,
    /// The EVM, without waiting for state.
    pub execute: Duration,
    /// Reading state for the EVM.
    pub state_read: Duration,
    /// Computing the commitment.
    pub state_commit: Duration,
    /// Handing the batch to the store.
    pub write: Duration,
    /// Whether it ran by its access list, see [`ListUse`](super::ListUse).
    pub by_list: bool,
    /// Whether the receipts root was compared.
    pub receipts_checked: bool,
    /// The oldest block whose hash was asked for, if any was.
    pub oldest_hash: Option<u64>,
    /// Reads and writes that it asked of the layer.
    pub session: SessionCounters,
}

impl BlockStats {
    /// All time spent on the block by the thread that executes.
    pub fn total(&self) -> Duration {
        self.check + self.execute + self.state_read + self.state_commit + self.write
    }

    /// The block that was begun at `start` is done: what no part has seen of the time since then goes to the rules.
    pub(super) fn account_for_all_since(&mut self, start: Instant) {
        self.check += start.elapsed().saturating_sub(self.total());
    }
}
