//! Tests of the pool, of what makes blocks from it, and of who hears of them.

use super::*;
use polytrie_kv::KvError;
use polytrie_kv_testing::{BeforeReads, Wrapped};
use polytrie_state::{AccountChange, Session, TxWrites};
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_state_of_the_end_of_time_is_refused_before_anything_changes() {
    let node = node("raw");
    node.submit(transfer(&node, 0, 0, 1)).unwrap();
    let account = WholeAccount { balance: U256::from(7), ..WholeAccount::default() };
    let accounts = BTreeMap::from([(SOMEBODY, account)]);
    let origin = Origin { number: 2, timestamp: u64::MAX };
    let error = node.load(accounts.clone(), Some(origin)).unwrap_err();
    assert!(matches!(error, NodeError::Time(_)), "{error}");
    assert_eq!((node.view().head.number(), node.pool().len()), (0, 1));
    node.load(accounts, Some(Origin { timestamp: 0, ..origin })).unwrap();
    assert_eq!((node.view().head.number(), node.pool().len()), (2, 0));
    assert_eq!(node.balance(&SOMEBODY).unwrap(), U256::from(7));
}

/// A listener that records the numbers of new blocks.
#[derive(Debug, Default)]
struct Heads(Mutex<Vec<u64>>);

impl Listener for Heads {
    fn hear(&self, event: &Event) {
        if let Event::Block(header) = event {
            self.0.lock().push(header.number);
        }
    }
}

#[test]
fn blocks_are_told_in_their_order_whoever_makes_them() {
    let node = node("raw");
    let heads = Arc::new(Heads::default());
    node.listen(Arc::clone(&heads) as _);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    node.mine(MineOptions::EVEN_EMPTY).unwrap();
                }
            });
        }
    });
    assert!(heads.0.lock().iter().copied().eq(1..=2000));
}

fn mining(node: &Arc<Node>) -> MinerThreads {
    let threads = Miner::start(node).unwrap();
    node.set_mining(MiningMode::OnArrival);
    threads
}

fn wait(node: &Node, hash: &B256) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(node.wait_for(hash, Duration::from_secs(600)));
}

#[test]
fn blocks_come_by_themselves() {
    let node = node(LAYERS[0].name);
    let threads = mining(&node);
    let added = node.submit(transfer(&node, 1, 0, 5)).unwrap();
    wait(&node, &added.tx.hash());
    assert_eq!(node.balance(&SOMEBODY).unwrap(), U256::from(5));
    drop(threads);
    assert!(node.failure().is_none());
}

/// A request may make many blocks, and the node ends without waiting for it.
#[test]
fn no_request_makes_a_block_once_the_node_stops() {
    let node = node("raw");
    let threads = mining(&node);
    node.mine(MineOptions::EVEN_EMPTY).unwrap().unwrap();
    drop(threads);
    let said = node.mine(MineOptions::EVEN_EMPTY).unwrap_err().to_string();
    assert_eq!((said.as_str(), node.view().head.number()), ("the node is stopping", 1));
}

#[test]
fn what_could_not_be_mined_is_tried_again() {
    let node = node(LAYERS[0].name);
    let threads = mining(&node);
    // No block can have this time, since none could follow.
    node.clock().set_next(u64::MAX);
    let added = node.submit(transfer(&node, 1, 0, 5)).unwrap();
    let until = Instant::now() + Duration::from_secs(600);
    while node.miner().failures() == 0 {
        assert!(Instant::now() < until, "it is never tried");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(node.view().head.number(), 0);
    let now = node.clock().now();
    node.clock().set_next(now);
    wait(&node, &added.tx.hash());
    assert_eq!(node.balance(&SOMEBODY).unwrap(), U256::from(5));
    drop(threads);
    assert!(node.failure().is_none());
}

#[test]
fn who_makes_blocks_gives_up_where_nothing_can_be_stored() {
    let engine = Arc::new(MemoryEngine::new());
    let engine = Arc::new(FaultEngine::new(engine, Fault::Before, 8));
    let (chain, dir) = chain_in(engine, "raw");
    let node = node_on(chain, dir);
    let threads = mining(&node);
    node.submit(transfer(&node, 0, 0, 5)).unwrap();
    let until = Instant::now() + Duration::from_secs(120);
    while !threads.are_finished() {
        assert!(Instant::now() < until, "{:?}", node.db().store().poisoned());
        std::thread::sleep(Duration::from_millis(20));
        if node.pool().is_empty() {
            // The transaction was included, but the later flush of its block failed.
            let nonce = node.account(&node.accounts().addresses()[0]).unwrap().nonce;
            let _ = node.submit(transfer(&node, 0, nonce, 5));
        }
    }
    assert!(node.db().store().poisoned().is_some());
}

/// An engine whose store another process may take over.
#[derive(Debug)]
struct TakenOver(MemoryEngine, Arc<AtomicBool>);

polytrie_kv_testing::wrapped!(TakenOver);

impl Wrapped for TakenOver {
    fn inner(&self) -> &dyn Engine {
        &self.0
    }

    fn loss(&self) -> Option<KvError> {
        let error = || KvError::Corrupt("another process has it".to_owned());
        self.1.load(Ordering::Relaxed).then(error)
    }
}

#[test]
fn a_store_that_is_lost_is_a_failure_without_a_write() {
    let taken = Arc::new(AtomicBool::new(false));
    let engine = Arc::new(TakenOver(MemoryEngine::new(), Arc::clone(&taken)));
    let (chain, dir) = chain_in(engine, "raw");
    let node = node_on(chain, dir);
    assert!(node.failure().is_none());
    taken.store(true, Ordering::Relaxed);
    let failure = node.failure().unwrap();
    assert!(matches!(failure, NodeFailure::Lost(_)), "{failure}");
    let refused = node.mine(MineOptions::EVEN_EMPTY).unwrap_err();
    assert_eq!(refused.to_string(), failure.to_string());
}

#[test]
fn a_layer_that_has_failed_is_a_failure_though_the_store_is_whole() {
    let undo_of_a_block = || {
        let node = node("mpt");
        let mut session = Session::begin(&**node.layer(), node.view().head.block_ref()).unwrap();
        let account = Some(Account { nonce: 1, ..Account::default() });
        let (address, slots) = (SOMEBODY, Vec::new());
        let change = AccountChange { address, account, wiped: false, code: None, slots };
        session.apply(&TxWrites { accounts: vec![change] }).unwrap();
        session.finish().unwrap().outcome.undo
    };
    let undo = undo_of_a_block();
    let unreadable = Arc::new(AtomicBool::new(false));
    let is_unreadable = Arc::clone(&unreadable);
    let engine = BeforeReads::new(MemoryEngine::new(), move || {
        match is_unreadable.load(Ordering::Relaxed) {
            true => Err(KvError::Corrupt("it cannot be read".to_owned())),
            false => Ok(()),
        }
    });
    let (chain, dir) = chain_in(Arc::new(engine), "mpt");
    let node = node_on(chain, dir);
    node.flush().unwrap();
    unreadable.store(true, Ordering::Relaxed);
    let error = node.layer().undo(&undo).unwrap_err();
    unreadable.store(false, Ordering::Relaxed);
    assert!(node.failure().is_none());
    let threads = mining(&node);
    let until = Instant::now() + Duration::from_secs(120);
    while node.failure().is_none() && Instant::now() < until {
        std::thread::yield_now();
    }
    let failure = node.failure().unwrap();
    assert!(matches!(failure, NodeFailure::Layer(_)), "{failure}");
    assert_eq!(failure.to_string(), error.to_string());
    drop(threads);
    let refused = node.mine(MineOptions::EVEN_EMPTY).unwrap_err();
    assert_eq!(refused.to_string(), error.to_string());
}

#[test]
fn a_preview_changes_nothing() {
    for layer in LAYERS {
        let node = node(layer.name);
        node.submit(transfer(&node, 0, 0, 5)).unwrap();
        // A block writes its time into the state, so both blocks are given the same one.
        let time = node.clock().now() + 1000;
        node.clock().set_next(time);
        let built = node.preview(node.plan(), None).unwrap();
        assert_eq!(built.block.body.transactions.len(), 1);
        assert_eq!(node.view().head.number(), 0);
        assert_eq!(node.pool().len(), 1);
        let header = node.mine(MineOptions::default()).unwrap().unwrap();
        assert_eq!(header.state_root, built.header.state_root);
    }
}

#[test]
fn what_would_be_made_is_there_while_the_chain_is_busy() {
    let node = node("raw");
    // A fixed time keeps the pending block current, which would otherwise change every second.
    let time = node.clock().now() + 1000;
    node.clock().set_next(time);
    let known = node.pending().unwrap().unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let _busy = node.chain();
        scope.spawn(|| tell.send(Arc::ptr_eq(&known, &node.pending().unwrap().unwrap())));
        assert!(told.recv_timeout(Duration::from_secs(600)).unwrap());
    });
    // The pending block includes the transactions of the pool.
    node.submit(transfer(&node, 0, 0, 5)).unwrap();
    let next = node.pending().unwrap().unwrap();
    assert_eq!(next.block.body.transactions.len(), 1);
}

#[test]
fn transactions_that_come_together_are_taken_in_order() {
    let node = node("raw");
    let txs = [(0, 0), (0, 1), (1, 0), (0, 1), (0, 2), (1, 5)];
    let txs = txs.map(|(from, nonce)| transfer(&node, from, nonce, 1)).to_vec();
    let hashes: Vec<_> = txs.iter().map(PoolTransaction::hash).collect();
    let answers = node.submit_all(txs);
    let pending: Vec<_> = answers.iter().map(|added| Some(added.as_ref().ok()?.pending)).collect();
    let (yes, no) = (Some(true), Some(false));
    assert_eq!(pending, [yes, yes, yes, None, yes, no]);
    assert!(matches!(answers[3], Err(NodeError::Pool(PoolError::Known))));
    let header = node.mine(MineOptions::default()).unwrap().unwrap();
    let block = node.db().block(header.number).unwrap().unwrap();
    let mined: Vec<_> = block.body.transactions.iter().map(|tx| *tx.tx_hash()).collect();
    assert_eq!(mined, [hashes[0], hashes[1], hashes[2], hashes[4]]);
    assert_eq!(node.pool().status(), (0, 1));
}

#[test]
fn blobs_wait_until_their_fee_has_fallen() {
    let genesis = dev_genesis(1337, accounts().addresses(), U256::from(ETHER));
    let mut genesis: serde_json::Value = serde_json::from_slice(&genesis).unwrap();
    genesis["excessBlobGas"] = "0x6800000".into();
    let genesis = serde_json::to_vec(&genesis).unwrap();
    let node = node_in(DataDir::create_with(&in_memory("raw"), &genesis).unwrap());
    let fee = node.next_fees(&node.view()).blob;
    let blobs = |nonce: u64, fee: u128| {
        let tx = TxEip4844 {
            chain_id: 1337,
            nonce,
            gas_limit: 21_000,
            max_fee_per_gas: 2_000_000_000,
            max_fee_per_blob_gas: fee,
            to: SOMEBODY,
            value: U256::from(7),
            blob_versioned_hashes: vec![B256::repeat_byte(1)],
            ..Default::default()
        };
        let tx = TypedTransaction::Eip4844(TxEip4844Variant::TxEip4844(tx));
        let from = node.accounts().addresses()[0];
        let signature = node.accounts().sign(&from, &tx.signature_hash()).unwrap();
        // The sidecar does not matter here.
        let mut blobs = transfer(&node, 0, nonce, 7);
        blobs.tx = tx.into_envelope(signature);
        blobs
    };
    node.submit(blobs(0, fee * 3 / 4)).unwrap();
    assert!(node.mine(MineOptions::default()).unwrap().is_none());
    let mut empty = 0;
    while !node.pool().is_empty() {
        assert_eq!(node.balance(&SOMEBODY).unwrap(), U256::ZERO, "after {empty} blocks");
        node.mine(MineOptions::EVEN_EMPTY).unwrap().unwrap();
        empty += 1;
    }
    assert!(empty > 1);
    assert_eq!(node.balance(&SOMEBODY).unwrap(), U256::from(7));
    node.set_mining(MiningMode::OnArrival);
    let refused = node.submit(blobs(1, 1)).unwrap_err();
    let is_fee = matches!(refused, NodeError::Pool(PoolError::BelowBlobFee { found: 1, .. }));
    assert!(is_fee, "{refused}");
}

#[test]
fn who_hears_of_a_transaction_is_not_given_its_blobs() {
    let node = node("mpt");
    let mut events = node.pending_events();
    node.submit(with_blob(&node, 0, 0)).unwrap();
    let Ok(Event::Pending(tx)) = events.try_recv() else { panic!("nothing was told") };
    assert!(tx.tx.is_eip4844() && tx.sidecar.is_none() && tx.bytes < 1_000);
    assert!(node.pool().get(&tx.hash()).unwrap().sidecar.is_some());
}

#[test]
fn fees_are_those_of_a_block_that_is_made_now() {
    let genesis = dev_genesis(1337, accounts().addresses(), U256::from(ETHER));
    let mut genesis: serde_json::Value = serde_json::from_slice(&genesis).unwrap();
    genesis["excessBlobGas"] = "0x6800000".into();
    genesis["config"]["bpo1Time"] = 1000.into();
    genesis["config"]["blobSchedule"]["bpo1"] =
        serde_json::json!({ "target": 10, "max": 15, "baseFeeUpdateFraction": 8_346_193 });
    let genesis = serde_json::to_vec(&genesis).unwrap();
    let node = node_in(DataDir::create_with(&in_memory("raw"), &genesis).unwrap());
    node.clock().set(500);
    let before = node.next_fees(&node.view());
    node.clock().set(1000);
    let after = node.next_fees(&node.view());
    assert!(after.blob < before.blob);
    let options = MineOptions::EVEN_EMPTY;
    let header = node.mine(options).unwrap().unwrap();
    let params = node.spec().blob_params(header.timestamp).unwrap();
    assert_eq!(params.calc_blob_fee(header.excess_blob_gas.unwrap()), after.blob);
    assert_eq!(header.base_fee_per_gas, Some(after.base));
}

/// A listener that panics at each block.
#[derive(Debug)]
struct Panics;

impl Listener for Panics {
    fn hear(&self, event: &Event) {
        assert!(!matches!(event, Event::Block(_)), "a test of a panic");
    }
}

#[test]
fn a_panic_of_the_miner_is_seen() {
    let node = node(LAYERS[0].name);
    node.listen(Arc::new(Panics));
    let threads = mining(&node);
    assert!(node.failure().is_none());
    node.submit(transfer(&node, 1, 0, 5)).unwrap();
    let until = Instant::now() + Duration::from_secs(120);
    while node.failure().is_none() && Instant::now() < until {
        std::thread::yield_now();
    }
    drop(threads);
    let failure = node.failure().unwrap();
    assert!(matches!(failure, NodeFailure::Program(_)), "{failure}");
    let text = failure.to_string();
    assert!(text.contains("`miner`") && text.contains("a test of a panic"), "{text}");
    let refused = node.mine(MineOptions::default()).unwrap_err();
    assert!(refused.to_string().contains("start the node again"), "{refused}");
}

#[test]
fn a_panic_leaves_no_block_half_made() {
    for layer in LAYERS {
        let node = node(layer.name);
        let cut = |adopt: bool| {
            let cut = || {
                let mut chain = node.chain();
                let next = node.next_block(&chain, None);
                let built = chain.build(next, &Default::default(), &mut |_, _, _| {
                    assert!(adopt, "a test of a panic while a block is built");
                    Ok(Vec::new())
                });
                chain.adopt(built.unwrap()).unwrap();
                panic!("a test of a panic before a block is shown");
            };
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(cut)).unwrap_err();
        };
        cut(false);
        assert!(node.failure().is_none(), "{}", layer.name);
        node.submit(transfer(&node, 0, 0, 7)).unwrap();
        node.mine(MineOptions::default()).unwrap().unwrap();
        assert_eq!(node.balance(&SOMEBODY).unwrap(), U256::from(7), "{}", layer.name);
        cut(true);
        let failure = node.failure().unwrap().to_string();
        assert!(failure.contains("not done whole"), "{}: {failure}", layer.name);
        assert!(node.mine(MineOptions::default()).is_err(), "{}", layer.name);
    }
}
