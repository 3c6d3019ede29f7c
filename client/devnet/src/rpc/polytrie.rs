//! `polytrie_`: the state layer, its proofs, and metrics.

use super::{
    Methods, Rpc,
    args::Args,
    convert::{json_of, quantity},
    error::{RpcError, RpcResult},
    eth::slots,
};
use alloy_primitives::{Address, B256, Bytes};
use jsonrpsee::core::RegisterMethodError;
use polytrie_layers::VerifyError;
use polytrie_state::{Commitment, CommitmentKind, Proof, ProofError};
use serde::Deserialize;
use serde_json::{Value, json};

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    methods.add("polytrie_getStateLayer", state_layer)?;
    methods.add_heavy("polytrie_getProof", proof)?;
    methods.add("polytrie_verifyProof", verify_proof)?;
    methods.add("polytrie_metrics", metrics)
}

fn commitment(commitment: &Commitment) -> Value {
    let kind = match commitment.kind() {
        CommitmentKind::StateRoot => "stateRoot",
        CommitmentKind::None => "none",
        CommitmentKind::Own => "own",
    };
    json!({ "kind": kind, "digest": commitment.digest(), "body": commitment.body() })
}

fn state_layer(rpc: &Rpc, _: &mut Args) -> RpcResult<Value> {
    let node = &rpc.node;
    Ok(json!({
        "layer": node.kind().name,
        "about": node.kind().about,
        "canonical": node.kind().canonical,
        "engine": node.db().store().engine_name(),
        "parameters": node.parameters(),
        "commitment": commitment(&node.layer().commitment()),
        "head": { "number": quantity(node.view().head.number()), "hash": node.view().hash() },
    }))
}

/// Returns a proof in the layer's own form, with the data for its verification. The block defaults to the head.
fn proof(rpc: &Rpc, args: &mut Args) -> RpcResult<Value> {
    let address: Address = args.next()?;
    let keys: Vec<String> = args.optional()?.unwrap_or_default();
    let (proof, made_of) = rpc.proof(&address, &slots(&keys)?, args.optional_block()?)?;
    Ok(json!({ "layer": proof.layer, "proof": proof.proof, "commitment": commitment(&made_of) }))
}

/// A proof in the form in which [`proof`] returns it.
#[derive(Debug, Deserialize)]
struct GivenProof {
    #[serde(flatten)]
    proof: Proof,
    commitment: GivenCommitment,
}

#[derive(Debug, Deserialize)]
struct GivenCommitment {
    #[serde(default)]
    body: Bytes,
}

/// Verifies a proof against a digest, and returns the proven values.
fn verify_proof(rpc: &Rpc, args: &mut Args) -> RpcResult<Value> {
    let GivenProof { proof, commitment } = args.next()?;
    let digest: B256 = args.next()?;
    let kind = polytrie_layers::layer(&proof.layer)
        .map_err(|error| RpcError::params(error.to_string()))?;
    let verify = kind.verify.ok_or_else(|| {
        RpcError::unsupported(format!("the state layer `{}` makes no proofs", kind.name))
    })?;
    let commitment = match kind.canonical {
        true => Commitment::state_root(digest),
        false => Commitment::own(digest, commitment.body),
    };
    match verify(&rpc.needs, &commitment, &proof) {
        Ok(proven) => Ok(json!({ "valid": true, "proven": proven })),
        Err(VerifyError::Proof(ProofError::Invalid(reason))) => {
            Ok(json!({ "valid": false, "reason": reason }))
        }
        Err(VerifyError::Proof(ProofError::Malformed(reason))) => Err(RpcError::params(reason)),
        Err(VerifyError::Unable(error)) => Err(RpcError::server(error.to_string())),
    }
}

/// Returns counters and times since the start.
fn metrics(rpc: &Rpc, _: &mut Args) -> RpcResult<Value> {
    let (blocks, totals) = rpc.node.miner().totals();
    let pending = rpc.node.db().store().pending();
    let unflushed = rpc.node.view().head.number().saturating_sub(rpc.node.durable());
    let (waiting, queued) = rpc.node.pool().status();
    json_of(&json!({
        "blocks": blocks,
        "transactions": totals.txs,
        "gas": totals.gas,
        "seconds": {
            "execute": totals.execute.as_secs_f64(),
            "stateRead": totals.state_read.as_secs_f64(),
            "stateCommit": totals.state_commit.as_secs_f64(),
            "seal": totals.check.as_secs_f64(),
            "write": totals.write.as_secs_f64(),
        },
        "pool": { "pending": waiting, "queued": queued, "dropped": rpc.node.pool().dropped() },
        "unflushed": { "blocks": unflushed, "bytes": pending.bytes },
    }))
}
