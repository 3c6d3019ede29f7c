//! The plan of a chain's blocks, before they are executed.

use alloy_consensus::{Header, TypedTransaction};
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{Address, B256, Bytes, keccak256};

/// A transaction before it is signed.
#[derive(Debug, Clone)]
pub struct Planned {
    /// Number of the sender in the workload's wallet.
    pub from: usize,
    /// The transaction, nonce included.
    pub tx: TypedTransaction,
}

/// A block before it is executed. Its other fields (roots, gas, base fee, blob gas) follow from the execution.
#[derive(Debug, Clone)]
pub struct BlockPlan {
    /// Timestamp in seconds; greater than the parent's.
    pub timestamp: u64,
    /// Gas limit; it may differ from the parent's by less than a 1024th.
    pub gas_limit: u64,
    /// Address that receives the priority fees.
    pub beneficiary: Address,
    /// The header's extra data, at most 32 bytes.
    pub extra_data: Bytes,
    /// Value that PREVRANDAO returns.
    pub prev_randao: B256,
    /// Root of the parent beacon block; used from Cancun on.
    pub parent_beacon_block_root: B256,
    /// Withdrawals; used from Shanghai on.
    pub withdrawals: Vec<Withdrawal>,
    /// Transactions in their order; each must be valid after those before it.
    pub transactions: Vec<Planned>,
}

impl BlockPlan {
    /// An empty block `seconds` after its parent. Its other fields are those of the parent or follow from
    /// the parent's hash.
    pub fn after(parent: &Header, parent_hash: B256, seconds: u64) -> Self {
        Self {
            timestamp: parent.timestamp + seconds,
            gas_limit: parent.gas_limit,
            beneficiary: parent.beneficiary,
            extra_data: parent.extra_data.clone(),
            prev_randao: keccak256(parent_hash),
            parent_beacon_block_root: keccak256(keccak256(parent_hash)),
            withdrawals: Vec::new(),
            transactions: Vec::new(),
        }
    }
}
