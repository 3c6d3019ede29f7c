//! Runs real mainnet blocks, from Frontier to Cancun, through the executor.
//!
//! There are two sets of blocks. One has the trie nodes that each block needs (`witness`), so that
//! the state root can be checked. The other has the accounts and slots that each block touches
//! (`prestate`). The chain before such a block is unknown, so only the results of executing it are
//! checked.

mod archive;
mod hints;
mod prestate;
#[cfg(feature = "rain")]
mod witness;

use alloy_consensus::{Block, TxEnvelope};
use alloy_primitives::B256;
use alloy_rlp::Decodable;
use polytrie::{
    consensus::{self, ExecutedResult, ReceiptsRoot},
    executor::{BlockHashes, BlockToExecute, Executed, Executor, Senders, recover_senders},
};
use polytrie_chainspec::{ChainSpec, Rules};
use polytrie_state::{BlockRef, Session, StateLayer};
use std::sync::Arc;

/// The number of the first block after the merge.
const PARIS: u64 = 15_537_394;

fn mainnet() -> Arc<ChainSpec> {
    ChainSpec::load("mainnet").expect("mainnet is built in")
}

fn rules<'a>(spec: &'a ChainSpec, block: &Block<TxEnvelope>) -> Rules<'a> {
    let header = &block.header;
    spec.rules(header.number, header.timestamp, header.number >= PARIS)
}

fn decode_block(hex: &str) -> Block<TxEnvelope> {
    let bytes = alloy_primitives::hex::decode(hex).expect("a fixture holds hex");
    Block::decode(&mut &bytes[..]).expect("a fixture holds valid blocks")
}

/// Begins a session on top of the block's parent.
fn begin(layer: &dyn StateLayer, block: &Block<TxEnvelope>) -> Session {
    let parent = BlockRef { number: block.header.number - 1, hash: block.header.parent_hash };
    Session::begin(layer, parent).expect("a session begins")
}

/// Executes a block and checks all results in its header but the state root.
///
/// Returns the result of the execution, which also says whether the receipts could be compared.
fn execute(
    executor: &mut Executor,
    session: &mut Session,
    rules: Rules<'_>,
    block: &Block<TxEnvelope>,
    hashes: &dyn BlockHashes,
) -> Executed {
    let number = block.header.number;
    let senders = recover_senders(&block.body.transactions).expect("a mined block has senders");
    let executed = executor
        .execute_block(session, rules, hashes, BlockToExecute::new(block, Senders::known(&senders)))
        .unwrap_or_else(|error| panic!("block {number}: {error}"));
    let result = ExecutedResult {
        gas_used: executed.gas_used,
        receipts: &executed.receipts,
        requests: executed.requests.as_ref(),
        blob_gas_used: executed.blob_gas_used,
        block_access_list_hash: None,
    };
    let receipts_root =
        if executed.receipts_comparable { ReceiptsRoot::Compare } else { ReceiptsRoot::Skip };
    consensus::check_result(&rules, &block.header, &result, receipts_root)
        .unwrap_or_else(|error| panic!("block {number}: {error}"));
    executed
}

/// Returns a function that looks up the hashes of ancestors in a fixture.
fn ancestors(hashes: &std::collections::HashMap<u64, B256>) -> impl Fn(u64) -> Option<B256> + '_ {
    |number| hashes.get(&number).copied()
}
