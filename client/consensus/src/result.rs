//! Checks of the result of an execution against the header.

use super::error::ConsensusError;
use alloy_consensus::{Header, ReceiptEnvelope, TxReceipt, proofs};
use alloy_eips::eip7685::{EMPTY_REQUESTS_HASH, Requests};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{B256, Bloom};
use polytrie_chainspec::Rules;

/// The parts of a block's execution that its header commits to.
#[derive(Clone, Copy, Debug)]
pub struct ExecutedResult<'a> {
    /// Gas that all transactions used.
    pub gas_used: u64,
    /// Receipts, in the order of the transactions, each with the bloom of its own logs.
    pub receipts: &'a [ReceiptEnvelope],
    /// Requests to the consensus layer (EIP-7685); `None` stands for an empty list. Not read before
    /// Prague.
    pub requests: Option<&'a Requests>,
    /// Blob gas that all transactions used. Not read before Cancun.
    pub blob_gas_used: u64,
    /// Hash of the block access list (EIP-7928); `None` if the executor built no list, and then the
    /// header's hash is not compared. Not read before Amsterdam.
    pub block_access_list_hash: Option<B256>,
}

/// Whether the receipts are complete enough to compare their root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiptsRoot {
    /// The root is compared with the header's.
    Compare,
    /// The root is not compared. Before Byzantium a receipt holds the state root after its
    /// transaction ([`Eip658Value::PostState`](alloy_consensus::Eip658Value::PostState)), which a
    /// state layer without canonical roots cannot give.
    Skip,
}

/// Checks the result of a block's execution against its header: gas used, receipts root, logs bloom,
/// blob gas used, requests hash, block access list hash. [`check_state_root`] checks the state root.
///
/// # Errors
///
/// Fails with the first field of the header that differs.
pub fn check_result(
    rules: &Rules<'_>,
    header: &Header,
    result: &ExecutedResult<'_>,
    receipts_root: ReceiptsRoot,
) -> Result<(), ConsensusError> {
    if header.gas_used != result.gas_used {
        return Err(ConsensusError::GasUsed { found: header.gas_used, expected: result.gas_used });
    }
    if receipts_root == ReceiptsRoot::Compare {
        check_receipts_root(header, proofs::calculate_receipt_root(result.receipts))?;
    }
    // Many receipts have no logs, and a bloom of 256 zeros.
    let with_logs = result.receipts.iter().filter(|receipt| !receipt.logs().is_empty());
    let bloom = with_logs.fold(Bloom::ZERO, |bloom, receipt| bloom | receipt.bloom());
    if header.logs_bloom != bloom {
        return Err(ConsensusError::LogsBloom {
            found: Box::new(header.logs_bloom),
            expected: Box::new(bloom),
        });
    }
    if let Some(found) = header.blob_gas_used
        && found != result.blob_gas_used
    {
        return Err(ConsensusError::BlobGasUsed { found, expected: result.blob_gas_used });
    }
    check_hashes(rules, header, result)
}

fn check_hashes(
    rules: &Rules<'_>,
    header: &Header,
    result: &ExecutedResult<'_>,
) -> Result<(), ConsensusError> {
    let fork = EthereumHardfork::Prague;
    if rules.is(fork) {
        let field = "requests hash";
        let found = header.requests_hash.ok_or(ConsensusError::MissingField { field, fork })?;
        let expected = result.requests.map_or(EMPTY_REQUESTS_HASH, Requests::requests_hash);
        if found != expected {
            return Err(ConsensusError::RequestsHash { found, expected });
        }
    }
    let fork = EthereumHardfork::Amsterdam;
    if let Some(expected) = result.block_access_list_hash
        && rules.is(fork)
    {
        let field = "block access list hash";
        let found =
            header.block_access_list_hash.ok_or(ConsensusError::MissingField { field, fork })?;
        if found != expected {
            return Err(ConsensusError::BlockAccessListHash { found, expected });
        }
    }
    Ok(())
}

/// Checks the root of a block's receipts against its header, for a caller that has computed it by itself.
///
/// # Errors
///
/// Fails with [`ConsensusError::ReceiptsRoot`] if the roots differ.
pub fn check_receipts_root(header: &Header, expected: B256) -> Result<(), ConsensusError> {
    let found = header.receipts_root;
    if found == expected { Ok(()) } else { Err(ConsensusError::ReceiptsRoot { found, expected }) }
}

/// Checks the state root after a block against its header. Callers use it only for a state layer
/// whose commitment is the canonical state root.
///
/// # Errors
///
/// Fails with [`ConsensusError::StateRootMismatch`] if the roots differ.
pub fn check_state_root(header: &Header, state_root: B256) -> Result<(), ConsensusError> {
    if header.state_root == state_root {
        Ok(())
    } else {
        Err(ConsensusError::StateRootMismatch { found: header.state_root, expected: state_root })
    }
}
