//! What is said of a block that the node made and did not add to its chain.

use super::{Rpc, convert::gas_used};
use alloy_consensus::{Blob, BlobTransactionSidecarVariant, Bytes48, Transaction, TxEnvelope};
use alloy_primitives::U256;
use polytrie_chain::BuiltBlock;
use serde::Serialize;

/// The tips that the beneficiary gets for a block, in wei.
pub(super) fn block_value(built: &BuiltBlock) -> U256 {
    let base_fee = built.header.base_fee_per_gas.unwrap_or(0);
    let used = gas_used(&built.executed.receipts);
    let txs = built.block.body.transactions.iter().zip(used);
    let tips = txs.map(|(tx, gas)| {
        U256::from(tx.effective_tip_per_gas(base_fee).unwrap_or(0)) * U256::from(gas)
    });
    tips.fold(U256::ZERO, |sum, tip| sum + tip)
}

/// The blobs of a block: with a proof each up to Prague, and with one for each cell (EIP-7594) from Osaka on.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Bundle {
    commitments: Vec<Bytes48>,
    proofs: Vec<Bytes48>,
    blobs: Vec<Blob>,
}

impl Bundle {
    /// The blobs of the transactions that came from the pool.
    pub(super) fn of(rpc: &Rpc, transactions: &[TxEnvelope]) -> Self {
        let mut bundle = Self::default();
        let pool = rpc.node.pool();
        for tx in transactions.iter().filter(|tx| tx.is_eip4844()) {
            let Some(sidecar) = pool.get(tx.tx_hash()).and_then(|tx| tx.sidecar.clone()) else {
                continue;
            };
            match &*sidecar {
                BlobTransactionSidecarVariant::Eip4844(sidecar) => {
                    bundle.commitments.extend(&sidecar.commitments);
                    bundle.proofs.extend(&sidecar.proofs);
                    bundle.blobs.extend(&sidecar.blobs);
                }
                BlobTransactionSidecarVariant::Eip7594(sidecar) => {
                    bundle.commitments.extend(&sidecar.commitments);
                    bundle.proofs.extend(&sidecar.cell_proofs);
                    bundle.blobs.extend(&sidecar.blobs);
                }
            }
        }
        bundle
    }
}
