//! Tests of the engine's answers where the node fails, or changes behind the consensus layer.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::{
    Marks, MineOptions, NodeOptions, Payload, PoolTransaction, impersonate,
    tests::{self, chain_in, options, set_balance, transfer, with_blob},
};
use alloy_consensus::{
    Block, Header, TxEip1559, TxEnvelope, TypedTransaction, proofs::calculate_transaction_root,
};
use alloy_primitives::{Address, Bloom, Signature, TxKind, U256};
use alloy_rpc_types_engine::PayloadId;
use polytrie_chain::{BuiltBlock, NextBlock, testing};
use polytrie_kv::MemoryEngine;
use polytrie_kv_testing::{Fault, FaultEngine};
use polytrie_layers::LAYERS;
use polytrie_node::datadir::DataDir;
use polytrie_state::TxWrites;

fn driven(engine: Arc<FaultEngine>, layer: &str) -> Engine {
    driving(chain_in(engine, layer))
}

fn driving((chain, dir): (Chain, DataDir)) -> Engine {
    let options = NodeOptions { is_driven: true, ..options() };
    Engine::new(Node::new(chain, dir, options).unwrap(), PAYLOAD_BYTES)
}

/// Returns an engine whose rows are in memory.
fn in_memory(layer: &str) -> Engine {
    let memory = Arc::new(MemoryEngine::new());
    driven(Arc::new(FaultEngine::new(memory, Fault::Before, 0)), layer)
}

/// Returns an empty block on the head, as a payload.
fn next(engine: &Engine) -> PayloadBlock {
    let node = engine.node();
    payload(node.preview(node.plan(), Some(Vec::new())).unwrap())
}

fn payload(built: BuiltBlock) -> PayloadBlock {
    let BuiltBlock { header, block, rlp, .. } = built;
    PayloadBlock { hash: header.hash(), block, rlp, access_list: None, recovery: None }
}

/// Returns a branch of empty blocks above the head, as payloads.
fn branch(engine: &Engine, salt: u8, length: usize) -> Vec<PayloadBlock> {
    let mut fork = engine.node().chain().fork().unwrap();
    let mut on_top = || {
        let block = payload(testing::build(&mut fork, salt, &TxWrites::default()).into_block());
        let candidate = block.clone().prepare(fork.spec());
        fork.insert(candidate).unwrap();
        fork.settle().unwrap();
        block
    };
    (0..length).map(|_| on_top()).collect()
}

fn choose(engine: &Engine, head: B256) -> Result<PayloadStatus, EngineError> {
    let choice = ForkchoiceState { head_block_hash: head, ..ForkchoiceState::default() };
    engine.forkchoice_updated(1, choice, None).map(|updated| updated.payload_status)
}

/// Starts a payload on the head and returns its ID.
fn begin(engine: &Engine) -> PayloadId {
    let head_block_hash = engine.node().view().hash();
    let choice = ForkchoiceState { head_block_hash, ..ForkchoiceState::default() };
    let attributes = PayloadAttributes {
        timestamp: engine.node().plan().timestamp,
        withdrawals: Some(Vec::new()),
        parent_beacon_block_root: Some(B256::ZERO),
        ..PayloadAttributes::default()
    };
    let updated = engine.forkchoice_updated(3, choice, Some(Ok(attributes))).unwrap();
    updated.payload_id.unwrap()
}

/// Submits a payload that the node built, and makes it the head.
fn take(engine: &Engine, made: &Payload) {
    let (hash, block, rlp) = (made.header.hash(), made.block.clone(), made.rlp.clone());
    let payload = PayloadBlock { hash, block, rlp, access_list: None, recovery: None };
    assert_eq!(engine.new_payload(payload).unwrap(), valid(hash));
    assert_eq!(choose(engine, hash).unwrap(), valid(hash));
}

/// After the failed write the overlay of the store has the block, and shows it as one of the chain.
#[test]
fn a_choice_that_failed_is_not_valid_when_it_is_said_again() {
    for layer in ["mpt", "raw"] {
        let proposed = |at: u64| {
            let memory = Arc::new(MemoryEngine::new());
            let faulty = Arc::new(FaultEngine::new(memory, Fault::Before, at));
            let engine = driven(Arc::clone(&faulty), layer);
            // With a time of their own the blocks of two engines would have different hashes.
            engine.node().clock().set_next(2_000_000_000);
            let block = next(&engine);
            let hash = block.hash;
            assert_eq!(engine.new_payload(block.clone()).unwrap(), valid(hash));
            engine.node().flush().unwrap();
            (engine, block, faulty.writes())
        };
        let (engine, block, writes) = proposed(0);
        let hash = block.hash;
        assert_eq!(choose(&engine, hash).unwrap(), valid(hash));
        let (engine, _, _) = proposed(writes + 1);
        for _ in 0..2 {
            choose(&engine, hash).unwrap_err();
        }
        assert!(engine.node().failure().is_some());
        engine.new_payload(block).unwrap_err();
        let node = engine.node();
        let refused = node.submit_all(vec![transfer(node, 0, 0, 1)]);
        assert!(matches!(&refused[..], [Err(NodeError::Failed(_))]), "{refused:?}");
        assert!(node.pool().is_empty());
    }
}

#[test]
fn what_there_was_no_room_to_keep_can_be_chosen() {
    let engine = in_memory("raw");
    let engine = Engine::new(Arc::clone(engine.node()), 0);
    let block = next(&engine);
    let hash = block.hash;
    assert_eq!(engine.new_payload(block).unwrap(), valid(hash));
    assert_eq!(choose(&engine, hash).unwrap(), valid(hash));
    assert_eq!(engine.node().view().hash(), hash);
}

/// The pool is updated both when the head moves forward (from the write set only) and when it moves to another branch.
#[test]
fn the_pool_follows_the_head() {
    let engine = in_memory("mpt");
    let node = Arc::clone(engine.node());
    let waits = |from, nonce| node.submit(transfer(&node, from, nonce, 1)).unwrap();
    (0..3).for_each(|nonce| drop(waits(0, nonce)));
    waits(1, 0);
    let first = transfer(&node, 0, 0, 1);
    let sender = first.sender;
    let full = payload(node.preview(node.plan(), Some(vec![(first.tx, sender)])).unwrap());
    let hash = full.hash;
    let mut later = node.plan();
    later.timestamp += 1;
    let empty = payload(node.preview(later, Some(Vec::new())).unwrap());
    let branch = empty.hash;
    let waiting = || {
        let status = node.pool().status();
        (status, node.next_nonce(&sender).unwrap())
    };
    engine.new_payload(full).unwrap();
    choose(&engine, hash).unwrap();
    assert_eq!(waiting(), ((3, 0), 3));
    engine.new_payload(empty).unwrap();
    choose(&engine, branch).unwrap();
    assert_eq!(waiting(), ((4, 0), 3));
}

/// The number of such a block may be above the new head.
#[test]
fn there_is_no_way_back_to_a_snapshot_on_another_branch() {
    let engine = in_memory("mpt");
    let node = engine.node();
    let chosen = branch(&engine, 1, 1).remove(0);
    let hash = chosen.hash;
    for _ in 0..2 {
        node.mine(MineOptions::EVEN_EMPTY).unwrap().unwrap();
    }
    let point = node.snapshot().unwrap();
    assert_eq!(engine.new_payload(chosen).unwrap(), valid(hash));
    assert_eq!(choose(&engine, hash).unwrap(), valid(hash));
    let later = node.snapshot().unwrap();
    let said = node.revert(point).unwrap_err().to_string();
    assert!(said.contains("has left the chain"), "{said}");
    assert!(node.revert(later).unwrap());
    assert_eq!((node.view().hash(), node.failure().is_none()), (hash, true));
}

#[test]
fn what_is_looked_at_in_between_takes_no_payload_away() {
    let engine = in_memory("mpt");
    let node = engine.node();
    node.submit(transfer(node, 0, 0, 1)).unwrap();
    let block = next(&engine);
    let hash = block.hash;
    engine.new_payload(block).unwrap();
    assert!(node.pending().unwrap().is_none());
    assert_eq!(node.chain().proposed(), Some(hash));
    choose(&engine, hash).unwrap();
    let pending = node.pending().unwrap().unwrap();
    assert_eq!(pending.block.body.transactions.len(), 1);
}

#[test]
fn a_payload_keeps_the_blobs_of_its_transactions() {
    let engine = in_memory("mpt");
    let node = engine.node();
    node.submit(with_blob(node, 0, 0)).unwrap();
    let id = begin(&engine);
    let made = engine.payload(id).unwrap();
    assert_eq!((made.block.body.transactions.len(), made.sidecars.len()), (1, 1));
    assert!(made.sidecars[0].is_eip7594());
    // The pool does not have the blobs any more.
    take(&engine, &made);
    assert!(node.pool().is_empty());
    assert_eq!(engine.payload(id).unwrap().sidecars, made.sidecars);
}

/// Returns two payloads on the head with so many transfers that the root of their receipts is computed beside the state.
fn siblings(node: &Node) -> [PayloadBlock; 2] {
    let transfers: Vec<_> =
        (0..40).map(|nonce| transfer(node, 0, nonce, 1)).map(|tx| (tx.tx, tx.sender)).collect();
    let plan = node.plan();
    let later = NextBlock { timestamp: plan.timestamp + 1, ..plan.clone() };
    [plan, later].map(|next| payload(node.preview(next, Some(transfers.clone())).unwrap()))
}

/// What is wrong with a sender is known only while the transactions before it are executed, but comes first.
#[test]
fn a_payload_with_a_transaction_without_a_sender_is_invalid_and_leaves_nothing() {
    for layer in LAYERS {
        let dir = DataDir::open(&tests::in_memory(layer.name), true).unwrap();
        let engine = driving(dir.into_chain().unwrap());
        let node = engine.node();
        let [whole, sibling] = siblings(node);
        // Returns the payload with other transactions; some of them without a sender, as no key makes this `r`.
        let altered = |order: &[usize], unsigned: &[usize]| {
            let mut block = whole.block.clone();
            let mut transactions: Vec<_> =
                order.iter().map(|at| block.body.transactions[*at].clone()).collect();
            for at in unsigned {
                let tx = TypedTransaction::from(transactions[*at].clone());
                transactions[*at] =
                    tx.into_envelope(Signature::new(U256::from(5), U256::ONE, false));
            }
            block.header.transactions_root = calculate_transaction_root(&transactions);
            block.body.transactions = transactions;
            block
        };
        let refused = |block: Block<TxEnvelope>| {
            let (hash, rlp) = (block.header.hash_slow(), alloy_rlp::encode(&block).into());
            let payload = PayloadBlock { hash, block, rlp, access_list: None, recovery: None };
            match engine.new_payload(payload).unwrap().status {
                PayloadStatusEnum::Invalid { validation_error } => validation_error,
                other => panic!("{}: {other}", layer.name),
            }
        };
        let names = |block: &Block<TxEnvelope>, at: usize| {
            format!("transaction {at} ({}) ", block.body.transactions[at].tx_hash())
        };
        let (in_order, mut twice): (Vec<usize>, Vec<usize>) =
            ((0..40).collect(), (0..40).collect());
        twice[10] = 9;
        for (order, unsigned, first) in [
            (&in_order, &[30][..], 30),
            (&in_order, &[39, 5][..], 5),
            (&in_order, &[0][..], 0),
            (&twice, &[30][..], 30),
        ] {
            let block = altered(order, unsigned);
            let expected = names(&block, first)
                + "is invalid: its sender cannot be recovered: the signature belongs to no public key";
            assert_eq!(refused(block), expected, "{}", layer.name);
        }
        let block = altered(&twice, &[]);
        let expected = names(&block, 10) + "cannot be executed";
        assert!(refused(block).starts_with(&expected), "{}", layer.name);
        let mut block = altered(&in_order, &[20]);
        block.header.extra_data = vec![0; 33].into();
        let said = refused(block);
        assert!(said.contains("extra data"), "{}: {said}", layer.name);
        // Nothing of them is left.
        let hash = whole.hash;
        assert_eq!(engine.new_payload(whole.clone()).unwrap(), valid(hash), "{}", layer.name);
        assert_eq!(choose(&engine, hash).unwrap(), valid(hash), "{}", layer.name);
        // These are on another branch.
        let said = refused(altered(&in_order, &[31]));
        assert!(said.contains("its sender cannot be recovered"), "{}: {said}", layer.name);
        let hash = sibling.hash;
        assert_eq!(engine.new_payload(sibling).unwrap(), valid(hash), "{}", layer.name);
        assert_eq!(choose(&engine, hash).unwrap(), valid(hash), "{}", layer.name);
    }
}

/// The pool takes such a transaction, and names its sender.
#[test]
fn a_payload_with_an_impersonated_transaction_is_invalid() {
    let engine = in_memory("mpt");
    let node = engine.node();
    let pretended = TxEip1559 {
        chain_id: 1337,
        gas_limit: 21_000,
        max_fee_per_gas: 2_000_000_000,
        to: TxKind::Call(Address::repeat_byte(7)),
        ..Default::default()
    };
    let pretended = impersonate(pretended.into(), node.accounts().addresses()[1]);
    node.submit(PoolTransaction::local(pretended.clone()).unwrap()).unwrap();
    let mut block = next(&engine).block;
    block.body.transactions = vec![pretended];
    block.header.transactions_root = calculate_transaction_root(&block.body.transactions);
    let (hash, rlp) = (block.header.hash_slow(), alloy_rlp::encode(&block).into());
    let payload = PayloadBlock { hash, block, rlp, access_list: None, recovery: None };
    match engine.new_payload(payload).unwrap().status {
        PayloadStatusEnum::Invalid { validation_error: said } => {
            assert!(said.contains("signature"), "{said}");
        }
        other => panic!("{other}"),
    }
}

/// The receipts and the state are hashed at the same time, but their faults have an order.
#[test]
fn of_several_wrong_results_the_first_is_named_and_nothing_is_left() {
    let gas: fn(&mut Header) = |header| header.gas_used -= 1;
    let receipts: fn(&mut Header) = |header| header.receipts_root = B256::repeat_byte(1);
    let bloom: fn(&mut Header) = |header| header.logs_bloom = Bloom::repeat_byte(1);
    let state: fn(&mut Header) = |header| header.state_root = B256::repeat_byte(1);
    for layer in LAYERS {
        let dir = DataDir::open(&tests::in_memory(layer.name), true).unwrap();
        let engine = driving(dir.into_chain().unwrap());
        let node = engine.node();
        // The first becomes the head, so the second is on another branch.
        for whole in siblings(node) {
            for (changes, words) in [
                (&[receipts][..], "receipts root"),
                (&[receipts, state][..], "receipts root"),
                (&[receipts, bloom][..], "receipts root"),
                (&[gas, receipts, state][..], "gas used"),
                (&[bloom, state][..], "logs bloom"),
            ] {
                let mut block = whole.block.clone();
                changes.iter().for_each(|change| change(&mut block.header));
                let (hash, rlp) = (block.header.hash_slow(), alloy_rlp::encode(&block).into());
                let wrong = PayloadBlock { hash, block, rlp, access_list: None, recovery: None };
                let said = match engine.new_payload(wrong).unwrap().status {
                    PayloadStatusEnum::Invalid { validation_error } => validation_error,
                    other => panic!("{}: {other}", layer.name),
                };
                assert!(said.contains(words), "{}: {said}", layer.name);
            }
            let hash = whole.hash;
            assert_eq!(engine.new_payload(whole).unwrap(), valid(hash), "{}", layer.name);
            assert_eq!(choose(&engine, hash).unwrap(), valid(hash), "{}", layer.name);
        }
    }
}

/// The layer may still compute the commitment of the block below.
#[test]
fn a_wrong_receipts_root_is_found_above_a_block_that_waits() {
    for layer in LAYERS {
        let dir = DataDir::open(&tests::in_memory(layer.name), true).unwrap();
        let engine = driving(dir.into_chain().unwrap());
        let node = engine.node();
        let mut fork = node.chain().fork().unwrap();
        let [below, above] = [0, 40].map(|first| {
            let transfers = (first..first + 40).map(|nonce| transfer(node, 0, nonce, 1));
            let transfers = transfers.map(|tx| (tx.tx, tx.sender)).collect();
            let block = payload(node.preview(node.plan(), Some(transfers)).unwrap());
            assert_eq!(engine.new_payload(block.clone()).unwrap(), valid(block.hash));
            assert_eq!(choose(&engine, block.hash).unwrap(), valid(block.hash));
            block
        });
        let mut wrong = above.clone();
        wrong.block.header.receipts_root = B256::repeat_byte(1);
        wrong.hash = wrong.block.header.hash_slow();
        wrong.rlp = alloy_rlp::encode(&wrong.block).into();
        let mut insert = |block: PayloadBlock| {
            let candidate = block.prepare(fork.spec());
            fork.insert(candidate)
        };
        insert(below).unwrap();
        match insert(wrong) {
            Err(InsertError::Invalid(block)) => {
                let said = block.reason.to_string();
                assert!(said.contains("receipts root"), "{}: {said}", layer.name);
            }
            other => panic!("{}: {other:?}", layer.name),
        }
        let hash = above.hash;
        insert(above).unwrap();
        fork.settle().unwrap();
        assert_eq!(fork.head().hash(), hash, "{}", layer.name);
    }
}

/// On a devnet a block may be mined between the choice of a head and the start of a payload on it.
#[test]
fn no_payload_is_begun_on_another_head() {
    let engine = in_memory("mpt");
    let node = engine.node();
    let mut jobs = Jobs::default();
    let (head, plan) = (node.view().hash(), node.plan());
    assert!(jobs.begin(node, 3, head, plan.clone()).unwrap().is_some());
    assert_eq!(jobs.begin(node, 3, B256::repeat_byte(9), plan).unwrap(), None);
}

#[test]
fn a_payload_is_built_while_another_one_is_executed() {
    let engine = in_memory("mpt");
    let id = begin(&engine);
    let _executing = engine.state.lock();
    assert_eq!(engine.payload(id).unwrap().header.number, 1);
}

/// Other nodes execute a payload on the state after the last block, and so does this one.
#[test]
fn a_payload_holds_nothing_that_was_changed_by_hand() {
    let engine = in_memory("mpt");
    let node = engine.node();
    let (rich, gas_limit) = (Address::repeat_byte(7), node.view().head.header.gas_limit);
    set_balance(node, rich, U256::from(9));
    node.settings().gas_limit = Some(1_000_000);
    let pretended = TxEip1559 {
        chain_id: 1337,
        gas_limit: 21_000,
        max_fee_per_gas: 2_000_000_000,
        max_priority_fee_per_gas: 2,
        to: TxKind::Call(rich),
        ..Default::default()
    };
    let pretended = impersonate(pretended.into(), node.accounts().addresses()[1]);
    node.submit(PoolTransaction::local(pretended).unwrap()).unwrap();
    node.submit(transfer(node, 0, 0, 1)).unwrap();
    let made = engine.payload(begin(&engine)).unwrap();
    assert_eq!(made.block.body.transactions.len(), 1);
    assert_eq!(made.header.gas_limit, gas_limit);
    assert_eq!(node.balance(&rich).unwrap(), U256::from(9));
    take(&engine, &made);
    assert_eq!(node.balance(&rich).unwrap(), U256::ZERO);
    assert_eq!(node.pool().len(), 1);
}

#[test]
fn what_was_taken_back_is_not_final() {
    let engine = in_memory("raw");
    let node = engine.node();
    for _ in 0..3 {
        take(&engine, &engine.payload(begin(&engine)).unwrap());
    }
    let hash = |number| node.db().canonical(number).unwrap().unwrap().0;
    let finalized = ForkchoiceState {
        head_block_hash: hash(3),
        safe_block_hash: B256::ZERO,
        finalized_block_hash: hash(1),
    };
    engine.forkchoice_updated(1, finalized, None).unwrap();
    assert_eq!(node.marks(), Marks { safe: None, finalized: Some(1) }, "as in geth");
    let choice = ForkchoiceState { safe_block_hash: hash(3), ..finalized };
    engine.forkchoice_updated(1, choice, None).unwrap();
    assert_eq!(node.marks(), Marks { safe: Some(3), finalized: Some(1) });
    // A choice without them takes none back.
    choose(&engine, hash(3)).unwrap();
    assert_eq!(node.marks(), Marks { safe: Some(3), finalized: Some(1) });
    choose(&engine, hash(0)).unwrap();
    assert_eq!(node.view().hash(), hash(3));
    node.rollback(1).unwrap();
    assert_eq!(node.marks(), Marks { safe: None, finalized: Some(1) });
    node.reset().unwrap();
    assert_eq!(node.marks(), Marks::default());
}

#[test]
fn what_takes_the_place_of_a_durable_block_is_not_durable_yet() {
    let engine = in_memory("mpt");
    let node = engine.node();
    for block in branch(&engine, 1, 2) {
        engine.new_payload(block.clone()).unwrap();
        choose(&engine, block.hash).unwrap();
    }
    assert_eq!(node.durable(), 2);
    engine.set_head(0).unwrap();
    node.mine(MineOptions::EVEN_EMPTY).unwrap();
    assert_eq!(node.durable(), 0);
    node.flush().unwrap();
    assert_eq!(node.durable(), 1);
}

#[test]
fn what_no_payload_can_hold_is_forgotten() {
    let engine = in_memory("mpt");
    let node = engine.node();
    let sender = node.accounts().addresses()[0];
    set_balance(node, sender, U256::MAX);
    node.submit(transfer(node, 0, 0, u128::MAX)).unwrap();
    node.submit(transfer(node, 1, 0, 1)).unwrap();
    let count = |made: &Payload| (made.block.body.transactions.len(), node.pool().len());
    // A block of the node itself may still include the transaction, since its sender can pay there.
    let made = engine.payload(begin(&engine)).unwrap();
    assert_eq!(count(&made), (1, 2));
    // The change of the head drops the changes that were set by hand.
    take(&engine, &made);
    assert_eq!(count(&engine.payload(begin(&engine)).unwrap()), (0, 0));
}

#[test]
fn the_chain_aside_is_bounded_as_the_payloads_are() {
    let engine = in_memory("mpt");
    let node = Arc::clone(engine.node());
    let plan = node.plan();
    let siblings = [0, 1, 2, 3, 4].map(|later| {
        let next = NextBlock { timestamp: plan.timestamp + later, ..plan.clone() };
        payload(node.preview(next, Some(Vec::new())).unwrap())
    });
    let bytes = siblings[0].rlp.len();
    let engine = Engine::new(node, bytes * 5 / 2);
    let hashes = siblings.each_ref().map(|block| block.hash);
    // The first block becomes the head, and the others are executed on the side chain.
    let is_there = siblings.map(|block| {
        let hash = block.hash;
        assert_eq!(engine.new_payload(block).unwrap(), valid(hash));
        assert_eq!(choose(&engine, hashes[0]).unwrap(), valid(hashes[0]));
        engine.state.lock().aside.is_some()
    });
    assert_eq!(is_there, [false, true, true, false, true]);
}

/// The fork of the chain keeps as many undo records below its own head as the chain does below its head.
#[test]
fn a_long_branch_prevents_no_other_one() {
    let mut options = tests::in_memory("mpt");
    options.chain_options.undo_blocks = 3;
    let engine = driving(DataDir::open(&options, true).unwrap().into_chain().unwrap());
    // A chain in memory keeps all records otherwise.
    engine.node().chain().keep_way_back_to(None);
    let [ours, long, other] = [(1, 2), (2, 5), (3, 1)].map(|(salt, n)| branch(&engine, salt, n));
    for block in ours {
        let hash = block.hash;
        assert_eq!(engine.new_payload(block).unwrap(), valid(hash));
        assert_eq!(choose(&engine, hash).unwrap(), valid(hash));
    }
    let tip = other[0].hash;
    for block in long.into_iter().chain(other) {
        let hash = block.hash;
        assert_eq!(engine.new_payload(block).unwrap(), valid(hash));
    }
    assert_eq!(choose(&engine, tip).unwrap(), valid(tip));
}

/// The payloads come before their parent, and are not sent again.
#[test]
fn a_payload_that_was_kept_is_executed_when_it_is_chosen() {
    let engine = in_memory("mpt");
    let [first, second]: [PayloadBlock; 2] = branch(&engine, 1, 2).try_into().unwrap();
    let mut wrong = second.clone();
    wrong.block.header.gas_used = 1;
    wrong.hash = wrong.block.header.hash_slow();
    wrong.rlp = alloy_rlp::encode(&wrong.block).into();
    let hashes = [&first, &second, &wrong].map(|block| block.hash);
    let syncing = PayloadStatus::from_status(PayloadStatusEnum::Syncing);
    for block in [second, wrong] {
        assert_eq!(engine.new_payload(block).unwrap(), syncing);
    }
    assert_eq!(engine.new_payload(first).unwrap(), valid(hashes[0]));
    assert_eq!(choose(&engine, hashes[0]).unwrap(), valid(hashes[0]));
    let refused = choose(&engine, hashes[2]).unwrap();
    assert!(matches!(refused.status, PayloadStatusEnum::Invalid { .. }), "{refused:?}");
    assert_eq!(refused.latest_valid_hash, Some(hashes[0]));
    assert_eq!(choose(&engine, hashes[1]).unwrap(), valid(hashes[1]));
    assert_eq!(engine.node().view().hash(), hashes[1]);
}

/// The branch leaves the chain before the final block, and is still known.
#[test]
fn a_branch_without_the_final_block_contradicts_it() {
    let engine = in_memory("mpt");
    let [ours, theirs] = [1, 2].map(|salt| branch(&engine, salt, 3));
    let [first, second, third] = [0, 1, 2].map(|at| ours[at].hash);
    let tip = theirs[2].hash;
    for (ours, theirs) in ours.into_iter().zip(theirs) {
        let (hash, other) = (ours.hash, theirs.hash);
        assert_eq!(engine.new_payload(theirs).unwrap(), valid(other));
        assert_eq!(engine.new_payload(ours).unwrap(), valid(hash));
        assert_eq!(choose(&engine, hash).unwrap(), valid(hash));
    }
    let choose_as = |head_block_hash| {
        let (safe_block_hash, finalized_block_hash) = (second, first);
        let choice = ForkchoiceState { head_block_hash, safe_block_hash, finalized_block_hash };
        engine.forkchoice_updated(1, choice, None)
    };
    assert_eq!(choose_as(third).unwrap().payload_status, valid(third));
    assert_eq!(choose_as(tip).unwrap_err().code(), Some(-38002));
    assert_eq!(engine.node().view().hash(), third);
}

/// The calls of one consensus layer come between those of the other, and blocks are built meanwhile.
#[test]
fn two_consensus_layers_at_once_disturb_no_call() {
    let engine = &in_memory("mpt");
    let branches = [branch(engine, 1, 5), branch(engine, 2, 5)];
    std::thread::scope(|scope| {
        for blocks in &branches {
            scope.spawn(move || {
                for block in blocks {
                    let hash = block.hash;
                    assert_eq!(engine.new_payload(block.clone()).unwrap(), valid(hash));
                    assert_eq!(choose(engine, hash).unwrap(), valid(hash));
                }
            });
        }
        scope.spawn(|| (0..5).for_each(|_| drop(engine.payload(begin(engine)).unwrap())));
    });
    let node = engine.node();
    assert_eq!(node.chain().head().hash(), node.view().hash());
    for blocks in &branches {
        let tip = blocks[4].hash;
        assert_eq!(choose(engine, tip).unwrap(), valid(tip));
        assert_eq!(node.view().hash(), tip);
    }
}
