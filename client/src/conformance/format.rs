//! The JSON of a blockchain test.

use alloy_consensus::Header;
use alloy_eips::eip7840::BlobParams;
use alloy_genesis::GenesisAccount;
use alloy_primitives::{Address, B64, B256, Bloom, Bytes, U64, U256};
use serde::{Deserialize, de::IgnoredAny};
use std::collections::BTreeMap;

/// One test: an entry of a file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BlockchainTest {
    /// The fork, or the transition from one to another.
    pub(super) network: String,
    pub(super) genesis_block_header: TestHeader,
    /// The genesis block; some old tests leave it out.
    #[serde(rename = "genesisRLP")]
    pub(super) genesis_rlp: Option<Bytes>,
    pub(super) pre: BTreeMap<Address, GenesisAccount>,
    pub(super) blocks: Vec<TestBlock>,
    #[serde(rename = "lastblockhash")]
    pub(super) last_block_hash: B256,
    pub(super) post_state: Option<BTreeMap<Address, GenesisAccount>>,
    /// Instead of the post-state, where that is large.
    pub(super) post_state_hash: Option<B256>,
    #[serde(default)]
    pub(super) config: TestConfig,
}

/// What newer tests say about the chain beside its network.
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
    /// What the test does not say follows from the fork.
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
    /// In most tests hexadecimal; some hold text that no decoder would take.
    pub(super) rlp: String,
    /// Left out if the block is invalid.
    block_header: Option<HeaderHash>,
    /// Old tests may have one for each fork instead; what they all share is looked at.
    #[serde(alias = "expectExceptionALL")]
    expect_exception: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct HeaderHash {
    hash: B256,
}

/// What a test expects of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected<'a> {
    /// It is valid and has this hash.
    Valid(B256),
    /// It is invalid, for this reason if the test gives one.
    Invalid(Option<&'a str>),
}

impl TestBlock {
    pub(super) fn expected(&self) -> Expected<'_> {
        match (&self.block_header, &self.expect_exception) {
            (Some(header), None) => Expected::Valid(header.hash),
            (_, exception) => Expected::Invalid(exception.as_deref()),
        }
    }
}

/// A header with the names that the tests use.
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

/// As much of an entry as tells what it is.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Kind {
    pub(super) network: Option<String>,
    genesis_block_header: Option<IgnoredAny>,
    blocks: Option<IgnoredAny>,
    engine_new_payloads: Option<IgnoredAny>,
}

impl Kind {
    /// Why an entry like this is not a blockchain test; `None` if it is one.
    pub(super) const fn other_than_blockchain_test(&self) -> Option<&'static str> {
        match self {
            Self { blocks: Some(_), genesis_block_header: Some(_), .. } => None,
            Self { engine_new_payloads: Some(_), .. } => {
                Some("not a blockchain test: it holds payloads of the engine API instead of blocks")
            }
            _ => Some("not a blockchain test: it has no blocks and no genesis header"),
        }
    }
}
