//! Tests that the result depends on the blocks only.

use super::{
    Driver, Ground, LayerFactory, Row, STORE_IN_STEP,
    compare::{assert_rows, assert_state},
};
use crate::{History, Seed};
use polytrie_kv::StoreOptions;
use polytrie_state::Commitment;

type Run = (Vec<Commitment>, Vec<Row>);

/// Checks that one thread and four give the same commitments and rows.
pub fn threads_change_nothing(factory: &dyn LayerFactory) {
    let seed = Seed::or(18);
    for history in [History::wide(seed.value()), History::random(seed.value(), 30)] {
        let [one, four] = [1, 4].map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let pool = pool.unwrap_or_else(|e| panic!("{e}"));
            pool.install(|| run(factory, &history, &Ground::of(factory), &STORE_IN_STEP))
        });
        same(&four, &one, "four threads against one");
    }
}

/// Checks that neither the grouping of blocks into flushes nor the engine changes the result.
pub fn flushing_changes_nothing(factory: &dyn LayerFactory) {
    let seed = Seed::or(19);
    let history = History::adversarial(seed.value());
    let expected = run(factory, &history, &Ground::of(factory), &STORE_IN_STEP);
    for (flush_every, overlay_bytes) in
        [(2, 64 << 20), (17, 64 << 20), (1_000, 64 << 20), (1_000, 4 << 10)]
    {
        let options = StoreOptions {
            flush_every,
            overlay_bytes,
            background: true,
            ..StoreOptions::default()
        };
        let context = format!("flushed every {flush_every} blocks or {overlay_bytes} bytes");
        for ground in [Ground::of(factory), Ground::disk()] {
            same(&run(factory, &history, &ground, &options), &expected, &context);
        }
    }
}

/// Checks that the parameters that must not change any result do not change it.
pub fn variants_change_nothing(factory: &dyn LayerFactory) {
    let seed = Seed::or(20);
    for history in [History::adversarial(seed.value()), History::wide(seed.value())] {
        let expected = run(factory, &history, &Ground::of(factory), &STORE_IN_STEP);
        for variant in factory.variants() {
            let found = run(&*variant, &history, &Ground::of(factory), &STORE_IN_STEP);
            same(&found, &expected, &format!("{variant:?}"));
        }
    }
}

fn run(
    factory: &dyn LayerFactory,
    history: &History,
    ground: &Ground,
    options: &StoreOptions,
) -> Run {
    let mut driver = Driver::open(factory, ground, options).unwrap_or_else(|e| panic!("{e}"));
    let genesis = driver.load(history.genesis()).unwrap_or_else(|e| panic!("{e}"));
    let mut commitments = vec![genesis];
    for block in &history.blocks {
        commitments.push(driver.run(block).unwrap_or_else(|e| panic!("{}: {e}", block.label)));
    }
    driver.flush().unwrap_or_else(|e| panic!("{e}"));
    assert_state(&driver, &history.states[history.head()], &options);
    (commitments, driver.rows().unwrap_or_else(|e| panic!("{e}")))
}

fn same(found: &Run, expected: &Run, context: &str) {
    for (n, (found, expected)) in found.0.iter().zip(&expected.0).enumerate() {
        assert_eq!(found, expected, "{context}: block {n}");
    }
    assert_rows(&found.1, &expected.1, &context);
}
