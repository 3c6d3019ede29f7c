//! Execution of a test that is a chain.

use super::{
    format::{ChainTest, Expected, ExpectedCall, TestBlock, TestConfig, TestPayload},
    mismatch::Mismatch,
    post_state,
};
use crate::payload::{self, PayloadError};
use alloy_consensus::Header;
use alloy_genesis::GenesisAccount;
use alloy_primitives::{Address, B256, Bytes, address, hex};
use polytrie_chain::executor::{Amsterdam, SystemContracts};
use polytrie_chain::{Candidate, Chain, ChainError, ChainOptions, InsertError, Inserted, TABLES};
use polytrie_chainspec::{ChainSpec, Forks};
use polytrie_consensus::decode::decode_header;
use polytrie_kv::{KvError, MemoryEngine, Store, StoreOptions};
use polytrie_layers::{LayerKind, LayerOptions};
use polytrie_state::StateLayer;
use std::{collections::BTreeMap, sync::Arc};

/// Default chain id of the transactions of a test.
const CHAIN_ID: u64 = 1;

/// Deposit contract of the tests: mainnet's (EIP-6110).
const DEPOSIT_CONTRACT: Address = address!("0x00000000219ab540356cbb839cbe05303d7705fa");

/// Addresses of Prague's contracts on pectra-devnet-5, the last test network before the fork was final. Some tests of
/// the fork were made then; only these addresses show it.
const DEVNET_CONTRACTS: SystemContracts = SystemContracts {
    history: address!("0x0f792be4b0c0cb4dae440ef133e90c0ecd48cccc"),
    withdrawals: address!("0x0c15f14308530b7cdb8460094bbb9cc28b9aaaaa"),
    consolidations: address!("0x00431f263ce400f4455c2dcf564e53007ca4bbbb"),
};

/// Address of a contract that every test of the newest draft of Amsterdam has (EIP-8282).
const BUILDER_EXITS: Address = address!("0x000064d678505ad48f8ccb093bc65613800e8282");

/// Runs a test on a new chain in memory.
pub(super) fn run(
    name: &str,
    test: &ChainTest,
    layer: &LayerKind,
    options: &LayerOptions,
) -> Result<(), Mismatch> {
    let chain = open(spec(name, test)?, layer, options).map_err(Mismatch::Open)?;
    let mut chain =
        chain.with_system_contracts(system_contracts(test)).with_amsterdam(amsterdam(test));
    for (index, block) in test.blocks.iter().enumerate() {
        insert(&mut chain, index, block)?;
    }
    for (index, payload) in test.engine_new_payloads.iter().enumerate() {
        deliver(&mut chain, index, payload)?;
    }
    let head = chain.head();
    let (found, expected) = (head.hash(), test.last_block_hash);
    if found != expected {
        return Err(Mismatch::Head { number: head.number(), found, expected });
    }
    let layer = &**chain.layer();
    if let Some(accounts) = &test.post_state
        && let Some(difference) = post_state::compare(layer, accounts)?
    {
        return Err(Mismatch::PostState(Box::new(difference)));
    }
    let found = post_state::state_root(layer)?;
    for expected in [Some(head.header.state_root), test.post_state_hash].into_iter().flatten() {
        if found != expected {
            return Err(Mismatch::PostStateRoot { found, expected });
        }
    }
    Ok(())
}

/// Returns the chain that the test describes. Its genesis header is taken as it is; that its state root is that of the
/// pre-state is checked when a chain with a canonical layer is opened.
fn spec(name: &str, test: &ChainTest) -> Result<ChainSpec, Mismatch> {
    let header = test.genesis_block_header.header();
    let expected = test.genesis_block_header.hash;
    let decoded = test.genesis_rlp.as_ref().map(|rlp| decode_header(rlp)).transpose();
    let decoded = decoded.map_err(|error| Mismatch::GenesisDecode(error.to_string()))?;
    for found in
        [Some(header.hash_slow()), decoded.map(|header| header.hash())].into_iter().flatten()
    {
        if found != expected {
            return Err(Mismatch::GenesisHash { found, expected });
        }
    }
    spec_of(name, &test.network, &test.config, header, &test.pre)
}

/// Returns the chain with these forks, genesis header and accounts.
pub(super) fn spec_of(
    name: &str,
    network: &str,
    config: &TestConfig,
    genesis_header: Header,
    pre: &BTreeMap<Address, GenesisAccount>,
) -> Result<ChainSpec, Mismatch> {
    let mut forks =
        Forks::test_network(network).ok_or_else(|| Mismatch::Network(network.to_owned()))?;
    for (fork, params) in &config.blob_schedule {
        let fork = fork.parse().map_err(|_| Mismatch::BlobFork(fork.clone()))?;
        forks = forks.with_blob_params(fork, (*params).into());
    }
    let chain_id = config.chainid.map_or(CHAIN_ID, |id| id.to());
    let accounts = pre.iter().map(|(address, account)| (*address, account.clone()));
    Ok(ChainSpec::with_forks(name, chain_id, forks, genesis_header, accounts)
        .with_deposit_contract(Some(DEPOSIT_CONTRACT)))
}

fn system_contracts(test: &ChainTest) -> SystemContracts {
    let SystemContracts { history, withdrawals, consolidations } = DEVNET_CONTRACTS;
    if [history, withdrawals, consolidations].iter().any(|address| test.pre.contains_key(address)) {
        DEVNET_CONTRACTS
    } else {
        SystemContracts::default()
    }
}

/// Returns the draft of Amsterdam that the test was made for, which only its state shows.
fn amsterdam(test: &ChainTest) -> Amsterdam {
    if test.pre.contains_key(&BUILDER_EXITS) { Amsterdam::Newest } else { Amsterdam::Bal57 }
}

fn open(
    spec: ChainSpec,
    layer: &LayerKind,
    layer_options: &LayerOptions,
) -> Result<Chain, ChainError> {
    let (store, layer) = open_layer(layer, layer_options)?;
    Chain::open(Arc::new(spec), store, layer, ChainOptions::default())
}

/// Opens a layer on a store in memory.
pub(super) fn open_layer(
    layer: &LayerKind,
    layer_options: &LayerOptions,
) -> Result<(Store, Arc<dyn StateLayer>), ChainError> {
    let tables = [layer.tables, TABLES].concat();
    // Thousands of stores are opened, each for a few blocks, so none starts a thread.
    let options = StoreOptions { background: false, counters: false, ..StoreOptions::default() };
    let store: Result<Store, KvError> =
        Store::open(Arc::new(MemoryEngine::new()), &tables, options);
    let store = store?;
    let layer = (layer.open)(store.clone().into(), layer_options)?;
    Ok((store, layer))
}

fn insert(chain: &mut Chain, index: usize, block: &TestBlock) -> Result<(), Mismatch> {
    let result = hex::decode(&block.rlp)
        .map_err(|error| Refusal::Block(format!("it is not hexadecimal: {error}")))
        .and_then(|rlp| offer(chain, Bytes::from(rlp), block.access_list()));
    judge(chain, index, block.expected(), result)
}

/// Inserts the block of a payload as the Engine API would. If it is valid it becomes the head, as after the call of
/// `engine_forkchoiceUpdated` that follows.
fn deliver(chain: &mut Chain, index: usize, call: &TestPayload) -> Result<(), Mismatch> {
    let expected = call.expected().ok_or(Mismatch::Call { index })?;
    let version = call.new_payload_version.value().unwrap_or_default();
    let block = payload::block(chain.spec(), version, &call.params);
    let (expected, result) = match (expected, block) {
        (ExpectedCall::Refused(code), Err(PayloadError::Call { code: found, .. }))
            if i64::from(found) == code =>
        {
            return Ok(());
        }
        (ExpectedCall::Refused(code), block) => {
            let found = match block {
                Err(PayloadError::Call { code, reason }) => {
                    format!("refused with the code {code} ({reason})")
                }
                Ok(_) | Err(PayloadError::Invalid(_)) => "answered".to_owned(),
            };
            let expected = format!("refused with the code {code}");
            return Err(Mismatch::CallAnswer { index, found, expected });
        }
        (ExpectedCall::Answered(_), Err(PayloadError::Call { code, reason })) => {
            let found = format!("refused with the code {code} ({reason})");
            return Err(Mismatch::CallAnswer { index, found, expected: "answered".to_owned() });
        }
        (ExpectedCall::Answered(expected), Err(PayloadError::Invalid(reason))) => {
            (expected, Err(Refusal::Block(reason)))
        }
        (ExpectedCall::Answered(expected), Ok(block)) => {
            (expected, offer(chain, block.rlp, block.access_list))
        }
    };
    judge(chain, index, expected, result)?;
    let head = chain.head();
    match expected {
        Expected::Valid(expected) if head.hash() != expected => {
            let (number, found) = (head.number(), head.hash());
            Err(Mismatch::Forkchoice { index, number, found, expected })
        }
        _ => Ok(()),
    }
}

/// Compares the result of a block with the one that the test expects.
fn judge(
    chain: &Chain,
    index: usize,
    expected: Expected<'_>,
    result: Result<(B256, Inserted), Refusal>,
) -> Result<(), Mismatch> {
    match (expected, result) {
        (_, Err(Refusal::Broken(source))) => Err(Mismatch::Broken { index, source }),
        (Expected::Valid(expected), Ok((found, _))) if found != expected => {
            Err(Mismatch::BlockHash { index, found, expected })
        }
        (Expected::Valid(_), Ok(_)) => Ok(()),
        (Expected::Valid(_), Err(Refusal::Block(reason))) => {
            Err(Mismatch::Refused { index, reason })
        }
        (Expected::Invalid(expected), Err(Refusal::Block(reason))) => {
            tracing::debug!(index, expected, reason, "refused");
            Ok(())
        }
        (Expected::Invalid(_), Ok((_, Inserted::Extended(stats)))) if !stats.receipts_checked => {
            Err(Mismatch::Undecidable { index, layer: chain.layer().name() })
        }
        (Expected::Invalid(expected), Ok((_, inserted))) => {
            let what = match inserted {
                Inserted::Known => "known already",
                Inserted::Side => "accepted on another branch",
                Inserted::Extended(_) | Inserted::Reorganised { .. } => "accepted",
            };
            let because =
                expected.map_or_else(String::new, |reason| format!(" because of {reason}"));
            Err(Mismatch::Accepted { index, what, because })
        }
    }
}

enum Refusal {
    /// An invalid block.
    Block(String),
    /// A failure of the client.
    Broken(ChainError),
}

impl From<InsertError> for Refusal {
    fn from(error: InsertError) -> Self {
        match error {
            InsertError::Invalid(invalid) => Self::Block(invalid.reason.to_string()),
            InsertError::Broken(error) => Self::Broken(error),
        }
    }
}

impl From<ChainError> for Refusal {
    fn from(error: ChainError) -> Self {
        Self::Broken(error)
    }
}

/// Inserts a block as an import does, and also does what an import may skip: a block of another branch is executed too,
/// and the state root of a block is checked on every layer.
fn offer(
    chain: &mut Chain,
    rlp: Bytes,
    access_list: Option<Bytes>,
) -> Result<(B256, Inserted), Refusal> {
    let mut candidate = Candidate::prepare(chain.spec(), rlp)
        .map_err(|error| Refusal::Block(format!("it does not decode: {error}")))?;
    candidate.access_list = access_list;
    let hash = candidate.header.hash();
    let inserted = chain.insert(candidate)?;
    // The result of this block must be known before the next one, under a layer of any depth.
    chain.settle()?;
    match inserted {
        Inserted::Known => {}
        Inserted::Side => chain.execute_side(hash)?,
        Inserted::Extended(_) | Inserted::Reorganised { .. } => check_state_root(chain)?,
    }
    Ok((hash, inserted))
}

/// Checks the state root of the head for a layer without state roots. If it is wrong, the head is taken back.
fn check_state_root(chain: &mut Chain) -> Result<(), Refusal> {
    if chain.layer().commitment().as_state_root().is_some() {
        return Ok(());
    }
    let found = post_state::state_root(&**chain.layer()).map_err(ChainError::from)?;
    let head = &chain.head().header;
    let expected = head.state_root;
    if found == expected {
        return Ok(());
    }
    let parent = head.number.saturating_sub(1);
    chain.unwind_to(parent)?;
    Err(Refusal::Block(format!(
        "its state root is {expected}, but the accounts and slots after it make {found}"
    )))
}
