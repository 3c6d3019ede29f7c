//! The parts of a block for its execution.

use alloy_consensus::{Block, Header, TxEnvelope};
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::Address;
use polytrie_state::Access;

use super::{Listed, Senders};

/// The parts of a block that its execution needs.
#[derive(Debug, Clone, Copy)]
pub struct BlockToExecute<'a> {
    /// Header of the block. Its gas used, roots and bloom are not read.
    pub header: &'a Header,
    /// Account that receives the fees, if it is known: the result of
    /// [`coinbase`](polytrie_consensus::clique::coinbase).
    pub coinbase: Option<Address>,
    /// Transactions of the block.
    pub transactions: &'a [TxEnvelope],
    /// Sender of each transaction, in the same order.
    pub senders: Senders<'a>,
    /// Known accounts that transactions may give code to (EIP-7702): a hint.
    pub authorities: &'a [Address],
    /// Other accounts and slots that are expected to be touched: a hint.
    pub accesses: &'a [Access],
    /// Access list of the block and the state that it names, if the block is to run by the list. The session must then
    /// be that of the list.
    pub listed: Option<Listed<'a>>,
    /// Ommers, which are rewarded before the merge.
    pub ommers: &'a [Header],
    /// Withdrawals, from Shanghai on.
    pub withdrawals: Option<&'a [Withdrawal]>,
}

impl<'a> BlockToExecute<'a> {
    /// Returns the parts of a complete block.
    pub fn new(block: &'a Block<TxEnvelope>, senders: Senders<'a>) -> Self {
        Self {
            header: &block.header,
            coinbase: None,
            transactions: &block.body.transactions,
            senders,
            authorities: &[],
            accesses: &[],
            listed: None,
            ommers: &block.body.ommers,
            withdrawals: block.body.withdrawals.as_ref().map(|withdrawals| withdrawals.as_slice()),
        }
    }

    /// Returns the parts of a block that will be filled with transactions one by one. The fees go to the header's
    /// beneficiary.
    pub(crate) const fn to_fill(header: &'a Header, withdrawals: Option<&'a [Withdrawal]>) -> Self {
        Self {
            header,
            coinbase: Some(header.beneficiary),
            transactions: &[],
            senders: Senders::known(&[]),
            authorities: &[],
            accesses: &[],
            listed: None,
            ommers: &[],
            withdrawals,
        }
    }
}
