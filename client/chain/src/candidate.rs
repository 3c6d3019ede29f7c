//! A block before its insertion, and the result of the insertion.

use super::error::{InsertError, InvalidBlock, InvalidReason};
use crate::executor::{Recovery, SenderError, Senders, recover_authorities, recover_senders};
use alloy_consensus::{Block, Header, Sealed, TxEnvelope};
use alloy_eips::eip7928::AccountChanges;
use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_chainspec::{ChainSpec, Rules};
use polytrie_consensus::{
    ConsensusError, check_body_rules, check_decoded_body,
    clique::{self, CliqueError},
    decode::{DecodeError, EncodedReceipts, decode_block},
};
use polytrie_kv::EngineReads;
use polytrie_state::{Access, BlockRef, SessionCounters};
use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

/// A block before its insertion, with every value that could be computed without the chain.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Header and hash of the block.
    pub header: Sealed<Header>,
    /// The block.
    pub block: Block<TxEnvelope>,
    /// RLP of the block, byte for byte as it is stored and exported.
    pub rlp: Bytes,
    /// Account that receives the fees; under Clique the signer of the block.
    pub coinbase: Result<Address, CliqueError>,
    /// Signers of Clique after the block, encoded, if the chain stores them with this block (see `signers.rs`).
    pub(super) signers: Option<Vec<u8>>,
    /// Senders of the transactions; not set as long as they are not recovered.
    pub(super) senders: OnceLock<Result<Vec<Address>, SenderError>>,
    /// The recovery of the senders, if it has begun.
    pub recovery: Option<Recovery>,
    /// Accounts that the transactions may give code to (EIP-7702), as a hint; not set as long as they are not recovered.
    pub(super) authorities: OnceLock<Vec<Address>>,
    /// Accounts and slots that an execution ahead of the block has touched, as a hint.
    pub accesses: Vec<Access>,
    /// RLP of the access list, if it came beside the block (EIP-7928).
    pub access_list: Option<Bytes>,
    /// Access list from elsewhere, as a hint; it may be wrong, and is not compared with the header.
    pub listed: Option<Arc<Vec<AccountChanges>>>,
    /// Result of [`check_decoded_body`].
    pub body: Result<(), ConsensusError>,
    /// Receipts from the block's file (era1, ere).
    pub receipts: Option<EncodedReceipts>,
    /// Total difficulty from the block's file (era1, ere up to the merge).
    pub total_difficulty: Option<U256>,
}

impl Candidate {
    /// Decodes a block, recovers its senders, and checks its body.
    ///
    /// # Errors
    ///
    /// Fails if the block does not decode.
    pub fn prepare(spec: &ChainSpec, rlp: Bytes) -> Result<Self, DecodeError> {
        let block = decode_block(&rlp)?;
        Ok(Self::of(spec, block, rlp).0)
    }

    /// Does as [`Self::prepare`], but does not recover the senders: for a block that a caller waits for. They are
    /// recovered on all cores while the block is executed, see [`Self::execute`].
    ///
    /// # Errors
    ///
    /// Fails if the block does not decode.
    pub fn prepare_without_senders(spec: &ChainSpec, rlp: Bytes) -> Result<Self, DecodeError> {
        let block = decode_block(&rlp)?;
        Ok(Self::with_body_checked(spec, block, rlp).with_coinbase(spec))
    }

    /// Returns the candidate for a block that was made from a payload: its hash is known, and the roots in its header
    /// were computed from its body. The senders are recovered as in [`Self::prepare_without_senders`].
    pub fn of_payload(spec: &ChainSpec, hash: B256, block: Block<TxEnvelope>, rlp: Bytes) -> Self {
        let body = check_body_rules(&rules_of(spec, &block.header), &block);
        let header = Sealed::new_unchecked(block.header.clone(), hash);
        Self { body, ..Self::built(header, block, rlp) }.with_coinbase(spec)
    }

    /// Checks the body of a block that was decoded from `rlp`, and recovers its senders. Returns the candidate and the
    /// time of the recovery.
    pub fn of(spec: &ChainSpec, block: Block<TxEnvelope>, rlp: Bytes) -> (Self, Duration) {
        Self::with_senders(spec, block, rlp, None)
    }

    /// Does as [`Self::of`], but takes the senders from `known` if they are there.
    pub fn with_senders(
        spec: &ChainSpec,
        block: Block<TxEnvelope>,
        rlp: Bytes,
        known: Option<Vec<Address>>,
    ) -> (Self, Duration) {
        let checked = Self::with_body_checked(spec, block, rlp);
        let start = Instant::now();
        let transactions = &checked.block.body.transactions;
        let senders = known.map_or_else(|| recover_senders(transactions), Ok);
        let authorities = recover_authorities(transactions);
        let candidate = Self {
            senders: OnceLock::from(senders),
            authorities: OnceLock::from(authorities),
            ..checked.with_coinbase(spec)
        };
        (candidate, start.elapsed())
    }

    fn with_body_checked(spec: &ChainSpec, block: Block<TxEnvelope>, rlp: Bytes) -> Self {
        let body = check_decoded_body(&rules_of(spec, &block.header), &block, &rlp);
        let header = Sealed::new(block.header.clone());
        Self { body, ..Self::built(header, block, rlp) }
    }

    /// Returns the candidate with the account that receives the fees: under Clique the signer is recovered.
    fn with_coinbase(self, spec: &ChainSpec) -> Self {
        let coinbase = clique::coinbase(&rules_of(spec, &self.header), &self.header);
        Self { coinbase, ..self }
    }

    /// Returns the candidate for a block that was executed while it was built, so that nothing is left to check.
    pub(super) fn built(header: Sealed<Header>, block: Block<TxEnvelope>, rlp: Bytes) -> Self {
        Self {
            header,
            block,
            rlp,
            coinbase: Ok(Address::ZERO),
            signers: None,
            senders: OnceLock::new(),
            recovery: None,
            authorities: OnceLock::new(),
            accesses: Vec::new(),
            access_list: None,
            listed: None,
            body: Ok(()),
            receipts: None,
            total_difficulty: None,
        }
    }

    /// Returns the senders of the transactions. If they are not recovered yet, they are now, on all cores.
    ///
    /// # Errors
    ///
    /// Fails with the first transaction that has a signature of no public key.
    pub fn senders(&self) -> Result<&[Address], &SenderError> {
        let known = match self.senders.get() {
            Some(known) => known,
            None => {
                let (senders, ()) = self.recovery().beside(|_| ());
                self.senders.get_or_init(|| senders)
            }
        };
        known.as_deref()
    }

    /// Returns the recovery of the senders, which begins now if it has not begun.
    fn recovery(&self) -> Recovery {
        let begin = || Recovery::begin(&self.block.body.transactions);
        self.recovery.clone().unwrap_or_else(begin)
    }

    /// Replaces the senders by those that the caller knows.
    pub fn set_senders(&mut self, senders: Vec<Address>) {
        self.senders = OnceLock::from(Ok(senders));
        self.recovery = None;
    }

    /// Passes the senders to `work`; if they are not recovered yet, while they are being recovered. A transaction
    /// without a sender makes the block invalid also if `work` succeeds, as if all had been recovered before.
    pub(super) fn beside_senders<R>(
        &self,
        work: impl FnOnce(Senders<'_>) -> Result<R, InsertError>,
    ) -> Result<R, InsertError> {
        if let Some(known) = self.senders.get() {
            let known = known.as_ref().map_err(|error| self.invalid(error.clone()))?;
            return work(Senders::known(known));
        }
        let (senders, done) = self.recovery().beside(work);
        match self.senders.get_or_init(|| senders) {
            Ok(_) => done,
            Err(error) => Err(self.invalid(error.clone())),
        }
    }

    /// Returns the block without what came beside it, as it is read back from the store.
    pub(super) fn alone(self) -> Self {
        Self {
            accesses: Vec::new(),
            access_list: None,
            listed: None,
            receipts: None,
            total_difficulty: None,
            ..self
        }
    }

    /// Returns the accounts that the transactions may give code to. If they are not recovered yet, they are now, if `wait`
    /// says so; otherwise the result is empty.
    pub(super) fn authorities(&self, wait: bool) -> &[Address] {
        match self.authorities.get() {
            Some(known) => known,
            None if wait => {
                self.authorities.get_or_init(|| recover_authorities(&self.block.body.transactions))
            }
            None => &[],
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

/// Returns the rules of a block without the chain. They depend on number and time, and on the merge, which is inferred
/// from the difficulty; a block on the wrong side of the merge fails later in `check_header`, which gets the true total
/// difficulty.
fn rules_of<'s>(spec: &'s ChainSpec, header: &Header) -> Rules<'s> {
    spec.rules(header.number, header.timestamp, header.difficulty.is_zero())
}

/// Result of an insertion.
#[derive(Debug)]
pub enum Inserted {
    /// The block extends the head, and becomes the head as soon as its state root is verified.
    Extended(Box<BlockStats>),
    /// The block was there already, on this branch or another.
    Known,
    /// The block is on a branch that is not the better one.
    Side,
    /// The block's branch became the better one, and the block is the head.
    Reorganised {
        /// Number of blocks of the old branch that were taken back.
        undone: u64,
        /// Counts and times of the blocks of the new branch, up to the head.
        executed: Vec<BlockStats>,
    },
}

/// Counts of one block, and the times of its insertion.
#[derive(Debug, Default, Clone, Copy)]
pub struct BlockStats {
    /// Number of transactions.
    pub txs: u64,
    /// Gas used.
    pub gas: u64,
    /// Time of the rules about header, body and result, and of everything that no other field counts.
    pub check: Duration,
    /// Time of the EVM, without waiting for the state. It includes waiting for senders that were not recovered before,
    /// and recovering some of them.
    pub execute: Duration,
    /// Time of reading the state for the EVM.
    pub state_read: Duration,
    /// Time of the commitment.
    pub state_commit: Duration,
    /// Time of passing the batch to the store, and of making the block the head.
    pub write: Duration,
    /// Of that, the time of the layer in making the block its head: a layer with files of its own may commit them then.
    pub accept: Duration,
    /// Whether the block ran by its access list, see [`ListUse`](super::ListUse).
    pub by_list: bool,
    /// Whether the receipts root was compared.
    pub receipts_checked: bool,
    /// Number of the oldest block of which the block asked for the hash, if it asked for any.
    pub oldest_hash: Option<u64>,
    /// Reads and writes that the block requested from the layer.
    pub session: SessionCounters,
    /// Reads of the engine that the executing thread made while transactions ran, so that they waited for them.
    pub waited: EngineReads,
}

impl BlockStats {
    /// Returns the time that the executing thread spent on the block.
    pub fn total(&self) -> Duration {
        self.check + self.execute + self.state_read + self.state_commit + self.write
    }

    /// Adds the time since `start` that no field counts to `check`; the block's insertion started at `start`.
    pub(super) fn account_for_all_since(&mut self, start: Instant) {
        self.check += start.elapsed().saturating_sub(self.total());
    }
}
