//! The producer that makes blocks of plans.

use super::BlockPlan;
use crate::Wallet;
use alloy_consensus::{Header, Sealed, TxEnvelope};
use alloy_primitives::{Address, Bytes};
use polytrie_chain::executor::Executed;
use polytrie_chain::{BuildError, BuiltBlock, Chain, ChainError, NextBlock};
use polytrie_chainspec::Rules;
use polytrie_consensus::{ConsensusError, check_body, check_header};
use polytrie_state::TxWrites;
use rayon::prelude::*;
use std::sync::Arc;
use thiserror::Error;

/// Makes blocks on top of each other: signs the planned transactions, and has the chain execute and seal the block.
#[derive(Debug)]
pub struct Producer {
    chain: Chain,
}

/// A finished block.
#[derive(Debug)]
pub struct Produced {
    /// Header, with its hash.
    pub header: Sealed<Header>,
    /// RLP of the block, as in block files.
    pub rlp: Bytes,
    /// Senders of its transactions, in their order.
    pub senders: Vec<Address>,
    /// Receipts and gas of its transactions.
    pub executed: Executed,
}

/// The reason why a block could not be made.
#[derive(Debug, Error)]
pub enum ProduceError {
    /// The workload planned something that is not valid: a mistake in this program.
    #[error("the workload's block {number} is not valid: {reason}")]
    Plan {
        /// Number of the block.
        number: u64,
        /// The rule that the plan breaks.
        reason: String,
    },
    /// The block would be longer than the rules allow.
    #[error(
        "block {number} of the workload would have {found} bytes, and no block may have more than {max} (EIP-7934); choose fewer transactions a block (--block-txs, or a smaller --gas or --merge)"
    )]
    TooLarge {
        /// Number of the block.
        number: u64,
        /// Bytes of its encoding.
        found: usize,
        /// Most bytes that a block may have.
        max: usize,
    },
    /// The chain failed for a reason that no plan can cause.
    #[error(transparent)]
    Broken(#[from] ChainError),
}

impl Producer {
    /// A producer that continues this chain. The commitment of the chain's layer must be the state root.
    pub const fn new(chain: Chain) -> Self {
        Self { chain }
    }

    /// The chain with all blocks so far.
    pub const fn chain(&self) -> &Chain {
        &self.chain
    }

    /// Header of the last block.
    pub fn parent(&self) -> &Sealed<Header> {
        &self.chain.head().header
    }

    /// Undoes all blocks down to the genesis block.
    ///
    /// # Errors
    ///
    /// If the undo record of a block is gone, or the store fails.
    pub fn begin_again(&mut self) -> Result<(), ProduceError> {
        self.chain.unwind_to(self.chain.spec().genesis_header().number)?;
        Ok(())
    }

    /// Makes the next block of a plan, with the keys of `wallet`, and adds it to the chain.
    ///
    /// # Errors
    ///
    /// If the plan is not valid, or the store or the layer fails.
    pub fn produce(&mut self, plan: BlockPlan, wallet: &Wallet) -> Result<Produced, ProduceError> {
        let spec = Arc::clone(self.chain.spec());
        let parent = self.parent().clone();
        let number = parent.number + 1;
        let rules = spec.rules(number, plan.timestamp, true);
        let senders: Vec<Address> =
            plan.transactions.iter().map(|planned| wallet.address(planned.from)).collect();
        let mut transactions: Vec<TxEnvelope> = plan
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
            slot_number: None,
        };
        let built = self.chain.build(next, &TxWrites::default(), &mut |run, _, _| {
            for (tx, sender) in transactions.iter().zip(&senders) {
                run.transact(tx, *sender)?;
            }
            Ok(std::mem::take(&mut transactions))
        });
        let new_head = built.map_err(|error| match error {
            BuildError::Refused(reason) => ProduceError::Plan { number, reason },
            BuildError::Broken(error) => error.into(),
        })?;
        check(&rules, &parent, &new_head).map_err(|error| refused(number, &error))?;
        let (header, rlp) = (new_head.header.clone(), new_head.rlp.clone());
        let (executed, _) = self.chain.adopt(new_head)?;
        Ok(Produced { header, rlp, senders, executed })
    }
}

/// Checks the rules, so that a bad plan fails here and not when the chain is imported.
fn check(
    rules: &Rules<'_>,
    parent: &Sealed<Header>,
    built: &BuiltBlock,
) -> Result<(), ConsensusError> {
    check_header(rules, parent, &built.header)?;
    check_body(rules, &built.block)
}

/// The error for a plan that breaks a rule.
fn refused(number: u64, error: &ConsensusError) -> ProduceError {
    match *error {
        ConsensusError::BlockTooLarge { found, max } => {
            ProduceError::TooLarge { number, found, max }
        }
        _ => ProduceError::Plan { number, reason: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_told_to_choose_smaller_blocks() {
        let error = refused(7, &ConsensusError::BlockTooLarge { found: 9, max: 8 });
        assert!(matches!(error, ProduceError::TooLarge { number: 7, found: 9, max: 8 }), "{error}");
        assert!(error.to_string().contains("--block-txs"), "{error}");
    }
}
