//! `engine_`: the methods for a consensus layer, and `debug_setHead`.
//!
//! The logic is in [`crate::engine`]. This module has the versions of the methods, and the formats of
//! parameters and answers.

mod blobs;

use super::{
    Methods, Rpc,
    access_lists::list_of,
    args::{Args, Number},
    built::{Bundle, block_value},
    error::{RpcError, RpcResult},
    lookup::Found,
    web3::VERSION,
};
use crate::{
    Payload, View,
    engine::{Engine, EngineError},
};
use alloy_eips::eip7685::Requests;
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{B256, Bytes, FixedBytes, U256};
use alloy_rpc_types_engine::{
    ExecutionPayloadBodyV1, ExecutionPayloadBodyV2, ExecutionPayloadFieldV2, ExecutionPayloadV1,
    ExecutionPayloadV3, ExecutionPayloadV4, ForkchoiceState, ForkchoiceUpdated, PayloadAttributes,
    PayloadId, PayloadStatus, PayloadStatusEnum,
};
use jsonrpsee::core::RegisterMethodError;
use polytrie_chain::BuiltBlock;
use polytrie_node::payload::{self, PayloadError};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::{Arc, OnceLock};

/// Maximum number of bodies in one answer; the specification demands at least 32.
const BODIES: u64 = 1024;

/// Names of the methods for a consensus layer, without `engine_exchangeCapabilities` itself.
static CAPABILITIES: OnceLock<Vec<&'static str>> = OnceLock::new();

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    methods.add_in_place("engine_newPayloadV1", |rpc, args| new_payload(rpc, args, 1))?;
    methods.add_in_place("engine_newPayloadV2", |rpc, args| new_payload(rpc, args, 2))?;
    methods.add_in_place("engine_newPayloadV3", |rpc, args| new_payload(rpc, args, 3))?;
    methods.add_in_place("engine_newPayloadV4", |rpc, args| new_payload(rpc, args, 4))?;
    methods.add_in_place("engine_newPayloadV5", |rpc, args| new_payload(rpc, args, 5))?;
    methods.add_in_place("engine_forkchoiceUpdatedV1", |rpc, args| forkchoice(rpc, args, 1))?;
    methods.add_in_place("engine_forkchoiceUpdatedV2", |rpc, args| forkchoice(rpc, args, 2))?;
    methods.add_in_place("engine_forkchoiceUpdatedV3", |rpc, args| forkchoice(rpc, args, 3))?;
    methods.add_in_place("engine_forkchoiceUpdatedV4", |rpc, args| forkchoice(rpc, args, 4))?;
    methods.add("engine_getPayloadV1", |rpc, args| {
        let built = built(rpc, args, 1)?;
        Ok(ExecutionPayloadV1::from_block_unchecked(built.header.hash(), &built.block))
    })?;
    methods.add("engine_getPayloadV2", |rpc, args| {
        let built = built(rpc, args, 2)?;
        let (hash, block) = (built.header.hash(), &built.block);
        let execution_payload = ExecutionPayloadFieldV2::from_block_unchecked(hash, block);
        Ok(Envelope::of(&built, execution_payload))
    })?;
    methods.add("engine_getPayloadV3", |rpc, args| envelope(rpc, &*built(rpc, args, 3)?))?;
    methods.add("engine_getPayloadV4", |rpc, args| {
        let built = built(rpc, args, 4)?;
        Ok(envelope(rpc, &built)?.with_requests(&built))
    })?;
    methods.add("engine_getPayloadV5", |rpc, args| {
        let built = built(rpc, args, 5)?;
        Ok(envelope(rpc, &built)?.with_requests(&built))
    })?;
    methods.add("engine_getPayloadV6", |rpc, args| {
        let built = built(rpc, args, 6)?;
        Ok(envelope_of(rpc, &built, payload_with_list(&built))?.with_requests(&built))
    })?;
    methods.add("engine_getPayloadBodiesByHashV1", |rpc, args| bodies_by_hash(rpc, args, body))?;
    methods
        .add("engine_getPayloadBodiesByRangeV1", |rpc, args| bodies_by_range(rpc, args, body))?;
    methods.add_heavy("engine_getPayloadBodiesByHashV2", |rpc, args| {
        bodies_by_hash(rpc, args, body_with_list)
    })?;
    methods.add_heavy("engine_getPayloadBodiesByRangeV2", |rpc, args| {
        bodies_by_range(rpc, args, body_with_list)
    })?;
    blobs::register(methods)?;
    methods.add("engine_getClientVersionV1", |_, args| {
        let asking: Option<Value> = args.optional()?;
        tracing::debug!("the consensus layer is {}", asking.unwrap_or_default());
        // The specification demands a code of two letters that no other client uses, and four bytes of the commit,
        // which a build does not know.
        Ok(json!([{ "code": "PT", "name": "polytrie", "version": VERSION, "commit": "0x00000000" }]))
    })?;
    // All other `engine_` methods are registered at this point.
    CAPABILITIES.get_or_init(|| {
        let names = methods.0.method_names().filter(|name| name.starts_with("engine_"));
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        names
    });
    methods.add("engine_exchangeCapabilities", |_, args| {
        let asked: Vec<String> = args.next()?;
        let ours = CAPABILITIES.get().map(Vec::as_slice).unwrap_or_default();
        let missing: Vec<_> =
            ours.iter().filter(|ours| !asked.iter().any(|one| one == *ours)).collect();
        tracing::debug!("the consensus layer does not know {missing:?}");
        Ok(ours)
    })?;
    methods.add("debug_setHead", |rpc, args| {
        let number: Number = args.next()?;
        engine(rpc)?.set_head(number.as_u64()?)?;
        Ok(Value::Null)
    })
}

impl From<EngineError> for RpcError {
    fn from(error: EngineError) -> Self {
        match (error.code(), error) {
            (_, EngineError::Node(error)) => error.into(),
            (Some(code), error) => Self::new(code, error.to_string()),
            (None, error) => Self::internal(&error),
        }
    }
}

fn engine(rpc: &Rpc) -> RpcResult<&Arc<Engine>> {
    // These methods are registered only for a node with an engine.
    rpc.engine.as_ref().ok_or_else(|| RpcError::server("no consensus layer drives this node"))
}

fn new_payload(rpc: &Rpc, args: &mut Args, version: i64) -> RpcResult<PayloadStatus> {
    match payload::block(rpc.node.spec(), version, &args.rest()) {
        Ok(block) => Ok(engine(rpc)?.new_payload(block)?),
        Err(PayloadError::Invalid(validation_error)) => {
            Ok(PayloadStatus::from_status(PayloadStatusEnum::Invalid { validation_error }))
        }
        Err(PayloadError::Call { code, reason }) => Err(RpcError::new(code, reason)),
    }
}

fn forkchoice(rpc: &Rpc, args: &mut Args, version: u8) -> RpcResult<ForkchoiceUpdated> {
    let choice: ForkchoiceState = args.next()?;
    let attributes: Option<Value> = args.optional()?;
    if version >= 4 {
        // The columns of blobs that the consensus layer keeps are ignored: they matter to a node that samples blobs of
        // its peers only.
        let _custody: Option<FixedBytes<16>> = args.optional()?;
    }
    // Invalid attributes must not prevent the choice of the head.
    let attributes = attributes.map(|attributes| {
        serde_json::from_value::<PayloadAttributes>(attributes)
            .map_err(|error| EngineError::Attributes(format!("they do not parse: {error}")))
    });
    Ok(engine(rpc)?.forkchoice_updated(version, choice, attributes)?)
}

/// Returns a started payload, if its fork fits the version of the method.
fn built(rpc: &Rpc, args: &mut Args, version: u8) -> RpcResult<Arc<Payload>> {
    let id: PayloadId = args.next()?;
    let built = engine(rpc)?.payload(id)?;
    let rules = rpc.rules(&built.header, true);
    let (since, before) = match version {
        1 => (EthereumHardfork::Paris, Some(EthereumHardfork::Shanghai)),
        2 => (EthereumHardfork::Paris, Some(EthereumHardfork::Cancun)),
        3 => (EthereumHardfork::Cancun, Some(EthereumHardfork::Prague)),
        4 => (EthereumHardfork::Prague, Some(EthereumHardfork::Osaka)),
        5 => (EthereumHardfork::Osaka, Some(EthereumHardfork::Amsterdam)),
        _ => (EthereumHardfork::Amsterdam, None),
    };
    if rules.is(since) && !before.is_some_and(|fork| rules.is(fork)) {
        return Ok(built);
    }
    let fork = rules.fork_name();
    let reason = format!("engine_getPayloadV{version} is not for {fork}, which payload {id} is in");
    Err(EngineError::Fork(reason).into())
}

/// A payload with the additional fields for a proposer.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<P> {
    execution_payload: P,
    block_value: U256,
    #[serde(skip_serializing_if = "Option::is_none")]
    blobs_bundle: Option<Bundle>,
    #[serde(skip_serializing_if = "Option::is_none")]
    should_override_builder: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    execution_requests: Option<Requests>,
}

impl<P> Envelope<P> {
    fn of(built: &BuiltBlock, execution_payload: P) -> Self {
        Self {
            execution_payload,
            block_value: block_value(built),
            blobs_bundle: None,
            should_override_builder: None,
            execution_requests: None,
        }
    }

    /// Adds the requests of EIP-7685.
    fn with_requests(self, built: &BuiltBlock) -> Self {
        let requests = built.executed.requests.clone().unwrap_or_default();
        Self { execution_requests: Some(requests), ..self }
    }
}

/// Returns the answer for a payload from Cancun on.
fn envelope(rpc: &Rpc, built: &Payload) -> RpcResult<Envelope<ExecutionPayloadV3>> {
    let payload = ExecutionPayloadV3::from_block_unchecked(built.header.hash(), &built.block);
    envelope_of(rpc, built, payload)
}

/// Returns a payload from Amsterdam on, with its access list.
fn payload_with_list(built: &BuiltBlock) -> ExecutionPayloadV4 {
    let list = built.executed.access_list.clone().unwrap_or_default();
    let (hash, list) = (built.header.hash(), alloy_rlp::encode(&list).into());
    ExecutionPayloadV4::from_block_unchecked_with_bal(hash, &built.block, list)
}

fn envelope_of<P>(rpc: &Rpc, built: &Payload, payload: P) -> RpcResult<Envelope<P>> {
    let of_cells = rpc.rules(&built.header, true).is(EthereumHardfork::Osaka);
    Ok(Envelope {
        blobs_bundle: Some(Bundle::of(&built.sidecars, of_cells)?),
        should_override_builder: Some(false),
        ..Envelope::of(built, payload)
    })
}

/// Converts a block of the view into a body; returns it with the number of its bytes, which is that of the block's RLP and
/// of its access list.
type BodyOf<B> = fn(&Rpc, &View, Found) -> RpcResult<(B, usize)>;

fn bodies_by_hash<B: From<ExecutionPayloadBodyV1>>(
    rpc: &Rpc,
    args: &mut Args,
    of: BodyOf<B>,
) -> RpcResult<Vec<Option<B>>> {
    let hashes: Vec<B256> = args.next()?;
    let asked = hashes.len() as u64;
    expect_few("payload bodies", asked, BODIES)?;
    // One view serves all hashes: in another view the same number may belong to a block of another branch.
    let view = rpc.node.view();
    let body = |hash: &B256| -> RpcResult<Option<(B, usize)>> {
        if let Some(number) = view.db().number_of(hash)? {
            return body_at(rpc, &view, number, of);
        }
        // The specification tells callers to ask by hash for blocks that may leave the chain.
        let found = view.db().side_block_and_size(hash)?;
        Ok(found.map(|(block, bytes)| (ExecutionPayloadBodyV1::from_block(block).into(), bytes)))
    };
    all_in_one(rpc, asked, hashes.iter().map(body))
}

fn bodies_by_range<B>(rpc: &Rpc, args: &mut Args, of: BodyOf<B>) -> RpcResult<Vec<Option<B>>> {
    let [start, count] = [args.next::<Number>()?, args.next()?];
    let [start, count] = [start.as_u64()?, count.as_u64()?];
    if start == 0 || count == 0 {
        return Err(RpcError::params("start and count are numbers from 1 on"));
    }
    expect_few("payload bodies", count, BODIES)?;
    let view = rpc.node.view();
    let last = start.saturating_add(count - 1).min(view.head.number());
    all_in_one(rpc, count, (start..=last).map(|number| body_at(rpc, &view, number, of)))
}

/// Returns the body of a block of the view with the number of its bytes; `None` if the block is not there.
fn body_at<B>(rpc: &Rpc, view: &View, number: u64, of: BodyOf<B>) -> RpcResult<Option<(B, usize)>> {
    rpc.block(view, number)?.map(|found| of(rpc, view, found)).transpose()
}

/// Returns the bodies, or an error as soon as an answer has no room for them; `asked` is the number in the request.
fn all_in_one<B>(
    rpc: &Rpc,
    asked: u64,
    bodies: impl Iterator<Item = RpcResult<Option<(B, usize)>>>,
) -> RpcResult<Vec<Option<B>>> {
    // A byte becomes two digits.
    let mut left = rpc.max_response / 2;
    let mut all = Vec::new();
    for body in bodies {
        let body = body?;
        let bytes = body.as_ref().map_or(0, |(_, bytes)| *bytes);
        match left.checked_sub(bytes) {
            Some(rest) => left = rest,
            None => expect_few("payload bodies", asked, all.len() as u64)?,
        }
        all.push(body.map(|(body, _)| body));
    }
    Ok(all)
}

fn expect_few(what: &'static str, found: u64, most: u64) -> RpcResult<()> {
    match found > most {
        true => Err(EngineError::TooLarge { what, found, most }.into()),
        false => Ok(()),
    }
}

fn body(_: &Rpc, _: &View, found: Found) -> RpcResult<(ExecutionPayloadBodyV1, usize)> {
    Ok((ExecutionPayloadBodyV1::from_block(found.block), found.rlp_length))
}

/// Returns a body with its access list, for which the block is executed again. The list is `None` if the state before
/// the block is not kept, or the request has no time left.
fn body_with_list(
    rpc: &Rpc,
    view: &View,
    found: Found,
) -> RpcResult<(ExecutionPayloadBodyV2, usize)> {
    let parent = found.header.number.checked_sub(1);
    let parent = parent.map(|parent| view.state_at(parent)).transpose()?;
    let list = match parent.flatten() {
        Some(_) if rpc.in_time().is_ok() => match list_of(rpc, view, &found) {
            // The time of the request ended while the block was executed.
            Err(_) if rpc.in_time().is_err() => None,
            list => list?,
        },
        _ => None,
    };
    let list = list.map(|list| Bytes::from(alloy_rlp::encode(list)));
    let bytes = found.rlp_length + list.as_ref().map_or(0, |list| list.len());
    Ok((ExecutionPayloadBodyV2::from_block(found.block, list), bytes))
}
