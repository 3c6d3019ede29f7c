//! The reason why a test fails.

use super::post_state::Difference;
use alloy_primitives::B256;
use polytrie_chain::ChainError;
use polytrie_chain::executor::BlockInvalid;
use polytrie_state::StateError;
use thiserror::Error;

/// Reason why a test fails.
#[derive(Debug, Error)]
pub(super) enum Mismatch {
    #[error("the test does not parse: {0}")]
    Format(serde_json::Error),
    #[error("the network `{0}` is not known")]
    Network(String),
    #[error("the blob schedule names the fork `{0}`, which is not known")]
    BlobFork(String),
    #[error("the genesis header has the hash {found}, expected {expected}")]
    GenesisHash { found: B256, expected: B256 },
    #[error("the genesis block does not decode: {0}")]
    GenesisDecode(String),
    #[error("the chain cannot be opened: {0}")]
    Open(ChainError),
    #[error("block {index} has the hash {found}, expected {expected}")]
    BlockHash { index: usize, found: B256, expected: B256 },
    #[error("block {index} was refused, expected it to be valid: {reason}")]
    Refused { index: usize, reason: String },
    #[error("block {index} was {what}, expected it to be refused{because}")]
    Accepted { index: usize, what: &'static str, because: String },
    #[error(
        "block {index} is invalid for its receipts root alone; before Byzantium receipts hold state roots, which `{layer}` \
         does not have"
    )]
    Undecidable { index: usize, layer: &'static str },
    #[error("call {index} does not say what it is to be answered with")]
    Call { index: usize },
    #[error("call {index} was {found}, expected it to be {expected}")]
    CallAnswer { index: usize, found: String, expected: String },
    #[error("after call {index} the head is block {number} {found}, expected {expected}")]
    Forkchoice { index: usize, number: u64, found: B256, expected: B256 },
    #[error("the client failed at block {index}: {source}")]
    Broken { index: usize, source: ChainError },
    #[error("the head is block {number} {found}, expected {expected}")]
    Head { number: u64, found: B256, expected: B256 },
    #[error("the state cannot be read: {0}")]
    State(#[from] StateError),
    #[error("after the last block, {0}")]
    PostState(Box<Difference>),
    #[error("the accounts and slots at the end make the state root {found}, expected {expected}")]
    PostStateRoot { found: B256, expected: B256 },
    #[error("the environment cannot be used: {0}")]
    Environment(BlockInvalid),
    #[error("the transaction was refused, expected it to be executed: {0}")]
    TransactionRefused(String),
    #[error("the transaction was executed, expected it to be refused because of {0}")]
    TransactionExecuted(String),
    #[error("the client failed at the transaction: {0}")]
    Transaction(ChainError),
    #[error("the test has no signed transaction (`txbytes`)")]
    Unsigned,
    #[error("{0}")]
    Superseded(&'static str),
    #[error("the logs have the hash {found}, expected {expected}")]
    Logs { found: B256, expected: B256 },
    #[error("the layer says the state root is {found}, expected {expected}")]
    LayerRoot { found: B256, expected: B256 },
    #[error("the client panicked: {0}")]
    Panic(String),
}

impl Mismatch {
    /// Whether the test is no evidence about this client and layer.
    pub(super) const fn is_skipped(&self) -> bool {
        matches!(self, Self::Undecidable { .. } | Self::Unsigned | Self::Superseded(_))
    }
}
