use super::*;
use crate::impersonate;
use alloy_consensus::{
    BlobTransactionSidecarVariant, Header, SidecarBuilder, SimpleCoder, TxEip1559, TxEip4844,
    TxEip4844Variant, TypedTransaction,
};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{Bytes, TxKind};
use polytrie_chainspec::{ChainSpec, Forks};

const RICH: U256 = U256::MAX;

fn tx(sender: u8, nonce: u64, fee: u128, tip: u128) -> PoolTransaction {
    with_data(sender, nonce, fee, tip, 0)
}

fn with_data(sender: u8, nonce: u64, fee: u128, tip: u128, bytes: usize) -> PoolTransaction {
    let tx = TxEip1559 {
        chain_id: 1337,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: fee,
        max_priority_fee_per_gas: tip,
        to: TxKind::Call(Address::ZERO),
        input: Bytes::from(vec![0; bytes]),
        ..Default::default()
    };
    PoolTransaction::local(impersonate(tx.into(), Address::repeat_byte(sender))).unwrap()
}

fn state(nonce: u64) -> SenderState {
    SenderState { nonce, balance: RICH, has_code: false }
}

/// Returns sender and nonce of the transactions that a block would take, in order.
fn taken(pool: &Pool, base_fee: u64) -> Vec<(u8, u64)> {
    let fees = BlockFees { base: base_fee, blob: 0 };
    let mut heap = pool.best(fees);
    let mut taken = Vec::new();
    while let Some(next) = heap.pop() {
        taken.push((next.tx.sender[0], next.tx.nonce()));
        heap.extend(pool.after(&next.tx, fees));
    }
    taken
}

#[test]
fn the_best_tip_goes_first_and_nonces_stay_in_order() {
    let mut pool = Pool::default();
    for tx in [tx(1, 0, 100, 1), tx(1, 1, 100, 50), tx(2, 0, 100, 2), tx(3, 0, 100, 2)] {
        pool.add(tx, state(0)).unwrap();
    }
    assert_eq!(taken(&pool, 10), [(2, 0), (3, 0), (1, 0), (1, 1)]);
    assert_eq!(taken(&pool, 101), []);
    assert_eq!(pool.status(), (4, 0));
}

#[test]
fn a_gap_keeps_what_comes_after_it_waiting() {
    let mut pool = Pool::default();
    let late = pool.add(tx(1, 7, 10, 1), state(5)).unwrap();
    assert!(!late.pending);
    assert_eq!(pool.status(), (0, 1));
    assert_eq!(pool.next_nonce(&Address::repeat_byte(1)), Some(5));
    assert!(pool.add(tx(1, 5, 10, 1), state(5)).unwrap().pending);
    assert_eq!(pool.status(), (1, 1));
    assert!(pool.add(tx(1, 6, 10, 1), state(5)).unwrap().pending);
    assert_eq!(pool.status(), (3, 0));
    assert!(pool.is_pending(&late.tx.hash()));
    assert_eq!(pool.next_nonce(&Address::repeat_byte(1)), Some(8));
}

#[test]
fn what_was_used_is_refused_and_forgotten() {
    let mut pool = Pool::default();
    let low = pool.add(tx(1, 4, 10, 1), state(5)).unwrap_err();
    assert_eq!(low, PoolError::NonceTooLow { found: 4, expected: 5 });
    for nonce in 5..8 {
        pool.add(tx(1, nonce, 10, 1), state(5)).unwrap();
    }
    let _ = pool.set_nonce(&Address::repeat_byte(1), 7);
    assert_eq!(taken(&pool, 0), [(1, 7)]);
    let _ = pool.set_nonce(&Address::repeat_byte(1), 8);
    assert!(
        pool.is_empty() && pool.senders().is_empty() && pool.bytes == 0 && pool.by_fee.is_empty()
    );
}

#[test]
fn a_replacement_pays_a_tenth_more() {
    let mut pool = Pool::default();
    pool.add(tx(1, 0, 100, 10), state(0)).unwrap();
    assert_eq!(pool.add(tx(1, 0, 100, 10), state(0)).unwrap_err(), PoolError::Known);
    for (fee, tip) in [(109, 11), (110, 10), (100, 11)] {
        let error = pool.add(tx(1, 0, fee, tip), state(0)).unwrap_err();
        assert_eq!(error, PoolError::Underpriced { percent: 10 }, "{fee} {tip}");
    }
    pool.add(tx(1, 0, 110, 11), state(0)).unwrap();
    assert_eq!(pool.len(), 1);
    // A tenth of nothing is at least one wei.
    pool.add(tx(2, 0, 100, 0), state(0)).unwrap();
    let error = pool.add(tx(2, 0, 1_000, 0), state(0)).unwrap_err();
    assert_eq!(error, PoolError::Underpriced { percent: 10 });
    pool.add(tx(2, 0, 110, 1), state(0)).unwrap();
    assert_eq!(pool.len(), 2);
}

#[test]
fn a_full_pool_keeps_what_pays_more() {
    let limits = PoolLimits { total: 3, per_sender: 2, bytes: 1 << 20 };
    let mut pool = Pool::new(limits);
    pool.add(tx(1, 0, 5, 1), state(0)).unwrap();
    pool.add(tx(1, 1, 50, 1), state(0)).unwrap();
    pool.add(tx(2, 0, 20, 1), state(0)).unwrap();
    assert_eq!(pool.add(tx(3, 0, 5, 1), state(0)).unwrap_err(), PoolError::Full { limit: 3 });
    // The transaction that pays least is the first of its sender. The last one of that sender is dropped, so that
    // no gap arises.
    pool.add(tx(3, 0, 6, 1), state(0)).unwrap();
    assert_eq!(pool.len(), 3);
    assert_eq!(pool.status(), (3, 0));
    let many = pool.add(tx(4, 2, 100, 1), state(0)).unwrap_err();
    assert_eq!(many, PoolError::NonceTooHigh { found: 2, expected: 0, limit: 2 });
}

#[test]
fn bytes_are_bounded_too() {
    let one = tx(1, 0, 1, 1).bytes;
    let mut pool = Pool::new(PoolLimits { total: 100, per_sender: 100, bytes: 2 * one });
    pool.add(tx(1, 0, 1, 1), state(0)).unwrap();
    pool.add(tx(2, 0, 1, 1), state(0)).unwrap();
    assert!(matches!(pool.add(tx(3, 0, 1, 1), state(0)), Err(PoolError::FullBytes { .. })));
    pool.add(tx(3, 0, 2, 1), state(0)).unwrap();
    assert_eq!(pool.len(), 2);
}

#[test]
fn a_sender_is_not_robbed_of_what_comes_before() {
    let mut pool = Pool::new(PoolLimits { total: 3, per_sender: 100, bytes: 1 << 20 });
    for nonce in 0..3 {
        pool.add(tx(1, nonce, 2, 1), state(0)).unwrap();
    }
    assert_eq!(pool.add(tx(1, 3, 4, 1), state(0)).unwrap_err(), PoolError::Full { limit: 3 });
    assert_eq!(taken(&pool, 0), [(1, 0), (1, 1), (1, 2)]);
    // Another sender's transactions push out the last of the queue, one after the other.
    pool.add(tx(2, 0, 4, 1), state(0)).unwrap();
    pool.add(tx(2, 1, 4, 1), state(0)).unwrap();
    assert_eq!(taken(&pool, 0), [(1, 0), (2, 0), (2, 1)]);
}

#[test]
fn nobody_leaves_where_it_is_not_enough() {
    let mut pool = Pool::new(PoolLimits { total: 100, per_sender: 100, bytes: 4_000 });
    pool.add(tx(1, 0, 2, 1), state(0)).unwrap();
    pool.add(with_data(2, 0, 9, 1, 2_500), state(0)).unwrap();
    let (used, limit) = (pool.bytes, 4_000);
    let large = with_data(3, 0, 5, 1, 3_000);
    let full = PoolError::FullBytes { used, limit, needed: large.bytes };
    assert_eq!(pool.add(large, state(0)).unwrap_err(), full);
    let huge = with_data(3, 0, 50, 1, 4_001);
    let found = huge.bytes;
    let too_large = PoolError::TooLarge { found, limit };
    assert_eq!(pool.add(huge, state(0)).unwrap_err(), too_large);
    assert_eq!((pool.len(), pool.bytes, pool.dropped()), (2, used, 0));
}

#[test]
fn what_replaces_another_one_needs_room_too() {
    let mut pool = Pool::new(PoolLimits { total: 2, per_sender: 100, bytes: 4_000 });
    pool.add(tx(1, 0, 10, 1), state(0)).unwrap();
    pool.add(with_data(2, 0, 30, 1, 3_000), state(0)).unwrap();
    let error = pool.add(with_data(1, 0, 20, 2, 1_000), state(0)).unwrap_err();
    assert!(matches!(error, PoolError::FullBytes { .. }), "{error}");
    assert_eq!(taken(&pool, 0), [(1, 0), (2, 0)]);
    // It replaces the old transaction, so no other has to go.
    pool.add(with_data(1, 0, 20, 2, 100), state(0)).unwrap();
    assert_eq!(pool.len(), 2);
    pool.add(with_data(1, 0, 40, 4, 1_000), state(0)).unwrap();
    assert_eq!(taken(&pool, 0), [(1, 0)]);
}

#[test]
fn the_whole_queue_must_be_paid_for() {
    let mut pool = Pool::default();
    let (sender, balance) = (Address::repeat_byte(1), U256::from(3 * 21_000));
    let has = SenderState { balance, ..state(0) };
    pool.add(tx(1, 0, 1, 1), has).unwrap();
    let overdraft = PoolError::Overdraft { sender, balance, cost: U256::from(4 * 21_000) };
    assert_eq!(pool.add(tx(1, 1, 3, 1), has).unwrap_err(), overdraft);
    // The cost of the replaced transaction does not count.
    pool.add(tx(1, 0, 3, 2), has).unwrap();
    assert!(matches!(pool.add(tx(1, 1, 1, 1), has), Err(PoolError::Overdraft { .. })));
    let _ = pool.set_nonce(&sender, 1);
    pool.add(tx(1, 1, 3, 1), SenderState { nonce: 1, ..has }).unwrap();
}

#[test]
fn blobs_wait_for_a_fee_that_they_pay() {
    let blobs = TxEip4844 {
        chain_id: 1337,
        gas_limit: 21_000,
        max_fee_per_gas: 100,
        max_priority_fee_per_gas: 1,
        max_fee_per_blob_gas: 7,
        blob_versioned_hashes: vec![B256::repeat_byte(1)],
        ..Default::default()
    };
    let blobs = TypedTransaction::Eip4844(TxEip4844Variant::TxEip4844(blobs));
    let blobs = impersonate(blobs, Address::repeat_byte(1));
    let mut pool = Pool::default();
    pool.add(PoolTransaction { tx: blobs, ..tx(1, 0, 100, 1) }, state(0)).unwrap();
    pool.add(tx(1, 1, 100, 1), state(0)).unwrap();
    let (much, little) = (BlockFees { base: 10, blob: 8 }, BlockFees { base: 10, blob: 7 });
    assert!(!pool.has_next(much) && pool.best(much).is_empty());
    assert!(pool.has_next(little));
    let first = pool.best(little).pop().unwrap();
    assert_eq!(pool.after(&first.tx, little).unwrap().tx.nonce(), 1);
}

#[test]
fn blobs_have_the_proofs_that_their_fork_takes() {
    let chain = |last| {
        let forks = Forks::up_to(last);
        ChainSpec::with_forks("test", 1337, forks, Header::default(), [])
    };
    let (prague, osaka) = (chain(EthereumHardfork::Prague), chain(EthereumHardfork::Osaka));
    let sidecar = SidecarBuilder::<SimpleCoder>::from_slice(b"a blob")
        .build_4844_with_settings(blob_settings())
        .unwrap();
    let old = BlobTransactionSidecarVariant::Eip4844(sidecar);
    let sent = |sidecar: &BlobTransactionSidecarVariant, chain: &ChainSpec| {
        let sidecar = Some(Arc::new(sidecar.clone()));
        PoolTransaction { sidecar, ..tx(1, 0, 100, 1) }.with_proofs_for(&chain.rules(1, 1, true))
    };
    assert_eq!(*sent(&old, &prague).unwrap().sidecar.unwrap(), old);
    let made = sent(&old, &osaka).unwrap();
    let new = made.sidecar.unwrap();
    let hashes: Vec<_> = old.versioned_hashes().collect();
    new.validate(&hashes, blob_settings()).unwrap();
    assert!(new.is_eip7594() && made.bytes > new.size());
    assert_eq!(sent(&new, &osaka).unwrap().sidecar.unwrap(), new);
    assert_eq!(sent(&new, &prague).unwrap_err(), PoolError::CellProofs);
    assert_eq!(with_other_proofs(&new).unwrap(), old);
}

/// A blob is found as long as any transaction with it is in the pool; several may have the same one.
#[test]
fn blobs_are_found_by_their_hashes() {
    let sidecar = SidecarBuilder::<SimpleCoder>::from_slice(b"a blob")
        .build_4844_with_settings(blob_settings())
        .unwrap();
    let sidecar = Arc::new(BlobTransactionSidecarVariant::Eip4844(sidecar));
    let hash = sidecar.versioned_hashes().next().unwrap();
    let with_blob = |sender: u8, fee: u128| {
        let tx = TxEip4844 {
            chain_id: 1337,
            gas_limit: 21_000,
            max_fee_per_gas: fee,
            max_priority_fee_per_gas: fee,
            max_fee_per_blob_gas: fee,
            blob_versioned_hashes: vec![hash],
            ..TxEip4844::default()
        };
        let tx = TypedTransaction::Eip4844(TxEip4844Variant::TxEip4844(tx));
        let tx = impersonate(tx, Address::repeat_byte(sender));
        PoolTransaction { tx, sidecar: Some(Arc::clone(&sidecar)), ..self::tx(sender, 0, fee, fee) }
    };
    let mut pool = Pool::default();
    let found = |pool: &Pool, hash: &B256| pool.sidecars_with(hash).count();
    assert_eq!(found(&pool, &hash), 0);
    pool.add(with_blob(1, 100), state(0)).unwrap();
    pool.add(with_blob(2, 100), state(0)).unwrap();
    assert_eq!(found(&pool, &hash), 2);
    assert!(pool.sidecars_with(&hash).all(|found| Arc::ptr_eq(found, &sidecar)));
    let mut other = hash;
    other.0[31] ^= 1;
    assert_eq!(found(&pool, &other), 0);
    // The transactions leave through a replacement, a block, and a clear of the pool.
    pool.add(with_blob(1, 300), state(0)).unwrap();
    assert_eq!(found(&pool, &hash), 2);
    assert!(pool.set_nonce(&Address::repeat_byte(1), 1).is_empty());
    assert_eq!(found(&pool, &hash), 1);
    pool.clear();
    assert_eq!((found(&pool, &hash), pool.by_blob.len()), (0, 0));
}

#[test]
fn who_cannot_pay_is_refused() {
    let mut pool = Pool::default();
    let poor = SenderState { balance: U256::from(20_999), ..state(0) };
    assert!(matches!(pool.add(tx(1, 0, 1, 1), poor), Err(PoolError::Funds { .. })));
}

#[test]
fn where_the_pending_ones_end_is_always_known() {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut below = |limit: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % limit
    };
    let (mut pool, mut nonce) = (Pool::default(), 0);
    let sender = Address::repeat_byte(1);
    for step in 0..4_000_u32 {
        match below(8) {
            0 => {
                // A new block, or a revert of some blocks.
                nonce = (nonce + below(6)).saturating_sub(2);
                let _ = pool.set_nonce(&sender, nonce);
            }
            1 => {
                let at = pool.by_fee.iter().nth(below(16) as usize).map(|(_, _, hash)| *hash);
                if let Some(hash) = at {
                    pool.remove(&hash);
                }
            }
            _ => {
                let fee = 100 + u128::from(step);
                let _ = pool.add(tx(1, nonce + below(12), fee, fee), state(nonce));
            }
        }
        let Some(queue) = pool.senders.get(&sender) else { continue };
        let by_nonce = (queue.next..).zip(queue.txs.keys());
        let end = queue.next + by_nonce.take_while(|(next, found)| next == *found).count() as u64;
        assert_eq!(pool.next_nonce(&sender), Some(end), "step {step}");
        for tx in queue.txs.values() {
            assert_eq!(pool.is_pending(&tx.hash()), (queue.next..end).contains(&tx.nonce()));
        }
    }
}

/// A transaction is announced once, at the moment when it becomes executable.
#[test]
fn what_waits_for_another_one_is_promoted_with_it() {
    let mut pool = Pool::new(PoolLimits::default());
    let sender = Address::repeat_byte(1);
    let nonces = |promoted: &[Arc<PoolTransaction>]| -> Vec<u64> {
        promoted.iter().map(|tx| tx.nonce()).collect()
    };
    let mut add = |nonce: u64, fee: u128, next: u64| {
        nonces(&pool.add(tx(1, nonce, fee, fee), state(next)).unwrap().promoted)
    };
    assert_eq!(add(7, 10, 5), [0; 0]);
    assert_eq!(add(6, 10, 5), [0; 0]);
    assert_eq!(add(5, 10, 5), [5, 6, 7]);
    assert_eq!(add(9, 10, 5), [0; 0]);
    // A replacement is announced; the transactions after it were announced before.
    assert_eq!(add(6, 20, 5), [6]);
    assert_eq!(add(9, 20, 5), [0; 0]);
    // A block includes the first ones, and another block raises the nonce further.
    assert_eq!(nonces(&pool.set_nonce(&sender, 7)), [0; 0]);
    assert_eq!(nonces(&pool.set_nonce(&sender, 9)), [9]);
    // A revert lowers the nonce: the transactions that were pending are queued again.
    assert_eq!(nonces(&pool.set_nonce(&sender, 8)), [0; 0]);
    assert_eq!(nonces(&pool.add(tx(1, 8, 10, 10), state(8)).unwrap().promoted), [8, 9]);
}
