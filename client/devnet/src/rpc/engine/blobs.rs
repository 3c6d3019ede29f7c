//! `engine_getBlobs`: blobs of the pool's transactions, by their versioned hashes.

use super::expect_few;
use crate::{
    engine::EngineError,
    rpc::{Methods, Rpc, args::Args, error::RpcResult},
};
use alloy_consensus::BlobTransactionSidecarVariant;
use alloy_eips::eip4844::{BlobAndProofV1, BlobAndProofV2};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::B256;
use jsonrpsee::core::RegisterMethodError;
use std::{slice, sync::Arc};

/// Maximum number of blobs in one answer; the specification demands at least 128.
const BLOBS: u64 = 128;

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    methods.add("engine_getBlobsV1", |rpc, args| {
        expect_before_osaka(rpc)?;
        blobs(rpc, args, with_proof)
    })?;
    methods.add("engine_getBlobsV2", |rpc, args| {
        let blobs = blobs(rpc, args, with_cell_proofs)?;
        // Version 2 answers with all of the blobs or with null.
        Ok(blobs.into_iter().collect::<Option<Vec<_>>>())
    })?;
    methods.add("engine_getBlobsV3", |rpc, args| blobs(rpc, args, with_cell_proofs))
}

/// Refuses version 1 of the method from Osaka on, where blobs have cell proofs.
fn expect_before_osaka(rpc: &Rpc) -> RpcResult<()> {
    let view = rpc.node.view();
    let rules = rpc.rules(&view.head.header, true);
    if !rules.is(EthereumHardfork::Osaka) {
        return Ok(());
    }
    let fork = rules.fork_name();
    let reason = format!(
        "engine_getBlobsV1 is not for {fork}, which the head is in; ask with engine_getBlobsV2 or engine_getBlobsV3"
    );
    Err(EngineError::Fork(reason).into())
}

/// Returns the blob with this versioned hash from a sidecar, with the proofs of one version of the method; `None` if
/// the sidecar does not have it.
type BlobOf<B> = fn(&BlobTransactionSidecarVariant, &B256) -> Option<B>;

/// The sidecars of all transactions that have the same blob; they may differ in their proofs.
type Sidecars = Vec<Arc<BlobTransactionSidecarVariant>>;

/// Returns the requested blobs; `None` for each one that no transaction of the pool has with such proofs.
fn blobs<B>(rpc: &Rpc, args: &mut Args, of: BlobOf<B>) -> RpcResult<Vec<Option<B>>> {
    let hashes: Vec<B256> = args.next()?;
    expect_few("blobs", hashes.len() as u64, BLOBS)?;
    // The pool is unlocked before the blobs are copied.
    let found: Vec<Sidecars> = {
        let pool = rpc.node.pool();
        hashes.iter().map(|hash| pool.sidecars_with(hash).cloned().collect()).collect()
    };
    let blob = |(hash, sidecars): (&B256, &Sidecars)| {
        sidecars.iter().find_map(|sidecar| of(sidecar, hash))
    };
    Ok(hashes.iter().zip(&found).map(blob).collect())
}

fn with_proof(sidecar: &BlobTransactionSidecarVariant, hash: &B256) -> Option<BlobAndProofV1> {
    let mut matching = sidecar.as_eip4844()?.match_versioned_hashes(slice::from_ref(hash));
    matching.next().map(|(_, blob)| blob)
}

fn with_cell_proofs(
    sidecar: &BlobTransactionSidecarVariant,
    hash: &B256,
) -> Option<BlobAndProofV2> {
    let mut matching = sidecar.as_eip7594()?.match_versioned_hashes(slice::from_ref(hash));
    matching.next().map(|(_, blob)| blob)
}
