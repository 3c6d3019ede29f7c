//! The proofs of blobs: one for each blob up to Prague, one for each cell of a blob from Osaka on (EIP-7594).

use super::{PoolError, PoolTransaction};
use alloy_consensus::{BlobTransactionSidecar, BlobTransactionSidecarVariant};
use alloy_eips::eip4844::c_kzg::{KzgSettings, ethereum_kzg_settings};
use alloy_hardforks::EthereumHardfork;
use polytrie_chainspec::Rules;

impl PoolTransaction {
    /// Returns the transaction with the kind of blob proofs that the fork of `rules` needs.
    ///
    /// # Errors
    ///
    /// If it has the proofs of a later fork, or none can be computed.
    pub(crate) fn with_proofs_for(self, rules: &Rules<'_>) -> Result<Self, PoolError> {
        let Some(sidecar) = self.sidecar.as_deref() else { return Ok(self) };
        match (sidecar.is_eip7594(), rules.is(EthereumHardfork::Osaka)) {
            (true, false) => Err(PoolError::CellProofs),
            (false, true) => {
                let sidecar = with_other_proofs(sidecar)?;
                Ok(Self::new(self.tx, self.sender, Some(sidecar)))
            }
            _ => Ok(self),
        }
    }
}

/// Returns the points of the ceremony, without the tables that alloy would make of them with the first blob: those take nearly a
/// second and 100 MiB, and with them the proofs of a blob's cells are computed more slowly.
pub(crate) fn blob_settings() -> &'static KzgSettings {
    ethereum_kzg_settings(0)
}

/// Returns the same blobs with the other kind of proofs.
///
/// # Errors
///
/// If the blobs are not valid.
pub(crate) fn with_other_proofs(
    sidecar: &BlobTransactionSidecarVariant,
) -> Result<BlobTransactionSidecarVariant, PoolError> {
    let made = match sidecar {
        BlobTransactionSidecarVariant::Eip4844(sidecar) => sidecar
            .clone()
            .try_into_7594(blob_settings())
            .map(BlobTransactionSidecarVariant::Eip7594),
        BlobTransactionSidecarVariant::Eip7594(sidecar) => {
            let blobs = sidecar.blobs.clone();
            BlobTransactionSidecar::try_from_blobs_with_settings(blobs, blob_settings())
                .map(BlobTransactionSidecarVariant::Eip4844)
        }
    };
    made.map_err(|error| PoolError::Blobs(error.to_string()))
}
