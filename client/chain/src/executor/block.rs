//! What is executed.

use alloy_consensus::{Block, Header, TxEnvelope};
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::Address;
use polytrie_state::Access;

use super::Listed;

/// The parts of a block that execution needs, with the senders that were recovered ahead of it.
#[derive(Debug, Clone, Copy)]
pub struct BlockToExecute<'a> {
    /// The header. Its gas used, roots and bloom are not read.
    pub header: &'a Header,
    /// Who is paid the fees, if that was found out ahead: what [`coinbase`](polytrie_consensus::clique::coinbase) says.
    pub coinbase: Option<Address>,
    /// The transactions.
    pub transactions: &'a [TxEnvelope],
    /// The sender of each transaction, in the same order.
    pub senders: &'a [Address],
    /// Accounts that transactions let set their code (EIP-7702), as far as they are known ahead: a hint.
    pub authorities: &'a [Address],
    /// What else is expected to be touched: a hint.
    pub accesses: &'a [Access],
    /// Its access list with what that names, if it is to be run by it. It then runs on a session of the list.
    pub listed: Option<Listed<'a>>,
    /// The ommers; they are rewarded before the merge.
    pub ommers: &'a [Header],
    /// The withdrawals, from Shanghai on.
    pub withdrawals: Option<&'a [Withdrawal]>,
}

impl<'a> BlockToExecute<'a> {
    /// All of a block.
    pub fn new(block: &'a Block<TxEnvelope>, senders: &'a [Address]) -> Self {
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

    /// A block to be filled with transactions one by one. The fees go to the header's beneficiary.
    pub const fn to_fill(header: &'a Header, withdrawals: Option<&'a [Withdrawal]>) -> Self {
        Self {
            header,
            coinbase: Some(header.beneficiary),
            transactions: &[],
            senders: &[],
            authorities: &[],
            accesses: &[],
            listed: None,
            ommers: &[],
            withdrawals,
        }
    }

    /// The block, with the account that is paid its fees.
    #[must_use]
    pub const fn with_coinbase(mut self, coinbase: Address) -> Self {
        self.coinbase = Some(coinbase);
        self
    }

    /// The block, with the accounts that its transactions let set their code (EIP-7702).
    #[must_use]
    pub const fn with_authorities(mut self, authorities: &'a [Address]) -> Self {
        self.authorities = authorities;
        self
    }

    /// The block, with a guess at what it touches.
    #[must_use]
    pub const fn with_accesses(mut self, accesses: &'a [Access]) -> Self {
        self.accesses = accesses;
        self
    }

    /// The block, to be run by its access list.
    #[must_use]
    pub const fn with_listed(mut self, listed: Option<Listed<'a>>) -> Self {
        self.listed = listed;
        self
    }
}
