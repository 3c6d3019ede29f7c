//! Branches of a chain, made here: the same transactions in blocks of other times and rewards.

use alloy_consensus::{Block, BlockBody, Header, TxEnvelope};
use alloy_primitives::{Address, Bytes};
use polytrie::{
    chain::{Candidate, Chain, ChainOptions, InsertError, InvalidReason, TABLES},
    consensus::{ConsensusError, decode::decode_block, next_difficulty},
    layers::{self, LayerKind, LayerOptions},
};
use polytrie_chainspec::ChainSpec;
use polytrie_kv::Store;
use std::sync::Arc;

/// How a branch differs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Branch {
    /// The last block it shares.
    pub(crate) fork: u64,
    /// Its last block.
    pub(crate) tip: u64,
    /// Seconds between its blocks: 1 makes it heavier than a chain mined in real time, 100 lighter.
    pub(crate) seconds: u64,
    /// Who receives its rewards.
    pub(crate) beneficiary: Address,
}

/// The blocks of a branch of a chain under proof of work, from the one after the fork on. Its transactions
/// are those of the chain, block by block. `None` if no canonical layer is there to make the roots.
pub(crate) fn branch(
    spec: &Arc<ChainSpec>,
    original: &[Bytes],
    branch: Branch,
) -> Option<Vec<Bytes>> {
    let mut chain = in_memory(spec, ChainOptions::default())?;
    let position = |number: u64| {
        let found =
            original.iter().position(|rlp| decode_block(rlp).unwrap().header.number == number);
        found.unwrap_or_else(|| panic!("no block {number}"))
    };
    for number in 1..=branch.fork {
        let rlp = original[position(number)].clone();
        let candidate = Candidate::prepare(&Arc::clone(chain.spec()), rlp).unwrap();
        chain.insert(candidate).unwrap();
    }
    let mut blocks = Vec::new();
    for number in branch.fork + 1..=branch.tip {
        blocks.push(mine(&mut chain, &original[position(number)], branch));
    }
    Some(blocks)
}

/// An empty chain under a canonical layer.
pub(crate) fn in_memory(spec: &Arc<ChainSpec>, options: ChainOptions) -> Option<Chain> {
    let kind = layers::LAYERS.iter().find(|kind| kind.canonical)?;
    Some(in_memory_under(kind, spec, options))
}

/// An empty chain under this layer, which needs no setup; intervals are short.
pub(crate) fn in_memory_under(
    kind: &LayerKind,
    spec: &Arc<ChainSpec>,
    options: ChainOptions,
) -> Chain {
    let tables = [kind.tables, TABLES].concat();
    let store = Store::memory(&tables).unwrap();
    let layer = LayerOptions {
        #[cfg(feature = "lmpt")]
        lmpt: polytrie::layers::lmpt::LmptSettings { interval: Some(2), ..Default::default() },
        ..LayerOptions::default()
    };
    let layer = (kind.open)(store.clone().into(), &layer).unwrap();
    Chain::open(Arc::clone(spec), store, layer, options).unwrap()
}

/// A chain under proof of work without any transactions: its rules, and what its blocks 1 to `count` hold.
pub(crate) fn empty_chain(count: u64) -> (&'static str, Vec<Bytes>) {
    let block = |number| {
        let header = Header { number, gas_limit: 5_000_000, ..Header::default() };
        let block: Block<TxEnvelope> = Block { header, body: BlockBody::default() };
        alloy_rlp::encode(&block).into()
    };
    (EMPTY_CHAIN, (1..=count).map(block).collect())
}

/// The genesis file of that chain.
const EMPTY_CHAIN: &str = r#"{
    "config": { "chainId": 1337, "homesteadBlock": 0, "ethash": {} },
    "alloc": { "0x0000000000000000000000000000000000000007": { "balance": "7" } },
    "difficulty": "0x4000000000", "gasLimit": "5000000", "timestamp": "0", "nonce": "0x0"
}"#;

/// The block on top of the head with the transactions of `original`. What its header must say of the result
/// is taken from what the chain says is wrong with it.
fn mine(chain: &mut Chain, original: &Bytes, branch: Branch) -> Bytes {
    let spec = Arc::clone(chain.spec());
    let mut block = decode_block(original).unwrap();
    let parent = chain.head().header.clone();
    block.body.ommers.clear();
    let header = &mut block.header;
    header.ommers_hash = alloy_consensus::constants::EMPTY_OMMER_ROOT_HASH;
    header.parent_hash = parent.hash();
    header.beneficiary = branch.beneficiary;
    header.timestamp = parent.timestamp + branch.seconds;
    let rules = spec.rules(header.number, header.timestamp, false);
    header.difficulty = next_difficulty(&rules, &parent, header.timestamp);
    complete(chain, block, &|_| {})
}

/// A block on top of the head with what its header must say of the result, which is taken from what the chain says is
/// wrong with it. `seal` is called whenever the header has changed. The block becomes the head.
pub(crate) fn complete(
    chain: &mut Chain,
    mut block: Block<TxEnvelope>,
    seal: &dyn Fn(&mut Header),
) -> Bytes {
    let spec = Arc::clone(chain.spec());
    loop {
        seal(&mut block.header);
        let rlp: Bytes = alloy_rlp::encode(&block).into();
        let candidate = Candidate::prepare(&spec, rlp.clone()).unwrap();
        let invalid = match chain.insert(candidate) {
            Ok(_) => return rlp,
            Err(InsertError::Invalid(invalid)) => invalid,
            Err(broken) => panic!("{broken}"),
        };
        match invalid.reason {
            InvalidReason::Consensus(ConsensusError::GasUsed { expected, .. }) => {
                block.header.gas_used = expected;
            }
            InvalidReason::Consensus(ConsensusError::ReceiptsRoot { expected, .. }) => {
                block.header.receipts_root = expected;
            }
            InvalidReason::Consensus(ConsensusError::LogsBloom { expected, .. }) => {
                block.header.logs_bloom = *expected;
            }
            InvalidReason::Consensus(ConsensusError::StateRootMismatch { expected, .. }) => {
                block.header.state_root = expected;
            }
            other => panic!("block {}: {other}", block.header.number),
        }
    }
}
