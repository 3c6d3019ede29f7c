//! Plans become blocks.

use super::BlockPlan;
use crate::Wallet;
use alloy_consensus::{Block, BlockBody, Header, Sealable, Sealed, TxEnvelope};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{Address, B256, Bytes};
use polytrie_chain::executor::{BlockToExecute, ExecuteError, Executed, Executor, InternalError};
use polytrie_chain::{NextBlock, complete_header, next_header};
use polytrie_chainspec::{ChainSpec, Rules};
use polytrie_consensus::{ConsensusError, check_body, check_header};
use polytrie_kv::{KvError, Store};
use polytrie_state::{BlockRef, Session, StateError, StateLayer};
use rayon::prelude::*;
use std::sync::Arc;
use thiserror::Error;

/// Bytes of contract code kept ready to run.
const CODE_CACHE: usize = 16 << 20;

/// Makes blocks on top of each other: executes what was planned and fills in what follows from it.
#[derive(Debug)]
pub struct Producer {
    spec: Arc<ChainSpec>,
    layer: Arc<dyn StateLayer>,
    store: Store,
    executor: Executor,
    parent: Sealed<Header>,
    /// Hashes of all blocks so far, for BLOCKHASH.
    hashes: Vec<B256>,
}

/// A finished block.
#[derive(Debug)]
pub struct Produced {
    /// Header and hash.
    pub header: Sealed<Header>,
    /// The block as block files hold it.
    pub rlp: Bytes,
    /// Who sent its transactions.
    pub senders: Vec<Address>,
    /// What came of its transactions.
    pub executed: Executed,
}

/// A block could not be made.
#[derive(Debug, Error)]
pub enum ProduceError {
    /// The workload planned something that is not valid: a mistake in this program.
    #[error("the workload's block {number} is not valid: {reason}")]
    Plan {
        /// The block.
        number: u64,
        /// Why.
        reason: String,
    },
    /// The state roots cannot be had from this layer.
    #[error(
        "the state layer `{0}` has no state roots; a chain for other clients needs a layer that does"
    )]
    NoStateRoot(&'static str),
    /// Executing failed for a reason that no plan can cause.
    #[error(transparent)]
    Execution(#[from] InternalError),
    /// The state failed.
    #[error(transparent)]
    State(#[from] StateError),
}

impl From<KvError> for ProduceError {
    fn from(error: KvError) -> Self {
        Self::State(error.into())
    }
}

impl Producer {
    /// Continues a chain that consists of its genesis block only, whose state `layer` holds in `store`. The blocks go
    /// into the state, but are not stored.
    pub fn new(spec: Arc<ChainSpec>, layer: Arc<dyn StateLayer>, store: Store) -> Self {
        let parent = spec.genesis_header().clone();
        Self {
            spec,
            layer,
            store,
            executor: Executor::new(CODE_CACHE),
            hashes: vec![parent.hash()],
            parent,
        }
    }

    /// The last block.
    pub const fn parent(&self) -> &Sealed<Header> {
        &self.parent
    }

    /// Makes the next block.
    ///
    /// # Errors
    ///
    /// If the plan is not valid, or we failed.
    pub fn produce(&mut self, plan: BlockPlan, wallet: &Wallet) -> Result<Produced, ProduceError> {
        let spec = Arc::clone(&self.spec);
        let number = self.parent.number + 1;
        let rules = spec.rules(number, plan.timestamp, true);
        let invalid = |reason: String| ProduceError::Plan { number, reason };
        let senders: Vec<Address> =
            plan.transactions.iter().map(|planned| wallet.address(planned.from)).collect();
        let transactions: Vec<TxEnvelope> = plan
            .transactions
            .par_iter()
            .map(|planned| wallet.sign(planned.from, planned.tx.clone()))
            .collect();
        let next = NextBlock {
            timestamp: plan.timestamp,
            beneficiary: plan.beneficiary,
            gas_limit: plan.gas_limit,
            prev_randao: plan.prev_randao,
            extra_data: plan.extra_data,
            parent_beacon_block_root: plan.parent_beacon_block_root,
            withdrawals: plan.withdrawals,
            base_fee: None,
        };
        let mut header =
            next_header(&rules, &self.parent, &next).map_err(|e| invalid(e.to_string()))?;
        let withdrawals = rules.is(EthereumHardfork::Shanghai).then_some(next.withdrawals);

        let parent = BlockRef { number: self.parent.number, hash: self.parent.hash() };
        let mut session = Session::begin(&*self.layer, parent)?;
        let hashes = &self.hashes;
        let hash = |number: u64| hashes.get(usize::try_from(number).ok()?).copied();
        let mut run = self
            .executor
            .begin(
                &mut session,
                rules,
                &hash,
                BlockToExecute::to_fill(&header, withdrawals.as_deref()),
            )
            .map_err(|e| failed(e, number))?;
        for (tx, sender) in transactions.iter().zip(&senders) {
            run.transact(tx, *sender).map_err(|e| failed(e, number))?;
        }
        let executed = run.finish().map_err(|e| failed(e, number))?;
        let state_root = session.finish()?.outcome.write(&self.store)?.as_state_root();
        header.state_root = state_root.ok_or(ProduceError::NoStateRoot(self.layer.name()))?;
        let body = BlockBody {
            transactions,
            ommers: Vec::new(),
            withdrawals: withdrawals.map(Into::into),
        };
        complete_header(&mut header, &rules, &body, &executed);
        let header = header.seal_slow();
        let block = Block { header: header.inner().clone(), body };
        check(&rules, &self.parent, &block).map_err(|e| invalid(e.to_string()))?;
        self.hashes.push(header.hash());
        self.parent = header.clone();
        Ok(Produced { rlp: alloy_rlp::encode(&block).into(), header, senders, executed })
    }
}

/// A plan that breaks a rule is found here, and not when the chain is imported.
fn check(
    rules: &Rules<'_>,
    parent: &Sealed<Header>,
    block: &Block<TxEnvelope>,
) -> Result<(), ConsensusError> {
    check_header(rules, parent, &block.header)?;
    check_body(rules, block)
}

fn failed(error: ExecuteError, number: u64) -> ProduceError {
    match error {
        ExecuteError::Invalid(error) => ProduceError::Plan { number, reason: error.to_string() },
        ExecuteError::Internal(error) => error.into(),
    }
}
