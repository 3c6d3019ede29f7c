//! Tests of closing and opening again.

use super::{
    Driver, Ground, LayerFactory, STORE_IN_STEP,
    compare::{assert_reads, assert_rows, assert_state},
};
use crate::{History, Seed};
use polytrie_kv::StoreOptions;
use polytrie_state::StateError;

/// Closes and opens the layer again every few blocks, in memory.
pub fn reopened_in_memory(factory: &dyn LayerFactory) {
    reopened(factory, || Ground::of(factory), &[1, 2, 5]);
}

/// Closes and opens the layer again every few blocks, on disk.
pub fn reopened_on_disk(factory: &dyn LayerFactory) {
    reopened(factory, Ground::disk, &[1, 7]);
}

fn reopened(factory: &dyn LayerFactory, ground: impl Fn() -> Ground, every: &[usize]) {
    let seed = Seed::or(15);
    let history = History::random(seed.value(), 40);
    for (every, flush_every) in every.iter().flat_map(|every| [1, 3, 1_000].map(|f| (*every, f))) {
        let ground = ground();
        let options = StoreOptions { flush_every, background: flush_every > 1, ..STORE_IN_STEP };
        let context = format!("reopened every {every} blocks, flushed every {flush_every}");
        let fail = |e: StateError| -> ! { panic!("{context}: {e}") };

        let mut straight = Driver::in_memory(factory, history.genesis());
        let mut driver = Driver::open(factory, &ground, &options).unwrap_or_else(|e| fail(e));
        assert_eq!(driver.head(), None, "{context}");
        driver.load(history.genesis()).unwrap_or_else(|e| fail(e));
        driver = driver.reopen(&ground).unwrap_or_else(|e| fail(e));
        assert_state(&driver, history.genesis(), &context);
        for (n, block) in history.blocks.iter().enumerate() {
            let found = driver.run(block).unwrap_or_else(|e| fail(e));
            assert_eq!(found, straight.run(block).unwrap_or_else(|e| fail(e)), "{context}");
            if (n + 1) % every != 0 {
                continue;
            }
            driver = driver.reopen(&ground).unwrap_or_else(|e| fail(e));
            assert_eq!(driver.number(), n as u64 + 1, "{context}");
            assert_eq!(driver.layer().commitment(), found, "{context}");
            assert_state(&driver, &history.states[n + 1], &context);
        }
        let reader = driver.layer().reader().unwrap_or_else(|e| fail(e));
        let last = &history.states[history.head()];
        assert_reads(&*reader, last, &history, &context);
        drop(reader);
        let rows = |driver: &Driver<'_>| driver.rows().unwrap_or_else(|e| fail(e));
        assert_rows(&rows(&driver), &rows(&straight), &context);

        // Undo records persist over a restart as well.
        for at in (0..history.head()).rev().take(10) {
            driver.undo().unwrap_or_else(|e| fail(e));
            driver = driver.reopen(&ground).unwrap_or_else(|e| fail(e));
            assert_state(&driver, &history.states[at], &context);
        }
    }
}
