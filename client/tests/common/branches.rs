//! Makes branches of a chain for tests: the same transactions in blocks with other times and rewards.

use alloy_consensus::{Block, BlockBody, Header, TxEnvelope};
use alloy_primitives::{Address, Bytes};
use polytrie::{
    chain::{Candidate, Chain, ChainOptions, InsertError, InvalidReason, TABLES},
    consensus::{
        ConsensusError,
        decode::{block_number, decode_block},
        next_difficulty,
    },
    layers::{self, LayerKind, LayerOptions},
};
use polytrie_chainspec::ChainSpec;
use polytrie_kv::Store;
use std::{collections::BTreeMap, sync::Arc};

/// The parameters of a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Branch {
    /// The number of the last block that the branch shares with the chain.
    pub(crate) fork: u64,
    /// The number of the last block of the branch.
    pub(crate) tip: u64,
    /// The seconds between two blocks. With 1 the branch is heavier than a chain mined in real time, with 100
    /// lighter.
    pub(crate) seconds: u64,
    /// The account that receives the rewards.
    pub(crate) beneficiary: Address,
}

/// Returns the blocks of a branch of a proof-of-work chain, from the one after the fork on. Each has the transactions
/// of the chain's block of the same number. `None` if the build has no canonical layer to compute the roots.
pub(crate) fn branch(
    spec: &Arc<ChainSpec>,
    original: &[Bytes],
    branch: Branch,
) -> Option<Vec<Bytes>> {
    let mut chain = in_memory(spec, ChainOptions::default())?;
    let numbered: BTreeMap<u64, &Bytes> =
        original.iter().map(|rlp| (block_number(rlp).unwrap(), rlp)).collect();
    for number in 1..=branch.fork {
        let candidate = Candidate::prepare(spec, numbered[&number].clone()).unwrap();
        chain.insert(candidate).unwrap();
    }
    let mut blocks = Vec::new();
    for number in branch.fork + 1..=branch.tip {
        blocks.push(mine(&mut chain, numbered[&number], branch));
    }
    Some(blocks)
}

/// Creates a chain in memory that has only genesis, under a canonical layer. `None` if the build has no such layer.
pub(crate) fn in_memory(spec: &Arc<ChainSpec>, options: ChainOptions) -> Option<Chain> {
    let kind = layers::LAYERS.iter().find(|kind| kind.canonical)?;
    Some(in_memory_under(kind, spec, options))
}

/// Creates a chain in memory that has only genesis, under the layer `kind`, with short intervals. The layer must not
/// need a setup.
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

/// Returns the genesis file of a proof-of-work chain without transactions, and templates of its blocks 1 to `count`.
pub(crate) fn empty_chain(count: u64) -> (&'static str, Vec<Bytes>) {
    let block = |number| {
        let header = Header { number, gas_limit: 5_000_000, ..Header::default() };
        let block: Block<TxEnvelope> = Block { header, body: BlockBody::default() };
        alloy_rlp::encode(&block).into()
    };
    (EMPTY_CHAIN, (1..=count).map(block).collect())
}

/// The genesis file of the empty chain.
const EMPTY_CHAIN: &str = r#"{
    "config": { "chainId": 1337, "homesteadBlock": 0, "ethash": {} },
    "alloc": { "0x0000000000000000000000000000000000000007": { "balance": "7" } },
    "difficulty": "0x4000000000", "gasLimit": "5000000", "timestamp": "0", "nonce": "0x0"
}"#;

/// Makes and inserts the block on top of the head that has the transactions of `original` and the times and rewards
/// of `branch`.
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

/// Inserts `block` on top of the head with the right gas used, receipts root, bloom and state root, and returns its
/// RLP. These values are found from the errors of wrong attempts. `seal` is called before each attempt.
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
