//! What a consensus layer is told where more happens than it sees.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::{
    NodeOptions,
    tests::{chain_in, options},
};
use polytrie_kv::MemoryEngine;
use polytrie_kv_testing::{Fault, FaultEngine};

fn driven(engine: Arc<FaultEngine>, layer: &str) -> Engine {
    let (chain, dir) = chain_in(engine, layer);
    let options = NodeOptions { is_driven: true, ..options() };
    Engine::new(Node::new(chain, dir, options).unwrap(), PAYLOAD_BYTES)
}

/// An engine whose rows are in memory.
fn in_memory(layer: &str) -> Engine {
    let memory = Arc::new(MemoryEngine::new());
    driven(Arc::new(FaultEngine::new(memory, Fault::Before, 0)), layer)
}

/// An empty block on top of the head.
fn next(engine: &Engine) -> Candidate {
    let node = engine.node();
    let built = node.preview(node.plan(), Some(Vec::new())).unwrap();
    Candidate::prepare(node.spec(), built.rlp).unwrap()
}

fn choose(engine: &Engine, head: B256) -> Result<PayloadStatus, EngineError> {
    let choice = ForkchoiceState { head_block_hash: head, ..ForkchoiceState::default() };
    engine.forkchoice_updated(1, choice, None).map(|updated| updated.payload_status)
}

/// The store has the block that could not be stored, and shows it as one of the chain.
#[test]
fn a_choice_that_failed_is_not_valid_when_it_is_said_again() {
    for layer in ["mpt", "raw"] {
        let proposed = |at: u64| {
            let memory = Arc::new(MemoryEngine::new());
            let faulty = Arc::new(FaultEngine::new(memory, Fault::Before, at));
            let engine = driven(Arc::clone(&faulty), layer);
            let block = next(&engine);
            let hash = block.header.hash();
            assert_eq!(engine.new_payload(block.clone()).unwrap(), valid(hash));
            engine.node().flush().unwrap();
            (engine, block, faulty.writes())
        };
        let (engine, block, writes) = proposed(0);
        let hash = block.header.hash();
        assert_eq!(choose(&engine, hash).unwrap(), valid(hash));
        let (engine, _, _) = proposed(writes + 1);
        for _ in 0..2 {
            choose(&engine, hash).unwrap_err();
        }
        assert!(engine.node().failure().is_some());
        engine.new_payload(block).unwrap_err();
    }
}
