//! Parts of answers about a block that the node built but did not add to its chain.

use super::{
    convert::gas_used,
    error::{RpcError, RpcResult},
};
use crate::pool::with_other_proofs;
use alloy_consensus::{Blob, BlobTransactionSidecarVariant, Bytes48, Transaction};
use alloy_primitives::U256;
use polytrie_chain::BuiltBlock;
use serde::Serialize;
use std::sync::Arc;

/// Returns the sum of the tips that the beneficiary of a block gets, in wei.
pub(super) fn block_value(built: &BuiltBlock) -> U256 {
    let base_fee = built.header.base_fee_per_gas.unwrap_or(0);
    let used = gas_used(&built.executed.receipts);
    let txs = built.block.body.transactions.iter().zip(used);
    let tips = txs.map(|(tx, gas)| {
        U256::from(tx.effective_tip_per_gas(base_fee).unwrap_or(0)) * U256::from(gas)
    });
    tips.fold(U256::ZERO, |sum, tip| sum + tip)
}

/// The blobs of a block, with one proof each up to Prague, and one proof for each cell (EIP-7594) from Osaka on.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Bundle {
    commitments: Vec<Bytes48>,
    proofs: Vec<Bytes48>,
    blobs: Vec<Blob>,
}

impl Bundle {
    /// Creates the bundle of some sidecars, with cell proofs if `of_cells`, else with one proof for each blob.
    pub(super) fn of(
        sidecars: &[Arc<BlobTransactionSidecarVariant>],
        of_cells: bool,
    ) -> RpcResult<Self> {
        let mut bundle = Self::default();
        for sidecar in sidecars {
            // The sidecar came before the fork, or for a block of another time than the payload's.
            let fitting = match sidecar.is_eip7594() == of_cells {
                true => Arc::clone(sidecar),
                false => {
                    let other = with_other_proofs(sidecar);
                    Arc::new(other.map_err(|error| RpcError::internal(&error))?)
                }
            };
            match &*fitting {
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
        Ok(bundle)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::pool::blob_settings;
    use alloy_consensus::{SidecarBuilder, SimpleCoder};
    use alloy_eips::eip7594::CELLS_PER_EXT_BLOB;

    #[test]
    fn blobs_come_with_the_proofs_of_the_block() {
        let sidecar = SidecarBuilder::<SimpleCoder>::from_slice(b"a blob")
            .build_4844_with_settings(blob_settings())
            .unwrap();
        let sidecars = [Arc::new(BlobTransactionSidecarVariant::Eip4844(sidecar))];
        for (of_cells, proofs) in [(false, 1), (true, CELLS_PER_EXT_BLOB)] {
            let bundle = Bundle::of(&sidecars, of_cells).unwrap();
            assert_eq!((bundle.blobs.len(), bundle.proofs.len()), (1, proofs));
        }
    }
}
