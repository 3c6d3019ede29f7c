//! Making of the next block.

use super::{
    Candidate, Chain,
    by_hand::put_by_hand,
    candidate::BlockStats,
    error::{ChainError, Result, executed},
    head::Head,
    recent::AncestorHashes,
};
use crate::executor::{BlockRun, BlockToExecute, ExecuteError, Executed};
use alloy_consensus::{
    Block, BlockBody, EMPTY_OMMER_ROOT_HASH, Header, Sealable, Sealed, TxEnvelope, TxReceipt,
    constants::MAXIMUM_EXTRA_DATA_SIZE, proofs,
};
use alloy_eips::eip4895::Withdrawal;
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{Address, B64, B256, Bloom, Bytes, U256};
use polytrie_chainspec::Rules;
use polytrie_consensus::{
    Ancestor, access_list::access_list_hash, next_base_fee, next_difficulty, next_excess_blob_gas,
};
use polytrie_state::{Finished, Outcome, Session, TxWrites, WriteSet, put_preimages};
use std::{ops::Deref, time::Instant};
use thiserror::Error;

/// Values of the next block that its producer chooses; the others follow from its parent and its transactions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NextBlock {
    /// Seconds since 1970, later than the parent's.
    pub timestamp: u64,
    /// Account that receives the tips.
    pub beneficiary: Address,
    /// Gas limit of the block.
    pub gas_limit: u64,
    /// Value of PREVRANDAO.
    pub prev_randao: B256,
    /// Extra data, at most 32 bytes.
    pub extra_data: Bytes,
    /// Root of the parent beacon block (EIP-4788).
    pub parent_beacon_block_root: B256,
    /// Withdrawals of the block (EIP-4895).
    pub withdrawals: Vec<Withdrawal>,
    /// Base fee in wei, if it is to differ from EIP-1559; no other client accepts such a block.
    pub base_fee: Option<u64>,
    /// Slot number, from Amsterdam on (EIP-7843), if a consensus layer gives it; otherwise it is the parent's plus
    /// one.
    pub slot_number: Option<u64>,
}

/// A block that was executed and sealed and can become the head. If it is dropped, the chain stays as it is.
#[derive(Debug)]
pub struct NewHead {
    built: BuiltBlock,
    outcome: Outcome,
}

/// A block that was executed and sealed.
#[derive(Debug)]
pub struct BuiltBlock {
    /// Header and hash of the block.
    pub header: Sealed<Header>,
    /// The block.
    pub block: Block<TxEnvelope>,
    /// RLP of the block.
    pub rlp: Bytes,
    /// Receipts and gas of the block's transactions.
    pub executed: Executed,
    /// Times and counts of the execution.
    pub stats: BlockStats,
    /// Changes by hand that were applied before the block.
    before: TxWrites,
    writes: WriteSet,
}

/// Error of a block that cannot be made; the chain stays as it is.
#[derive(Debug, Error)]
pub enum BuildError {
    /// A required transaction that cannot be included, or a rule that the block breaks.
    #[error("the block cannot be made: {0}")]
    Refused(String),
    /// A failure of the chain.
    #[error(transparent)]
    Broken(#[from] ChainError),
}

/// Callback that chooses and executes the transactions of a block, and returns the included ones in order.
pub type Fill<'a> =
    dyn FnMut(&mut BlockRun<'_>, &Header, &Rules<'_>) -> Result<Vec<TxEnvelope>, ExecuteError> + 'a;

impl BuiltBlock {
    /// Returns the block's changes of the state.
    pub const fn writes(&self) -> &WriteSet {
        &self.writes
    }
}

impl NewHead {
    /// Returns the block without the outcome that adds it to the chain.
    pub fn into_block(self) -> BuiltBlock {
        self.built
    }
}

impl Deref for NewHead {
    type Target = BuiltBlock;

    fn deref(&self) -> &BuiltBlock {
        &self.built
    }
}

impl Chain {
    /// Executes and seals a block on top of the head. `before` is applied to the state first; it is empty unless the
    /// user of a development node changed the state by hand. The header's state root is the digest of the layer's
    /// commitment.
    ///
    /// The caller must pass the block to [`Self::adopt`] or drop it before it builds the next one.
    ///
    /// # Errors
    ///
    /// Fails if the block cannot be made, or if the layer or the store fails.
    pub fn build(
        &mut self,
        next: NextBlock,
        before: &TxWrites,
        fill: &mut Fill<'_>,
    ) -> Result<NewHead, BuildError> {
        self.forget_proposed();
        let start = Instant::now();
        let spec = self.spec.clone();
        let merged = spec.is_merged_after(self.head.total_difficulty);
        let rules = spec.rules(self.head.number() + 1, next.timestamp, merged);
        let mut header = next_header(&rules, &self.head.header, &next)?;
        let withdrawals = rules.is(EthereumHardfork::Shanghai).then_some(next.withdrawals);

        let broken = |error| BuildError::Broken(ChainError::from(error));
        let mut session = Session::begin(&*self.layer, self.head.block_ref()).map_err(broken)?;
        if !rules.is(EthereumHardfork::Byzantium) {
            session = session.with_intermediate_roots();
        }
        session.apply(before).map_err(broken)?;
        let ancestors = AncestorHashes::new(&self.head, &self.hashes, &self.db);
        let mut run = self
            .executor
            .begin(
                &mut session,
                rules,
                &ancestors,
                BlockToExecute::to_fill(&header, withdrawals.as_deref()),
            )
            .map_err(failed)?;
        let transactions = fill(&mut run, &header, &rules).map_err(failed)?;
        let executed = run.finish().map_err(failed)?;
        let (state_read, execute) = session.reads_and_rest(start);

        let start = Instant::now();
        let Finished { outcome, writes, counters } = session.finish().map_err(broken)?;
        let state_commit = start.elapsed();

        let start = Instant::now();
        let ommers = Vec::new();
        let body = BlockBody { transactions, ommers, withdrawals: withdrawals.map(Into::into) };
        header.state_root = outcome.commitment.digest();
        complete_header(&mut header, &rules, &body, &executed);
        let header = header.seal_slow();
        let block = Block { header: header.inner().clone(), body };
        let stats = BlockStats {
            txs: block.body.transactions.len() as u64,
            gas: executed.gas_used,
            check: start.elapsed(),
            execute,
            state_read,
            state_commit,
            receipts_checked: false,
            session: counters,
            ..BlockStats::default()
        };
        let rlp = alloy_rlp::encode(&block).into();
        let before = before.clone();
        let built = BuiltBlock { header, block, rlp, executed, stats, before, writes };
        Ok(NewHead { built, outcome })
    }

    /// Makes a block from [`Self::build`] the head, in one atomic write. Returns its receipts, times and counts.
    ///
    /// # Errors
    ///
    /// Fails if the store or the layer fails.
    pub fn adopt(&mut self, new_head: NewHead) -> Result<(Executed, BlockStats)> {
        let start = Instant::now();
        let NewHead { built, mut outcome } = new_head;
        let BuiltBlock { header, block, rlp, executed, mut stats, before, writes } = built;
        let candidate = Candidate::built(header, block, rlp);
        let total_difficulty = self.head.total_difficulty + candidate.header.difficulty;
        if self.options.keep_preimages {
            put_preimages(&mut outcome.batch, &writes);
        }
        put_by_hand(&mut outcome, &candidate.header.hash(), &before);
        stats.accept =
            self.write_valid(&candidate, total_difficulty, &executed.receipts, outcome)?;
        self.head = Head { header: candidate.header.clone(), total_difficulty };
        self.remember(Ancestor::new(candidate.header.clone(), &candidate.block.body.ommers));
        stats.write = start.elapsed();
        self.log_if_slow(self.head.block_ref(), &stats);
        Ok((executed, stats))
    }
}

/// Returns the header of the next block as far as it is known before the execution.
///
/// # Errors
///
/// Fails with [`BuildError::Refused`].
fn next_header(
    rules: &Rules<'_>,
    parent: &Sealed<Header>,
    next: &NextBlock,
) -> Result<Header, BuildError> {
    if rules.clique().is_some() {
        return Err(BuildError::Refused(
            "a block before the merge is sealed by a signer of Clique, and this program seals none; import the blocks, and serve them with --read-only".into(),
        ));
    }
    if next.timestamp <= parent.timestamp {
        let (found, parent) = (next.timestamp, parent.timestamp);
        return Err(BuildError::Refused(format!(
            "its timestamp {found} is not later than its parent's, {parent}"
        )));
    }
    if next.timestamp == u64::MAX {
        let found = next.timestamp;
        return Err(BuildError::Refused(format!("no block could follow its timestamp, {found}")));
    }
    let (found, most) = (next.extra_data.len(), MAXIMUM_EXTRA_DATA_SIZE);
    if found > most {
        let reason = format!("its extra data has {found} bytes, expected at most {most}");
        return Err(BuildError::Refused(reason));
    }
    let narrow = |value: Option<u128>| {
        let beyond = || BuildError::Refused("its base fee or blob gas is beyond 64 bits".into());
        value.map(|value| u64::try_from(value).map_err(|_| beyond())).transpose()
    };
    let cancun = rules.is(EthereumHardfork::Cancun);
    let difficulty = match rules.merged {
        true => U256::ZERO,
        false => next_difficulty(rules, parent, next.timestamp),
    };
    let base_fee = narrow(next_base_fee(rules, parent))?;
    Ok(Header {
        parent_hash: parent.hash(),
        ommers_hash: EMPTY_OMMER_ROOT_HASH,
        beneficiary: next.beneficiary,
        difficulty,
        number: rules.number,
        gas_limit: next.gas_limit,
        timestamp: next.timestamp,
        extra_data: next.extra_data.clone(),
        mix_hash: next.prev_randao,
        nonce: B64::ZERO,
        base_fee_per_gas: base_fee.map(|fee| next.base_fee.unwrap_or(fee)),
        excess_blob_gas: narrow(next_excess_blob_gas(rules, parent))?,
        parent_beacon_block_root: cancun.then_some(next.parent_beacon_block_root),
        slot_number: rules.is(EthereumHardfork::Amsterdam).then(|| {
            // Without a beacon chain no slot is skipped.
            let after = || parent.slot_number.map_or(0, |slot| slot.saturating_add(1));
            next.slot_number.unwrap_or_else(after)
        }),
        ..Header::default()
    })
}

/// Sets the fields of a header that follow from body and execution, except for the state root.
fn complete_header(
    header: &mut Header,
    rules: &Rules<'_>,
    body: &BlockBody<TxEnvelope>,
    executed: &Executed,
) {
    header.transactions_root = proofs::calculate_transaction_root(&body.transactions);
    header.withdrawals_root =
        body.withdrawals.as_ref().map(|list| proofs::calculate_withdrawals_root(list));
    header.receipts_root = proofs::calculate_receipt_root(&executed.receipts);
    header.logs_bloom =
        executed.receipts.iter().fold(Bloom::ZERO, |bloom, receipt| bloom | receipt.bloom());
    header.gas_used = executed.gas_used;
    header.blob_gas_used = rules.is(EthereumHardfork::Cancun).then_some(executed.blob_gas_used);
    header.requests_hash = executed.requests.as_ref().map(|requests| requests.requests_hash());
    let access_list =
        executed.access_list.as_ref().filter(|_| rules.is(EthereumHardfork::Amsterdam));
    header.block_access_list_hash = access_list.map(|list| access_list_hash(list));
}

fn failed(error: ExecuteError) -> BuildError {
    match executed(error) {
        Ok(reason) => BuildError::Refused(reason.to_string()),
        Err(error) => error.into(),
    }
}
