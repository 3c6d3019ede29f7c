//! Tests of the node, most of them on every layer.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use alloy_consensus::{
    BlobTransactionSidecarVariant, SidecarBuilder, SignableTransaction, SimpleCoder, TxEip1559,
    TxEip4844, TxEip4844Variant, TxEip4844WithSidecar, TxEip7702, TypedTransaction,
};
use alloy_eips::{eip7702::Authorization, eip7825::MAX_TX_GAS_LIMIT_OSAKA};
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, address};
use parking_lot::Mutex;
use polytrie_chain::{Chain, ChainOptions, TABLES};
use polytrie_kv::{Engine, MemoryEngine, Store, StoreOptions};
use polytrie_kv_testing::{Fault, FaultEngine};
use polytrie_layers::{LAYERS, LayerOptions};
use polytrie_node::datadir::{DataDir, OpenOptions};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

const SOMEBODY: Address = address!("00000000000000000000000000000000000000aa");
const ETHER: u128 = 1_000_000_000_000_000_000;

pub(crate) fn in_memory(layer: &str) -> OpenOptions {
    OpenOptions {
        chain: Some("dev".into()),
        state: Some(layer.into()),
        kv: Some("memory".into()),
        layer: LayerOptions::for_tests(),
        ..OpenOptions::default()
    }
}

fn accounts() -> DevAccounts {
    DevAccounts::new(DEFAULT_MNEMONIC, 3).unwrap()
}

pub(crate) fn node(layer: &str) -> Arc<Node> {
    node_in(DataDir::open(&in_memory(layer), true).unwrap())
}

fn node_in(dir: DataDir) -> Arc<Node> {
    let (chain, dir) = dir.into_chain().unwrap();
    node_on(chain, dir)
}

fn node_on(chain: Chain, dir: DataDir) -> Arc<Node> {
    Node::new(chain, dir, options()).unwrap()
}

pub(crate) fn options() -> NodeOptions {
    NodeOptions {
        accounts: accounts(),
        mining: MiningMode::Manual,
        read_only: false,
        pool: PoolLimits::default(),
        gas_limit: None,
        beneficiary: Address::ZERO,
        is_driven: false,
    }
}

/// Opens a chain whose rows are in this engine.
pub(crate) fn chain_in(engine: Arc<dyn Engine>, layer: &str) -> (Chain, DataDir) {
    let dir = DataDir::open(&in_memory(layer), true).unwrap();
    let tables: Vec<_> = TABLES.iter().chain(dir.kind.tables).copied().collect();
    let store = Store::open(engine, &tables, StoreOptions::default()).unwrap();
    let layer = (dir.kind.open)(store.clone().into(), &LayerOptions::for_tests()).unwrap();
    let spec = dir.spec().unwrap();
    let chain = Chain::open(spec, store, layer, ChainOptions::default()).unwrap();
    (chain, dir)
}

pub(crate) fn transfer(node: &Node, from: usize, nonce: u64, value: u128) -> PoolTransaction {
    let from = node.accounts().addresses()[from];
    let tx: TypedTransaction = TxEip1559 {
        chain_id: 1337,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: 2_000_000_000,
        max_priority_fee_per_gas: 1,
        to: TxKind::Call(SOMEBODY),
        value: U256::from(value),
        ..Default::default()
    }
    .into();
    let signature = node.accounts().sign(&from, &tx.signature_hash()).unwrap();
    PoolTransaction::signed(tx.into_envelope(signature)).unwrap()
}

/// Returns a transaction with a blob that has one proof, as before Osaka.
pub(crate) fn with_blob(node: &Node, from: usize, nonce: u64) -> PoolTransaction {
    let from = node.accounts().addresses()[from];
    let sidecar = SidecarBuilder::<SimpleCoder>::from_slice(b"a blob").build_4844().unwrap();
    let sidecar = BlobTransactionSidecarVariant::Eip4844(sidecar);
    let tx = TxEip4844 {
        chain_id: 1337,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: 2_000_000_000,
        max_priority_fee_per_gas: 1,
        max_fee_per_blob_gas: 1_000_000_000,
        to: SOMEBODY,
        blob_versioned_hashes: sidecar.versioned_hashes().collect(),
        ..Default::default()
    };
    let tx = TxEip4844WithSidecar { tx, sidecar };
    let tx = TypedTransaction::Eip4844(TxEip4844Variant::TxEip4844WithSidecar(tx));
    let signature = node.accounts().sign(&from, &tx.signature_hash()).unwrap();
    PoolTransaction::signed(tx.into_envelope(signature)).unwrap()
}

#[test]
fn a_transfer_is_mined_on_every_layer() {
    for layer in LAYERS {
        let node = node(layer.name);
        let added = node.submit(transfer(&node, 0, 0, ETHER)).unwrap();
        assert!(added.pending);
        let header = node.mine(MineOptions::default()).unwrap().unwrap();
        assert_eq!(header.number, 1);
        assert_eq!(header.state_root, node.layer().commitment().digest());
        assert_eq!(node.balance(&SOMEBODY).unwrap(), U256::from(ETHER));
        assert_eq!(node.transaction_place(&node.view(), &added.tx.hash()).unwrap(), Some((1, 0)));
        assert!(node.pool().is_empty());
        assert!(node.mine(MineOptions::default()).unwrap().is_none());
    }
}

/// The store flushes by itself, too. What was reported as durable after that stays so when more blocks follow.
#[test]
fn the_last_durable_block_goes_back_with_reverted_blocks_only() {
    for layer in LAYERS {
        let node = node(layer.name);
        let mine = |nonces: std::ops::Range<u64>| {
            for nonce in nonces {
                node.submit(transfer(&node, 0, nonce, 1)).unwrap();
                node.mine(MineOptions::default()).unwrap().unwrap();
            }
        };
        mine(0..3);
        node.db().store().checkpoint().unwrap();
        assert_eq!(node.durable(), 3, "{}", layer.name);
        mine(3..5);
        let durable = node.durable();
        assert!((3..=5).contains(&durable), "{}: {durable}", layer.name);
        node.flush().unwrap();
        assert_eq!(node.durable(), 5, "{}", layer.name);
        node.rollback(4).unwrap();
        mine(1..6);
        assert!(node.durable() <= 6, "{}", layer.name);
        node.flush().unwrap();
        assert_eq!((node.durable(), node.marks().finalized), (6, Some(6)), "{}", layer.name);
    }
}

#[test]
fn the_state_of_earlier_blocks_on_every_layer() {
    for layer in LAYERS {
        let node = node(layer.name);
        for nonce in 0..5 {
            node.submit(transfer(&node, 0, nonce, ETHER)).unwrap();
            node.mine(MineOptions::default()).unwrap().unwrap();
        }
        let view = node.view();
        for number in 0..=5u64 {
            let state = view.state_at(number).unwrap().unwrap();
            let balance = state.account(&SOMEBODY).unwrap().unwrap_or_default().balance;
            assert_eq!(balance, U256::from(number) * U256::from(ETHER), "{} {number}", layer.name);
            let nonce = state.account(&node.accounts().addresses()[0]).unwrap().unwrap().nonce;
            assert_eq!(nonce, number, "{}", layer.name);
        }
    }
}

#[test]
fn snapshot_and_revert_on_every_layer() {
    for layer in LAYERS {
        let node = node(layer.name);
        let before = node.layer().commitment();
        let point = node.snapshot().unwrap();
        node.cheat(|cheats, state| {
            let account = state.account(&SOMEBODY)?.unwrap_or_default();
            cheats.set_code(SOMEBODY, account, Bytes::from_static(&[0]));
            Ok(())
        })
        .unwrap();
        node.submit(transfer(&node, 0, 0, 7)).unwrap();
        node.mine(MineOptions::default()).unwrap().unwrap();
        assert!(node.account(&SOMEBODY).unwrap().has_code());
        assert!(node.revert(point).unwrap());
        assert!(!node.account(&SOMEBODY).unwrap().has_code());
        assert_eq!(node.balance(&SOMEBODY).unwrap(), U256::ZERO);
        assert_eq!(node.layer().commitment(), before, "{}", layer.name);
        assert!(!node.revert(point).unwrap());
        assert_eq!(node.view().head.number(), 0);
    }
}

/// The undo records back to a snapshot are kept beyond the usual number, which is 4 here.
#[test]
fn a_snapshot_can_be_gone_back_to_from_far_away_on_every_layer() {
    for layer in LAYERS {
        let dir = tempfile::tempdir().unwrap();
        let mut on_disk = in_memory(layer.name);
        (on_disk.datadir, on_disk.kv) = (Some(dir.path().join("d")), Some("mdbx".into()));
        for (mut options, kept) in [(on_disk, 4), (in_memory(layer.name), 60)] {
            options.chain_options.undo_blocks = 4;
            let node = node_in(DataDir::open(&options, true).unwrap());
            let mine = |nonces: std::ops::Range<u64>| {
                for nonce in nonces {
                    node.submit(transfer(&node, 0, nonce, ETHER)).unwrap();
                    node.mine(MineOptions::default()).unwrap().unwrap();
                }
                node.layer().commitment()
            };
            let at_7 = mine(0..7);
            let point = node.snapshot().unwrap();
            mine(7..43);
            assert!(node.revert(point).unwrap(), "{}", layer.name);
            assert_eq!(node.layer().commitment(), at_7, "{}", layer.name);
            assert_eq!(node.balance(&SOMEBODY).unwrap(), U256::from(7 * ETHER));
            mine(7..60);
            let records = node.view().db.undo_records().unwrap();
            assert_eq!(records.len(), kept, "{}", layer.name);
            if kept == 60 {
                node.reset().unwrap();
                assert_eq!(node.balance(&SOMEBODY).unwrap(), U256::ZERO, "{}", layer.name);
            }
        }
    }
}

#[test]
fn a_change_by_hand_is_seen_at_once_and_stays() {
    for layer in LAYERS {
        let node = node(layer.name);
        let slot = U256::from(3);
        node.cheat(|cheats, state| {
            let mut account = state.account(&SOMEBODY)?.unwrap_or_default();
            account.balance = U256::from(9);
            cheats.set_account(SOMEBODY, account);
            cheats.set_slot(SOMEBODY, account, slot, U256::from(4));
            Ok(())
        })
        .unwrap();
        for _ in 0..2 {
            assert_eq!(node.balance(&SOMEBODY).unwrap(), U256::from(9));
            assert_eq!(node.view().state().slot(&SOMEBODY, &slot).unwrap(), U256::from(4));
            node.mine(MineOptions::EVEN_EMPTY).unwrap().unwrap();
        }
        let genesis = node.view().state_at(0).unwrap().unwrap();
        assert_eq!(genesis.account(&SOMEBODY).unwrap(), None);
        assert_eq!(genesis.slot(&SOMEBODY, &slot).unwrap(), U256::ZERO);
    }
}

/// Blocks of a layer without a commitment have the same hash if they only differ in their changes by hand.
#[test]
fn the_state_before_a_block_in_the_place_of_another_one() {
    let addresses = [1, 2].map(Address::repeat_byte);
    for layer in LAYERS {
        let node = node(layer.name);
        let time = node.clock().now() + 1000;
        for changed in addresses {
            let point = node.snapshot().unwrap();
            node.cheat(|cheats, state| {
                let mut account = state.account(&changed)?.unwrap_or_default();
                account.balance = U256::from(7);
                cheats.set_account(changed, account);
                Ok(())
            })
            .unwrap();
            node.clock().set_next(time);
            node.mine(MineOptions::EVEN_EMPTY).unwrap().unwrap();
            assert_eq!(node.balance(&changed).unwrap(), U256::from(7), "{}", layer.name);
            let genesis = node.view().state_at(0).unwrap().unwrap();
            for address in addresses {
                assert_eq!(genesis.account(&address).unwrap(), None, "{} {address}", layer.name);
            }
            assert!(node.revert(point).unwrap());
        }
    }
}

/// A block without changes by hand may have the hash of one that was taken back and had some.
#[test]
fn a_block_has_no_changes_by_hand_but_its_own() {
    for layer in LAYERS {
        let node = node(layer.name);
        let time = node.clock().now() + 1000;
        let point = node.snapshot().unwrap();
        node.cheat(|cheats, state| {
            let mut account = state.account(&SOMEBODY)?.unwrap_or_default();
            account.balance = U256::from(7);
            cheats.set_account(SOMEBODY, account);
            Ok(())
        })
        .unwrap();
        let mine = || {
            node.clock().set_next(time);
            let header = node.mine(MineOptions::EVEN_EMPTY).unwrap().unwrap();
            node.db().by_hand(&header.hash()).unwrap().accounts.len()
        };
        assert_eq!(mine(), 1, "{}", layer.name);
        assert!(node.revert(point).unwrap());
        assert_eq!(mine(), 0, "{}", layer.name);
    }
}

#[test]
fn slots_of_earlier_blocks_are_told_from_those_of_today() {
    let [changing, late, early, gone] = [1, 2, 3, 4].map(Address::repeat_byte);
    for layer in LAYERS {
        let node = node(layer.name);
        let mine = |changes: &[(Address, u64, u64)]| {
            node.cheat(|cheats, state| {
                for (address, slot, value) in changes {
                    let mut account = state.account(address)?.unwrap_or_default();
                    account.balance = U256::from(u8::from(*address != gone || *value > 0));
                    cheats.set_slot(*address, account, U256::from(*slot), U256::from(*value));
                }
                Ok(())
            })
            .unwrap();
            node.mine(MineOptions::EVEN_EMPTY).unwrap().unwrap();
        };
        mine(&[(changing, 1, 1), (late, 1, 0), (early, 1, 1), (gone, 1, 1)]);
        mine(&[(changing, 2, 2), (gone, 1, 0)]);
        mine(&[(changing, 1, 0), (late, 1, 1)]);
        mine(&[(changing, 2, 0), (gone, 2, 1)]);
        mine(&[(changing, 3, 3)]);
        let (yes, no) = (true, false);
        let view = node.view();
        for (address, expected) in [
            (changing, [no, yes, yes, yes, no, yes]),
            (late, [no, no, no, yes, yes, yes]),
            (early, [no, yes, yes, yes, yes, yes]),
            (gone, [no, yes, no, no, yes, yes]),
        ] {
            let found = [0, 1, 2, 3, 4, 5]
                .map(|number| view.state_at(number).unwrap().unwrap().has_storage(&address));
            assert_eq!(found.map(Result::unwrap), expected, "{} {address}", layer.name);
        }
    }
}

#[test]
fn anybody_can_be_impersonated() {
    let node = node(LAYERS[0].name);
    node.cheat(|cheats, state| {
        let mut account = state.account(&SOMEBODY)?.unwrap_or_default();
        account.balance = U256::from(ETHER);
        cheats.set_code(SOMEBODY, account, Bytes::from_static(&[0]));
        Ok(())
    })
    .unwrap();
    let tx = TxEip1559 {
        chain_id: 1337,
        gas_limit: 21_000,
        max_fee_per_gas: 2_000_000_000,
        to: TxKind::Call(Address::repeat_byte(5)),
        value: U256::from(3),
        ..Default::default()
    };
    let tx = PoolTransaction::local(impersonate(tx.into(), SOMEBODY)).unwrap();
    node.submit(tx).unwrap();
    let header = node.mine(MineOptions::default()).unwrap().unwrap();
    assert_eq!(node.balance(&Address::repeat_byte(5)).unwrap(), U256::from(3));
    let block = node.db().block(header.number).unwrap().unwrap();
    assert_eq!(sender_of(&block.body.transactions[0]).unwrap(), SOMEBODY);
}

/// No block could include such a transaction, so it would block its sender forever.
#[test]
fn who_is_impersonated_keeps_the_rules_of_transactions() {
    let node = node(LAYERS[0].name);
    let tx = TxEip1559 {
        chain_id: 1337,
        gas_limit: MAX_TX_GAS_LIMIT_OSAKA + 1,
        max_fee_per_gas: 2_000_000_000,
        to: TxKind::Call(SOMEBODY),
        ..Default::default()
    };
    let sender = node.accounts().addresses()[0];
    let tx = PoolTransaction::local(impersonate(tx.into(), sender)).unwrap();
    let error = node.submit(tx).unwrap_err();
    assert!(matches!(error, NodeError::Pool(PoolError::Invalid(_))), "{error}");
    assert!(node.pool().is_empty());
}

/// A nonce may rise by more than one for each transaction of a sender.
#[test]
fn what_follows_nonces_that_others_have_raised_is_mined() {
    let node = node(LAYERS[0].name);
    let [alice, bob] = [0, 1].map(|index| node.accounts().addresses()[index]);
    let authorize = |authority: &Address, nonce: u64| {
        let authorization = Authorization { chain_id: U256::from(1337), address: SOMEBODY, nonce };
        let hash = authorization.signature_hash();
        authorization.into_signed(node.accounts().sign(authority, &hash).unwrap())
    };
    // The transaction has an authorization of its own sender and one of another account.
    let tx: TypedTransaction = TxEip7702 {
        chain_id: 1337,
        gas_limit: 200_000,
        max_fee_per_gas: 2_000_000_000,
        max_priority_fee_per_gas: 1,
        to: SOMEBODY,
        authorization_list: vec![authorize(&alice, 1), authorize(&bob, 0)],
        ..Default::default()
    }
    .into();
    let signature = node.accounts().sign(&alice, &tx.signature_hash()).unwrap();
    let tx = PoolTransaction::signed(tx.into_envelope(signature)).unwrap();
    assert!(node.submit(tx).unwrap().pending);
    assert!(!node.submit(transfer(&node, 0, 2, 5)).unwrap().pending);
    assert!(!node.submit(transfer(&node, 1, 1, 6)).unwrap().pending);
    node.mine(MineOptions::default()).unwrap().unwrap();
    assert_eq!([alice, bob].map(|address| node.account(&address).unwrap().nonce), [2, 1]);
    assert_eq!(node.pool().status(), (2, 0));
    node.mine(MineOptions::default()).unwrap().unwrap();
    assert_eq!(node.balance(&SOMEBODY).unwrap(), U256::from(11));
}

#[test]
fn what_follows_the_creations_of_an_impersonated_contract_is_mined() {
    let node = node(LAYERS[0].name);
    node.cheat(|cheats, state| {
        let mut account = state.account(&SOMEBODY)?.unwrap_or_default();
        account.balance = U256::from(ETHER);
        // The code runs CREATE with three zeros, which creates an empty contract.
        cheats.set_code(SOMEBODY, account, Bytes::from_static(&[0x5f, 0x5f, 0x5f, 0xf0]));
        Ok(())
    })
    .unwrap();
    let call = |nonce: u64, to: Address| {
        let tx = TxEip1559 {
            chain_id: 1337,
            nonce,
            gas_limit: 200_000,
            max_fee_per_gas: 2_000_000_000,
            to: TxKind::Call(to),
            value: U256::from(nonce),
            ..Default::default()
        };
        PoolTransaction::local(impersonate(tx.into(), SOMEBODY)).unwrap()
    };
    node.submit(call(0, SOMEBODY)).unwrap();
    assert!(!node.submit(call(2, Address::repeat_byte(5))).unwrap().pending);
    node.mine(MineOptions::default()).unwrap().unwrap();
    assert_eq!(node.account(&SOMEBODY).unwrap().nonce, 2);
    node.mine(MineOptions::default()).unwrap().unwrap();
    assert_eq!(node.balance(&Address::repeat_byte(5)).unwrap(), U256::from(2));
    assert!(node.pool().is_empty());
}

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
