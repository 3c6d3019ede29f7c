//! The block that a payload of the Engine API stands for, and what is wrong with the call.

use alloy_consensus::{Block, TxEnvelope};
use alloy_eips::eip7685::Requests;
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{B256, Bytes, U64};
use alloy_rpc_types_engine::{
    CancunPayloadFields, ExecutionPayload, ExecutionPayloadSidecar, ExecutionPayloadV1,
    ExecutionPayloadV2, ExecutionPayloadV3, ExecutionPayloadV4, PraguePayloadFields,
};
use polytrie_chainspec::{ChainSpec, Rules};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The fields that came with later structures of a payload, and which.
const LATER_FIELDS: [(&str, u8); 5] = [
    ("withdrawals", 2),
    ("blobGasUsed", 3),
    ("excessBlobGas", 3),
    ("blockAccessList", 4),
    ("slotNumber", 4),
];

/// The call has parameters of another shape than its method takes.
pub const INVALID_PARAMS: i32 = -32602;
/// The method is not for the fork of the payload.
pub const UNSUPPORTED_FORK: i32 = -38005;

/// Why a payload makes no block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PayloadError {
    /// The call is refused.
    Call {
        /// The code of the error.
        code: i32,
        /// What is wrong with the call.
        reason: String,
    },
    /// The payload is invalid, for this reason.
    Invalid(String),
}

impl PayloadError {
    fn parameters(reason: impl Into<String>) -> Self {
        Self::Call { code: INVALID_PARAMS, reason: reason.into() }
    }

    fn unsupported_fork(version: i64) -> Self {
        let reason = format!("engine_newPayloadV{version} is not for the fork of this payload");
        Self::Call { code: UNSUPPORTED_FORK, reason }
    }
}

/// The RLP of the block of a call of `engine_newPayload` in this version, and that of its access list if the payload has
/// one. Everything that the Engine API wants checked besides
/// the block is: the shape of the call, whether its version is that of the block's fork, the block's hash and the hashes of
/// its blobs.
///
/// # Errors
///
/// If the call is not one, or the payload does not make the block whose hash it names.
pub fn block(
    spec: &ChainSpec,
    version: i64,
    params: &[Value],
) -> Result<(Bytes, Option<Bytes>), PayloadError> {
    let [payload, rest @ ..] = params else {
        return Err(PayloadError::parameters("there is no payload"));
    };
    let timestamp: U64 = parse(payload.get("timestamp"), "timestamp")?;
    // All payloads are of blocks after the merge, so no rule depends on their numbers.
    let rules = spec.rules(0, timestamp.to(), true);
    let structure = match version {
        1 => 1,
        2 if rules.is(EthereumHardfork::Shanghai) => 2,
        2 => 1,
        3 | 4 => 3,
        5 => 4,
        _ => return Err(PayloadError::parameters(format!("there is no version {version}"))),
    };
    for (field, since) in LATER_FIELDS {
        let there = payload.get(field).is_some_and(|value| !value.is_null());
        if there != (since <= structure) {
            let found = if there { "an unexpected" } else { "no" };
            return Err(PayloadError::parameters(format!("the payload has {found} `{field}`")));
        }
    }
    let sidecar = sidecar(version, rest)?;
    if !is_for(&rules, version) {
        return Err(PayloadError::unsupported_fork(version));
    }
    let payload = match structure {
        1 => ExecutionPayload::V1(parse::<ExecutionPayloadV1>(Some(payload), "payload")?),
        2 => ExecutionPayload::V2(parse::<ExecutionPayloadV2>(Some(payload), "payload")?),
        3 => ExecutionPayload::V3(parse::<ExecutionPayloadV3>(Some(payload), "payload")?),
        _ => ExecutionPayload::V4(parse::<ExecutionPayloadV4>(Some(payload), "payload")?),
    };
    let access_list = match &payload {
        ExecutionPayload::V4(payload) => Some(payload.block_access_list.clone()),
        _ => None,
    };
    let expected = payload.block_hash();
    let block: Block<TxEnvelope> = payload
        .try_into_block_with_sidecar(&sidecar)
        .map_err(|error| PayloadError::Invalid(error.to_string()))?;
    let found = block.header.hash_slow();
    if found != expected {
        let reason = format!("the payload makes a block with the hash {found}, not {expected}");
        return Err(PayloadError::Invalid(reason));
    }
    if let Some(hashes) = sidecar.versioned_hashes()
        && !block.body.blob_versioned_hashes_iter().eq(hashes)
    {
        let reason = "the transactions have other blobs than the call names";
        return Err(PayloadError::Invalid(reason.to_owned()));
    }
    Ok((alloy_rlp::encode(&block).into(), access_list))
}

/// The parameters after the payload.
fn sidecar(version: i64, params: &[Value]) -> Result<ExecutionPayloadSidecar, PayloadError> {
    let expected = match version {
        1 | 2 => 0,
        3 => 2,
        _ => 3,
    };
    if params.len() != expected {
        let reason = format!("found {} parameters, expected {}", params.len() + 1, expected + 1);
        return Err(PayloadError::parameters(reason));
    }
    let [hashes, root, rest @ ..] = params else { return Ok(ExecutionPayloadSidecar::none()) };
    let cancun = CancunPayloadFields::new(
        parse::<B256>(Some(root), "parentBeaconBlockRoot")?,
        parse::<Vec<B256>>(Some(hashes), "expectedBlobVersionedHashes")?,
    );
    let [requests] = rest else { return Ok(ExecutionPayloadSidecar::v3(cancun)) };
    let requests: Vec<Bytes> = parse(Some(requests), "executionRequests")?;
    let ordered = requests.is_sorted_by(|before, after| before.first() < after.first());
    if !ordered || requests.iter().any(|request| request.len() < 2) {
        let reason = "the requests are empty or not in the order of their types";
        return Err(PayloadError::parameters(reason));
    }
    let prague = PraguePayloadFields::new(Requests::new(requests));
    Ok(ExecutionPayloadSidecar::v4(cancun, prague))
}

/// Whether this version of the method may be called for a block under these rules.
fn is_for(rules: &Rules<'_>, version: i64) -> bool {
    let (since, before) = match version {
        1 | 2 => (EthereumHardfork::Paris, EthereumHardfork::Cancun),
        3 => (EthereumHardfork::Cancun, EthereumHardfork::Prague),
        4 => (EthereumHardfork::Prague, EthereumHardfork::Amsterdam),
        _ => return rules.is(EthereumHardfork::Amsterdam),
    };
    rules.is(since) && !rules.is(before)
}

fn parse<T: DeserializeOwned>(value: Option<&Value>, name: &str) -> Result<T, PayloadError> {
    T::deserialize(value.unwrap_or(&Value::Null))
        .map_err(|error| PayloadError::parameters(format!("`{name}` does not parse: {error}")))
}
