//! What running a block gave, against its header.

use super::error::ConsensusError;
use alloy_consensus::{Header, ReceiptEnvelope, TxReceipt, proofs};
use alloy_eips::eip7685::{EMPTY_REQUESTS_HASH, Requests};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{B256, Bloom};
use polytrie_chainspec::Rules;

/// What running a block gave, as far as its header tells something about it.
#[derive(Clone, Copy, Debug)]
pub struct ExecutedResult<'a> {
    /// Gas that all transactions used.
    pub gas_used: u64,
    /// Receipts, in the order of the transactions, each with the bloom of its own logs.
    pub receipts: &'a [ReceiptEnvelope],
    /// Requests to the consensus layer (EIP-7685); `None` stands for none. Not read before Prague.
    pub requests: Option<&'a Requests>,
    /// Blob gas that all transactions used. Not read before Cancun.
    pub blob_gas_used: u64,
    /// Hash of the block access list (EIP-7928); `None` if the executor built no list, and then the
    /// header's hash is not compared. Not read before Amsterdam.
    pub block_access_list_hash: Option<B256>,
}

/// Whether the receipts are complete enough for their root to be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiptsRoot {
    /// Compare it with the header's.
    Compare,
    /// Leave it out. Before Byzantium a receipt holds the state root after its transaction
    /// ([`Eip658Value::PostState`](alloy_consensus::Eip658Value::PostState)), which a state layer
    /// without canonical roots cannot give.
    Skip,
}

/// Checks what running a block gave against its header: gas used, receipts root, logs bloom, blob gas
/// used, requests hash, block access list hash. The state root is [`check_state_root`]'s.
///
/// # Errors
///
/// The first field of the header that differs.
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
        let expected = proofs::calculate_receipt_root(result.receipts);
        if header.receipts_root != expected {
            return Err(ConsensusError::ReceiptsRoot { found: header.receipts_root, expected });
        }
    }
    let bloom = result.receipts.iter().fold(Bloom::ZERO, |bloom, receipt| bloom | receipt.bloom());
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

/// Checks the state root after a block against its header. Only for a state layer whose commitment is
/// the canonical state root.
///
/// # Errors
///
/// [`ConsensusError::StateRootMismatch`] if the roots differ.
pub fn check_state_root(header: &Header, state_root: B256) -> Result<(), ConsensusError> {
    if header.state_root == state_root {
        Ok(())
    } else {
        Err(ConsensusError::StateRootMismatch { found: header.state_root, expected: state_root })
    }
}
