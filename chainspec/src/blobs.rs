//! Blob parameters by fork (EIP-7840, EIP-7892).

use alloy_eips::{
    eip7594::MAX_BLOBS_PER_TX_FUSAKA,
    eip7840::{BLOB_BASE_COST, BlobParams},
};
use alloy_hardforks::EthereumHardfork;

/// The forks that can bring new blob parameters, oldest first.
pub(crate) const BLOB_FORKS: [EthereumHardfork; 9] = [
    EthereumHardfork::Cancun,
    EthereumHardfork::Prague,
    EthereumHardfork::Osaka,
    EthereumHardfork::Bpo1,
    EthereumHardfork::Bpo2,
    EthereumHardfork::Bpo3,
    EthereumHardfork::Bpo4,
    EthereumHardfork::Bpo5,
    EthereumHardfork::Amsterdam,
];

/// Returns the parameters that `fork` brings on mainnet, or `None` if they are not known.
pub(crate) fn default_params(fork: EthereumHardfork) -> Option<BlobParams> {
    match fork {
        EthereumHardfork::Cancun => Some(BlobParams::cancun()),
        EthereumHardfork::Prague => Some(BlobParams::prague()),
        EthereumHardfork::Osaka => Some(BlobParams::osaka()),
        EthereumHardfork::Bpo1 => Some(BlobParams::bpo1()),
        EthereumHardfork::Bpo2 => Some(BlobParams::bpo2()),
        _ => None,
    }
}

/// Adds what the fork itself fixes to the three numbers of a blob schedule entry: since Osaka, at most six blobs
/// per transaction (EIP-7594) and a blob base cost (EIP-7918).
pub(crate) fn complete(fork: EthereumHardfork, params: BlobParams) -> BlobParams {
    if fork < EthereumHardfork::Osaka {
        params.with_max_blobs_per_tx(params.max_blob_count).with_blob_base_cost(0)
    } else {
        params.with_max_blobs_per_tx(MAX_BLOBS_PER_TX_FUSAKA).with_blob_base_cost(BLOB_BASE_COST)
    }
}
