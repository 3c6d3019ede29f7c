//! Conversion of a payload of the Engine API into a block, and the checks of the call.

use alloy_consensus::{Block, BlockBody, TxEnvelope};
use alloy_eips::eip7685::Requests;
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{B256, Bytes, U64};
use alloy_rlp::{EMPTY_LIST_CODE, Encodable, Header as RlpHeader};
use alloy_rpc_types_engine::{
    CancunPayloadFields, ExecutionPayload, ExecutionPayloadSidecar, ExecutionPayloadV1,
    ExecutionPayloadV2, ExecutionPayloadV3, ExecutionPayloadV4, PraguePayloadFields,
};
use polytrie_chain::{Candidate, executor::Recovery, transactions_root};
use polytrie_chainspec::{ChainSpec, Rules};
use polytrie_consensus::decode::{BlockPart, DecodeError, decode_transactions, list_payload};
use polytrie_state::Beside;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Fields that came with later structures of a payload, each with the number of its structure.
const LATER_FIELDS: [(&str, u8); 5] = [
    ("withdrawals", 2),
    ("blobGasUsed", 3),
    ("excessBlobGas", 3),
    ("blockAccessList", 4),
    ("slotNumber", 4),
];

/// Error code of a call with parameters of another shape than its method takes.
pub const INVALID_PARAMS: i32 = -32602;
/// Error code of a method that is not for the fork of the payload.
pub const UNSUPPORTED_FORK: i32 = -38005;

/// Reason why a payload makes no block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PayloadError {
    /// A call that is refused.
    Call {
        /// Code of the error.
        code: i32,
        /// Description of the problem.
        reason: String,
    },
    /// An invalid payload, with the reason.
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

/// Block of a payload.
#[derive(Debug, Clone)]
pub struct PayloadBlock {
    /// Hash of the block.
    pub hash: B256,
    /// The block. The roots in its header were computed from its body.
    pub block: Block<TxEnvelope>,
    /// RLP of the block.
    pub rlp: Bytes,
    /// RLP of the access list, if the payload has one.
    pub access_list: Option<Bytes>,
    /// The recovery of the senders, if it has begun.
    pub recovery: Option<Recovery>,
}

impl PayloadBlock {
    /// Returns the block as a candidate. Its senders may still be recovered while it is executed.
    pub fn prepare(self, spec: &ChainSpec) -> Candidate {
        let Self { hash, block, rlp, access_list, recovery } = self;
        let mut candidate = Candidate::of_payload(spec, hash, block, rlp);
        (candidate.access_list, candidate.recovery) = (access_list, recovery);
        candidate
    }
}

/// Returns the block of a call of `engine_newPayload` in this version. Makes all checks of the Engine API beside those
/// of the block: the shape of the call, whether its version is that of the block's fork, the block's hash and the
/// hashes of its blobs.
///
/// # Errors
///
/// Fails if the call is malformed, or the payload does not make the block whose hash it contains.
pub fn block(
    spec: &ChainSpec,
    version: i64,
    params: &[Value],
) -> Result<PayloadBlock, PayloadError> {
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
    // While this thread computes the root of the transactions, another one decodes them and begins to recover their senders.
    let transactions = payload.transactions().clone();
    let decoding = Beside::start_and_go_on(move || match decode(&transactions) {
        Ok(decoded) => {
            let (recovery, rest) = Recovery::begin_in_pool(&decoded.0);
            (Ok((decoded, Some(recovery))), rest)
        }
        Err(error) => (Err(error), Box::new(|| ()) as Box<dyn FnOnce() + Send>),
    });
    let root = transactions_root(payload.transactions());
    let block = payload
        .into_block_with_sidecar_raw_with_transactions_root(&sidecar, root)
        .map_err(|error| PayloadError::Invalid(error.to_string()))?;
    let hash = block.header.hash_slow();
    if hash != expected {
        let reason = format!("the payload makes a block with the hash {hash}, not {expected}");
        return Err(PayloadError::Invalid(reason));
    }
    let decode_here = || decode(&block.body.transactions).map(|decoded| (decoded, None));
    let decoded = decoding.finish().unwrap_or_else(decode_here);
    let ((transactions, list), recovery) = decoded
        .map_err(|error| PayloadError::Invalid(format!("the block does not decode: {error}")))?;
    let rlp = rlp_of(&block, &list);
    let Block { header, body: BlockBody { ommers, withdrawals, .. } } = block;
    let block = Block { header, body: BlockBody { transactions, ommers, withdrawals } };
    if let Some(hashes) = sidecar.versioned_hashes()
        && !block.body.blob_versioned_hashes_iter().eq(hashes)
    {
        let reason = "the transactions have other blobs than the call names";
        return Err(PayloadError::Invalid(reason.to_owned()));
    }
    Ok(PayloadBlock { hash, block, rlp, access_list, recovery })
}

/// Decodes transactions in the form of payloads (EIP-2718). Returns them with the RLP of their list in a block.
fn decode(transactions: &[Bytes]) -> Result<(Vec<TxEnvelope>, Vec<u8>), DecodeError> {
    // A transaction without a type is a list in the block too; any other becomes a string.
    let is_list = |tx: &Bytes| tx.first().is_some_and(|first| *first >= EMPTY_LIST_CODE);
    for (index, tx) in transactions.iter().enumerate().filter(|(_, tx)| is_list(tx)) {
        list_payload(tx, BlockPart::Transaction(index))?;
    }
    let lengths = transactions.iter().map(|tx| if is_list(tx) { tx.len() } else { tx.length() });
    let list = RlpHeader { list: true, payload_length: lengths.sum() };
    let mut rlp = Vec::with_capacity(list.length_with_payload());
    list.encode(&mut rlp);
    for tx in transactions {
        match is_list(tx) {
            true => rlp.extend_from_slice(tx),
            false => tx.encode(&mut rlp),
        }
    }
    Ok((decode_transactions(&rlp)?, rlp))
}

/// Encodes a block, given the RLP of its list of transactions.
fn rlp_of(block: &Block<Bytes>, transactions: &[u8]) -> Bytes {
    let Block { header, body: BlockBody { withdrawals, .. } } = block;
    let withdrawals_length = withdrawals.as_ref().map_or(0, Encodable::length);
    let no_ommers = [EMPTY_LIST_CODE];
    let payload_length =
        header.length() + transactions.len() + no_ommers.len() + withdrawals_length;
    let whole = RlpHeader { list: true, payload_length };
    let mut rlp = Vec::with_capacity(whole.length_with_payload());
    whole.encode(&mut rlp);
    header.encode(&mut rlp);
    rlp.extend_from_slice(transactions);
    rlp.extend_from_slice(&no_ommers);
    if let Some(withdrawals) = withdrawals {
        withdrawals.encode(&mut rlp);
    }
    rlp.into()
}

/// Parses the parameters after the payload.
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloy_consensus::{
        BlobTransactionSidecarVariant, SignableTransaction, TxEip1559, TxEip4844, TxEip4844Variant,
        TxEip4844WithSidecar, TxLegacy, TypedTransaction,
    };
    use alloy_eips::Encodable2718;
    use alloy_primitives::{Address, Signature, hex};
    use polytrie_chain::executor::recover_senders;
    use polytrie_chainspec::Forks;
    use serde_json::json;

    fn spec() -> ChainSpec {
        let forks = Forks::up_to(EthereumHardfork::Cancun);
        ChainSpec::with_forks("test", 1, forks, alloy_consensus::Header::default(), [])
    }

    /// Returns the result of a payload with these transactions and the hash of its block.
    fn made(transactions: &[Vec<u8>]) -> Result<PayloadBlock, PayloadError> {
        let spec = spec();
        let (word, address) = (B256::ZERO, Address::ZERO);
        let mut payload = json!({
            "parentHash": word, "feeRecipient": address, "stateRoot": word, "receiptsRoot": word,
            "logsBloom": alloy_primitives::Bloom::ZERO, "prevRandao": word, "blockNumber": "0x1",
            "gasLimit": "0x1", "gasUsed": "0x0", "timestamp": "0x1", "extraData": "0x",
            "baseFeePerGas": "0x7", "blockHash": word, "withdrawals": [], "blobGasUsed": "0x0",
            "excessBlobGas": "0x0",
            "transactions": transactions.iter().map(hex::encode_prefixed).collect::<Vec<_>>(),
        });
        let hashes: Vec<B256> = Vec::new();
        let call =
            |payload: &Value| block(&spec, 3, &[payload.clone(), json!(hashes), json!(B256::ZERO)]);
        let PayloadError::Invalid(reason) = call(&payload).unwrap_err() else { panic!() };
        let hash = reason.split(' ').find(|word| word.starts_with("0x")).unwrap();
        payload["blockHash"] = json!(hash.trim_end_matches(','));
        call(&payload)
    }

    fn legacy() -> Vec<u8> {
        let signature = Signature::test_signature();
        TxEnvelope::Legacy(TxLegacy::default().into_signed(signature)).encoded_2718()
    }

    fn typed() -> Vec<u8> {
        let signature = Signature::test_signature();
        TxEnvelope::from(TxEip1559::default().into_signed(signature)).encoded_2718()
    }

    #[test]
    fn the_rlp_is_that_of_the_block() {
        for transactions in [vec![], vec![legacy(), typed(), legacy()]] {
            let made = made(&transactions).unwrap();
            assert_eq!(made.rlp, alloy_rlp::encode(&made.block));
            assert_eq!(made.block.header.hash_slow(), made.hash);
            polytrie_consensus::check_body_roots(&made.block).unwrap();
            let found = made.block.body.transactions.iter().map(Encodable2718::encoded_2718);
            assert!(found.eq(transactions));
            let candidate = made.prepare(&spec());
            let senders = recover_senders(&candidate.block.body.transactions).unwrap();
            assert_eq!(candidate.senders(), Ok(&senders[..]));
        }
    }

    #[test]
    fn bytes_that_no_block_may_hold_are_refused() {
        let (tx, sidecar) = (TxEip4844::default(), BlobTransactionSidecarVariant::default());
        let fields = TxEip4844Variant::TxEip4844WithSidecar(TxEip4844WithSidecar { tx, sidecar });
        let with_blobs = TypedTransaction::Eip4844(fields);
        let with_blobs = with_blobs.into_envelope(Signature::test_signature()).encoded_2718();
        let two = [legacy(), legacy()].concat();
        let mut longer = typed();
        longer.push(0);
        // The list has 56 bytes or more, and its length takes a byte more than it needs.
        let typed = typed();
        let long_form = [&[typed[0], 0xf9, 0][..], &typed[2..]].concat();
        assert_eq!(typed[1], 0xf8);
        for (transaction, words) in [
            (with_blobs, "carries its blobs"),
            (two, "is followed by"),
            (longer, "is followed by"),
            (long_form, "transaction 1"),
            (vec![0x05, 0xc0], "has the type 0x05"),
            (vec![0x80], "has the type 0x80"),
            (Vec::new(), "transaction 1"),
        ] {
            let text = hex::encode(&transaction);
            let Err(PayloadError::Invalid(reason)) = made(&[legacy(), transaction, legacy()])
            else {
                panic!("{text} is taken")
            };
            assert!(
                reason.starts_with("the block does not decode: ") && reason.contains(words),
                "{text}: {reason}"
            );
        }
    }
}
