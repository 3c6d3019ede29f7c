//! Tests of reads that fail.

use super::{Driver, LayerFactory, STORE_IN_STEP, compare::assert_state};
use crate::{History, Seed};
use polytrie_kv::{Engine, KvError, MemoryEngine};
use polytrie_kv_testing::BeforeReads;
use polytrie_state::StateError;
use std::{
    iter,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Checks that a read which fails is an error of the block that needs the row, and of nothing else: the block can be run
/// again, unless the layer says that it takes no more. Opened again, the layer runs it in any case.
pub fn a_failed_read_is_survived(factory: &dyn LayerFactory) {
    let seed = Seed::or(58);
    let history = History::random(seed.value(), 6);
    let mut straight = Driver::in_memory(factory, history.genesis());
    // The number of reads up to the one that fails; 0 if none does.
    let left = Arc::new(AtomicU64::new(0));
    let counted = left.clone();
    let engine = BeforeReads::new(MemoryEngine::new(), move || {
        let count = |left: u64| left.checked_sub(1);
        if counted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, count) != Ok(1) {
            return Ok(());
        }
        let reason = "a fault was injected".to_owned();
        Err(KvError::Engine { engine: "fault", action: "read", reason })
    });
    let engine: Arc<dyn Engine> = Arc::new(engine);
    let open = || {
        let driver = Driver::open_on(factory, engine.clone(), &STORE_IN_STEP);
        driver.unwrap_or_else(|e| panic!("seed {}: {e}", seed.value()))
    };
    open().load(history.genesis()).unwrap_or_else(|e| panic!("{e}"));
    for (number, block) in (0..).zip(&history.blocks) {
        let expected = straight.run(block).unwrap_or_else(|e| panic!("{e}"));
        // Where a block reads much, most of its reads are passed over, since each one takes a run.
        for at in iter::successors(Some(1_u64), |at| Some(at + 1 + at / 4)) {
            let context = format!("block {}, read {at}, seed {}", number + 1, seed.value());
            // Nothing is in memory yet, so the block reads much.
            let mut driver = open();
            while driver.number() > number {
                driver.undo().unwrap_or_else(|e| panic!("{context}: {e}"));
            }
            left.store(at, Ordering::SeqCst);
            let ran = driver.run(block);
            let has_failed = left.swap(0, Ordering::SeqCst) == 0;
            match ran {
                // No block needs what was only read ahead.
                Ok(found) => assert_eq!(found, expected, "{context}"),
                Err(error) => {
                    assert!(has_failed, "{context}: {error}");
                    match driver.run(block) {
                        Ok(found) => assert_eq!(found, expected, "{context}"),
                        Err(StateError::Poisoned(_)) => {}
                        Err(other) => panic!("{context}: after {error}: {other}"),
                    }
                }
            }
            if !has_failed {
                break;
            }
        }
    }
    assert_state(&open(), &history.states[history.head()], &seed.value());
}
