//! State tests: one transaction on a state, and the state after it.
//!
//! The transaction runs by itself, in the environment of the test: there is no block, so there are neither system calls
//! nor rewards.

use super::{
    chain_test::{open_layer, spec_of},
    format::TestConfig,
    mismatch::Mismatch,
    post_state,
};
use alloy_consensus::{Header, TxEnvelope, TxReceipt};
use alloy_eips::Decodable2718;
use alloy_genesis::GenesisAccount;
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{Address, B256, Bytes, Log, U64, U256, keccak256};
use polytrie_chain::executor::{ExecuteError, Executor};
use polytrie_chain::{ChainError, load_genesis_state};
use polytrie_chainspec::{ChainSpec, Rules};
use polytrie_consensus::{check_transaction, recover_sender};
use polytrie_layers::{LayerKind, LayerOptions};
use polytrie_state::{BlockRef, Session};
use serde::Deserialize;
use std::collections::BTreeMap;

/// An entry of a file: a state, a transaction, and the expected results by fork.
#[derive(Debug, Deserialize)]
pub(super) struct StateTest {
    env: Environment,
    pre: BTreeMap<Address, GenesisAccount>,
    post: BTreeMap<String, Vec<Expectation>>,
    #[serde(default)]
    config: TestConfig,
}

/// Environment of the transaction.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Environment {
    current_coinbase: Address,
    current_gas_limit: U256,
    current_number: U64,
    current_timestamp: U64,
    current_difficulty: Option<U256>,
    current_random: Option<B256>,
    current_base_fee: Option<U64>,
    current_excess_blob_gas: Option<U64>,
}

/// Expected result of one of the transactions of the test, under one fork.
#[derive(Debug, Deserialize)]
struct Expectation {
    /// State root after the transaction.
    hash: B256,
    /// Hash of the RLP of its logs.
    logs: B256,
    indexes: Indexes,
    /// Signed transaction.
    txbytes: Option<Bytes>,
    #[serde(rename = "expectException")]
    expect_exception: Option<String>,
    /// State after the transaction.
    state: Option<BTreeMap<Address, GenesisAccount>>,
}

/// Indices of the transaction's values in the lists of values that the test has.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Indexes {
    data: usize,
    gas: usize,
    value: usize,
}

/// One transaction under one fork, which counts as a test.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subtest<'a> {
    test: &'a StateTest,
    /// Name of the fork.
    pub(super) network: &'a str,
    expectation: &'a Expectation,
}

impl StateTest {
    pub(super) fn subtests(&self) -> impl Iterator<Item = Subtest<'_>> {
        self.post.iter().flat_map(move |(network, expectations)| {
            expectations.iter().map(move |expectation| Subtest { test: self, network, expectation })
        })
    }
}

impl Subtest<'_> {
    /// Returns its name among the other transactions of the test.
    pub(super) fn name(&self, test: &str) -> String {
        let Indexes { data, gas, value } = self.expectation.indexes;
        format!("{test}/{}/d{data}g{gas}v{value}", self.network)
    }

    /// Runs it on a new layer in memory.
    pub(super) fn run(
        &self,
        name: &str,
        layer: &LayerKind,
        options: &LayerOptions,
    ) -> Result<(), Mismatch> {
        let Self { test, network, expectation } = self;
        let Some(rlp) = &expectation.txbytes else { return Err(Mismatch::Unsigned) };
        let spec = spec_of(name, network, &test.config, Header::default(), &test.pre)?;
        let (store, layer) = open_layer(layer, options).map_err(Mismatch::Open)?;
        let layer = &*layer;
        load_genesis_state(&spec, &store, layer).map_err(Mismatch::Open)?;
        let mut session = Session::begin(layer, BlockRef { number: 0, hash: B256::ZERO })?;
        let result = test.env.transact(&spec, &mut session, rlp)?;
        let logs = match (result, &expectation.expect_exception) {
            (Ok(logs), None) => logs,
            (Err(_), Some(_)) => Vec::new(),
            (Err(reason), None) => return Err(Mismatch::TransactionRefused(reason)),
            (Ok(_), Some(reason)) => {
                return Err(Mismatch::TransactionExecuted(reason.clone()));
            }
        };
        let (found, expected) = (keccak256(alloy_rlp::encode(logs)), expectation.logs);
        if found != expected {
            return Err(Mismatch::Logs { found, expected });
        }
        let commitment = session.finish()?.outcome.write(&store)?;
        if let Some(accounts) = &expectation.state
            && let Some(difference) = post_state::compare(layer, accounts)?
        {
            return Err(Mismatch::PostState(Box::new(difference)));
        }
        let expected = expectation.hash;
        match commitment.as_state_root() {
            Some(found) if found != expected => Err(Mismatch::LayerRoot { found, expected }),
            _ => match post_state::state_root(layer)? {
                found if found != expected => Err(Mismatch::PostStateRoot { found, expected }),
                _ => Ok(()),
            },
        }
    }
}

impl Environment {
    /// Runs the transaction. Returns its logs, or the reason why it is refused.
    fn transact(
        &self,
        spec: &ChainSpec,
        session: &mut Session,
        rlp: &[u8],
    ) -> Result<Result<Vec<Log>, String>, Mismatch> {
        let merged = spec.is_merged_after(U256::ZERO);
        let rules = spec.rules(self.current_number.to(), self.current_timestamp.to(), merged);
        let header = self.header(&rules);
        let prepared = TxEnvelope::decode_2718_exact(rlp)
            .map_err(|error| format!("it does not decode: {error}"))
            .and_then(|tx| {
                check_transaction(&rules, &tx).map_err(|error| error.to_string())?;
                let sender = recover_sender(&tx).map_err(|error| error.to_string())?;
                Ok((tx, sender))
            });
        let (tx, sender) = match prepared {
            Ok(prepared) => prepared,
            Err(reason) => return Ok(Err(reason)),
        };
        let mut executor = Executor::new(0);
        let mut run = executor
            .begin_without_block(session, rules, &block_hash, &header)
            .map_err(Mismatch::Environment)?;
        match run.transact(&tx, sender) {
            Ok(_) => Ok(Ok(run.receipts().iter().flat_map(TxReceipt::logs).cloned().collect())),
            Err(ExecuteError::Invalid(reason)) => Ok(Err(reason.to_string())),
            Err(ExecuteError::Internal(error)) => {
                Err(Mismatch::Transaction(ChainError::from(error)))
            }
        }
    }

    /// Returns the environment as the header of a block, without fields of later forks: tests have the same environment
    /// for all forks.
    fn header(&self, rules: &Rules<'_>) -> Header {
        let base_fee = rules.is(EthereumHardfork::London).then_some(self.current_base_fee);
        let blob_gas = rules.is(EthereumHardfork::Cancun).then_some(self.current_excess_blob_gas);
        Header {
            number: self.current_number.to(),
            timestamp: self.current_timestamp.to(),
            beneficiary: self.current_coinbase,
            // Some old tests have more than 64 bits.
            gas_limit: self.current_gas_limit.saturating_to(),
            difficulty: match rules.merged {
                true => U256::ZERO,
                false => self.current_difficulty.unwrap_or_default(),
            },
            mix_hash: self.current_random.unwrap_or_default(),
            base_fee_per_gas: base_fee.flatten().map(|fee| fee.to()),
            excess_blob_gas: blob_gas.flatten().map(|gas| gas.to()),
            ..Header::default()
        }
    }
}

/// Returns the hash of an earlier block. There is none, so by convention it is the Keccak hash of the number in
/// decimal.
fn block_hash(number: u64) -> Option<B256> {
    Some(keccak256(number.to_string()))
}
