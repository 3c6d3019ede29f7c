//! The JSON format of tests that are chains: their blocks come as RLP or as payloads of the Engine API.

use alloy_consensus::Header;
use alloy_eips::{eip7840::BlobParams, eip7928::AccountChanges};
use alloy_genesis::GenesisAccount;
use alloy_primitives::{Address, B64, B256, Bloom, Bytes, U64, U256};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;
use std::collections::BTreeMap;

/// A chain, which is an entry of a file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ChainTest {
    /// Name of the fork, or of the transition from one to another.
    pub(super) network: String,
    pub(super) genesis_block_header: TestHeader,
    /// RLP of the genesis block; some old tests leave it out.
    #[serde(rename = "genesisRLP")]
    pub(super) genesis_rlp: Option<Bytes>,
    pub(super) pre: BTreeMap<Address, GenesisAccount>,
    #[serde(default)]
    pub(super) blocks: Vec<TestBlock>,
    /// Payloads in place of blocks.
    #[serde(default)]
    pub(super) engine_new_payloads: Vec<TestPayload>,
    #[serde(rename = "lastblockhash")]
    pub(super) last_block_hash: B256,
    pub(super) post_state: Option<BTreeMap<Address, GenesisAccount>>,
    /// State root in place of the post-state, if that is large.
    pub(super) post_state_hash: Option<B256>,
    #[serde(default)]
    pub(super) config: TestConfig,
}

/// Settings of the chain beside its network, in newer tests.
#[derive(Debug, Default, Deserialize)]
pub(super) struct TestConfig {
    pub(super) chainid: Option<U64>,
    #[serde(default, rename = "blobSchedule")]
    pub(super) blob_schedule: BTreeMap<String, TestBlobParams>,
}

/// Blob parameters from one fork on.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TestBlobParams {
    target: U64,
    max: U64,
    base_fee_update_fraction: U64,
}

impl From<TestBlobParams> for BlobParams {
    /// Converts the parameters. Values that the test does not give follow from the fork.
    fn from(params: TestBlobParams) -> Self {
        Self {
            target_blob_count: params.target.to(),
            max_blob_count: params.max.to(),
            update_fraction: params.base_fee_update_fraction.to(),
            ..Self::cancun()
        }
    }
}

/// A block to insert.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TestBlock {
    /// RLP of the block, in most tests hexadecimal; some hold text that does not decode.
    pub(super) rlp: String,
    /// Hash of the block; missing if the block is invalid.
    block_header: Option<HeaderHash>,
    /// Reason why the block is invalid. Old tests may have one for each fork; only the common one is read.
    #[serde(alias = "expectExceptionALL")]
    expect_exception: Option<String>,
    /// Access list, from Amsterdam on.
    block_access_list: Option<Vec<AccountChanges>>,
    /// Decoded form of an invalid block, if it decodes.
    #[serde(rename = "rlp_decoded")]
    decoded: Option<DecodedBlock>,
}

/// The part of a decoded block that is not in its RLP.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DecodedBlock {
    block_access_list: Option<Vec<AccountChanges>>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct HeaderHash {
    hash: B256,
}

/// Result that a test expects of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected<'a> {
    /// A valid block with this hash.
    Valid(B256),
    /// An invalid block, with the reason if the test gives one.
    Invalid(Option<&'a str>),
}

impl TestBlock {
    pub(super) fn expected(&self) -> Expected<'_> {
        match (&self.block_header, &self.expect_exception) {
            (Some(header), None) => Expected::Valid(header.hash),
            (_, exception) => Expected::Invalid(exception.as_deref()),
        }
    }

    /// Returns the RLP of the access list beside the block, if there is one.
    pub(super) fn access_list(&self) -> Option<Bytes> {
        let decoded = || self.decoded.as_ref()?.block_access_list.as_ref();
        let list = self.block_access_list.as_ref().or_else(decoded)?;
        Some(alloy_rlp::encode(list).into())
    }
}

/// A call of `engine_newPayload`. If its block is valid, a call of `engine_forkchoiceUpdated` with that block
/// follows.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TestPayload {
    /// Parameters of the call; the first is the payload.
    pub(super) params: Vec<Value>,
    /// Version of the method.
    #[serde(alias = "version")]
    pub(super) new_payload_version: TestNumber,
    validation_error: Option<String>,
    error_code: Option<TestNumber>,
}

/// A number that some tests write as text, in decimal.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum TestNumber {
    Number(i64),
    Text(String),
}

impl TestNumber {
    /// Returns the number; `None` if the text is no number.
    pub(super) fn value(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(text) => text.parse().ok(),
        }
    }
}

/// Result that a test expects of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpectedCall<'a> {
    /// An answer, with the expected result of the block.
    Answered(Expected<'a>),
    /// A refusal with this error code.
    Refused(i64),
}

impl TestPayload {
    /// Returns the expected result of the call; `None` if the test does not give it in a known form.
    pub(super) fn expected(&self) -> Option<ExpectedCall<'_>> {
        if let Some(code) = &self.error_code {
            return code.value().map(ExpectedCall::Refused);
        }
        Some(ExpectedCall::Answered(match &self.validation_error {
            Some(reason) => Expected::Invalid(Some(reason)),
            None => {
                let hash = self.params.first()?.get("blockHash")?;
                Expected::Valid(hash.as_str()?.parse().ok()?)
            }
        }))
    }
}

/// A header with the field names of the tests.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TestHeader {
    /// Hash of the header that the other fields make.
    pub(super) hash: B256,
    parent_hash: B256,
    uncle_hash: B256,
    coinbase: Address,
    state_root: B256,
    transactions_trie: B256,
    receipt_trie: B256,
    bloom: Bloom,
    difficulty: U256,
    number: U64,
    gas_limit: U64,
    gas_used: U64,
    timestamp: U64,
    extra_data: Bytes,
    mix_hash: B256,
    nonce: B64,
    base_fee_per_gas: Option<U64>,
    withdrawals_root: Option<B256>,
    blob_gas_used: Option<U64>,
    excess_blob_gas: Option<U64>,
    parent_beacon_block_root: Option<B256>,
    requests_hash: Option<B256>,
    block_access_list_hash: Option<B256>,
    slot_number: Option<U64>,
}

impl TestHeader {
    pub(super) fn header(&self) -> Header {
        Header {
            parent_hash: self.parent_hash,
            ommers_hash: self.uncle_hash,
            beneficiary: self.coinbase,
            state_root: self.state_root,
            transactions_root: self.transactions_trie,
            receipts_root: self.receipt_trie,
            logs_bloom: self.bloom,
            difficulty: self.difficulty,
            number: self.number.to(),
            gas_limit: self.gas_limit.to(),
            gas_used: self.gas_used.to(),
            timestamp: self.timestamp.to(),
            extra_data: self.extra_data.clone(),
            mix_hash: self.mix_hash,
            nonce: self.nonce,
            base_fee_per_gas: self.base_fee_per_gas.map(|value| value.to()),
            withdrawals_root: self.withdrawals_root,
            blob_gas_used: self.blob_gas_used.map(|value| value.to()),
            excess_blob_gas: self.excess_blob_gas.map(|value| value.to()),
            parent_beacon_block_root: self.parent_beacon_block_root,
            requests_hash: self.requests_hash,
            block_access_list_hash: self.block_access_list_hash,
            slot_number: self.slot_number.map(|value| value.to()),
        }
    }
}

/// Kind of an entry in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A [`ChainTest`].
    Chain,
    /// A [`StateTest`](super::state_test::StateTest).
    State,
    /// An entry without a test, and the reason why there is none.
    Other(&'static str),
}

/// The fields of an entry that show its kind.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Outline {
    pub(super) network: Option<String>,
    genesis_block_header: Option<IgnoredAny>,
    pre: Option<IgnoredAny>,
    blocks: Option<IgnoredAny>,
    engine_new_payloads: Option<IgnoredAny>,
    transaction: Option<IgnoredAny>,
    post: Option<IgnoredAny>,
}

impl Outline {
    pub(super) const fn kind(&self) -> Kind {
        match self {
            Self { pre: None, engine_new_payloads: Some(_), .. } => {
                Kind::Other("not a test by itself: the state it begins with is in another file")
            }
            Self { genesis_block_header: Some(_), blocks: Some(_), .. }
            | Self { genesis_block_header: Some(_), engine_new_payloads: Some(_), .. } => {
                Kind::Chain
            }
            Self { pre: Some(_), transaction: Some(_), post: Some(_), .. } => Kind::State,
            _ => Kind::Other(
                "not a test that is known: it has neither blocks nor payloads, and no transaction with a post-state",
            ),
        }
    }
}
